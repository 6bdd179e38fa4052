//! Fetches of figures and of whole parts: pools and servers, dates, hashes, blocks of fields, credentials.
//!
//! Owns: which variable each is, where `sample` does not know it.
//! Driven by: `sample`.

use weir_expr::{
    Arithmetic, AuthPart, Coding, Convert, Count, EndpointFigure, EndpointTls, LocalOf, MessagePart, Moment,
    Peeked, PriorityOf, ProxyTlv, RateOf, Routine, Timer,
};
use weir_model::{Step, Template, Var};

use super::expression::Sample;
use super::problem::Problem;
use super::roster;
use super::sample::{backend_name, base, cert_part, header_name, through};
use super::scope::Scope;
use crate::read::Line;

/// The value of a fetch.
pub(super) fn template(sample: &Sample, scope: &Scope<'_>) -> Result<Template, Problem> {
    let name = sample.fetch.name.as_str();
    let argument = sample.argument();
    let literal = |text: &str| Ok(Template::literal(text));
    let separator = || if argument.is_empty() { ",".to_owned() } else { argument.to_owned() };
    let var = match name {
        "fe_sess_rate" => Var::SiteRate(frontend_name(argument, scope)?, RateOf::Sessions),
        "fe_req_rate" => Var::SiteRate(frontend_name(argument, scope)?, RateOf::Requests),
        "be_sess_rate" => Var::PoolCount(backend_name(argument, scope)?, Count::SessionRate),
        "srv_sess_rate" => server(argument, EndpointFigure::SessionRate, scope)?,
        "act_conn" => Var::Count(Count::Process),
        "fe_id" if scope.proxy.kind.is_frontend() => return literal(&roster::number_of(scope).to_string()),
        "be_id" if scope.proxy.kind.is_backend() => return literal(&roster::number_of(scope).to_string()),
        "accept_date" => return moment(Moment::Accepted, argument, scope),
        "request_date" => return moment(Moment::Begun, argument, scope),
        "date_ms" => return moment_of(Var::TimeMicros, "ms", scope),
        "fc.timer.handshake" => Var::Timer(Timer::Handshake),
        "fc.timer.total" => Var::Timer(Timer::Total),
        "req.timer.idle" => Var::Timer(Timer::Idle),
        "req.timer.hdr" => Var::Timer(Timer::Request),
        "req.timer.tq" => Var::Timer(Timer::Query),
        "req.timer.queue" => Var::Timer(Timer::Queue),
        "res.timer.hdr" => Var::Timer(Timer::Response),
        "res.timer.data" => Var::Timer(Timer::Data),
        "txn.timer.total" => Var::Timer(Timer::Active),
        "txn.timer.user" => Var::Timer(Timer::User),
        "txn.redispatched" => Var::Redispatched,
        "queue" => Var::PoolCount(backend_name(argument, scope)?, Count::PoolQueue),
        "avg_queue" => Var::PoolCount(backend_name(argument, scope)?, Count::AverageQueue),
        "be_conn_free" => Var::PoolCount(backend_name(argument, scope)?, Count::FreeSlots),
        "srv_is_up" => server(argument, EndpointFigure::Up, scope)?,
        "srv_conn" => server(argument, EndpointFigure::InFlight, scope)?,
        "srv_conn_free" => server(argument, EndpointFigure::Free, scope)?,
        "srv_queue" => server(argument, EndpointFigure::Waiting, scope)?,
        "srv_weight" | "srv_uweight" => server(argument, EndpointFigure::Weight, scope)?,
        "srv_iweight" => server(argument, EndpointFigure::ConfiguredWeight, scope)?,
        "date" => return date(sample, scope),
        "date_us" => {
            return Ok(through(
                Template::var(Var::TimeMicros),
                vec![number(Arithmetic::Mod, 1_000_000)],
                scope,
            ));
        }
        "rand" if argument.is_empty() => Var::Random,
        "rand" => {
            let range =
                argument.parse::<u32>().map_err(|_| Problem::Bad(format!("`{argument}` is no range")))?;
            let steps = vec![number(Arithmetic::Mul, range.into()), number(Arithmetic::Div, 1 << 32)];
            return Ok(through(Template::var(Var::Random), steps, scope));
        }
        "uuid" if matches!(argument, "" | "4") => Var::Uuid,
        "nbproc" | "proc" => return literal("1"),
        "nbthread" => Var::Workers,
        "pid" => Var::Pid,
        "stopping" => Var::Stopping,
        "fe_defbe" => {
            let backend = scope.proxy.settings.default_backend.as_ref();
            return literal(backend.map_or("", |word| word.as_str()));
        }
        "txn.conn_retries" | "conn_retries" => Var::Count(Count::Attempts),
        "txn.sess_term_state" => Var::TerminationState,
        "req.bytes_in" | "bytes_in" => Var::RequestLength,
        "res.bytes_out" | "bytes_out" => Var::BytesSent,
        "fc_pp_authority" => Var::ProxyProtocolTlv(ProxyTlv::Field(0x02)),
        "fc_pp_unique_id" => Var::ProxyProtocolTlv(ProxyTlv::Field(0x05)),
        "fc_pp_tlv" => Var::ProxyProtocolTlv(ProxyTlv::Field(tlv(argument)?)),
        "fc_http_major" => {
            let digit = Step::Convert(Convert::Bytes { offset: 5, length: Some(1) });
            return Ok(through(Template::var(Var::Protocol), vec![digit], scope));
        }
        "ssl_bc" => Var::EndpointTls(EndpointTls::Used),
        "ssl_bc_is_resumed" => Var::EndpointTls(EndpointTls::Resumed),
        "ssl_bc_protocol" => Var::EndpointTls(EndpointTls::Protocol),
        "ssl_bc_cipher" => Var::EndpointTls(EndpointTls::Cipher),
        "ssl_bc_alg_keysize" | "ssl_bc_use_keysize" => Var::EndpointTls(EndpointTls::KeyBits),
        "ssl_bc_alpn" => Var::EndpointTls(EndpointTls::Alpn),
        "ssl_bc_npn" | "ssl_bc_session_id" => return literal(""),
        "ssl_bc_err" => return literal("0"),
        "ssl_bc_err_str" => return literal("Success"),
        name if name.starts_with("ssl_f_") => Var::TlsOwnPart(cert_part(&name[6..], &sample.fetch)?),
        name if name.starts_with("ssl_s_") => {
            Var::EndpointTls(EndpointTls::Certificate(cert_part(&name[6..], &sample.fetch)?))
        }
        "bc_reused" => Var::EndpointReused,
        "bc_err" => return literal("0"),
        "bc_err_name" | "fc_err_name" => return literal("NONE"),
        "bc_err_str" => return literal("Success"),
        "capture.res.ver" => Var::EndpointProtocol,
        "bc_http_major" | "res.ver" | "resp_ver" => {
            let length = (name == "bc_http_major").then_some(1);
            let cut = Step::Convert(Convert::Bytes { offset: 5, length });
            return Ok(through(Template::var(Var::EndpointProtocol), vec![cut], scope));
        }
        "connslots" => Var::PoolCount(backend_name(argument, scope)?, Count::FreePlaces),
        "cur_connect_timeout" | "cur_queue_timeout" | "cur_tarpit_timeout" => {
            let kind = &name[4..name.len() - 8];
            let time = scope.proxy.settings.timeout(kind).unwrap_or_default();
            return literal(&time.as_millis().to_string());
        }
        "distcc_param" | "distcc_body" => {
            if argument.len() != 4 {
                return Err(Problem::Bad(format!(
                    "`{argument}` is no token of distcc: those have four letters"
                )));
            }
            let routine = if name == "distcc_body" { Routine::DistccBody } else { Routine::DistccParam };
            let nth = sample.fetch.arguments.get(1).map_or("", String::as_str);
            let arguments = vec![Template::literal(argument), Template::literal(nth)];
            let first = Template::var(Var::Peeked(Peeked::Bytes));
            return Ok(through(first, vec![Step::Call { routine, arguments }], scope));
        }
        "req.bytes_out" => Var::UpstreamBytesSent,
        "so_name" | "so_id" => return Ok(listener(name, scope)),
        "set-cookie" if !argument.is_empty() => Var::UpstreamCookie(argument.to_owned()),
        "bc_src" => Var::EndpointLocalAddr,
        "bc_src_port" => Var::EndpointLocalPort,
        "bc.timer.connect" => Var::Timer(Timer::Connect),
        "bc_be_queue" => Var::Count(Count::PoolQueue),
        "bc_srv_queue" => Var::Count(Count::EndpointQueue),
        "server_status" => Var::EndpointStatus,
        "srv_id" => Var::EndpointNumber,
        "bin" => {
            let digits = Template::literal(argument);
            let decoded = Step::Convert(Convert::FromHexBytes);
            if argument.len() % 2 == 1 || !argument.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(Problem::Bad(format!("`{argument}` is no bytes in hexadecimal")));
            }
            return Ok(through(digits, vec![decoded], scope));
        }
        "dst_conn" => Var::Count(Count::Site),
        "src_is_local" => Var::IsLocal(LocalOf::Source),
        "dst_is_local" => Var::IsLocal(LocalOf::Destination),
        "fc_src_is_local" => Var::IsLocal(LocalOf::SocketPeer),
        "fc_dst_is_local" => Var::IsLocal(LocalOf::SocketLocal),
        // Rules run on connections whose handshakes were done without an error.
        "fc_err" | "ssl_fc_err" => return literal("0"),
        "fc_err_str" | "ssl_fc_err_str" => return literal("Success"),
        // What no client of Weir's gets by with is not counted; tasks are not measured, as without profiling.
        "fc_glitches" | "bc_glitches" => return literal("0"),
        "cpu_calls" | "cpu_ns_avg" | "cpu_ns_tot" | "lat_ns_avg" | "lat_ns_tot" => return literal("0"),
        "quic_enabled" => return literal("0"),
        "prio_class" => Var::Priority(PriorityOf::Class),
        "prio_offset" => Var::Priority(PriorityOf::Offset),
        "res.comp_algo" => Var::CompressedBy,
        "res.comp" => Var::User(scope.maps.truth(name, Var::CompressedBy, "", "0", "1")),
        "ssl_fc_npn" => return literal(""),
        "ssl_fc_session_id" => Var::TlsSessionId,
        "thread" => Var::Worker,
        "tgid" => return literal("1"),
        "txn.id32" => Var::RequestSerial,
        "url_ip" => {
            return Ok(through(
                Template::var(Var::RequestLine),
                vec![Step::Convert(Convert::UrlAddress)],
                scope,
            ));
        }
        "url_port" => {
            return Ok(through(
                Template::var(Var::RequestLine),
                vec![Step::Convert(Convert::UrlPort)],
                scope,
            ));
        }
        "bc_dst" => Var::EndpointAddr,
        "bc_dst_port" => Var::EndpointPort,
        "ssl_fc_curve" => Var::TlsCurve,
        "req.hdrs" => Var::RequestPart(MessagePart::Fields),
        "req.hdrs_bin" => Var::RequestPart(MessagePart::BinaryFields),
        "req.hdr_names" => Var::RequestPart(MessagePart::Names(separator())),
        "req.cook_names" => Var::RequestPart(MessagePart::CookieNames(separator())),
        "req.body_len" => Var::RequestPart(MessagePart::BodyLength),
        "req.body_size" => Var::RequestPart(MessagePart::BodySize),
        "req.body_param" if !argument.is_empty() => Var::BodyArg(argument.to_owned()),
        "res.hdrs" => Var::ResponsePart(MessagePart::Fields),
        "res.hdrs_bin" => Var::ResponsePart(MessagePart::BinaryFields),
        "res.hdr_names" => Var::ResponsePart(MessagePart::Names(separator())),
        "res.cook_names" => Var::ResponsePart(MessagePart::CookieNames(separator())),
        "res.body_size" => Var::ResponsePart(MessagePart::BodySize),
        "req.cook_cnt" | "cook_cnt" => Var::CookieCount(argument.to_owned()),
        "res.cook_cnt" | "scook_cnt" => Var::SetCookieCount(argument.to_owned()),
        "res.cook" | "scook" | "res.cook_val" | "scook_val" if !argument.is_empty() => {
            Var::UpstreamCookie(argument.to_owned())
        }
        "urlp" | "url_param" | "urlp_val" if sample.fetch.arguments.len() == 2 => {
            let delimiter = sample.fetch.arguments[1].as_bytes();
            let [delimiter] = delimiter else {
                return Err(Problem::Bad(format!("the delimiter of `{name}` is one character")));
            };
            Var::ArgAfter(argument.to_owned(), *delimiter)
        }
        "base32" | "base32+src" => return hashed("base", name.ends_with("+src"), scope),
        "baseq32" => return hashed("baseq", false, scope),
        "url32" | "url32+src" => return hashed("baseq", name.ends_with("+src"), scope),
        "http_auth_type" => Var::Authorization(AuthPart::Scheme),
        "http_auth_pass" => Var::Authorization(AuthPart::Password),
        "http_auth_bearer" => {
            let field = if argument.is_empty() { String::new() } else { header_name(argument)? };
            Var::Authorization(AuthPart::Bearer(field))
        }
        _ => {
            return timeout(name, scope)
                .ok_or_else(|| Problem::NotBuilt(format!("{name} as a value")))
                .map(Template::literal);
        }
    };
    Ok(Template::var(var))
}

