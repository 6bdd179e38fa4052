//! `show stat`: the rows of the statistics page, in its forms.

use weir_control::snapshot::{EndpointState, Snapshot};

use super::context::Cx;
use crate::stats::{Options, Rows};

pub(super) fn show(cx: &mut Cx<'_>) -> String {
    let snapshot = cx.runtime.snapshot();
    let asked = |word: &str| cx.arguments.iter().any(|argument| argument == word);
    let selected = match Selection::read(cx, &snapshot) {
        Ok(selected) => selected,
        Err(said) => return said,
    };
    let snapshot = without(snapshot, asked("up"), asked("no-maint"));
    // Whoever reaches this socket sees addresses.
    let options = Options { show_legends: true, ..Options::default() };
    let mut rows = Rows::of(&snapshot, &options);
    if let Some(Selection { proxy, kinds, server }) = selected {
        rows.keep(|number, kind, id| {
            proxy.is_none_or(|proxy| proxy == number)
                && kinds & [1, 2, 4][kind as usize] != 0
                && (kind != 2 || server.is_none_or(|server| server == id))
        });
    }
    if asked("json") {
        format!("{}\n", rows.json())
    } else if asked("typed") {
        rows.typed()
    } else {
        rows.csv()
    }
}

/// Leaves out servers that are down, or out for maintenance.
fn without(mut snapshot: Snapshot, down: bool, maintenance: bool) -> Snapshot {
    for pool in &mut snapshot.pools {
        pool.endpoints.retain(|endpoint| match endpoint.state {
            EndpointState::Down => !down,
            EndpointState::Maintenance => !down && !maintenance,
            EndpointState::Up | EndpointState::Draining => true,
        });
    }
    snapshot
}

/// `<proxy> <kinds> <server>`; `-1` is all.
struct Selection {
    proxy: Option<u32>,
    kinds: u32,
    server: Option<u32>,
}

impl Selection {
    fn read(cx: &Cx<'_>, snapshot: &Snapshot) -> Result<Option<Self>, String> {
        if cx.argument(1).is_empty() || cx.argument(2).is_empty() {
            return Ok(None);
        }
        let number = |text: &str| text.parse::<i64>().ok().filter(|number| *number >= 0).map(|n| n as u32);
        let proxy = match cx.argument(0) {
            "-1" => None,
            name => {
                let sites = snapshot.sites.iter().map(|site| (&site.name, site.number));
                let mut all = sites.chain(snapshot.pools.iter().map(|pool| (&pool.name, pool.number)));
                let known = all.find(|(known, _)| *known == name).map(|(_, number)| number);
                Some(known.or(number(name)).ok_or("No such proxy.\n")?)
            }
        };
        let kinds = number(cx.argument(1)).unwrap_or(u32::MAX);
        Ok(Some(Self { proxy, kinds, server: number(cx.argument(2)) }))
    }
}
