//! The first slice of a response that is asked for in slices: nginx's slice module.
//!
//! Owns: making the response of it that its client gets: of which length, with which part of the slice.
//! Never: asks for the other slices; `answer::slices` does, behind this one's body.
//! Driven by: `settle`, for a response of an upstream; `deliver`, for an object.

use weir_http::HeaderId;
use weir_http::semantics::range::ByteRange;

use super::keep::Cut;
use super::range::{self, Wanted};
use crate::answer::respond;
use crate::exchange::{AtJoint, BodySize, Exchange, Joint, Slices, errors};

/// Makes a slice the beginning of the response that is asked for. The size that this has for the client.
pub(crate) fn open(exchange: &mut Exchange, size: BodySize) -> BodySize {
    let Some(slice) = exchange.slice.get().filter(|slice| !slice.is_part) else { return size };
    let Some(most) = exchange.slice_size().filter(|_| exchange.response.status == 206) else { return size };
    match exchange.response.slice(slice.start, most, None) {
        Ok(total) => begin(exchange, slice.start, most, total),
        Err(why) => {
            errors::error(exchange, &why);
            refuse(exchange, 502)
        }
    }
}

fn begin(exchange: &mut Exchange, start: u64, most: u64, total: u64) -> BodySize {
    let end = total.min(start.saturating_add(most));
    let response = &mut exchange.response;
    (response.status, response.reason) = (200, None);
    for id in [HeaderId::ContentRange, HeaderId::AcceptRanges, HeaderId::ContentLength] {
        response.fields.remove(id);
    }
    response.fields.push_id(HeaderId::AcceptRanges, b"bytes");
    let etag = response.fields.first(HeaderId::ETag).map(Into::into);
    let part = match range::wanted(exchange, Some(total)) {
        Wanted::NotModified => {
            range::not_modified(exchange);
            return BodySize::Bodiless;
        }
        Wanted::Failed => return refuse(exchange, 412),
        Wanted::Unsatisfiable => {
            range::unsatisfiable(exchange, total);
            exchange.response.status = 416;
            exchange.filters.push(Box::new(Cut::to(ByteRange { start: 0, end: 0 })));
            return BodySize::Known(0);
        }
        Wanted::One(part) => {
            range::partial(exchange, part, total);
            part
        }
        // As nginx: of several parts none is given.
        Wanted::Whole | Wanted::Many(_) => ByteRange { start, end: total },
    };
    let inside = |at: u64| at.clamp(start, end) - start;
    let here = ByteRange { start: inside(part.start), end: inside(part.end) };
    if here.start > 0 || here.end < end - start {
        exchange.filters.push(Box::new(Cut::to(here)));
    }
    if part.end > end && !respond::is_bodiless(exchange) {
        let next = end.max(part.start / most * most);
        exchange.filters.push(Box::new(AtJoint(Joint::Slices(Slices { next, part, total, etag }))));
    }
    BodySize::Known(part.len())
}

/// A response without a body in place of the slice.
fn refuse(exchange: &mut Exchange, status: u16) -> BodySize {
    let response = &mut exchange.response;
    (response.status, response.reason, response.failed) = (status, None, true);
    response.fields.clear();
    response.fields.push_id(HeaderId::ContentLength, b"0");
    BodySize::Bodiless
}
