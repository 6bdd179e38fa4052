//! What a request is, what it is answered with, and what makes its changes.

use serde_json::Value;
use weir_control::changes::NewEndpoint;

use super::fault::Fault;
use super::keyvals::Keyvals;

/// The newest version.
pub const NEWEST: u8 = 9;

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// GET, HEAD, POST, PATCH or DELETE.
    pub method: &'a str,
    /// The path of the location, decoded, without a `/` at its end.
    pub base: &'a str,
    /// What follows it.
    pub path: &'a str,
    /// What follows `?`.
    pub query: &'a [u8],
    /// The body.
    pub body: &'a [u8],
    /// The client may change things.
    pub writes: bool,
    /// The address that it came to.
    pub address: &'a str,
    /// A random number that names the request.
    pub id: u128,
}

/// Changes the endpoints of a pool. The number is one that none of them ever had.
pub type Edit<'e> = dyn FnMut(&mut Vec<NewEndpoint>, u32) -> Result<(), Fault> + 'e;

/// Makes changes.
pub trait Backend {
    /// The endpoints that a pool is to have, with all that is known of them.
    ///
    /// # Errors
    /// There is no such pool.
    fn endpoints(&self, pool: &str) -> Result<Vec<NewEndpoint>, String>;

    /// Changes the endpoints of a pool: `edit` gets them, and a number that none of them ever had. Nobody else changes
    /// them meanwhile.
    ///
    /// # Errors
    /// Those of `edit`; else why the change cannot be made.
    fn edit(&self, pool: &str, edit: &mut Edit<'_>) -> Result<(), Fault>;

    /// The stores of keys and values.
    fn keyvals(&self) -> Vec<Box<dyn Keyvals>>;
}

/// What an endpoint of the API answers.
#[derive(Debug)]
pub(super) enum Answer {
    /// An object.
    Object(Value),
    /// It was made; it can be asked for at this path below the version's.
    Created(Option<(String, Value)>),
    /// It was done, and there is nothing to say.
    Done,
}
