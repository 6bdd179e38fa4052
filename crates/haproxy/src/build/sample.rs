//! Sample expressions: `req.hdr(host),lower` and their kin, as templates.
//!
//! Owns: which variable a fetch is.
//! Never: decides how a value compares; `condition` does.
//! Why: a fetch that cannot be had exactly is an error, never a near miss, because conditions decide who gets in.

use weir_expr::{CertPart, Convert, Count, Counted, DnPart, Filter, OwnTimeout, Peeked, Piece, Routine};
use weir_model::{Step, Template, Var};

use super::convert;
use super::expression::{Call, Sample, variable};
use super::figure;
use super::problem::Problem;
use super::scope::Scope;
use crate::read::Word;
use crate::words::{Converter, Fetch, fetch, kind_behind, known_converter, takes_bytes};

/// The kind of value of a whole expression; an unknown name is a problem.
pub(crate) fn kind(sample: &Sample) -> Result<Fetch, Problem> {
    for call in &sample.converters {
        match known_converter(&call.name) {
            Some(Converter::Built) => {}
            Some(Converter::NotYet) => return Err(Problem::NotBuilt(format!("converter {}", call.name))),
            None => return Err(Problem::Unknown("converter", call.name.clone())),
        }
    }
    match fetch(&sample.fetch.name) {
        None => Err(Problem::Unknown("fetch", sample.fetch.name.clone())),
        Some(Fetch::NotYet) => Err(Problem::NotBuilt(sample.fetch.name.clone())),
        Some(kind) => Ok(sample.converters.iter().fold(kind, |kind, call| kind_behind(&call.name, kind))),
    }
}

/// An expression as a template.
pub(crate) fn template(sample: &Sample, scope: &Scope<'_>) -> Result<Template, Problem> {
    kind(sample)?;
    if let Some(var) = host_part(sample) {
        return converted(Template::var(var), false, &sample.converters[1..], scope);
    }
    let bytes = fetch(&sample.fetch.name) == Some(Fetch::Binary);
    converted(base(sample, scope)?, bytes, &sample.converters, scope)
}

/// An expression whose value is bytes, as they are.
pub(crate) fn bytes(sample: &Sample, scope: &Scope<'_>) -> Result<Template, Problem> {
    kind(sample)?;
    let (template, steps, _) = stepped(base(sample, scope)?, true, &sample.converters, scope)?;
    Ok(through(template, steps, scope))
}

/// The host or port of the Host field, cut out the usual ways.
fn host_part(sample: &Sample) -> Option<Var> {
    let is_host = matches!(sample.fetch.name.as_str(), "hdr" | "req.hdr" | "req.fhdr")
        && sample.argument().eq_ignore_ascii_case("host")
        && sample.fetch.arguments.len() == 1;
    let first = sample.converters.first().filter(|_| is_host)?;
    let arguments: Vec<&str> = first.arguments.iter().map(String::as_str).collect();
    match (first.name.as_str(), arguments.as_slice()) {
        ("host_only", []) | ("field", ["1", ":"]) => Some(Var::Host),
        ("port_only", []) | ("field", ["2", ":"]) => Some(Var::HostPort),
        _ => None,
    }
}

/// A value through its converters, as text: bytes are shown in hexadecimal.
fn converted(
    template: Template,
    bytes: bool,
    converters: &[Call],
    scope: &Scope<'_>,
) -> Result<Template, Problem> {
    let (template, mut steps, bytes) = stepped(template, bytes, converters, scope)?;
    if bytes {
        steps.push(Step::Convert(Convert::Hex));
    }
    Ok(through(template, steps, scope))
}

/// A value through its converters: filters of its pieces, steps of a conversion, a map of the whole. `bytes`: it is no
/// text, and becomes some in hexadecimal for what takes text alone. With the steps that are left, and whether there are
/// bytes at the end.
fn stepped(
    mut template: Template,
    mut bytes: bool,
    converters: &[Call],
    scope: &Scope<'_>,
) -> Result<(Template, Vec<Step>, bool), Problem> {
    let mut steps: Vec<Step> = Vec::new();
    for call in converters {
        if bytes && !takes_bytes(&call.name) {
            steps.push(Step::Convert(Convert::Hex));
        }
        bytes = bytes && kind_behind(&call.name, Fetch::Binary) == Fetch::Binary;
        // `debug` writes to a sink for developers, which is not there.
        if matches!(call.name.as_str(), "str" | "debug") {
            continue;
        }
        if call.name.starts_with("map") {
            template = through(template, std::mem::take(&mut steps), scope);
            template = Template::var(Var::User(scope.maps.lookup(call, template, scope.files, None)?));
            continue;
        }
        let no_query = !template.vars().any(|var| matches!(var, Var::Target | Var::IsArgs));
        let filter = match call.name.as_str() {
            "lower" => Some(Filter::Lower),
            "upper" => Some(Filter::Upper),
            "url_enc" => Some(Filter::UrlEncode),
            // Where there is no query, `+` stands for itself.
            "url_dec" if call.arguments.is_empty() && no_query => Some(Filter::UrlDecode),
            _ => None,
        };
        // A filter of each piece costs less than a step of the whole, where it comes to the same.
        let simple = template.pieces.iter().all(|piece| matches!(piece, Piece::Var(..)));
        match filter {
            Some(filter) if steps.is_empty() && simple => {
                for piece in &mut template.pieces {
                    if let Piece::Var(_, filters) = piece {
                        filters.push(filter);
                    }
                }
            }
            _ => steps.extend(convert::steps(call, scope)?),
        }
    }
    Ok((template, steps, bytes))
}

