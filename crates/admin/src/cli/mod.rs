//! HAProxy's runtime command line (its management guide, section 9.3): what clients of a `stats socket` say and hear.
//!
//! Owns: the commands, each once in [`COMMANDS`]; lines, payloads, levels, prompts and the words of answers.
//! Never: holds a socket, a clock or anything that was changed: what it shows is a snapshot, and changes go to [`Runtime`].
//! Driven by: the binary, a [`Session`] for each connection.
//! Why: clients compare answers with HAProxy's by their text, so the texts are an interface.

mod certificates;
mod context;
mod frontends;
mod help;
mod info;
mod input;
mod inside;
mod lists;
mod own;
mod peers;
mod servers;
mod session;
mod sessions;
mod stat;
mod state;
mod sticks;
mod table;
mod trust;
mod variables;
mod weights;

pub use context::{
    Certificate, CertificateFacts, CertificateList, Cx, Descriptor, Follow, Found, KeyList, Level, ListFacts,
    Rates, Runtime, Socket, Trust, Waiting, WaitingTrust,
};
pub use input::{Command as Input, Lines, TooLong};
pub use inside::lines_of;
pub use peers::{PeerReport, PeerSection};
pub use session::{Reply, Session};
pub use sticks::{StickRow, StickTable};
pub use table::{COMMANDS, Command, Status};

/// Puts arbitrary bytes through a session's input. Must neither panic nor run long.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let mut lines = Lines::default();
    for part in bytes.chunks(7) {
        if lines.feed(part).is_err() {
            return;
        }
        while let Some(commands) = lines.next_line() {
            for command in commands {
                table::find(&command.words);
                help::better(&command.words, Level::Admin);
            }
        }
    }
}
