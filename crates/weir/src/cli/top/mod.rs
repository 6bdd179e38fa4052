//! `weir top`: the dashboard in a terminal.
//!
//! Owns: its command line; asking once an interval, in a thread of its own, so that keys are never waited for.
//! Never: changes anything; counts anything: it reads the dashboard's `status.json`.
//! Driven by: people at a terminal; scripts with `--once`.

mod document;
mod draw;
mod fetch;
mod tables;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use document::Document;
use draw::{Asked, Screen};
use fetch::Place;
use tables::{History, View};

pub(super) const HELP: &str = "\
The server's configuration names the place: `location /dashboard { weir_dashboard; }` in an nginx.conf,
`http-request use-service weir-dashboard if { path_beg /dashboard }` in a haproxy.cfg.

Keys:
  1…6 or Tab   pools, sites, routes, requests in flight, slowest, failed
  Enter, Esc   into a pool, and back
  ↑ ↓ PgUp PgDn Home End   move          s, S   sort by the next column, the other way round
  /            filter by text            p      pause                q      end

Examples:
  weir top http://127.0.0.1:8080/dashboard/
  weir top unix:/run/weir/http.sock --path /dashboard/
  weir top -H 'Authorization: Basic …' http://10.0.0.1/dashboard/
  weir top --once http://127.0.0.1:8080/dashboard/ | less       text, of one interval";

/// Rates and quantiles are of so much time, or of as many intervals as that takes.
const WINDOW: Duration = Duration::from_secs(5);

/// What a running server does, in this terminal.
#[derive(Args)]
pub(super) struct Top {
    /// Where its dashboard is: `http://HOST[:PORT]/PATH/`, or `unix:SOCKET`.
    #[arg(value_name = "URL")]
    place: String,
    /// The dashboard's path, for sockets.
    #[arg(long, value_name = "PATH", default_value = "/dashboard/")]
    path: String,
    /// Time between two looks, in seconds.
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// A field of the requests, such as `Authorization: Basic …`.
    #[arg(
        short = 'H',
        long = "header",
        value_name = "FIELD",
        env = "WEIR_TOP_HEADER",
        hide_env_values = true
    )]
    headers: Vec<String>,
    /// Print all tables as text after one interval, and end.
    #[arg(long)]
    once: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a number of seconds from 0.1 to 3600".to_owned()),
    }
}

/// Obeys.
pub(super) fn run(top: &Top) -> ExitCode {
    let outcome = Place::of(&top.place, &top.path, &top.headers).and_then(|place| {
        if top.once {
            return once(&place, top.interval);
        }
        if !std::io::stdout().is_terminal() {
            return Err("this is no terminal; `--once` prints text".to_owned());
        }
        // What is wrong with the address is said before the screen is taken.
        let first = fetch::document(&place)?;
        watch(place, top.interval, first)
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            errln!("weir top: {why}");
            ExitCode::FAILURE
        }
    }
}

fn once(place: &Place, interval: Duration) -> Result<(), String> {
    let mut history = History::new(WINDOW);
    history.take(fetch::document(place)?);
    std::thread::sleep(interval);
    history.take(fetch::document(place)?);
    outln!("{}", draw::text(&history));
    Ok(())
}

/// What a look came to.
type Looked = Result<Box<Document>, String>;

/// Looks once an interval, for as long as somebody listens.
fn looks(place: Place, interval: Duration) -> Result<Receiver<Looked>, String> {
    // One at most waits: a terminal that is stopped does not collect them.
    let (tell, told) = mpsc::sync_channel(1);
    let look = move || {
        loop {
            std::thread::sleep(interval);
            if tell.send(fetch::document(&place)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("weir-top".into())
        .spawn(look)
        .map_err(|error| format!("no thread to look with: {error}"))?;
    Ok(told)
}

fn watch(place: Place, interval: Duration, first: Box<Document>) -> Result<(), String> {
    let mut history = History::new(WINDOW);
    history.take(first);
    let mut screen = Screen::new(place.to_string());
    let told = looks(place, interval)?;
    let mut terminal = ratatui::try_init().map_err(|error| format!("the terminal: {error}"))?;
    let outcome = interact(&mut terminal, &told, &mut history, &mut screen);
    ratatui::restore();
    outcome
}

fn interact(
    terminal: &mut ratatui::DefaultTerminal,
    told: &Receiver<Looked>,
    history: &mut History,
    screen: &mut Screen,
) -> Result<(), String> {
    let broken = |error: std::io::Error| format!("the terminal: {error}");
    let mut drawn = Instant::now();
    let mut due = true;
    loop {
        while let Ok(looked) = told.try_recv() {
            due |= !screen.paused;
            match looked {
                Ok(document) if !screen.paused => {
                    screen.trouble = None;
                    history.take(document);
                }
                Ok(_) => {}
                Err(why) => screen.trouble = Some(why),
            }
        }
        if due {
            let view = View::of(history, screen.shown());
            terminal.draw(|frame| draw::frame(frame, history, &view, screen)).map_err(broken)?;
            (due, drawn) = (false, Instant::now());
        }
        // Keys are answered at once, figures within a tenth of a second.
        if event::poll(Duration::from_millis(100)).map_err(broken)? {
            match event::read().map_err(broken)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let view = View::of(history, screen.shown());
                    if screen.key(key, &view) == Asked::End {
                        return Ok(());
                    }
                    due = true;
                }
                Event::Resize(..) => due = true,
                _ => {}
            }
        }
        due |= drawn.elapsed() > Duration::from_secs(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_bounds() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "1e9", "NaN", "x"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