/// A time of the proxy that rules stand in, in milliseconds.
fn timeout(name: &str, scope: &Scope<'_>) -> Option<String> {
    let (side, rest) = name.split_once('_')?;
    let kind = rest.strip_suffix("_timeout")?;
    let stands = match side {
        "fe" => scope.proxy.kind.is_frontend(),
        "be" => scope.proxy.kind.is_backend(),
        _ => false,
    };
    let time = scope.proxy.settings.timeout(kind).filter(|_| stands)?;
    Some(time.as_millis().to_string())
}

/// The name that a `bind` line gives its sockets, or their number: the one that is written, or counted from 1.
fn listener(fetch: &str, scope: &Scope<'_>) -> Template {
    let word = |line: &Line, name: &str| {
        let at = line.from(2).iter().position(|word| word.text == name)?;
        line.word(at + 3).map(|word| word.text.clone())
    };
    let mut exact = Vec::new();
    let of_proxy = |proxy: &crate::draft::Proxy| proxy.binds.clone();
    for line in
        scope.draft.proxies.iter().flat_map(|proxy| (1..).zip(of_proxy(proxy)).collect::<Vec<(u32, Line)>>())
    {
        let (number, line) = line;
        let name = word(&line, "name");
        let shown = match fetch {
            "so_name" => name.clone(),
            _ => Some(word(&line, "id").unwrap_or_else(|| number.to_string())),
        };
        // Sockets without a name are called by their addresses.
        let called = name.unwrap_or_else(|| line.text(1).to_owned());
        exact.extend(shown.map(|shown| (called, Template::literal(shown))));
    }
    Template::var(Var::User(scope.maps.table(fetch, Template::var(Var::ListenerName), exact)))
}

