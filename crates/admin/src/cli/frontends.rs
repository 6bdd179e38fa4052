//! `enable|disable frontend` and `set maxconn frontend`.

use super::context::Cx;

const NAME: &str = "A frontend name is expected.\n";

pub(super) fn disable(cx: &mut Cx<'_>) -> String {
    hold(cx, true)
}

pub(super) fn enable(cx: &mut Cx<'_>) -> String {
    hold(cx, false)
}

/// `shutdown frontend <frontend>`: it accepts nothing more.
pub(super) fn shutdown(cx: &mut Cx<'_>) -> String {
    if cx.argument(0).is_empty() {
        return NAME.to_owned();
    }
    match cx.runtime.hold(cx.argument(0), true) {
        Ok(true) => String::new(),
        Ok(false) => "Frontend was already shut down.\n".to_owned(),
        Err(why) => format!("{why}\n"),
    }
}

fn hold(cx: &Cx<'_>, held: bool) -> String {
    if cx.argument(0).is_empty() {
        return NAME.to_owned();
    }
    match cx.runtime.hold(cx.argument(0), held) {
        Ok(true) => String::new(),
        Ok(false) if held => "All sockets are already disabled.\n".to_owned(),
        Ok(false) => "All sockets are already enabled.\n".to_owned(),
        Err(why) => format!("{why}\n"),
    }
}

pub(super) fn maxconn(cx: &mut Cx<'_>) -> String {
    let (name, value) = (cx.argument(0), cx.argument(1));
    match (name, value, value.parse::<i64>()) {
        ("", _, _) => NAME.to_owned(),
        (_, "", _) | (_, _, Err(_)) => "Integer value expected.\n".to_owned(),
        (_, _, Ok(most)) if !(0..=i64::from(i32::MAX)).contains(&most) => "Value out of range.\n".to_owned(),
        (_, _, Ok(most)) => match cx.runtime.bound_site(name, most as u64) {
            Ok(()) => String::new(),
            Err(why) => format!("{why}\n"),
        },
    }
}
