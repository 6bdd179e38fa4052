//! Fetches and converters about stick tables: `sc_http_req_rate`, `src_get_gpc0`, `table_conn_cur` and their kin.
//!
//! Owns: their names, taken apart: whose entry, what of it, whether a number comes first.
//! Never: reads arguments; `build::sticks` does.

use weir_expr::{StickData, StickWhat};

use super::Fetch;

/// Whose entry a name asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StickPrefix {
    /// `sc_`: the counter is an argument. `sc1_`: it is in the name.
    Counter(Option<u8>),
    /// `src_`: the client's.
    Client,
    /// `table_cnt` and `table_avl`: the table itself.
    Table,
}

/// What a name asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StickWord {
    /// All is said.
    Plain(StickWhat),
    /// Which of an array is the first argument (`sc_get_gpc(0,1)`).
    Numbered(fn(u8) -> StickWhat),
}

impl StickWord {
    /// The kind of what it gives.
    fn kind(self) -> Fetch {
        match self {
            StickWord::Plain(StickWhat::Tracked) => Fetch::Bool,
            _ => Fetch::Number,
        }
    }
}

use StickWord::{Numbered, Plain};

/// What fetches of counters and of addresses have in common, and converters, too.
fn common(name: &str) -> Option<StickWord> {
    Some(match name {
        "kbytes_in" => Plain(StickWhat::Kilobytes(StickData::BytesInCnt)),
        "kbytes_out" => Plain(StickWhat::Kilobytes(StickData::BytesOutCnt)),
        "gpc_rate" => Numbered(|n| StickWhat::Value(StickData::GpcRate(n))),
        "trackers" => Plain(StickWhat::Trackers),
        "server_id" | "bytes_in_cnt" | "bytes_out_cnt" | "gpt0" | "gpc0" | "gpc1" => return None,
        name => Plain(StickWhat::Value(StickData::named(name)?)),
    })
}

/// A fetch, taken apart.
pub(crate) fn stick_fetch(name: &str) -> Option<(StickPrefix, StickWord)> {
    match name {
        "table_cnt" => return Some((StickPrefix::Table, Plain(StickWhat::Entries))),
        "table_avl" => return Some((StickPrefix::Table, Plain(StickWhat::Available))),
        _ => {}
    }
    let (prefix, rest) = name.split_once('_')?;
    let prefix = match prefix {
        "src" => StickPrefix::Client,
        "sc" => StickPrefix::Counter(None),
        _ => StickPrefix::Counter(Some(prefix.strip_prefix("sc")?.parse().ok().filter(|n| *n < 10)?)),
    };
    let word = match (rest, prefix) {
        ("get_gpc0", _) => Plain(StickWhat::Value(StickData::Gpc(0))),
        ("get_gpc1", _) => Plain(StickWhat::Value(StickData::Gpc(1))),
        ("get_gpt0", _) => Plain(StickWhat::Value(StickData::Gpt(0))),
        ("inc_gpc0", _) => Plain(StickWhat::Increase(0)),
        ("inc_gpc1", _) => Plain(StickWhat::Increase(1)),
        ("clr_gpc0", _) => Plain(StickWhat::Clear(0)),
        ("clr_gpc1", _) => Plain(StickWhat::Clear(1)),
        ("get_gpc", _) => Numbered(|n| StickWhat::Value(StickData::Gpc(n))),
        ("get_gpt", _) => Numbered(|n| StickWhat::Value(StickData::Gpt(n))),
        ("inc_gpc", _) => Numbered(StickWhat::Increase),
        ("clr_gpc", _) => Numbered(StickWhat::Clear),
        ("tracked", StickPrefix::Counter(_)) => Plain(StickWhat::Tracked),
        ("updt_conn_cnt", StickPrefix::Client) => Plain(StickWhat::Seen),
        ("trackers", StickPrefix::Client) => return None,
        (rest, _) => common(rest)?,
    };
    Some((prefix, word))
}

/// The kind of a fetch's value.
pub(super) fn fetch_kind(name: &str) -> Option<Fetch> {
    stick_fetch(name).map(|(_, word)| word.kind())
}

/// A converter, taken apart.
pub(crate) fn stick_converter(name: &str) -> Option<StickWord> {
    if name == "in_table" {
        return Some(Plain(StickWhat::Tracked));
    }
    Some(match name.strip_prefix("table_")? {
        "server_id" => Plain(StickWhat::Value(StickData::ServerId)),
        "gpt0" => Plain(StickWhat::Value(StickData::Gpt(0))),
        "gpc0" => Plain(StickWhat::Value(StickData::Gpc(0))),
        "gpc1" => Plain(StickWhat::Value(StickData::Gpc(1))),
        "gpc" => Numbered(|n| StickWhat::Value(StickData::Gpc(n))),
        "gpt" => Numbered(|n| StickWhat::Value(StickData::Gpt(n))),
        "expire" => Plain(StickWhat::Expire),
        "idle" => Plain(StickWhat::Idle),
        rest => common(rest)?,
    })
}

/// The kind of a converter's value.
pub(crate) fn converter_kind(name: &str) -> Option<Fetch> {
    stick_converter(name).map(StickWord::kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_entry_and_what_of_it() {
        let fetch = |name: &str| match stick_fetch(name) {
            Some((prefix, Plain(what))) => format!("{prefix:?} {what:?}"),
            Some((prefix, Numbered(what))) => format!("{prefix:?} {:?}", what(7)),
            None => "none".into(),
        };
        assert_eq!(fetch("sc_http_req_rate"), "Counter(None) Value(HttpReqRate)");
        assert_eq!(fetch("sc2_inc_gpc0"), "Counter(Some(2)) Increase(0)");
        assert_eq!(fetch("src_get_gpc"), "Client Value(Gpc(7))");
        assert_eq!(fetch("src_updt_conn_cnt"), "Client Seen");
        assert_eq!(fetch("table_avl"), "Table Available");
        for none in
            ["sc_updt_conn_cnt", "sc_bytes_in_cnt", "src_tracked", "scx_conn_cur", "sc_gpc0", "src_port"]
        {
            assert_eq!(fetch(none), "none", "{none}");
        }
        assert_eq!(converter_kind("in_table"), Some(Fetch::Bool));
        assert_eq!(converter_kind("table_http_err_rate"), Some(Fetch::Number));
        assert_eq!(converter_kind("table_bytes_in_cnt"), None);
    }
}