fn number(operation: Arithmetic, by: i64) -> Step {
    Step::Convert(Convert::Arithmetic(operation, by))
}

/// A frontend by name; without one, the proxy's own.
fn frontend_name(name: &str, scope: &Scope<'_>) -> Result<String, Problem> {
    let name = if name.is_empty() { scope.proxy.name.as_str() } else { name };
    let known = scope.draft.proxies.iter().any(|one| one.kind.is_frontend() && one.name.text == name);
    known.then(|| name.to_owned()).ok_or_else(|| Problem::Bad(format!("no frontend is named `{name}`")))
}

/// `accept_date([unit])`, `request_date([unit])`.
fn moment(of: Moment, unit: &str, scope: &Scope<'_>) -> Result<Template, Problem> {
    moment_of(Var::Moment(of), unit, scope)
}

fn moment_of(var: Var, unit: &str, scope: &Scope<'_>) -> Result<Template, Problem> {
    Ok(through(Template::var(var), vec![number(Arithmetic::Div, micros_of(unit)?)], scope))
}

fn micros_of(unit: &str) -> Result<i64, Problem> {
    match unit {
        "" | "s" => Ok(1_000_000),
        "ms" => Ok(1_000),
        "us" => Ok(1),
        other => Err(Problem::Bad(format!("`{other}` is no unit; those are s, ms and us"))),
    }
}

