//! One connection to the command line.
//!
//! Owns: its level, whether it shows a prompt, the answer to each line.
//! Never: reads or writes a socket, or waits: [`Reply`] says what to do.
//! Driven by: the binary.
//!
//! # Calling order
//!
//! ```text
//! loop { reply = session.next_reply(runtime) { Some → write, wait, perhaps end; None → read: feed(bytes), or end() } }
//! ```

use std::time::Duration;

use super::context::{Cx, Follow, Level, Runtime, Severity, State};
use super::help;
use super::input::{Command as Input, Lines, TooLong};
use super::servers;
use super::table::{self, Status};

/// What to write, and then to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// To be written.
    pub text: String,
    /// Before anything further is looked at.
    pub wait: Option<Duration>,
    /// The connection ends.
    pub ends: bool,
    /// The listening sockets are to be given before that, in place of a text.
    pub gives_sockets: bool,
    /// Lines that are shown as they come, until the client says anything.
    pub follow: Option<Follow>,
}

/// What the process that takes this one's place asks for. It stands in no list.
const GIVE_SOCKETS: &str = "_getsocks";

/// Between two looks at what is waited for.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// See the module.
pub struct Session {
    lines: Lines,
    /// Commands of the line at hand that are still to come, the next one last.
    left: Vec<Input>,
    pub(super) state: State,
    /// The listening sockets may be asked for.
    exposes: bool,
    /// The client sent its end.
    ended: bool,
}

impl Session {
    /// Of a client who may do this, and is waited for so long.
    pub fn new(level: Level, timeout: Duration) -> Self {
        let state = State {
            level,
            prompt: false,
            severity: Severity::None,
            expert: false,
            experimental: false,
            timeout,
            quit: false,
            wait: None,
            follow: None,
            until: None,
        };
        Self { lines: Lines::default(), left: Vec::new(), state, exposes: false, ended: false }
    }

    /// Whether whoever is admin here may ask for the listening sockets.
    #[must_use]
    pub fn exposing(mut self, exposes: bool) -> Self {
        self.exposes = exposes;
        self
    }

    /// How long the client is waited for.
    pub fn timeout(&self) -> Duration {
        self.state.timeout
    }

    /// Takes what arrived.
    ///
    /// # Errors
    /// It is too long to be a command: the connection ends.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.lines.feed(bytes)
    }

    /// The client sends no more.
    pub fn end(&mut self) {
        self.ended = true;
        self.lines.end();
    }

    /// The answer to the next command, if one is there.
    pub fn next_reply(&mut self, runtime: &dyn Runtime) -> Option<Reply> {
        if let Some((place, left)) = self.state.until.take() {
            let text = match servers::removable(runtime, &place) {
                Ok(false) if !left.is_zero() => {
                    let wait = left.min(BETWEEN_LOOKS);
                    self.state.until = Some((place, left - wait));
                    return Some(Reply { wait: Some(wait), ..Reply::default() });
                }
                Ok(false) => "Wait delay expired.\n".to_owned(),
                Ok(true) => "Done.\n".to_owned(),
                Err(why) => why,
            };
            return Some(self.finished(text));
        }
        if self.left.is_empty() {
            let Some(mut commands) = self.lines.next_line() else {
                return self.ended.then(|| Reply { ends: true, ..Reply::default() });
            };
            commands.reverse();
            self.left = commands;
        }
        let command = self.left.pop()?;
        if command.words.first().is_some_and(|word| word == GIVE_SOCKETS) {
            let gives_sockets = self.exposes && self.state.level == Level::Admin;
            return Some(Reply { ends: true, gives_sockets, ..Reply::default() });
        }
        let before = self.state.severity;
        let text = graded(self.answer(&command, runtime), &command, before);
        if self.state.until.is_some() {
            return Some(Reply::default());
        }
        Some(self.finished(text))
    }

    /// An answer is there: the prompt follows, or the end.
    fn finished(&mut self, mut text: String) -> Reply {
        // Without a prompt it is one line, or as many as came at once.
        let ends = self.state.quit || (self.left.is_empty() && !self.state.prompt && self.lines.is_empty());
        let follow = self.state.follow.take();
        if !self.state.quit && follow.is_none() {
            text.push('\n');
            if self.state.prompt {
                text.push_str(if self.lines.in_payload() { "+ " } else { "> " });
            }
        }
        Reply { text, wait: self.state.wait.take(), ends, gives_sockets: false, follow }
    }

    fn answer(&mut self, command: &Input, runtime: &dyn Runtime) -> String {
        // An empty line shows the prompt again.
        if command.words.is_empty() && self.state.prompt {
            return String::new();
        }
        let Some((known, arguments)) = table::find(&command.words) else {
            return help::better(&command.words, self.state.level);
        };
        if known.level > self.state.level {
            return "Permission denied\n".to_owned();
        }
        match known.status {
            Status::Built(run) => {
                let payload = command.payload.as_deref();
                run(&mut Cx { runtime, arguments, payload, state: &mut self.state })
            }
            Status::Absent(why) => format!("'{}' is not built in Weir: {why}.\n", known.words),
        }
    }
}

/// What messages of commands that show something begin with: all else of those is no message.
const REFUSALS: [&str; 6] =
    ["No such ", "Can't find ", "Unknown map ", "Unknown ACL ", "Variable not found", "Permission denied"];

/// What messages begin with that tell of success.
const TOLD: [&str; 5] =
    ["New server registered", "Server deleted", "Transaction ", "Committing", "Unknown command"];

/// A message, with how grave it is in front. What commands show is no message.
fn graded(text: String, command: &Input, severity: Severity) -> String {
    let begins = |known: &[&str]| known.iter().any(|begin| text.starts_with(begin));
    let shows = |word: &String| matches!(word.as_str(), "show" | "get" | "help" | "echo" | "quit" | "prompt");
    let shown = command.words.first().is_none_or(shows) && !begins(&REFUSALS);
    if severity == Severity::None || text.is_empty() || shown {
        return text;
    }
    let (number, word) = match (begins(&TOLD), begins(&["IP changed", "no need to"])) {
        (true, _) => (6, "info"),
        (_, true) => (4, "warning"),
        _ => (3, "err"),
    };
    match severity {
        Severity::Number => format!("[{number}]: {text}"),
        _ => format!("[{word}]: {text}"),
    }
}
