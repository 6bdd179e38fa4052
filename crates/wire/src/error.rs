//! What can go wrong on a connection, sorted by whose fault it is.

use std::io;

use weir_http::body::BodyError;

/// Receiving failed.
#[derive(Debug)]
pub enum ReceiveError {
    /// The peer closed where more had to come.
    Closed,
    /// The peer let the time pass.
    Timeout,
    /// The peer sent what is no body.
    Malformed(BodyError),
    /// The connection failed.
    Io(io::Error),
}

/// Sending failed; how much of the message left is unknown.
#[derive(Debug)]
pub enum SendError {
    /// The peer takes nothing for too long.
    Timeout,
    /// More or fewer bytes than the head announced were given; the message is cut on purpose.
    Length,
    /// The connection failed.
    Io(io::Error),
}

impl From<io::Error> for ReceiveError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                Self::Closed
            }
            _ => Self::Io(error),
        }
    }
}

impl From<BodyError> for ReceiveError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Cut => Self::Closed,
            error => Self::Malformed(error),
        }
    }
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<weir_rt::Elapsed> for ReceiveError {
    fn from(_: weir_rt::Elapsed) -> Self {
        Self::Timeout
    }
}

impl From<weir_rt::Elapsed> for SendError {
    fn from(_: weir_rt::Elapsed) -> Self {
        Self::Timeout
    }
}

impl std::fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the peer closed the connection early"),
            Self::Timeout => f.write_str("the peer was silent for too long"),
            Self::Malformed(error) => f.write_str(error.as_str()),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Timeout => f.write_str("the peer took nothing for too long"),
            Self::Length => f.write_str("the body is not as long as announced"),
            Self::Io(error) => error.fmt(f),
        }
    }
}
