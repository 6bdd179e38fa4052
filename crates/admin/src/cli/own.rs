//! Commands about the session itself, and about the command line.

use std::time::Duration;

use super::context::{Cx, Level, Severity};
use super::help;
use super::input::delay;
use super::servers;

pub(super) fn help(cx: &mut Cx<'_>) -> String {
    let words: Vec<&str> = cx.arguments.iter().map(String::as_str).collect();
    help::list(&words, cx.state.level)
}

pub(super) fn prompt(cx: &mut Cx<'_>) -> String {
    cx.state.prompt = match cx.argument(0) {
        "n" => false,
        "i" | "p" => true,
        _ => !cx.state.prompt,
    };
    String::new()
}

pub(super) fn quit(cx: &mut Cx<'_>) -> String {
    cx.state.quit = true;
    String::new()
}

pub(super) fn user(cx: &mut Cx<'_>) -> String {
    cx.state.level = Level::User;
    String::new()
}

pub(super) fn operator(cx: &mut Cx<'_>) -> String {
    cx.state.level = cx.state.level.min(Level::Operator);
    String::new()
}

fn mode(is: &mut bool, name: &str, argument: &str) -> String {
    match argument {
        "on" => *is = true,
        "off" => *is = false,
        _ => return format!("{name} is {}\n", if *is { "ON" } else { "OFF" }),
    }
    String::new()
}

pub(super) fn expert_mode(cx: &mut Cx<'_>) -> String {
    let argument = cx.argument(0).to_owned();
    mode(&mut cx.state.expert, "expert-mode", &argument)
}

pub(super) fn experimental_mode(cx: &mut Cx<'_>) -> String {
    let argument = cx.argument(0).to_owned();
    mode(&mut cx.state.experimental, "experimental-mode", &argument)
}

/// `set timeout cli <delay>`, in seconds unless it has a unit.
pub(super) fn timeout(cx: &mut Cx<'_>) -> String {
    if cx.argument(0) != "cli" {
        return "'set timeout' only supports 'cli'.\n".to_owned();
    }
    match delay(cx.argument(1), 1000) {
        Some(time) if !time.is_zero() => {
            cx.state.timeout = time.min(Duration::from_millis(i32::MAX as u64));
            String::new()
        }
        _ if cx.argument(1).is_empty() => "Expects an integer value.\n".to_owned(),
        _ => "Invalid timeout value.\n".to_owned(),
    }
}

/// The longest that a session waits for nothing.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// `wait <delay> [srv-removable <bk>/<srv>]`, in milliseconds unless it has a unit.
pub(super) fn wait(cx: &mut Cx<'_>) -> String {
    match (delay(cx.argument(0), 1), cx.argument(1)) {
        (Some(time), "") => {
            cx.state.wait = Some(time.min(LONGEST_WAIT));
            "Done.\n".to_owned()
        }
        (Some(time), "srv-removable") => {
            let place = cx.argument(2).to_owned();
            match servers::removable(cx.runtime, &place) {
                Err(why) => why,
                Ok(true) => "Done.\n".to_owned(),
                Ok(false) => {
                    cx.state.until = Some((place, time.min(LONGEST_WAIT)));
                    String::new()
                }
            }
        }
        (Some(_), condition) => format!("'{condition}' is no condition: 'srv-removable' is one.\n"),
        (None, _) => "Expects a duration.\n".to_owned(),
    }
}

/// `echo <text>`.
pub(super) fn echo(cx: &mut Cx<'_>) -> String {
    format!("{}\n", cx.arguments.join(" "))
}

/// `set severity-output {none|number|string}`.
pub(super) fn severity(cx: &mut Cx<'_>) -> String {
    cx.state.severity = match cx.argument(0) {
        "none" => Severity::None,
        "number" => Severity::Number,
        "string" => Severity::Text,
        _ => return "one of 'none', 'number', 'string' is a required argument\n".to_owned(),
    };
    String::new()
}

/// `clear counters [all]`.
pub(super) fn clear_counters(cx: &mut Cx<'_>) -> String {
    let all = cx.argument(0) == "all";
    if all && cx.state.level < Level::Admin {
        return "Permission denied\n".to_owned();
    }
    cx.runtime.clear_counters(all);
    String::new()
}

/// `set rate-limit {connections|sessions|ssl-sessions} global <value>`.
pub(super) fn rate_limit(cx: &mut Cx<'_>) -> String {
    const USAGE: &str = "'set rate-limit' only supports :\n   \
         - 'connections global' to set the per-process maximum connection rate\n   \
         - 'sessions global' to set the per-process maximum session rate\n   \
         - 'ssl-sessions global' to set the per-process maximum SSL session rate\n   \
         - 'http-compression global' to set the per-process maximum compression speed in kB/s\n";
    let mut paces = cx.runtime.paces();
    let place = match cx.argument(0) {
        "connections" => &mut paces.connections,
        "sessions" => &mut paces.sessions,
        "ssl-sessions" => &mut paces.tls,
        "http-compression" => {
            return "'set rate-limit http-compression' is not built in Weir: compression is not paced.\n"
                .to_owned();
        }
        _ => return USAGE.to_owned(),
    };
    if cx.argument(1) != "global" {
        return USAGE.to_owned();
    }
    let word = cx.argument(2);
    if word.is_empty() {
        return "Expects an integer value.\n".to_owned();
    }
    // As C's atoi(3), by which HAProxy reads it: what is no number is none.
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    *place = word[..digits].parse::<u32>().unwrap_or(0);
    cx.runtime.set_paces(paces);
    String::new()
}

pub(super) fn show_cli_level(cx: &mut Cx<'_>) -> String {
    format!("{}\n", cx.state.level.word())
}

pub(super) fn show_cli_sockets(cx: &mut Cx<'_>) -> String {
    let mut text = String::from("# socket lvl processes\n");
    for socket in cx.runtime.sockets() {
        text.push_str(&format!("{} {} all\n", socket.name, socket.level.word()));
    }
    text
}

pub(super) fn show_env(cx: &mut Cx<'_>) -> String {
    let all = cx.runtime.environment();
    let one = |(name, value): &(String, String)| format!("{name}={value}\n");
    match cx.argument(0) {
        "" => all.iter().map(one).collect(),
        wanted => match all.iter().find(|(name, _)| name == wanted) {
            Some(found) => one(found),
            None => "Variable not found\n".to_owned(),
        },
    }
}

pub(super) fn maxconn_global(cx: &mut Cx<'_>) -> String {
    match cx.argument(0).parse::<u64>() {
        Ok(most) if most > 0 && most <= i32::MAX as u64 => {
            cx.runtime.bound_connections(most);
            String::new()
        }
        Ok(_) => "Value out of range.\n".to_owned(),
        Err(_) => "Expects an integer value.\n".to_owned(),
    }
}
