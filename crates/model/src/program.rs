//! The rule program: one interpreter for nginx's rewrite module and HAProxy's rules.

use std::sync::Arc;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_diag::Origin;
use weir_expr::{AddressPart, End, KeptIn, Normalizer, OwnTimeout};

use crate::{
    BasicAuth, FileKind, KeyListId, KeyUse, ListEdit, MemoryCacheId, RewriteFlag, RouteId, TargetPart,
    Template,
};

/// A regular expression as written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pattern {
    /// PCRE text.
    pub source: String,
    /// Letters match without regard to case.
    pub ignore_case: bool,
    /// Where it was written.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
}

/// One instruction. A program runs top to bottom and is bounded: no instruction goes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Runs one of two lists.
    When {
        /// Decides.
        condition: Condition,
        /// If it holds.
        then: Vec<Op>,
        /// If not.
        otherwise: Vec<Op>,
    },
    /// Assigns a user variable (or `limit_rate`, `args` through [`Op::SetQuery`]).
    Set {
        /// Name.
        variable: String,
        /// Value.
        value: Template,
    },
    /// As [`Op::Set`], unless there is no value (HAProxy `set-var`): then it stays as it was.
    SetFound {
        /// Name.
        variable: String,
        /// Value: one variable, or a text.
        value: Template,
    },
    /// Assigns the pace of the response, in bytes a second; 0: none (HAProxy `set-bandwidth-limit`).
    SetLimitRate(Template),
    /// Takes the value of a user variable away (HAProxy `unset-var`).
    Unset(String),
    /// Replaces the path if the pattern matches it (nginx `rewrite`).
    Rewrite {
        /// Tried on the current path.
        pattern: Pattern,
        /// New path, with a query after `?` if there is one in the literal text.
        replacement: Template,
        /// The current query is appended (no trailing `?` was written).
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
    /// Replaces the path by a pattern's substitution; HAProxy `replace-path`, `replace-uri`, `replace-pathq`.
    ReplaceTarget {
        /// Which part.
        part: TargetPart,
        /// Tried on it.
        pattern: Pattern,
        /// Substitute; groups are [`weir_expr::Var::Capture`].
        with: Template,
    },
    /// Edits the request that goes on.
    EditRequest(HeaderEdit),
    /// Runs on the response to come, whoever makes it (HAProxy `http-after-response`); of several the last one first. What
    /// is in it answers nothing.
    AfterResponse(Vec<Op>),
    /// Answers now.
    Respond(Respond),
    /// Closes the connection without an answer (nginx 444, HAProxy `silent-drop`/`reject`).
    Close(
        /// Status in logs, where there is one.
        Option<u16>,
    ),
    /// Waits, then answers (HAProxy `tarpit`, with the site's tarpit timeout in milliseconds).
    Tarpit {
        /// Milliseconds.
        millis: u64,
        /// Then.
        respond: Respond,
    },
    /// Answers 401 unless credentials match.
    RequireUser(BasicAuth),
    /// Takes the settings and action of another route; its program does not run (nginx `if` in a location).
    Adopt(RouteId),
    /// Goes on with another route: its settings, program and action (HAProxy `use_backend`). Ends this program.
    Enter(RouteId),
    /// Ends this program; the action follows (nginx `break`, HAProxy `allow`).
    Stop,
    /// Keeps a request field for the log (HAProxy `capture request header`).
    CaptureRequestHeader {
        /// Lower-case name.
        name: String,
        /// Most bytes kept.
        length: usize,
        /// Index for [`weir_expr::Var::CapturedRequestHeader`].
        slot: u16,
    },
    /// Edits the response that has come. Only in programs for responses.
    EditAnswer(HeaderEdit),
    /// Sets the status of the response that has come. Only in programs for responses.
    SetStatus {
        /// Status.
        status: u16,
        /// Its phrase, if other than the standard one.
        reason: Option<String>,
    },
    /// Keeps a value for the log (HAProxy `http-request capture`, `http-response capture`).
    CaptureValue {
        /// The value.
        value: Template,
        /// Most bytes kept.
        length: usize,
        /// Index for [`weir_expr::Var::CapturedRequestHeader`], or of the response's where `response`.
        slot: u16,
        /// Among the response's.
        response: bool,
    },
    /// No access log is written (HAProxy `set-log-level silent`).
    SkipLog,
    /// Changes a list of keys, for all that looks things up in it (HAProxy `set-map`, `add-acl` and their kin).
    EditList {
        /// Which.
        list: KeyListId,
        /// What is done.
        edit: ListEdit,
        /// The key.
        key: Template,
        /// Its value.
        value: Template,
    },
    /// Looks for a response in a cache; one that is there is the answer once the rules have run (HAProxy `cache-use`).
    UseMemory(MemoryCacheId),
    /// Stores the response that has come in a cache, with its fields as they are now (HAProxy `cache-store`). Only in a
    /// route's response program.
    StoreInMemory(MemoryCacheId),
    /// Tracks an entry of a stick table, or changes one.
    Stick(weir_expr::StickOp<weir_expr::Named>),
    /// Keeps a value for longer than the exchange.
    Keep {
        /// Where.
        of: KeptIn,
        /// Its name.
        name: String,
        /// The value; `None`: there is none any more.
        value: Option<Template>,
        /// It is a number.
        number: bool,
    },
    /// Sends an interim response with these fields now (HAProxy `early-hint`).
    EarlyHints(Vec<(String, Template)>),
    /// Waits for the body of the request (HAProxy `wait-for-body`).
    WaitForBody {
        /// Longest time, in milliseconds; then the answer is 408.
        millis: u64,
        /// So many bytes suffice; `None`: all of it, or as much as is held in memory.
        least: Option<u64>,
    },
    /// Waits for the end of a handshake whose client has sent early data (HAProxy `wait-for-handshake`).
    WaitForHandshake,
    /// Waits for so many milliseconds (HAProxy `pause`).
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
        resolver: Arc<crate::Resolver>,
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
        /// Lower-case name.
        name: String,
        /// Most bytes kept.
        length: usize,
        /// Index for [`weir_expr::Var::CapturedResponseHeader`].
        slot: u16,
    },
}