/// A template through steps, as a variable of its own.
pub(super) fn through(template: Template, steps: Vec<Step>, scope: &Scope<'_>) -> Template {
    if steps.is_empty() {
        return template;
    }
    Template::var(Var::User(scope.maps.converted(template, steps)))
}

/// What a fetch gives before converters. Truth values are `1` or empty.
pub(super) fn base(sample: &Sample, scope: &Scope<'_>) -> Result<Template, Problem> {
    let name = sample.fetch.name.as_str();
    let argument = sample.argument();
    let joined = |vars: &[Var]| {
        let mut template = Template::default();
        vars.iter().for_each(|var| template.push_var(var.clone()));
        Ok(template)
    };
    let literal = |text: &str| Ok(Template::literal(text));
    if let Some(var) = super::sticks::fetch(sample, scope)? {
        return Ok(Template::var(var));
    }
    let var = match name {
        // The path as the site reads it, not as it was sent: another spelling passes by no rule.
        "path" => Var::Path,
        "pathq" | "url" => return joined(&[Var::Path, Var::IsArgs, Var::Query]),
        "query" => Var::Query,
        "capture.req.uri" => Var::Target,
        "base" => return joined(&[Var::Header("host".into()), Var::Path]),
        "baseq" => return joined(&[Var::Header("host".into()), Var::Path, Var::IsArgs, Var::Query]),
        "method" | "meth" | "capture.req.method" => Var::Method,
        "capture.req.ver" => Var::Protocol,
        "src" => Var::ClientAddr,
        "src_port" => Var::ClientPort,
        "dst" => Var::ServerAddr,
        "dst_port" => Var::ServerPort,
        "fc_src" => Var::SocketPeerAddr,
        "fc_src_port" => Var::SocketPeerPort,
        "fc_dst" => Var::SocketLocalAddr,
        "fc_dst_port" => Var::SocketLocalPort,
        "ssl_fc_sni" => Var::TlsServerName,
        "ssl_fc_alpn" => Var::TlsAlpn,
        "ssl_fc_cipher" => Var::TlsCipher,
        "ssl_fc_protocol" => Var::TlsProtocol,
        "ssl_fc_use_keysize" | "ssl_fc_alg_keysize" => Var::TlsKeyBits,
        // What fails to verify ends the handshake: errors of authorities are never seen.
        "ssl_c_verify" | "ssl_c_err" => Var::TlsVerifyCode,
        "ssl_c_ca_err" | "ssl_c_ca_err_depth" => {
            Var::User(scope.maps.truth(name, Var::TlsProtocol, "", "", "0"))
        }
        "ssl_c_der" | "ssl_c_s_dn" | "ssl_c_i_dn" | "ssl_c_serial" | "ssl_c_sha1" | "ssl_c_notbefore"
        | "ssl_c_notafter" | "ssl_c_key_alg" | "ssl_c_sig_alg" | "ssl_c_version" => {
            Var::TlsClientPart(cert_part(&name[6..], &sample.fetch)?)
        }
        "fcgi.docroot" | "fcgi.index" => return of_application(name, scope),
        "hostname" => Var::Hostname,
        "unique-id" => scope.identifier(),
        "fe_name" => Var::SiteLabel,
        "be_name" => Var::PoolName,
        "srv_name" => Var::EndpointName,
        "http_auth_user" => Var::RemoteUser,
        "req.body" => Var::RequestBody,
        name if super::payload::is_of_payload(name) => return super::payload::template(sample, scope),
        "res.cache_hit" => Var::MemoryCacheHit,
        "res.cache_name" => Var::MemoryCacheName,
        "cur_client_timeout" => Var::CurrentTimeout(OwnTimeout::Client),
        "cur_server_timeout" => Var::CurrentTimeout(OwnTimeout::Endpoint),
        "cur_tunnel_timeout" => Var::CurrentTimeout(OwnTimeout::Tunnel),
        "status" | "txn.status" => Var::StatusCode,
        "fe_conn" if argument.is_empty() || argument == scope.proxy.name.text => Var::Count(Count::Site),
        "hdr_cnt" if scope.response => Var::ResponseHeaderCount(header_name(argument)?, Counted::Values),
        "hdr_cnt" | "req.hdr_cnt" => Var::HeaderCount(header_name(argument)?, Counted::Values),
        "req.fhdr_cnt" => Var::HeaderCount(header_name(argument)?, Counted::Lines),
        "req.ver" | "req_ver" => {
            // `HTTP/1.1` without its first five bytes.
            let cut = Step::Convert(Convert::Bytes { offset: 5, length: None });
            return Ok(through(Template::var(Var::Protocol), vec![cut], scope));
        }
        "nbsrv" => Var::PoolCount(backend_name(argument, scope)?, Count::UsableEndpoints),
        "be_conn" if argument.is_empty() && scope.proxy.kind.is_backend() => Var::Count(Count::Pool),
        "be_conn" if argument == scope.proxy.name.text && scope.proxy.kind.is_backend() => {
            Var::Count(Count::Pool)
        }
        "be_conn" => Var::PoolCount(backend_name(argument, scope)?, Count::Pool),
        "cook" | "cookie" | "req.cook" | "cook_val" | "req.cook_val" if !argument.is_empty() => {
            Var::Cookie(argument.to_owned())
        }
        "urlp" | "url_param" | "urlp_val" if sample.fetch.arguments.len() == 1 => {
            Var::Arg(argument.to_owned())
        }
        "hdr" | "hdr_ip" | "hdr_val" if scope.response => {
            Var::ResponseHeaderNth(header_name(argument)?, nth(sample)?)
        }
        "req.hdr" | "req.fhdr" | "req.hdr_ip" | "req.hdr_val" if scope.response => {
            return Err(Problem::Bad(format!(
                "`{name}` looks at a request, which is gone when this rule runs; capture it, or set a variable to it"
            )));
        }
        "hdr" | "req.hdr" | "hdr_ip" | "req.hdr_ip" | "hdr_val" | "req.hdr_val" => {
            return request_header(sample);
        }
        // A whole line, so commas inside it stay.
        "req.fhdr" => Var::HeaderLine(header_name(argument)?, nth(sample)?),
        "res.hdr" | "shdr" | "res.hdr_ip" | "shdr_ip" | "res.hdr_val" | "shdr_val" => {
            Var::ResponseHeaderNth(header_name(argument)?, nth(sample)?)
        }
        "res.fhdr" => Var::ResponseHeaderLine(header_name(argument)?, nth(sample)?),
        "res.hdr_cnt" | "shdr_cnt" => Var::ResponseHeaderCount(header_name(argument)?, Counted::Values),
        "res.fhdr_cnt" => Var::ResponseHeaderCount(header_name(argument)?, Counted::Lines),
        "capture.req.hdr" => Var::CapturedRequestHeader(index(argument)?),
        "capture.res.hdr" => Var::CapturedResponseHeader(index(argument)?),
        "var" => variable(argument)?,
        "str" | "int" | "ipv4" | "ipv6" => return literal(argument),
        "env" => return literal(scope.env.value(argument).unwrap_or("")),
        "bool" => return literal(if matches!(argument, "1" | "true" | "yes" | "on") { "1" } else { "0" }),
        "req.proto_http" | "req_proto_http" if is_tcp(scope) => {
            let looks = Step::Call { routine: Routine::IsHttp, arguments: Vec::new() };
            return Ok(through(Template::var(Var::Peeked(Peeked::Bytes)), vec![looks], scope));
        }
        "always_true" | "wait_end" | "req.proto_http" | "req_proto_http" => return literal("1"),
        "always_false" => return literal("0"),
        "ssl_fc" => Var::User(scope.maps.truth(name, Var::HttpsOn, "on", "1", "0")),
        "ssl_fc_is_resumed" => Var::User(scope.maps.truth(name, Var::TlsResumed, "r", "1", "0")),
        "ssl_fc_has_early" => Var::User(scope.maps.truth(name, Var::TlsEarlyData, "", "0", "1")),
        "fc_rcvd_proxy" => Var::User(scope.maps.truth(name, Var::ProxyProtocolAddr, "", "0", "1")),
        "http_first_req" => Var::User(scope.maps.truth(name, Var::ConnectionRequests, "1", "1", "0")),
        "ssl_fc_has_sni" => Var::User(scope.maps.truth(name, Var::TlsServerName, "", "0", "1")),
        "ssl_c_used" | "ssl_fc_has_crt" => {
            Var::User(scope.maps.truth(name, Var::TlsClientCert, "", "0", "1"))
        }
        _ => return figure::template(sample, scope),
    };
    Ok(Template::var(var))
}

