//! Errors that traffic meets at an endpoint, for its health (HAProxy's `observe`).
//!
//! Owns: which ends of an attempt are errors.
//! Never: changes an endpoint's health: the thread that checks it does, once it is told.
//! Driven by: `attempt`, for endpoints that are observed.

use weir_control::EndpointKey;
use weir_expr::check::Observed;
use weir_policy::retry::Failure;
use weir_rt::PeerClosed;

use super::attempt::{Failed, Stop, Tried};
use super::picker::Picked;
use crate::exchange::Core;

/// What an attempt says of its endpoint; `Err`: what went wrong, in HAProxy's words.
type Verdict = Result<(), &'static str>;

/// Notes what an attempt says of its endpoint.
#[cold]
pub(super) fn note<L>(core: &Core, picked: &Picked, tried: &Result<Result<Tried<L>, Stop>, PeerClosed>) {
    let (Some(observe), Some((_, member))) = (picked.observed(), &picked.member) else { return };
    let verdict = match tried {
        Ok(Ok(tried)) => answered(observe.what, tried.status),
        Ok(Err(Stop::Endpoint(Failed { failure, .. }))) => failed(observe.what, *failure),
        // Whose fault it was is not known, or not the endpoint's.
        Ok(Err(Stop::Client(_) | Stop::Gone | Stop::Own(_))) | Err(_) => None,
    };
    match verdict {
        Some(Ok(())) => member.state.went_well(),
        Some(Err(why)) if member.state.went_wrong(observe.limit) => tell(core, picked.key, why),
        Some(Err(_)) | None => {}
    }
}

fn tell(core: &Core, endpoint: EndpointKey, why: &'static str) {
    if let Some(errors) = core.worker.shared.errors.get() {
        let _ = errors.send((endpoint, why));
    }
}

fn answered(what: Observed, status: Option<u16>) -> Option<Verdict> {
    match (what, status) {
        (Observed::Connections, _) => Some(Ok(())),
        // 501 and 505 are about the request.
        (Observed::Responses, Some(100..=499 | 501 | 505)) => Some(Ok(())),
        (Observed::Responses, Some(_)) => Some(Err("Wrong http response")),
        (Observed::Responses, None) => None,
    }
}

fn failed(what: Observed, failure: Failure) -> Option<Verdict> {
    match (what, failure) {
        (_, Failure::StaleConnection) => None,
        (_, Failure::Connect | Failure::ConnectTimeout) => Some(Err("L4 unsuccessful connection")),
        (Observed::Connections, _) => Some(Ok(())),
        (Observed::Responses, Failure::Status(status)) => answered(what, Some(status)),
        (Observed::Responses, Failure::InvalidHeader) => Some(Err("Invalid http response (headers)")),
        (Observed::Responses, Failure::Timeout) => Some(Err("Read timeout (L7)")),
        (Observed::Responses, _) => Some(Err("Close from server (L7)")),
    }
}
