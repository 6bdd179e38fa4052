//! What a program waits for, and where it goes on then.
//!
//! Never: waits; `eval::program` does.

use std::sync::Arc;
use std::time::Duration;

use weir_rt::Early;

use super::fields::Fields;
use crate::worker::passwords::Question;

/// What a program waits for.
pub(crate) enum Awaited {
    /// A password to be verified; then the instruction that asks is run again.
    Password(Question),
    /// So many bytes of the body of the request, for so long.
    Body(Option<u64>, Duration),
    /// The end of the client's handshake.
    Handshake(Early),
    /// A time to pass.
    Pause(Duration),
    /// An interim response to be sent.
    Hints(Fields),
    /// The address of a name: who is asked, and whether IPv4 is preferred.
    Name(String, Arc<weir_plan::Resolver>, bool),
}

/// A program that waits.
pub(crate) struct Asking {
    /// What for.
    pub(crate) awaited: Awaited,
    /// Where the program stands: the instruction of the innermost list first, then from list to list the branch taken and
    /// its instruction.
    pub(crate) place: Vec<usize>,
}
