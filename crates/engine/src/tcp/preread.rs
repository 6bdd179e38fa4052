//! The first bytes of a session, read before it is decided what becomes of it.
//!
//! Owns: how many are read and how long they are waited for; what they say is noted with the session.
//! Never: takes them: they go on to the endpoint as they came.
//! Driven by: the beginning of a session of a service that looks at them.

use weir_expr::settings::Inspect;
use weir_http::hello::{self, Hello, Peek};
use weir_rt::{Buf, Timer};
use weir_wire::Conn;

use crate::exchange::{Ending, Peeked, Phase, Session, errors};

/// Waits for the client's first bytes, until they are a whole hello or none, or the time is up.
///
/// # Errors
/// The session ends here, with nginx's status: settings are strict, and the hello did not come whole.
pub(super) async fn inspect(
    session: &mut Session,
    conn: &Conn,
    timer: &Timer,
    settings: &Inspect,
    ahead: &mut Buf,
) -> Result<(), u16> {
    timer.arm(settings.time);
    let most = usize::try_from(settings.most).unwrap_or(usize::MAX);
    let found = loop {
        match hello::peek(ahead) {
            Peek::Hello(hello) => break Ok(Some(hello)),
            Peek::Other if ahead.len() as u64 >= settings.least.min(settings.most) => break Ok(None),
            Peek::More if ahead.len() >= most => break Err(400),
            Peek::More | Peek::Other => {}
        }
        let room = (most - ahead.len()).min(weir_rt::MEDIUM);
        if !matches!(timer.run(conn.read_up_to(ahead, room)).await, Ok(Ok(1..))) {
            // The client left, or was too slow: to nginx that is a session like others.
            break Err(200);
        }
    };
    let (hello, refused) = match found {
        Ok(hello) => (hello, None),
        // What came of it was the beginning of one, which says nothing yet.
        Err(status) if settings.strict => (Some(Hello::default()), Some(status)),
        Err(_) => (None, None),
    };
    session.peeked = Some(Peeked { bytes: ahead[..].into(), hello });
    let Some(status) = refused else { return Ok(()) };
    if status == 400 {
        errors::error(session, "preread buffer full");
    }
    session.ending = Ending::ClientAborted(Phase::Request);
    Err(status)
}
