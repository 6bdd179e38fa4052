//! What `nginx -v`, `-V` and `-h` print. Scripts read the first line and look for `--with-…` words.

/// First line, as scripts parse it: `nginx/` and a version number.
pub(super) const VERSION: &str =
    concat!("nginx version: nginx/1.31.0 (Weir ", env!("CARGO_PKG_VERSION"), ")");

/// Flags.
pub(super) const HELP: &str = "\
Usage: nginx [-?hvVtTq] [-s signal] [-p prefix]
             [-e filename] [-c filename] [-g directives]

Options:
  -?,-h         : this help
  -v            : show version and exit
  -V            : show version and what is built in, then exit
  -t            : test configuration and exit
  -T            : test configuration, dump it and exit
  -q            : suppress non-error messages during configuration testing
  -s signal     : send signal to a running process: stop, quit, reopen, reload
  -p prefix     : set prefix path (default: /usr/share/nginx/)
  -e filename   : set error log file (default: stderr)
  -c filename   : set configuration file (default: /etc/nginx/nginx.conf)
  -g directives : set global directives out of configuration file

";

/// What is built in, in the words of nginx's configure flags; only what Weir really does.
pub(super) fn build_facts() -> String {
    let paths = [
        "--prefix=/usr/share/nginx",
        "--conf-path=/etc/nginx/nginx.conf",
        "--http-log-path=/var/log/nginx/access.log",
        "--error-log-path=stderr",
        "--lock-path=/var/lock/nginx.lock",
        "--pid-path=/run/nginx.pid",
        "--http-client-body-temp-path=/var/lib/nginx/body",
        "--http-fastcgi-temp-path=/var/lib/nginx/fastcgi",
        "--http-proxy-temp-path=/var/lib/nginx/proxy",
        "--http-scgi-temp-path=/var/lib/nginx/scgi",
        "--http-uwsgi-temp-path=/var/lib/nginx/uwsgi",
    ];
    let modules = [
        "--with-threads",
        "--with-http_ssl_module",
        "--with-http_v2_module",
        "--with-http_v3_module",
        "--with-http_realip_module",
        "--with-http_addition_module",
        "--with-http_sub_module",
        "--with-http_dav_module",
        "--with-http_flv_module",
        "--with-http_mp4_module",
        "--with-http_gunzip_module",
        "--with-http_gzip_static_module",
        "--with-http_auth_request_module",
        "--with-http_random_index_module",
        "--with-http_secure_link_module",
        "--with-http_slice_module",
        "--with-http_stub_status_module",
        "--with-stream",
        "--with-stream_ssl_module",
        "--with-stream_ssl_preread_module",
        "--with-stream_realip_module",
    ];
    let all: Vec<_> = paths.into_iter().chain(modules).collect();
    // certbot looks for `OpenSSL` and a version here; these are the words of the library itself.
    let library = weir_rt::tls_library();
    format!("built with {library}\nTLS SNI support enabled\nconfigure arguments: {}", all.join(" "))
}
