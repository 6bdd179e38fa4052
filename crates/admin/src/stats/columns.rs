//! The fixed columns, in order.
//!
//! Owns: names and the tags that JSON shows beside values.
//! Why: parsers of this CSV count columns, so the order is an interface; it is the one that HAProxy 3.x writes, which
//! begins with that of every version before. The last, `-`, parts what is fixed from what modules add.

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name in the head line.
    pub name: &'static str,
    /// What kind of thing the value comes from.
    pub origin: &'static str,
    /// What it measures.
    pub nature: &'static str,
    /// Whom it is about.
    pub scope: &'static str,
}

const fn c(name: &'static str, origin: &'static str, nature: &'static str, scope: &'static str) -> Column {
    Column { name, origin, nature, scope }
}

/// The place of a column, found when this crate is compiled.
pub(super) const fn at(name: &str) -> usize {
    let mut place = 0;
    while place < COLUMNS.len() {
        if is_same(COLUMNS[place].name.as_bytes(), name.as_bytes()) {
            return place;
        }
        place += 1;
    }
    // Only ever evaluated in constants: an unknown name does not compile.
    panic!("no such column")
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// All columns.
#[rustfmt::skip]
pub const COLUMNS: [Column; 119] = [
    c("pxname", "Key", "Name", "Service"),
    c("svname", "Key", "Name", "Service"),
    c("qcur", "Metric", "Gauge", "Process"),
    c("qmax", "Metric", "Max", "Process"),
    c("scur", "Metric", "Gauge", "Process"),
    c("smax", "Metric", "Max", "Process"),
    c("slim", "Config", "Limit", "Process"),
    c("stot", "Metric", "Counter", "Process"),
    c("bin", "Metric", "Counter", "Process"),
    c("bout", "Metric", "Counter", "Process"),
    c("dreq", "Metric", "Counter", "Process"),
    c("dresp", "Metric", "Counter", "Process"),
    c("ereq", "Metric", "Counter", "Process"),
    c("econ", "Metric", "Counter", "Process"),
    c("eresp", "Metric", "Counter", "Process"),
    c("wretr", "Metric", "Counter", "Process"),
    c("wredis", "Metric", "Counter", "Process"),
    c("status", "Status", "Gauge", "Process"),
    c("weight", "Metric", "Avg", "Process"),
    c("act", "Metric", "Gauge", "Process"),
    c("bck", "Metric", "Gauge", "Process"),
    c("chkfail", "Metric", "Counter", "Process"),
    c("chkdown", "Metric", "Counter", "Process"),
    c("lastchg", "Metric", "Age", "Process"),
    c("downtime", "Metric", "Counter", "Process"),
    c("qlimit", "Config", "Limit", "Service"),
    c("pid", "Key", "Gauge", "Process"),
    c("iid", "Key", "Gauge", "Service"),
    c("sid", "Key", "Gauge", "Service"),
    c("throttle", "Metric", "Avg", "Process"),
    c("lbtot", "Metric", "Counter", "Process"),
    c("tracked", "Metric", "Gauge", "Process"),
    c("type", "Config", "Gauge", "Service"),
    c("rate", "Metric", "Gauge", "Process"),
    c("rate_lim", "Config", "Limit", "Process"),
    c("rate_max", "Metric", "Gauge", "Process"),
    c("check_status", "Metric", "Output", "Process"),
    c("check_code", "Metric", "Output", "Process"),
    c("check_duration", "Metric", "Duration", "Process"),
    c("hrsp_1xx", "Metric", "Counter", "Process"),
    c("hrsp_2xx", "Metric", "Counter", "Process"),
    c("hrsp_3xx", "Metric", "Counter", "Process"),
    c("hrsp_4xx", "Metric", "Counter", "Process"),
    c("hrsp_5xx", "Metric", "Counter", "Process"),
    c("hrsp_other", "Metric", "Counter", "Process"),
    c("hanafail", "Metric", "Output", "Process"),
    c("req_rate", "Metric", "Rate", "Process"),
    c("req_rate_max", "Metric", "Max", "Process"),
    c("req_tot", "Metric", "Counter", "Process"),
    c("cli_abrt", "Metric", "Counter", "Process"),
    c("srv_abrt", "Metric", "Counter", "Process"),
    c("comp_in", "Metric", "Counter", "Process"),
    c("comp_out", "Metric", "Counter", "Process"),
    c("comp_byp", "Metric", "Counter", "Process"),
    c("comp_rsp", "Metric", "Counter", "Process"),
    c("lastsess", "Metric", "Age", "Process"),
    c("last_chk", "Metric", "Output", "Process"),
    c("last_agt", "Metric", "Output", "Process"),
    c("qtime", "Metric", "Avg", "Process"),
    c("ctime", "Metric", "Avg", "Process"),
    c("rtime", "Metric", "Avg", "Process"),
    c("ttime", "Metric", "Avg", "Process"),
    c("agent_status", "Metric", "Output", "Process"),
    c("agent_code", "Metric", "Output", "Process"),
    c("agent_duration", "Metric", "Duration", "Process"),
    c("check_desc", "Metric", "Output", "Process"),
    c("agent_desc", "Metric", "Output", "Process"),
    c("check_rise", "Config", "Gauge", "Service"),
    c("check_fall", "Config", "Gauge", "Service"),
    c("check_health", "Config", "Gauge", "Service"),
    c("agent_rise", "Config", "Gauge", "Service"),
    c("agent_fall", "Config", "Gauge", "Service"),
    c("agent_health", "Config", "Gauge", "Service"),
    c("addr", "Config", "Gauge", "Service"),
    c("cookie", "Config", "Name", "Service"),
    c("mode", "Config", "Gauge", "Service"),
    c("algo", "Config", "Gauge", "Service"),
    c("conn_rate", "Metric", "Rate", "Process"),
    c("conn_rate_max", "Metric", "Max", "Process"),
    c("conn_tot", "Metric", "Counter", "Process"),
    c("intercepted", "Metric", "Counter", "Process"),
    c("dcon", "Metric", "Counter", "Process"),
    c("dses", "Metric", "Counter", "Process"),
    c("wrew", "Metric", "Counter", "Process"),
    c("connect", "Metric", "Counter", "Process"),
    c("reuse", "Metric", "Counter", "Process"),
    c("cache_lookups", "Metric", "Counter", "Process"),
    c("cache_hits", "Metric", "Counter", "Process"),
    c("srv_icur", "Metric", "Gauge", "Process"),
    c("src_ilim", "Config", "Limit", "Process"),
    c("qtime_max", "Metric", "Max", "Process"),
    c("ctime_max", "Metric", "Max", "Process"),
    c("rtime_max", "Metric", "Max", "Process"),
    c("ttime_max", "Metric", "Max", "Process"),
    c("eint", "Metric", "Counter", "Process"),
    c("idle_conn_cur", "Metric", "Gauge", "Process"),
    c("safe_conn_cur", "Metric", "Gauge", "Process"),
    c("used_conn_cur", "Metric", "Gauge", "Process"),
    c("need_conn_est", "Metric", "Gauge", "Process"),
    c("uweight", "Metric", "Avg", "Process"),
    c("agg_server_status", "Metric", "Gauge", "Process"),
    c("agg_server_check_status", "Metric", "Gauge", "Process"),
    c("agg_check_status", "Metric", "Gauge", "Process"),
    c("srid", "Metric", "Counter", "Service"),
    c("sess_other", "Metric", "Counter", "Process"),
    c("h1sess", "Metric", "Counter", "Process"),
    c("h2sess", "Metric", "Counter", "Process"),
    c("h3sess", "Metric", "Counter", "Process"),
    c("req_other", "Metric", "Counter", "Process"),
    c("h1req", "Metric", "Counter", "Process"),
    c("h2req", "Metric", "Counter", "Process"),
    c("h3req", "Metric", "Counter", "Process"),
    c("proto", "Config", "Output", "Service"),
    c("priv_idle_cur", "Metric", "Gauge", "Process"),
    c("reqbin", "Metric", "Counter", "Process"),
    c("reqbout", "Metric", "Counter", "Process"),
    c("resbin", "Metric", "Counter", "Process"),
    c("resbout", "Metric", "Counter", "Process"),
    c("-", "Product", "Name", "Process"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_columns_are_where_parsers_look() {
        // By the management guide, 9.1.
        for (place, name) in [
            (0, "pxname"),
            (17, "status"),
            (18, "weight"),
            (33, "rate"),
            (48, "req_tot"),
            (73, "addr"),
            (118, "-"),
        ] {
            assert_eq!(COLUMNS[place].name, name);
            assert_eq!(at(name), place);
        }
    }
}
