//! `stick-table`: one table of a proxy; tables of `peers` sections, which are defined by the same words.

use weir_expr::settings::PeerForm;
use weir_expr::{StickData, StickKey, StickTableConfig, Stored};

use crate::draft::{Proxy, SharedTable};
use crate::findings::Findings;
use crate::read::{Line, Word};
use crate::values::{size, time};
use crate::words::Call;

/// HAProxy's bound for arrays of general counters.
const MOST_OF_ARRAY: u64 = 100;
/// Bytes of text keys that do not say how many.
const LENGTH: u32 = 32;

const WORDS: [&str; 9] =
    ["type", "size", "expire", "nopurge", "peers", "srvkey", "write-to", "store", "recv-only"];

/// `stick-table`.
pub(crate) fn stick_table(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    if proxy.stick_table.is_some() {
        findings.bad_value(
            call.line.keyword(),
            "a proxy has one stick table; another needs a backend of its own",
        );
        return;
    }
    let Some(table) = definition(call.line, call.arguments, findings) else { return };
    let (form, receive_only, also_in) = (table.form, table.receive_only, table.also_in);
    proxy.stick_peers = table.peers.map(|section| SharedTable { section, form, receive_only, also_in });
    proxy.stick_table = Some(table.config);
}

/// A table as it is defined.
pub(crate) struct Defined {
    pub(crate) config: StickTableConfig,
    /// The section that it is shared in.
    pub(crate) peers: Option<Word>,
    /// Its form among peers. HAProxy counts the end of a text whose length is written.
    pub(crate) form: PeerForm,
    /// `recv-only`.
    pub(crate) receive_only: bool,
    /// `write-to`.
    pub(crate) also_in: Option<Word>,
}

/// What stands behind `stick-table`, or behind the name of a table of a `peers` section.
pub(crate) fn definition(line: &Line, words: &[Word], findings: &mut Findings) -> Option<Defined> {
    let (mut key, mut most, mut expire, mut nopurge, mut store) = (None, None, None, false, Vec::new());
    let (mut peers, mut written_length) = (None, false);
    let (mut receive_only, mut also_in) = (false, None);
    let mut rest = words.iter().peekable();
    let mut good = true;
    while let Some(word) = rest.next() {
        let name = word.as_str();
        if name == "nopurge" || name == "recv-only" {
            nopurge |= name == "nopurge";
            receive_only |= name == "recv-only";
            continue;
        }
        if !WORDS.contains(&name) {
            findings.bad_choice(word, "parameter of `stick-table`", &WORDS);
            return None;
        }
        let Some(value) = rest.next() else {
            findings.bad_value(word, format!("`{name}` lacks its value"));
            return None;
        };
        match name {
            "type" => {
                let length = rest.next_if(|word| word.as_str() == "len").and_then(|_| rest.next());
                written_length = length.is_some();
                key = kind(value, length, findings);
                good &= key.is_some();
            }
            "size" => {
                most = findings.value(value, size::parse);
                good &= most.is_some();
            }
            "expire" => {
                expire = findings.value(value, time::millis);
                good &= expire.is_some();
            }
            "store" => good &= stored(value, &mut store, findings),
            "srvkey" if !matches!(value.as_str(), "name" | "addr") => {
                findings.bad_choice(value, "`srvkey`", &["name", "addr"]);
                good = false;
            }
            "srvkey" => findings.tuning(value.span, "srvkey", "servers are known by their names"),
            "peers" => peers = Some(value.clone()),
            _ => also_in = Some(value.clone()),
        }
    }
    match (key, most) {
        (Some(key), Some(size)) if good => {
            store.sort_by_key(|one: &(u8, Stored)| one.0);
            let arrays = [ARRAYS, ARRAYS + 1, ARRAYS + 2].map(|rank| store.iter().any(|one| one.0 == rank));
            let store = store.into_iter().map(|(_, one)| one).collect();
            let key_size = match key {
                StickKey::Ip | StickKey::Integer => 4,
                StickKey::Ipv6 => 16,
                StickKey::Text(length) => length + u32::from(written_length),
                StickKey::Binary(length) => length,
            };
            let config = StickTableConfig { key, size, expire, nopurge, store };
            let form = PeerForm { key_size, arrays };
            return Some(Defined { config, peers, form, receive_only, also_in });
        }
        _ if good => findings
            .missing(line, if key.is_none() { "`type` and its value" } else { "`size` and its value" }),
        _ => {}
    }
    None
}

/// `stick on`, `stick match`, `stick store-request`, `stick store-response`.
pub(crate) fn stick(proxy: &mut Proxy, call: &Call<'_>, _: &mut Findings) {
    proxy.stick_rules.push(call.line.clone());
}

fn kind(word: &Word, length: Option<&Word>, findings: &mut Findings) -> Option<StickKey> {
    const KINDS: [&str; 5] = ["ip", "ipv6", "integer", "string", "binary"];
    let bytes = match length {
        None => LENGTH,
        Some(length) => findings.value(length, |text| match text.parse::<u32>() {
            Ok(length @ 1..=16_384) => Ok(length),
            _ => Err(format!("`{text}` is no length of keys; those are 1 to 16384")),
        })?,
    };
    Some(match word.as_str() {
        "ip" => StickKey::Ip,
        "ipv6" => StickKey::Ipv6,
        "integer" => StickKey::Integer,
        "string" => StickKey::Text(bytes),
        "binary" => StickKey::Binary(bytes),
        _ => {
            findings.bad_choice(word, "type of keys", &KINDS);
            return None;
        }
    })
}

