//! nginx's `empty_gif`: a transparent image of one pixel, from memory.
//!
//! Owns: its bytes, and when a client has it already.
//! Driven by: the walk.

use std::convert::Infallible;

use weir_http::semantics::{Conditions, IfModifiedSince, Outcome, Validators};
use weir_http::{HeaderId, HttpDate, Method};

use crate::answer::respond;
use crate::exchange::{Downstream, Ending, Exchange, Next};

/// GIF89a, one pixel of a palette of two colours, which a graphic control extension makes transparent.
const GIF: [u8; 43] = [
    b'G', b'I', b'F', b'8', b'9', b'a', 1, 0, 1, 0, 0x80, 1, 0, 0, 0, 0, 255, 255, 255, 0x21, 0xf9, 4, 1, 0,
    0, 1, 0, 0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x4c, 1, 0, 0x3b,
];

/// Monday, 28 September 1970, 06:00: what nginx says of it.
const MODIFIED: u64 = 23_349_600;

/// Answers with the image.
pub(crate) async fn serve<D: Downstream>(exchange: &mut Exchange, down: &mut D) -> Next<Infallible> {
    if !matches!(exchange.request.method, Method::Get | Method::Head) {
        return Next::Status(405);
    }
    exchange.ending = Ending::Local;
    exchange.response.fields.clear();
    let modified = HttpDate::from_unix(MODIFIED);
    let conditions = Conditions {
        headers: &exchange.request.fields,
        method: exchange.request.method,
        now: HttpDate::from_unix(weir_rt::unix_now().as_secs()),
        since: match exchange.route().files.if_modified_since {
            weir_plan::IfModifiedSince::Off => IfModifiedSince::Off,
            weir_plan::IfModifiedSince::Exact => IfModifiedSince::Exact,
            weir_plan::IfModifiedSince::Before => IfModifiedSince::Before,
        },
    };
    let outcome = conditions.judge(Validators { etag: None, modified: Some(modified) });
    exchange.response.fields.push_id(HeaderId::LastModified, &modified.imf());
    match outcome {
        Outcome::Failed => return Next::Status(412),
        Outcome::NotModified => {
            exchange.response.status = 304;
            respond::whole(exchange, down, b"").await;
        }
        Outcome::Proceed => {
            exchange.response.status = 200;
            exchange.response.fields.push_id(HeaderId::ContentType, b"image/gif");
            respond::whole(exchange, down, &GIF).await;
        }
    }
    Next::Done
}
