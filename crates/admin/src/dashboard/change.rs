//! What the page's buttons ask for.
//!
//! Owns: the form of a posted change, and what is said of it.
//! Never: decides who may; whoever serves the page does.
//! Driven by: requests with POST.

use serde::Deserialize;
use weir_control::{AdminState, Change};

use super::Source;
use crate::Page;

/// One change of one endpoint.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    pool: String,
    endpoint: String,
    #[serde(rename = "do")]
    deed: Deed,
    /// With `weight` alone.
    weight: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Deed {
    /// In service.
    Ready,
    /// Takes only what is bound to it.
    Drain,
    /// Takes nothing.
    Maintenance,
    /// As the configuration has it.
    AsConfigured,
    /// Another weight.
    Weight,
    /// The weight of the configuration.
    WeightAsConfigured,
    /// Taken to be healthy until a check says otherwise.
    Up,
    /// Taken to be down until a check says otherwise.
    Down,
    /// Ends what is under way there.
    Cut,
}

pub(super) fn answer(may_write: bool, body: &[u8], source: &dyn Source) -> Page {
    if !may_write {
        return said(
            403,
            "changes are not allowed here (see `write=on`), or this request is not the page's own",
        );
    }
    let wanted: Wanted = match serde_json::from_slice(body) {
        Ok(wanted) => wanted,
        Err(why) => return said(400, &why.to_string()),
    };
    if wanted.weight.is_some() != (wanted.deed == Deed::Weight) {
        return said(400, "`weight` goes with `\"do\": \"weight\"`, and with nothing else");
    }
    match make(wanted, source) {
        Ok(()) => said(200, ""),
        Err(why) => said(409, &why),
    }
}

fn make(wanted: Wanted, source: &dyn Source) -> Result<(), String> {
    let Wanted { pool, endpoint, deed, weight } = wanted;
    let state = match deed {
        Deed::Ready => AdminState::Ready,
        Deed::Drain => AdminState::Drain,
        Deed::Maintenance => AdminState::Maintenance,
        Deed::AsConfigured => AdminState::AsConfigured,
        Deed::Weight | Deed::WeightAsConfigured => {
            return source.change(Change::Weight { pool, endpoint, weight });
        }
        Deed::Up | Deed::Down => return source.judge(&pool, &endpoint, deed == Deed::Up),
        Deed::Cut => return source.cut(&pool, &endpoint),
    };
    source.change(Change::State { pool, endpoint, state })
}

/// `{"error": "…"}`, or `{}`.
fn said(status: u16, why: &str) -> Page {
    let body = match why {
        "" => serde_json::json!({}),
        why => serde_json::json!({ "error": why }),
    };
    let mut page = Page::new("application/json", body.to_string());
    page.status = status;
    page
}