/// `store A,B(period)`. False if a word of it is wrong (reported).
fn stored(word: &Word, store: &mut Vec<(u8, Stored)>, findings: &mut Findings) -> bool {
    let mut rest = word.as_str();
    while !rest.is_empty() {
        // Commas in parentheses part arguments.
        let closed = rest.find('(').and_then(|open| rest[open..].find(')').map(|at| open + at));
        let comma = rest.find(',');
        let end = match (rest.find('('), comma) {
            (Some(open), Some(comma)) if comma < open => comma,
            (Some(_), _) => closed.map_or(rest.len(), |closed| closed + 1),
            (None, comma) => comma.unwrap_or(rest.len()),
        };
        let (one, after) = rest.split_at(end);
        if let Err(cause) = one_stored(one, store) {
            findings.bad_value(word, cause);
            return false;
        }
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    true
}

fn one_stored(text: &str, store: &mut Vec<(u8, Stored)>) -> Result<(), String> {
    let (name, arguments) = match text.split_once('(') {
        None => (text, Vec::new()),
        Some((name, rest)) => {
            let inner = rest.strip_suffix(')').ok_or_else(|| format!("`{text}` is never closed"))?;
            (name, inner.split(',').map(str::trim).collect())
        }
    };
    let count = |text: &str| match text.parse::<u64>() {
        Ok(count @ 1..=MOST_OF_ARRAY) => u8::try_from(count).map_err(|error| error.to_string()),
        _ => Err(format!("`{text}` is no number of counters; those are 1 to {MOST_OF_ARRAY}")),
    };
    let period = |at: usize| match arguments.get(at) {
        None => Err(format!("`{name}` needs its period, as in `{name}(10s)`")),
        Some(text) => match time::millis(text)? {
            period if period.is_zero() => Err(format!("the period of `{name}` must be above zero")),
            period => Ok(period),
        },
    };
    let mut put = |data, period| store.push((rank(data, name), Stored { data, period }));
    match (name, arguments.as_slice()) {
        ("gpc", [n]) => (0..count(n)?).for_each(|n| put(StickData::Gpc(n), std::time::Duration::ZERO)),
        ("gpt", [n]) => (0..count(n)?).for_each(|n| put(StickData::Gpt(n), std::time::Duration::ZERO)),
        ("gpc_rate", [n, _]) => {
            let period = period(1)?;
            (0..count(n)?).for_each(|n| put(StickData::GpcRate(n), period));
        }
        // It tells servers apart for peers; `server_id` is what persistence goes by.
        ("server_key", []) => {}
        _ => {
            let data = StickData::named(name).ok_or_else(|| unknown(name))?;
            match (data.is_rate(), arguments.len()) {
                (true, 0 | 1) => put(data, period(0)?),
                (false, 0) => put(data, std::time::Duration::ZERO),
                _ => return Err(format!("`{text}` has too many arguments")),
            }
        }
    }
    Ok(())
}

/// The rank of the first array.
const ARRAYS: u8 = 100;

/// Where commands show a type of data: as HAProxy numbers them, arrays last.
fn rank(data: StickData, name: &str) -> u8 {
    match (data, name) {
        (_, "gpt") => ARRAYS,
        (_, "gpc") => ARRAYS + 1,
        (_, "gpc_rate") => ARRAYS + 2,
        (StickData::ServerId, _) => 0,
        (StickData::Gpt(_), _) => 1,
        (StickData::Gpc(0), _) => 2,
        (StickData::GpcRate(0), _) => 3,
        (StickData::Gpc(_), _) => 50,
        (StickData::GpcRate(_), _) => 51,
        (StickData::HttpFailCnt, _) => 53,
        (StickData::HttpFailRate, _) => 54,
        // By the order of their names' list.
        _ => 4 + StickData::names().position(|one| one == name).map_or(0, |at| at as u8),
    }
}

fn unknown(name: &str) -> String {
    let own = ["gpc", "gpt", "gpc_rate", "gpc0", "gpc1", "gpt0", "gpc0_rate", "gpc1_rate", "server_key"];
    let near = weir_diag::nearest(name, StickData::names().chain(own));
    let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    format!("`{name}` is nothing that a table stores{near}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_has_periods_and_numbers() {
        let check = |text: &str| {
            let mut store = Vec::new();
            let all = text.split(';').try_for_each(|one| one_stored(one, &mut store));
            all.map(|()| {
                let shown: Vec<_> =
                    store.iter().map(|(_, one)| format!("{} {}", one.data, one.period.as_millis())).collect();
                shown.join(",")
            })
        };
        assert_eq!(check("conn_cur;http_req_rate(10s)").unwrap(), "conn_cur 0,http_req_rate 10000");
        assert_eq!(check("gpc(2);gpc_rate(1,500)").unwrap(), "gpc0 0,gpc1 0,gpc0_rate 500");
        for bad in
            ["conn_rate", "conn_rate(0)", "conn_cur(3)", "gpc(0)", "gpc(101)", "gpc(1", "http_req_rat(1s)"]
        {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