/// What the `fcgi-app` section says that an expression stands in.
fn of_application(name: &str, scope: &Scope<'_>) -> Result<Template, Problem> {
    let app = scope.draft.applications.iter().find(|app| std::ptr::eq(&app.scope, scope.proxy));
    let app = app.ok_or_else(|| Problem::Bad(format!("`{name}` is known in fcgi-app sections alone")))?;
    let value = if name == "fcgi.index" { &app.index } else { &app.docroot };
    Ok(Template::literal(value.as_ref().map_or("", Word::as_str)))
}

/// A part of a certificate, by what stands behind `ssl_c_` and its kin.
pub(super) fn cert_part(name: &str, call: &Call) -> Result<CertPart, Problem> {
    Ok(match name {
        "der" => CertPart::Der,
        "s_dn" => CertPart::Subject(name_part(call)?),
        "i_dn" => CertPart::Issuer(name_part(call)?),
        "serial" => CertPart::Serial,
        "sha1" => CertPart::Sha1,
        "notbefore" => CertPart::NotBefore,
        "notafter" => CertPart::NotAfter,
        "key_alg" => CertPart::KeyAlgorithm,
        "sig_alg" => CertPart::SignatureAlgorithm,
        "version" => CertPart::Version,
        _ => return Err(Problem::NotBuilt(call.name.clone())),
    })
}

