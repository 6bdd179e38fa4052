//! Proxies for tests of the forms.

use weir_control::snapshot::{Back, Endpoint, EndpointSettings, EndpointState, Front, Pool, Site};
use weir_control::{EndpointKey, PoolId, SiteId};

/// An endpoint that is up and not checked.
pub(crate) fn endpoint(name: &str) -> Endpoint {
    Endpoint {
        key: EndpointKey(1),
        name: name.into(),
        number: 1,
        address: "127.0.0.1:80".into(),
        cookie: None,
        state: EndpointState::Up,
        reason: None,
        weight: 2,
        user_weight: 2,
        backup: false,
        throttle: None,
        queue_limit: None,
        back: Back::default(),
        health: None,
        written_weight: 1,
        asked: weir_control::AdminState::AsConfigured,
        disabled: false,
        tls: false,
        host: None,
        last_change_ms: 1500,
        downtime_ms: 0,
        idle: 0,
        idle_limit: None,
        used: 0,
        fails: 0,
        settings: EndpointSettings::default(),
    }
}

/// A pool of these.
pub(crate) fn pool(name: &str, number: u32, endpoints: Vec<Endpoint>) -> Pool {
    Pool {
        id: PoolId::from_name(name),
        name: name.into(),
        number,
        place: number,
        mode: "http".into(),
        balance: "roundrobin".into(),
        cookie: None,
        back: Back::default(),
        last_change_ms: 0,
        downtime_ms: 0,
        went_down: 0,
        endpoints,
        group: None,
    }
}

/// A site that nobody has visited.
pub(crate) fn site(name: &str, number: u32) -> Site {
    Site {
        id: SiteId::from_name(name),
        name: name.into(),
        number,
        place: number,
        mode: "http".into(),
        paused: false,
        front: Front::default(),
    }
}