/// `date([offset[,unit]])`.
fn date(sample: &Sample, scope: &Scope<'_>) -> Result<Template, Problem> {
    let per = micros_of(sample.fetch.arguments.get(1).map_or("", String::as_str))?;
    let offset = match sample.argument() {
        "" => 0,
        text => text.parse::<i64>().map_err(|_| Problem::Bad(format!("`{text}` is no number")))?,
    };
    let steps = vec![number(Arithmetic::Div, per), number(Arithmetic::Add, offset)];
    Ok(through(Template::var(Var::TimeMicros), steps, scope))
}

/// A figure of `[BACKEND/]SERVER`.
fn server(name: &str, which: EndpointFigure, scope: &Scope<'_>) -> Result<Var, Problem> {
    let (backend, server) = match name.split_once('/') {
        Some((backend, server)) => (backend_name(backend, scope)?, server),
        None => (backend_name("", scope)?, name),
    };
    let proxy = scope.draft.proxies.iter().find(|one| one.kind.is_backend() && one.name.text == backend);
    let known = proxy.is_some_and(|proxy| proxy.servers.iter().any(|line| line.names(server)));
    if !known {
        return Err(Problem::Bad(format!("backend `{backend}` has no server `{server}`")));
    }
    Ok(Var::EndpointCount(backend, server.to_owned(), which))
}

