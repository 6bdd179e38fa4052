//! Actions of rules: `http-request deny`, `tcp-request content accept` …

/// Where a rule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RuleSet {
    /// `http-request`.
    Request,
    /// `http-response`.
    Response,
    /// `http-after-response`.
    AfterResponse,
    /// `tcp-request connection` and `tcp-request session`.
    Connection,
    /// `tcp-request content`.
    Content,
    /// `tcp-response content`.
    Answer,
}

const REQ: u8 = 1;
const RES: u8 = 2;
const AFTER: u8 = 4;
const CONN: u8 = 8;
const CONT: u8 = 16;
const ANS: u8 = 32;

impl RuleSet {
    const fn bit(self) -> u8 {
        match self {
            RuleSet::Request => REQ,
            RuleSet::Response => RES,
            RuleSet::AfterResponse => AFTER,
            RuleSet::Connection => CONN,
            RuleSet::Content => CONT,
            RuleSet::Answer => ANS,
        }
    }
}

/// What becomes of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Built.
    Built,
    /// A warning that says what holds instead.
    Tuning(&'static str),
    /// An error that says what it would do.
    NotYet(&'static str),
}

use Action::{Built, NotYet, Tuning};

const PACKETS: &str = "packets are sent with the system's marks and priorities";

/// Name, whether `NAME(…)` is the form, rule sets, what becomes of it, what it means.
const ACTIONS: &[(&str, bool, u8, Action, &str)] = &[
    ("allow", false, REQ | RES | AFTER, Built, "Ends this list of rules."),
    ("accept", false, CONN | CONT | ANS, Built, "Ends this list of rules."),
    ("deny", false, REQ | RES, Built, "Refuses with an answer."),
    ("reject", false, REQ | CONN | CONT | ANS, Built, "Closes the connection."),
    ("silent-drop", false, REQ | RES | CONN | CONT | ANS, Built, "Forgets the connection."),
    ("tarpit", false, REQ, Built, "Waits, then refuses."),
    ("auth", false, REQ, Built, "Asks for a user and password."),
    ("redirect", false, REQ | RES, Built, "Redirects the client."),
    ("return", false, REQ | RES, Built, "Answers, instead of the server."),
    ("add-header", false, REQ | RES | AFTER, Built, "Adds a field."),
    ("set-header", false, REQ | RES | AFTER, Built, "Sets a field."),
    ("del-header", false, REQ | RES | AFTER, Built, "Deletes a field."),
    ("replace-header", false, REQ | RES | AFTER, Built, "Rewrites a field's lines by pattern."),
    ("replace-value", false, REQ | RES | AFTER, Built, "Rewrites a field's values by pattern."),
    (
        "set-headers-bin",
        false,
        REQ | RES | AFTER,
        NotYet("it changes what is sent"),
        "Sets fields from binary text.",
    ),
    (
        "add-headers-bin",
        false,
        REQ | RES | AFTER,
        NotYet("it changes what is sent"),
        "Adds fields from binary text.",
    ),
    (
        "del-headers-bin",
        false,
        REQ | RES | AFTER,
        NotYet("it changes what is sent"),
        "Deletes fields named in binary text.",
    ),
    ("set-path", false, REQ, Built, "Sets the path."),
    ("set-pathq", false, REQ, Built, "Sets path and query."),
    ("set-query", false, REQ, Built, "Sets the query."),
    ("set-uri", false, REQ, Built, "Sets the target."),
    ("set-method", false, REQ, Built, "Sets the method."),
    ("replace-path", false, REQ, Built, "Rewrites the path by pattern."),
    ("replace-pathq", false, REQ, Built, "Rewrites path and query by pattern."),
    ("replace-uri", false, REQ, Built, "Rewrites the target by pattern."),
    ("normalize-uri", false, REQ, Built, "Normalises the target."),
    ("set-status", false, RES | AFTER, Built, "Sets the status."),
    ("set-var", true, REQ | RES | AFTER | CONN | CONT | ANS, Built, "Sets a variable."),
    ("set-var-fmt", true, REQ | RES | AFTER | CONN | CONT | ANS, Built, "Sets a variable from a format."),
    ("unset-var", true, REQ | RES | AFTER | CONN | CONT | ANS, Built, "Unsets a variable."),
    ("capture", false, REQ | RES | AFTER | CONT, Built, "Keeps a value for the log."),
    ("use-service", false, REQ | CONT, Built, "Lets a service inside answer."),
    ("cache-use", false, REQ, Built, "Answers from the cache."),
    ("cache-store", false, RES, Built, "Stores the answer in the cache."),
    ("early-hint", false, REQ, Built, "Sends a 103 with a field."),
    ("set-log-level", false, REQ | RES | AFTER | CONT | ANS, Built, "Severity of the log line."),
    (
        "do-log",
        false,
        REQ | RES | AFTER | CONN | CONT | ANS,
        Tuning("a line is written when the exchange ends"),
        "Writes a log line now.",
    ),
    (
        "set-nice",
        false,
        REQ | RES | CONT | ANS,
        Tuning("all exchanges have one priority"),
        "Priority of the exchange.",
    ),
    ("set-priority-class", false, REQ | CONT, Built, "Class in queues."),
    ("set-priority-offset", false, REQ | CONT, Built, "Place in queues."),
    ("set-tos", false, REQ | RES | CONN | CONT | ANS, Tuning(PACKETS), "TOS of packets."),
    ("set-mark", false, REQ | RES | CONN | CONT | ANS, Tuning(PACKETS), "Mark of packets."),
    ("set-fc-tos", false, REQ | RES | CONN | CONT | ANS, Tuning(PACKETS), "TOS of packets to clients."),
    ("set-fc-mark", false, REQ | RES | CONN | CONT | ANS, Tuning(PACKETS), "Mark of packets to clients."),
    ("set-bc-tos", false, REQ | CONT, Tuning(PACKETS), "TOS of packets to servers."),
    ("set-bc-mark", false, REQ | CONT, Tuning(PACKETS), "Mark of packets to servers."),
    ("set-bandwidth-limit", false, REQ | RES, Built, "Limits bandwidth."),
    ("set-bandwidth-limit", false, CONT | ANS, Tuning("bandwidth is not limited"), "Limits bandwidth."),
    ("set-timeout", false, REQ | RES, Built, "Sets a time for this exchange."),
    ("set-retries", false, REQ | CONT, Built, "Sets retries for this exchange."),
    ("disable-l7-retry", false, REQ, Built, "No retries after sending."),
    (
        "strict-mode",
        false,
        REQ | RES | AFTER,
        Tuning("rules always apply as a whole"),
        "Whether failed rewrites are errors.",
    ),
    ("wait-for-handshake", false, REQ, Built, "Waits for the handshake."),
    ("wait-for-body", false, REQ, Built, "Waits for the body."),
    ("wait-for-body", false, RES, Tuning("bodies are streamed"), "Waits for the body."),
    ("pause", false, REQ | RES, Built, "Delays the exchange."),
    ("close", false, ANS, Built, "Closes the server's side."),
    ("track-sc", false, REQ | RES | CONN | CONT, Built, "Tracks an entry of a stick table."),
    ("sc-inc-gpc", true, REQ | RES | AFTER | CONN | CONT | ANS, Built, "Counts in a tracked entry."),
    ("sc-inc-gpc0", true, REQ | RES | AFTER | CONN | CONT | ANS, Built, "Counts in a tracked entry."),
    ("sc-inc-gpc1", true, REQ | RES | AFTER | CONN | CONT | ANS, Built, "Counts in a tracked entry."),
    ("sc-add-gpc", true, REQ | RES | AFTER | CONN | CONT | ANS, Built, "Counts in a tracked entry."),
    ("sc-set-gpt", true, REQ | RES | AFTER | CONN | CONT | ANS, Built, "Notes a number in a tracked entry."),
    ("sc-set-gpt0", true, REQ | RES | AFTER | CONN | CONT | ANS, Built, "Notes a number in a tracked entry."),
    ("add-acl", true, REQ | RES | AFTER, Built, "Adds to a list."),
    ("del-acl", true, REQ | RES | AFTER, Built, "Takes from a list."),
    ("set-map", true, REQ | RES | AFTER, Built, "Sets an entry of a map."),
    ("del-map", true, REQ | RES | AFTER, Built, "Takes an entry from a map."),
    ("do-resolve", true, REQ | CONT, Built, "Looks a name up."),
    ("set-dst", false, REQ | CONN | CONT, Built, "Sets the destination."),
    ("set-dst-port", false, REQ | CONN | CONT, Built, "Sets the destination's port."),
    ("set-src", false, REQ | CONN | CONT, Built, "Sets the client's address."),
    ("set-src-port", false, REQ | CONN | CONT, Built, "Sets the client's port."),
    ("expect-proxy", false, CONN, Built, "Expects a PROXY header."),
    (
        "expect-netscaler-cip",
        false,
        CONN,
        NotYet("it decides who a client is"),
        "Expects a NetScaler header.",
    ),
    (
        "attach-srv",
        false,
        CONN,
        NotYet("it decides which server answers"),
        "Lends the connection to a server.",
    ),
    ("switch-mode", false, CONT, NotYet("it decides what is served"), "Goes on in mode http."),
    ("send-spoe-group", false, REQ | RES | CONT | ANS, NotYet("SPOE is not built"), "Asks an SPOE agent."),
    ("ot-group", false, REQ | RES | AFTER | CONT, Tuning("nothing is traced"), "Traces."),
    ("otel-group", false, REQ | RES | AFTER | CONT, Tuning("nothing is traced"), "Traces."),
    ("lua.", false, REQ | RES | CONT | ANS, NotYet("Lua is not built"), "Runs Lua."),
];

/// The entry of an action as written (`set-var(txn.a)` is `set-var`, `track-sc0` is `track-sc`).
pub(crate) fn action(set: RuleSet, word: &str) -> Option<(&'static str, Action)> {
    let (name, called) = word.split_once('(').map_or((word, false), |(name, _)| (name, true));
    let name = if name.starts_with("lua.") {
        "lua."
    } else if name.strip_prefix("track-sc").is_some_and(|n| n.parse::<u16>().is_ok()) {
        "track-sc"
    } else {
        name
    };
    ACTIONS
        .iter()
        .find(|(known, calls, sets, ..)| *known == name && *calls == called && sets & set.bit() != 0)
        .map(|&(known, _, _, action, _)| (known, action))
}

/// All actions, with the rules that they may stand in.
pub(crate) fn all_actions() -> impl Iterator<Item = (&'static str, Vec<&'static str>, Action)> {
    const SETS: [(u8, &str); 6] = [
        (REQ, "http-request"),
        (RES, "http-response"),
        (AFTER, "http-after-response"),
        (CONN, "tcp-request connection"),
        (CONT, "tcp-request content"),
        (ANS, "tcp-response content"),
    ];
    ACTIONS.iter().map(|&(name, _, sets, action, _)| {
        let places = SETS.iter().filter(|(bit, _)| sets & bit != 0).map(|&(_, place)| place);
        (name, places.collect(), action)
    })
}

/// All actions of a rule set.
pub(crate) fn action_names(set: RuleSet) -> impl Iterator<Item = &'static str> {
    ACTIONS.iter().filter(move |(_, _, sets, ..)| sets & set.bit() != 0).map(|&(name, ..)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_found_in_their_forms() {
        assert_eq!(action(RuleSet::Request, "set-var(txn.a)").map(|a| a.0), Some("set-var"));
        assert_eq!(action(RuleSet::Request, "track-sc0").map(|a| a.0), Some("track-sc"));
        assert_eq!(action(RuleSet::Request, "lua.x").map(|a| a.0), Some("lua."));
        assert_eq!(action(RuleSet::Request, "accept"), None);
        assert!(matches!(action(RuleSet::AfterResponse, "set-status"), Some((_, Built))));
        assert_eq!(action(RuleSet::AfterResponse, "deny"), None);
        assert!(ACTIONS.iter().all(|(.., doc)| doc.ends_with('.')));
    }
}
