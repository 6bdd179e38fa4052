//! Words about who gets in, and how often (nginx.org: access, auth_basic, realip, limit_req, limit_conn).

use super::entry::Kind::{Flag, Number, OneOf, Text};
use super::entry::places::{H, HSL, HSLX, L, SL};
use super::entry::{Entry, MANY};
use crate::take::args::{count, on};
use crate::take::{access, browsers, facts};

const LEVELS: &[&str] = &["info", "notice", "warn", "error"];

pub(super) const ENTRIES: &[Entry] = &[
    Entry::one("allow", HSLX, Text, "", "Lets clients in.").repeats().scope(access::rule),
    Entry::one("deny", HSLX, Text, "", "Keeps clients out.").repeats().scope(access::rule),
    Entry::one("satisfy", HSL, OneOf(&["all", "any"]), "all", "Whether one way of access suffices.").scope(
        |_, s, d| {
            s.parts().satisfy_any = d.arg(0) == "any";
        },
    ),
    Entry::one("auth_basic", HSLX, Text, "off", "Asks for user and password.").scope(access::auth_basic),
    Entry::one("auth_basic_user_file", HSLX, Text, "", "Users and passwords.")
        .scope(access::auth_basic_user_file),
    Entry::one("set_real_ip_from", HSL, Text, "", "Proxies that are believed.")
        .repeats()
        .scope(access::real_ip_from),
    Entry::one("real_ip_header", HSL, Text, "X-Real-IP", "Where the client's address is read.")
        .scope(access::real_ip_header),
    Entry::one("real_ip_recursive", HSL, Flag, "off", "Skips all trusted addresses.").scope(|_, s, d| {
        s.parts().real_ip_recursive = on(d);
    }),
    Entry::new("limit_req_zone", H, (2, 4), "", "A zone of request rates.")
        .repeats()
        .shared(access::limit_req_zone),
    Entry::new("limit_req", HSL, (1, 3), "", "Limits request rates.").repeats().scope(access::limit_req),
    Entry::one("limit_req_status", HSL, Number, "503", "Status of refusals.").scope(|_, s, d| {
        s.parts().limit_req_settings.status = count(d).clamp(400, 599) as u16;
    }),
    Entry::one("limit_req_log_level", HSL, OneOf(LEVELS), "error", "Severity of log lines.").scope(
        |_, s, d| {
            s.parts().limit_req_settings.log_level = crate::take::log::level(d.arg(0)).unwrap_or_default();
        },
    ),
    Entry::one("limit_req_dry_run", HSL, Flag, "off", "Counts, but lets pass.").scope(|_, s, d| {
        s.parts().limit_req_settings.dry_run = on(d);
    }),
    Entry::new("limit_conn_zone", H, (2, 2), "", "A zone of concurrent requests.")
        .repeats()
        .shared(access::limit_conn_zone),
    Entry::new("limit_zone", H, (3, 3), "", "Old form of limit_conn_zone.")
        .removed("nginx dropped it in 1.7.6; write `limit_conn_zone KEY zone=NAME:SIZE`"),
    Entry::new("limit_conn", HSL, (2, 2), "", "Limits concurrent requests.")
        .repeats()
        .scope(access::limit_conn),
    Entry::one("limit_conn_status", HSL, Number, "503", "Status of refusals.").scope(|_, s, d| {
        s.parts().limit_conn_settings.status = count(d).clamp(400, 599) as u16;
    }),
    Entry::one("limit_conn_log_level", HSL, OneOf(LEVELS), "error", "Severity of log lines.").scope(
        |_, s, d| {
            s.parts().limit_conn_settings.log_level = crate::take::log::level(d.arg(0)).unwrap_or_default();
        },
    ),
    Entry::one("limit_conn_dry_run", HSL, Flag, "off", "Counts, but lets pass.").scope(|_, s, d| {
        s.parts().limit_conn_settings.dry_run = on(d);
    }),
    Entry::new("valid_referers", SL, (1, MANY), "", "Referers for $invalid_referer.")
        .repeats()
        .scope(facts::valid_referers),
    Entry::new("modern_browser", HSL, (1, 2), "", "A browser from a version on, for $modern_browser.")
        .repeats()
        .scope(browsers::modern),
    Entry::new("ancient_browser", HSL, (1, MANY), "", "Texts of User-Agent, for $ancient_browser.")
        .repeats()
        .scope(browsers::ancient),
    Entry::one("modern_browser_value", HSL, Text, "1", "The value of $modern_browser.")
        .scope(|_, s, d| s.parts().facts.modern_value = Some(d.arg(0).to_owned())),
    Entry::one("ancient_browser_value", HSL, Text, "1", "The value of $ancient_browser.")
        .scope(|_, s, d| s.parts().facts.ancient_value = Some(d.arg(0).to_owned())),
    Entry::one("secure_link", HSL, Text, "", "The hash that a link shows, and its time.")
        .scope(facts::secure_link),
    Entry::one("secure_link_md5", HSL, Text, "", "The text that such a hash is made of.")
        .scope(facts::secure_link_md5),
    Entry::one("secure_link_secret", L, Text, "", "The word that hashes in paths are made with.")
        .scope(facts::secure_link_secret),
    Entry::one("auth_request", HSL, Text, "off", "Asks another location who gets in.")
        .scope(access::auth_request),
    Entry::new("auth_request_set", HSL, (2, 2), "", "Variables from that answer.")
        .repeats()
        .scope(access::auth_request_set),
];