/// The hash of what another fetch gives, as a number; or its four bytes and those of the client's address.
fn hashed(fetch: &str, with_source: bool, scope: &Scope<'_>) -> Result<Template, Problem> {
    let call = super::expression::Call { name: fetch.to_owned(), arguments: Vec::new() };
    let whole = base(&Sample { fetch: call, converters: Vec::new() }, scope)?;
    let mut steps = vec![Step::Coding(Coding::Sdbm(true))];
    if !with_source {
        return Ok(through(whole, steps, scope));
    }
    steps.push(Step::Convert(Convert::NetworkOrder));
    let mut both = through(whole, steps, scope);
    both.push_var(Var::ClientAddrBinary);
    Ok(both)
}

/// A type of a field: a number, or one of the names.
fn tlv(text: &str) -> Result<u8, Problem> {
    let number = match text {
        "ALPN" => Some(0x01),
        "AUTHORITY" => Some(0x02),
        "CRC32C" => Some(0x03),
        "NOOP" => Some(0x04),
        "UNIQUE_ID" => Some(0x05),
        "SSL" => Some(0x20),
        "NETNS" => Some(0x30),
        text => match text.strip_prefix("0x") {
            Some(digits) => u8::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        },
    };
    number.ok_or_else(|| Problem::Bad(format!("`{text}` is no type of a field of a PROXY header")))
}
