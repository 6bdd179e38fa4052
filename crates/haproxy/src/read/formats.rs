//! The formats of log lines that HAProxy has names for.
//!
//! Owns: their texts.
//! Never: reads them; `build::format` does.
//! Driven by: `build::logs`, and the environment, where files find them as `$HAPROXY_HTTP_LOG_FMT` and its kin.

/// `option httplog`.
pub(crate) const HTTP: &str = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r";
/// `option httplog clf`.
pub(crate) const CLF: &str = "%{+Q}o %{-Q}ci - - [%trg] %r %ST %B \"\" \"\" %cp %ms %ft %b %s %TR %Tw %Tc %Tr %Ta %tsc %ac %fc %bc %sc %rc %sq %bq %CC %CS %hrl %hsl";
/// `option tcplog`.
pub(crate) const TCP: &str = "%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq";
/// `option httpslog` adds errors of the two TLS layers, which are 0 for whatever gets this far.
pub(crate) const HTTPS_TAIL: &str = " 0/0/0/0/%[ssl_fc_is_resumed_number] %[ssl_fc_sni]/%sslv/%sslc";
