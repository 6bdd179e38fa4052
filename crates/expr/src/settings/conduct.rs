//! What languages do differently where a standard leaves it open.
//!
//! Owns: the values, and what holds where nobody says otherwise.
//! Why: front ends write what their language does. Nobody below them asks whose language it was, so that sites and
//! pools of several stand in one plan without changing one another.

use serde::{Deserialize, Serialize};

use super::LogLevel;

/// What a site does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Conduct {
    /// The pages of answers that Weir makes.
    pub pages: Pages,
    /// `OPTIONS *` is answered by the site itself. Otherwise a route is searched for the path `*`.
    pub answer_asterisk: bool,
    /// The site's program runs again for each internal redirect.
    pub program_again: bool,
    /// The body of a request is read before that program runs, which may look at it.
    pub body_first: bool,
    /// Status in logs where the client left before there was an answer; 0: none.
    pub left_status: u16,
    /// Least severity of what error logs say about requests.
    pub error_lines: LogLevel,
    /// Counters take every answer of a rule, but 408, for a refusal. Otherwise 403 and 429 alone.
    pub rules_refuse: bool,
    /// Responses over HTTP/1.1 say `Connection: keep-alive` where the connection stays open.
    pub says_keep_alive: bool,
    /// The connection closes after 500 and 501, and after 413 whatever was read of the body.
    pub fails_closed: bool,
    /// A client whose request does not come in time is disconnected without a response. Otherwise it gets 408.
    pub silent_timeouts: bool,
    /// `100 Continue` is sent although the body is empty or has arrived.
    pub always_continues: bool,
    /// An expectation that nobody knows is passed over. Otherwise it gets 417.
    pub any_expectation: bool,
    /// A method is made of capital letters, `_` and `-`; another one gets 400.
    pub capital_methods: bool,
    /// Several lines of a field that a request has once (`If-Match`, `Authorization` …) get 400.
    pub single_fields: bool,
    /// Of several lines of a field of which a response has one, the first is passed on.
    pub first_of_several: bool,
    /// A malformed request over HTTP/2 gets 400 before its stream is reset.
    pub answers_malformed: bool,
    /// Status for heads that are too large: 431, or 494, which has a page of its own and is shown as 400.
    pub large_heads: u16,
}

impl Default for Conduct {
    fn default() -> Self {
        Self {
            pages: Pages::default(),
            answer_asterisk: true,
            program_again: true,
            body_first: false,
            left_status: 499,
            error_lines: LogLevel::Debug,
            rules_refuse: false,
            says_keep_alive: true,
            fails_closed: true,
            silent_timeouts: true,
            always_continues: true,
            any_expectation: true,
            capital_methods: true,
            single_fields: true,
            first_of_several: true,
            answers_malformed: true,
            large_heads: 494,
        }
    }
}

impl Conduct {
    /// True if it is what holds where nobody says otherwise: printed configurations leave it out.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The pages of answers that Weir makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pages {
    /// What they show.
    pub layout: PageLayout,
    /// They say that they are not to be kept (`Cache-Control: no-cache`), and so do redirects that are not for good.
    pub no_cache: bool,
    /// Redirects have none.
    pub bare_redirects: bool,
    /// The reason phrases that pages and status lines have.
    pub phrases: PhraseSet,
}

/// Which reason phrases statuses have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhraseSet {
    /// Those of RFC 9110 and the IANA registry.
    Registered,
    /// Those of the first servers, where they differ: `302 Moved Temporarily`.
    #[default]
    Traditional,
}

/// What a page shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageLayout {
    /// Status and phrase, and below them the product. A status without a phrase has no page.
    #[default]
    Titled,
    /// Status and phrase, and a sentence that explains them.
    Explained,
}

/// What is answered where no endpoint of a pool serves an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unavailable {
    /// Status where none is live, or none may take more and nothing queues.
    pub none_live: u16,
    /// Status where the queue is full, or the wait in it was too long.
    pub queue: u16,
    /// Status where none could be connected to; `None`: 502, or 504 where time ran out.
    pub unreachable: Option<u16>,
    /// Where no endpoint could be tried, logs show the pool as an attempt.
    pub noted: bool,
}

impl Default for Unavailable {
    fn default() -> Self {
        Self { none_live: 502, queue: 502, unreachable: None, noted: true }
    }
}

impl Unavailable {
    /// True if it is what holds where nobody says otherwise.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// When backups take over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackupUse {
    /// Whenever no primary can be chosen, be it down, failed, tried or full; all backups share (nginx).
    #[default]
    WhenNoneChosen,
    /// Only when every primary is down; the first live backup takes all (HAProxy).
    FirstWhenDown,
    /// Only when every primary is down; all backups share (HAProxy with `option allbackups`).
    AllWhenDown,
}

/// Who is chosen among endpoints with equally few exchanges in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ties {
    /// They take smooth weighted turns (nginx).
    #[default]
    Turns,
    /// The one that was unused longest (HAProxy).
    LongestUnused,
}
