//! The rule program, compiled.
//!
//! Owns: instructions, conditions, header edits.
//! Never: runs; the engine interprets.
//! Driven by: `engine`, at site and route level and for response edits.
//! Why: see [`Op`]; it mirrors the model's, with indices, slots, patterns and prepared words.

use std::sync::Arc;

use serde::Serialize;
use weir_expr::{AddressPart, End, KeptIn, Normalizer, OwnTimeout, Slot};

use crate::{
    BasicAuth, FileKind, HeaderName, KeyListIx, KeyUseIx, ListEdit, MemoryCacheIx, NetMap, Pattern,
    RewriteFlag, RouteIx, TargetPart, Template, Words,
};

/// A program; empty ones are `None` where they are referred to.
pub type Program = Box<[Op]>;

/// One instruction. A program runs top to bottom and is bounded: no instruction goes back.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Runs one of two lists.
    When {
        /// Decides.
        condition: Condition,
        /// If it holds.
        then: Program,
        /// If not.
        otherwise: Program,
    },
    /// Assigns a user variable.
    Set {
        /// Which.
        slot: Slot,
        /// Value.
        value: Template,
    },
    /// As [`Op::Set`], unless there is no value: then it stays as it was.
    SetFound {
        /// Which.
        slot: Slot,
        /// Value.
        value: Template,
    },
    /// Takes the value of a user variable away.
    Unset(Slot),
    /// Assigns the rate limit of the answer (nginx `set $limit_rate`); a size with unit, 0: none.
    SetLimitRate(Template),
    /// Replaces the path if the pattern matches it (nginx `rewrite`).
    Rewrite {
        /// Tried on the current path.
        pattern: Arc<Pattern>,
        /// New path, with a query after `?` if there is one in the literal text.
        replacement: Template,
        /// The current query is appended.
        keep_query: bool,
        /// What comes next.
        flag: RewriteFlag,
    },
    /// Replaces the path; HAProxy `set-path`.
    SetPath(Template),
    /// Replaces the query.
    SetQuery(Template),
    /// Replaces path and query, as received, not decoded; HAProxy `set-uri`.
    SetTarget(Template),
    /// Changes the target, as received, by one of HAProxy's normalizers.
    Normalize(Normalizer),
    /// Replaces the method.
    SetMethod(Template),
    /// Replaces a part of the target by a pattern's substitution.
    ReplaceTarget {
        /// Which part.
        part: TargetPart,
        /// Tried on it.
        pattern: Arc<Pattern>,
        /// Substitute.
        with: Template,
    },
    /// Edits the request that goes on.
    EditRequest(Box<HeaderEdit>),
    /// Runs on the response to come, whoever makes it; of several the last one first. What is in it answers nothing.
    AfterResponse(Arc<Program>),
    /// Answers now.
    Respond(Arc<Respond>),
    /// Closes the connection without an answer.
    Close(
        /// Status in logs, where there is one.
        Option<u16>,
    ),
    /// Waits, then answers.
    Tarpit {
        /// Milliseconds.
        millis: u64,
        /// Then.
        respond: Arc<Respond>,
    },
    /// Answers 401 unless credentials match.
    RequireUser(Arc<BasicAuth>),
    /// Takes the settings and action of another route; its program does not run (nginx `if` in a location).
    Adopt(RouteIx),
    /// Goes on with another route: its settings, program and action (HAProxy `use_backend`). Ends this program.
    Enter(RouteIx),
    /// Ends this program; the action follows.
    Stop,
    /// Keeps a request field for the log.
    CaptureRequestHeader {
        /// Field.
        name: HeaderName,
        /// Most bytes kept.
        length: usize,
        /// Index for [`weir_expr::Var::CapturedRequestHeader`].
        slot: u16,
    },
    /// Edits the response that has come. Only in programs for responses.
    EditAnswer(Arc<HeaderEdit>),
    /// Sets the status of the response that has come. Only in programs for responses.
    SetStatus {
        /// Status.
        status: u16,
        /// Its phrase, if other than the standard one.
        reason: Option<Box<str>>,
    },
    /// Keeps a value for the log.
    CaptureValue {
        /// The value.
        value: Template,
        /// Most bytes kept.
        length: usize,
        /// Index among the captured values of requests, or of responses.
        slot: u16,
        /// Among the response's.
        response: bool,
    },
    /// No access log is written.
    SkipLog,
    /// Changes a list of keys, for all that looks things up in it.
    EditList {
        /// Which.
        list: KeyListIx,
        /// What is done.
        edit: ListEdit,
        /// The key.
        key: Template,
        /// Its value.
        value: Template,
    },
    /// Looks for a response in a cache; one that is there is the answer once the rules have run.
    UseMemory(MemoryCacheIx),
    /// Stores the response that has come in a cache, with its fields as they are now. Only in a route's response program.
    StoreInMemory(MemoryCacheIx),
    /// Tracks an entry of a stick table, or changes one.
    Stick(Box<weir_expr::StickOp<Slot>>),
    /// Keeps a value for longer than the exchange.
    Keep {
        /// Where.
        of: KeptIn,
        /// Its name.
        name: Box<str>,
        /// The value; `None`: there is none any more.
        value: Option<Template>,
        /// It is a number.
        number: bool,
    },
    /// Sends an interim response with these fields now.
    EarlyHints(Box<[(HeaderName, Template)]>),
    /// Waits for the body of the request.
    WaitForBody {
        /// Longest time, in milliseconds; then the answer is 408.
        millis: u64,
        /// So many bytes suffice; `None`: all of it, or as much as is held in memory.
        least: Option<u64>,
    },
    /// Waits for the end of a handshake whose client has sent early data.
    WaitForHandshake,
    /// Waits for so many milliseconds.
    Pause(Template),
    /// Sets how often an attempt of this exchange is made again (HAProxy `set-retries`).
    SetRetries(Template),
    /// Sets the class of this exchange in queues: lower ones are served first (HAProxy `set-priority-class`).
    SetQueueClass(Template),
    /// Moves this exchange in queues, by milliseconds (HAProxy `set-priority-offset`).
    SetQueueOffset(Template),
    /// Only failures to connect are tried again in this exchange (HAProxy `disable-l7-retry`).
    RetryConnectOnly,
    /// A PROXY header comes before anything else on this connection (HAProxy `expect-proxy`).
    ExpectProxy,
    /// Sets a time for this exchange, in milliseconds.
    SetTimeout(OwnTimeout, Template),
    /// Looks a name up (HAProxy `do-resolve`); `$resolved` is the address then, if there is one.
    Resolve {
        /// The name.
        name: Template,
        /// Who is asked.
        resolver: Arc<crate::pool::Resolver>,
        /// An IPv4 address is taken before an IPv6 one.
        ipv4_first: bool,
    },
    /// Sets who the client is taken for, or where it is taken to want to go.
    SetAddress {
        /// Which end.
        end: End,
        /// Which part.
        part: AddressPart,
        /// To what; what is no address or port changes nothing.
        value: Template,
        /// For all that comes over the connection.
        connection: bool,
    },
    /// Keeps a response field for the log.
    CaptureResponseHeader {
        /// Field.
        name: HeaderName,
        /// Most bytes kept.
        length: usize,
        /// Index for [`weir_expr::Var::CapturedResponseHeader`].
        slot: u16,
    },
}

