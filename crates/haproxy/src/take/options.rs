//! `option …`, with `no option …` and `default option …`.

use crate::draft::{AddressHeader, At, Check, Connection, LogFormat, Proxy};
use crate::findings::Findings;
use crate::read::Prefix;
use crate::words::Call;

fn plain(call: &Call<'_>) -> bool {
    call.line.prefix == Prefix::Plain
}

fn name(call: &Call<'_>) -> &'static str {
    call.keyword.name.strip_prefix("option ").unwrap_or(call.keyword.name)
}

/// An option that is only on or off.
pub(crate) fn flag(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    match call.line.prefix {
        Prefix::Plain => proxy.settings.flags.insert(name(call).to_owned(), true),
        Prefix::No => proxy.settings.flags.insert(name(call).to_owned(), false),
        Prefix::Default => proxy.settings.flags.remove(name(call)),
    };
}

fn set_format(proxy: &mut Proxy, call: &Call<'_>, format: LogFormat) {
    proxy.settings.log_format = plain(call).then(|| At::new(format, call.line.span()));
}

/// `option httplog [clf]`.
pub(crate) fn httplog(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let format = match call.text(0) {
        "" => LogFormat::Http,
        "clf" => LogFormat::Clf,
        _ => return findings.bad_choice(&call.arguments[0], "form of this option", &["clf"]),
    };
    set_format(proxy, call, format);
}

/// `option tcplog`.
pub(crate) fn tcplog(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    match call.text(0) {
        "" => {}
        "clf" => findings.tuning(call.arguments[0].span, "option tcplog clf", "lines have the plain form"),
        _ => return findings.bad_choice(&call.arguments[0], "form of this option", &["clf"]),
    }
    set_format(proxy, call, LogFormat::Tcp);
}

/// `option httpslog`.
pub(crate) fn httpslog(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    set_format(proxy, call, LogFormat::Https);
}

/// `option http-server-close`, `httpclose`, `forceclose` and `http-keep-alive`: the last one counts.
pub(crate) fn connection(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    let mode = match name(call) {
        "http-server-close" => Connection::ServerClose,
        "http-keep-alive" => Connection::Keep,
        _ => Connection::Close,
    };
    if plain(call) {
        proxy.settings.connection = Some(mode);
    } else if proxy.settings.connection == Some(mode) {
        proxy.settings.connection = None;
    }
}

fn address_header(call: &Call<'_>, default: &str, findings: &mut Findings) -> Option<AddressHeader> {
    let mut header = AddressHeader { name: default.into(), except: None, if_none: false };
    let mut words = call.arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "if-none" => header.if_none = true,
            "except" => header.except = words.next().cloned(),
            "header" => header.name = words.next().map(|name| name.text.clone())?,
            _ => {
                findings.bad_choice(word, "word of this option", &["except", "header", "if-none"]);
                return None;
            }
        }
    }
    Some(header)
}

/// `option forwardfor`.
pub(crate) fn forwardfor(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let header = address_header(call, "X-Forwarded-For", findings);
    proxy.settings.forwardfor = header.filter(|_| plain(call));
}

/// `option originalto`.
pub(crate) fn originalto(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let header = address_header(call, "X-Original-To", findings);
    proxy.settings.originalto = header.filter(|_| plain(call));
}

/// `option forwarded`; with parameters it is not built.
pub(crate) fn forwarded(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    if let Some(word) = call.arguments.first() {
        findings.not_built(
            word.span,
            "option forwarded with parameters",
            "servers would be told another `Forwarded`",
        );
        return;
    }
    proxy.settings.forwarded = plain(call);
}

/// `option redispatch [interval]`.
pub(crate) fn redispatch(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    if let Some(word) = call.arguments.first()
        && word.text.parse::<i32>().is_err()
    {
        findings.bad_value(word, format!("`{}` is no number of retries", word.text));
    }
    let interval = call.arguments.first().and_then(|word| word.text.parse().ok());
    proxy.settings.redispatch = plain(call).then(|| interval.unwrap_or(-1));
}

/// Protocols that have a check of their own.
const KNOWN: &[&str] =
    &["ssl-hello-chk", "smtpchk", "mysql-check", "pgsql-check", "redis-check", "ldap-check"];

/// `option httpchk`, `option tcp-check` and their kin: the last one counts.
pub(crate) fn check(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.settings.check = match name(call) {
        _ if !plain(call) => None,
        "httpchk" => Some(Check::Http(call.arguments.to_vec())),
        name => Some(match KNOWN.iter().find(|known| **known == name) {
            Some(known) => Check::Known(known, call.arguments.to_vec()),
            None => Check::Tcp,
        }),
    };
}

/// `option http-restrict-req-hdr-names`: `delete` and `reject` change what servers see.
pub(crate) fn restrict_names(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    match call.text(0) {
        "preserve" | "delete" | "reject" => {
            proxy.settings.flags.insert("drop-odd-names".into(), call.text(0) != "preserve" && plain(call));
        }
        _ if plain(call) => {
            findings.bad_choice(&call.arguments[0], "policy for names", &["preserve", "delete", "reject"]);
        }
        _ => {}
    }
}
