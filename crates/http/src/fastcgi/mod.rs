//! FastCGI 1.0, the client's side of the responder role: records, parameters, and the CGI head in the answer.
//!
//! Owns: the record codec and the reading of `Status` and `Location`.
//! Never: chooses parameters (`engine` does, from `fastcgi_param`), or multiplexes: one request a connection at a time.
//! Driven by: `wire` and `engine`.
//!
//! ```text
//!   version 1 | type | request id (2) | content length (2) | padding length | reserved | content … | padding …
//! ```

pub mod cgi;
mod decode;
mod encode;

pub use cgi::{CgiError, CgiHead};
pub use decode::{Decoder, FastCgiError, FastCgiEvent};
pub use encode::{begin_request, end_stream, param, params, stdin};

const VERSION: u8 = 1;
/// The only request on a connection.
const REQUEST: u16 = 1;
const HEADER: usize = 8;

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