/// An answer made here.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Respond {
    /// Status code, 100–999 as nginx allows; error pages apply to it where `error_pages` says so.
    pub status: u16,
    /// What is sent.
    pub body: RespondBody,
    /// Media type; `None`: the route's default type.
    pub content_type: Option<Template>,
    /// Fields added.
    pub headers: Vec<(String, Template)>,
    /// The route's error pages apply.
    pub error_pages: bool,
    /// Why it is made here.
    pub cause: weir_expr::settings::Cause,
}

/// Body of an answer made here.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RespondBody {
    /// The standard page of the status.
    Standard,
    /// This text.
    Text(Template),
    /// A `Location` and the standard page of the redirect. Relative ones become absolute as the site says.
    Redirect(Template),
    /// The content of a file read at load (HAProxy `return … file`).
    File(std::path::PathBuf),
    /// A file with a whole HTTP response, read at load: its status, fields and body (HAProxy `return … errorfile`).
    Whole(std::path::PathBuf),
}

/// Something that holds or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    User(BasicAuth),
    /// Negation.
    Not(Box<Condition>),
    /// All hold; empty: true.
    All(Vec<Condition>),
    /// One holds; empty: false.
    Any(Vec<Condition>),
}

/// What a test looks at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// One value.
    Value(Template),
    /// All values of a request field; `split`: lines are split at commas.
    RequestHeader {
        /// Lower-case name.
        name: String,
        /// Split lines at commas (HAProxy `req.hdr`, against `req.fhdr`).
        split: bool,
    },
    /// All values of a response field; only in response edits.
    ResponseHeader {
        /// Lower-case name.
        name: String,
        /// Split lines at commas.
        split: bool,
    },
}

/// A test of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// There is one (a field is present, even if empty).
    Present,
    /// Equal to one of these.
    Equals(Words),
    /// Begins with one of these.
    Begins(Words),
    /// Ends with one of these.
    Ends(Words),
    /// Contains one of these.
    Contains(Words),
    /// One of these is a whole segment between `/` (HAProxy `-m dir`).
    Segment(Words),
    /// One of these is a whole label between `.` (HAProxy `-m dom`).
    Label(Words),
    /// One of the patterns matches; captures are set.
    Matches(Vec<Pattern>),
    /// An address of one of the networks.
    In(Vec<IpNet>),
    /// A number in one of the inclusive ranges.
    Number(Vec<(i64, i64)>),
    /// Its length in bytes is in one of the inclusive ranges.
    Length(Vec<(i64, i64)>),
    /// It finds a key in a list that changes while running.
    Listed(KeyUse),
}

/// Words to compare with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Words {
    /// The words; templates, as nginx compares with variables.
    pub any_of: Vec<Template>,
    /// Letters match without regard to case.
    pub ignore_case: bool,
}

/// An edit of header fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeaderEdit {
    /// What is done.
    pub kind: EditKind,
    /// Field name as to be written.
    pub name: String,
    /// Value; fields are not added if it evaluates to the empty string and `skip_empty`.
    pub value: Template,
    /// An empty value means no edit (nginx `add_header`).
    pub skip_empty: bool,
    /// Statuses it holds for; empty: all (`always`). nginx's default list is written out by its front end.
    pub statuses: Vec<u16>,
    /// Only if this holds.
    pub condition: Option<Condition>,
}

/// Kinds of edits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// In each line of that name, what the pattern matches as a whole is replaced by `value`
    /// (`each`: in each comma-separated value; HAProxy `replace-value`).
    Replace {
        /// Tried on a line or value.
        pattern: Pattern,
        /// Per value instead of per line.
        each: bool,
    },
}