/// Which part of a name is asked for: `[attribute[,occurrence[,format]]]`.
fn name_part(call: &Call) -> Result<DnPart, Problem> {
    let argument = |at: usize| call.arguments.get(at).map_or("", String::as_str);
    let nth = match argument(1) {
        "" => 1,
        text => text.parse().map_err(|_| Problem::Bad(format!("`{text}` is no number of an occurrence")))?,
    };
    match (argument(0), argument(2)) {
        ("", "") => Ok(DnPart::OneLine),
        ("", "rfc2253") => Ok(DnPart::Rfc2253),
        (attribute, "" | "rfc2253") => Ok(DnPart::Attribute(attribute.to_owned(), nth)),
        (_, format) => Err(Problem::Bad(format!("`{format}` is no format of names; there is `rfc2253`"))),
    }
}

/// A backend by name; without one, the proxy's own.
pub(super) fn backend_name(name: &str, scope: &Scope<'_>) -> Result<String, Problem> {
    let name = if name.is_empty() { scope.proxy.name.as_str() } else { name };
    let known = scope.draft.proxies.iter().any(|one| one.kind.is_backend() && one.name.text == name);
    known.then(|| name.to_owned()).ok_or_else(|| Problem::Bad(format!("no backend is named `{name}`")))
}

/// The rule is a TCP proxy's: it looks at bytes, not at requests.
pub(crate) fn is_tcp(scope: &Scope<'_>) -> bool {
    scope.proxy.settings.mode.as_ref().is_none_or(|mode| mode.value == crate::draft::Mode::Tcp)
}

fn request_header(sample: &Sample) -> Result<Template, Problem> {
    let name = header_name(sample.argument())?;
    // Host, User-Agent, Referer and their kin hold commas that part nothing; HAProxy too takes Host whole in practice.
    let var = if name == "host" && sample.fetch.arguments.len() == 1 {
        Var::Header(name)
    } else {
        Var::HeaderNth(name, nth(sample)?)
    };
    Ok(Template::var(var))
}

/// A field's name in lower case; a fetch without one speaks of any field, which no rule can mean.
pub(crate) fn header_name(argument: &str) -> Result<String, Problem> {
    if argument.is_empty() {
        return Err(Problem::Bad("the name of a header field is missing".into()));
    }
    Ok(argument.to_ascii_lowercase())
}

/// The occurrence asked for; without one, the last.
fn nth(sample: &Sample) -> Result<i16, Problem> {
    match sample.fetch.arguments.get(1) {
        None => Ok(-1),
        Some(text) => {
            text.parse().map_err(|_| Problem::Bad(format!("`{text}` is no number of an occurrence")))
        }
    }
}

fn index(argument: &str) -> Result<u16, Problem> {
    argument.parse().map_err(|_| Problem::Bad(format!("`{argument}` is no number of a capture")))
}
