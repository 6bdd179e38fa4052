//! Agents: programs beside endpoints that say how these are (HAProxy's `agent-check`).
//!
//! Owns: what an agent is asked, and what its words mean.
//! Driven by: a task for each endpoint that has one.

use std::net::SocketAddr;
use std::time::Duration;

use weir_control::AdminState;
use weir_expr::check::AgentCheck;
use weir_plan::{Address, Endpoint};
use weir_policy::Millis;
use weir_rt::{Buf, Timer};
use weir_telemetry::Level;

use super::Watched;
use crate::upstream::{ConnectSettings, open};
use crate::worker::race::{Signal, race};
use crate::worker::shared::Shared;

/// Most bytes of what an agent says.
const MOST: usize = 4 << 10;

/// What an agent says.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    /// So many percent of the configured weight.
    Weight(u32),
    Admin(AdminState),
    Up,
    /// And why.
    Down(String),
}

/// Asks an agent again and again.
pub(super) async fn watch(shared: &Shared, watched: &Watched, agent: &AgentCheck, stop: &Signal) {
    let mut due = weir_rt::now();
    loop {
        let _ = race(stop.wait(), weir_rt::sleep_until(due)).await;
        if stop.is_set() {
            return;
        }
        let members = watched.live.state.members();
        if members.get(watched.at).is_some_and(|member| !member.is_asked()) {
            due = weir_rt::now() + agent.interval;
            continue;
        }
        let said =
            weir_rt::timeout(weir_rt::now() + agent.interval, Box::pin(ask(watched.endpoint(), agent)));
        // An agent that cannot be asked says nothing.
        let said = said.await.ok().flatten().unwrap_or_default();
        if stop.is_set() {
            return;
        }
        let now = shared.millis(weir_rt::now());
        words(&said).into_iter().for_each(|word| obey(shared, watched, word, now));
        due = weir_rt::now() + agent.interval;
    }
}

async fn ask(endpoint: &Endpoint, agent: &AgentCheck) -> Option<Vec<u8>> {
    let Some(Address::Tcp(to)) = &endpoint.address else { return None };
    let address = Address::Tcp(SocketAddr::new(agent.address.unwrap_or(to.ip()), agent.port));
    let timeout = agent.interval.max(Duration::from_millis(1));
    let settings = ConnectSettings {
        timeout,
        local: None,
        transparent: false,
        keepalive: false,
        socks: None,
        proxy: None,
        tls: None,
    };
    let conn = open(&address, &settings, &Timer::new()).await.ok()?;
    if !agent.send.is_empty() {
        conn.write_slice(&agent.send).await.ok()?;
    }
    let mut said = Buf::new();
    while said.len() < MOST && !said.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        if conn.read(&mut said).await.ok()? == 0 {
            break;
        }
    }
    Some(said.to_vec())
}

/// The words of the first line. Unknown ones mean nothing.
fn words(said: &[u8]) -> Vec<Word> {
    let line = said.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let text = String::from_utf8_lossy(line);
    let is_space = |c: char| matches!(c, ' ' | '\t' | ',');
    // A word that begins so is a description, to the end of the line.
    let described = text.char_indices().zip(std::iter::once(' ').chain(text.chars()));
    let described =
        described.filter(|((_, c), before)| *c == '#' && is_space(*before)).map(|((at, _), _)| at).next();
    let (text, description) = text.split_at(described.unwrap_or(text.len()));
    let description = description.trim_start_matches('#').trim();
    let word = |word: &str| {
        let lower = word.to_ascii_lowercase();
        Some(match lower.as_str() {
            "up" => Word::Up,
            "down" | "stopped" | "fail" => Word::Down(match description {
                "" => lower,
                why => format!("{lower} ({why})"),
            }),
            "ready" => Word::Admin(AdminState::Ready),
            "drain" => Word::Admin(AdminState::Drain),
            "maint" => Word::Admin(AdminState::Maintenance),
            _ => Word::Weight(lower.strip_suffix('%')?.parse().ok()?),
        })
    };
    text.split(is_space).filter_map(word).collect()
}

fn obey(shared: &Shared, watched: &Watched, word: Word, now: Millis) {
    let (state, at) = (&watched.live.state, watched.at);
    let name = watched.name();
    match word {
        Word::Weight(percent) => {
            let configured = watched.live.set.config.endpoints().get(at).map_or(1, |one| one.weight);
            let weight = u64::from(configured) * u64::from(percent.min(25_600));
            let weight = u32::try_from(weight.div_ceil(100)).unwrap_or(u32::MAX);
            if state.members().get(at).is_some_and(|member| member.weight() != Some(weight)) {
                state.set_weight(at, Some(weight));
            }
        }
        Word::Admin(admin) => {
            let now_is = state.members().get(at).map(|member| member.admin());
            let is_ready = matches!(now_is, Some(AdminState::Ready | AdminState::AsConfigured));
            if now_is != Some(admin) && !(admin == AdminState::Ready && is_ready) {
                state.set_admin(at, admin, now);
                watched.tell_standing();
                let what = match admin {
                    AdminState::Drain => "is drained",
                    AdminState::Maintenance => "is in maintenance",
                    _ => "is ready",
                };
                shared.logs.event(Level::Notice, &format!("Server {name} {what}, as its agent asks."));
            }
        }
        Word::Up => {
            if state.set_agent(at, true, now) {
                watched.tell_standing();
                let left = super::census(&watched.live);
                shared.logs.event(Level::Notice, &format!("Server {name} is UP, as its agent says. {left}"));
            }
        }
        Word::Down(why) => {
            if state.set_agent(at, false, now) {
                watched.tell_standing();
                let left = super::census(&watched.live);
                let line = format!("Server {name} is DOWN, reason: its agent says {why}. {left}");
                shared.logs.event(Level::Alert, &line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_words_are_read() {
        let down = |why: &str| Word::Down(why.to_owned());
        let cases: [(&[u8], Vec<Word>); 9] = [
            (b"up\n", vec![Word::Up]),
            (b"75%\r\nup", vec![Word::Weight(75)]),
            (b"ready,50% UP", vec![Word::Admin(AdminState::Ready), Word::Weight(50), Word::Up]),
            (b"drain\tsomething", vec![Word::Admin(AdminState::Drain)]),
            (b"maint", vec![Word::Admin(AdminState::Maintenance)]),
            (b"down #up again, soon\n", vec![down("down (up again, soon)")]),
            (b"down#soon\n", vec![]),
            (b"fail", vec![down("fail")]),
            (b"\nup", vec![]),
        ];
        for (said, expected) in cases {
            assert_eq!(words(said), expected, "{}", said.escape_ascii());
        }
    }
}