/// An answer made here.
#[derive(Clone, Debug, Serialize)]
pub struct Respond {
    /// Status code, 100–999; error pages apply to it where `error_pages` says so.
    pub status: u16,
    /// Its phrase, if other than the standard one.
    pub reason: Option<Box<str>>,
    /// What is sent.
    pub body: RespondBody,
    /// Media type; `None`: the route's default type.
    pub content_type: Option<Template>,
    /// Fields added.
    pub headers: Vec<(HeaderName, Template)>,
    /// The route's error pages apply.
    pub error_pages: bool,
    /// Why it is made here.
    pub cause: weir_expr::settings::Cause,
}

/// Body of an answer made here.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RespondBody {
    /// The standard page of the status.
    Standard,
    /// This text.
    Text(Template),
    /// A `Location` and the standard page of the redirect. Relative ones become absolute as the site says.
    Redirect(Template),
    /// The content of a file, read at load.
    Bytes(#[serde(serialize_with = "crate::show::length")] Arc<[u8]>),
}

/// Something that holds or not.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Constant.
    Always(bool),
    /// Neither empty nor `0` (nginx `if ($x)`).
    Truthy(Template),
    /// A value passes a test.
    Test {
        /// The value, or values of which one must pass.
        subject: Subject,
        /// The test.
        test: Test,
    },
    /// A file exists.
    File {
        /// What is looked for.
        kind: FileKind,
        /// Its path.
        path: Template,
    },
    /// Credentials match (HAProxy `http_auth`).
    User(Arc<BasicAuth>),
    /// Negation.
    Not(Box<Condition>),
    /// All hold; empty: true.
    All(Box<[Condition]>),
    /// One holds; empty: false.
    Any(Box<[Condition]>),
}

/// What a test looks at.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// One value.
    Value(Template),
    /// All values of a request field; `split`: lines are split at commas.
    RequestHeader {
        /// Field.
        name: HeaderName,
        /// Split lines at commas.
        split: bool,
    },
    /// All values of a response field; only in response edits.
    ResponseHeader {
        /// Field.
        name: HeaderName,
        /// Split lines at commas.
        split: bool,
    },
}

/// A test of a value.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// There is one (a field is present, even if empty).
    Present,
    /// Compared with words.
    Text(Words),
    /// One of the patterns matches; captures are set.
    Matches(Box<[Arc<Pattern>]>),
    /// An address of one of the networks.
    In(#[serde(serialize_with = "crate::net::show_set")] NetMap<()>),
    /// A number in one of the inclusive ranges.
    Number(Box<[(i64, i64)]>),
    /// Its length in bytes is in one of the inclusive ranges.
    Length(Box<[(i64, i64)]>),
    /// It finds a key in a list that changes while running.
    Listed(KeyUseIx),
}

/// An edit of header fields.
#[derive(Clone, Debug, Serialize)]
pub struct HeaderEdit {
    /// What is done.
    pub kind: EditKind,
    /// Field.
    pub name: HeaderName,
    /// Value.
    pub value: Template,
    /// An empty value means no edit (nginx `add_header`).
    pub skip_empty: bool,
    /// Statuses it holds for, sorted; empty: all.
    pub statuses: Box<[u16]>,
    /// Only if this holds.
    pub condition: Option<Condition>,
}

impl HeaderEdit {
    /// True if it holds for answers of this status.
    #[inline]
    pub fn holds_for(&self, status: u16) -> bool {
        self.statuses.is_empty() || self.statuses.binary_search(&status).is_ok()
    }
}

/// Kinds of edits.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EditKind {
    /// One more line.
    Add,
    /// Instead of all lines of that name.
    Set,
    /// As `Set`; an empty value is no line (headers-more).
    Assign,
    /// No line of a name that begins so. `value` is not used.
    RemovePrefix,
    /// No line of that name. `value` is not used.
    Remove,
    /// In each line of that name, what the pattern matches as a whole is replaced by `value`.
    Replace {
        /// Tried on a line or value.
        pattern: Arc<Pattern>,
        /// Per comma-separated value instead of per line.
        each: bool,
    },
}
