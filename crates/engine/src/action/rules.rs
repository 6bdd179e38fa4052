//! Rules for responses.
//!
//! Owns: what their verdict means for the response that they judge.
//! Never: runs them; `eval::program` does.
//! Driven by: actions, once the head of a response is here.

use weir_plan::Program;

use crate::eval::program::{self, Verdict};
use crate::exchange::{Downstream, Ending, Exchange, Next, Phase, errors};
use crate::worker::Installed;

/// What rules say of a response.
pub(super) enum Judged<Later> {
    /// It goes on.
    Passed,
    /// The answer that takes its place.
    Instead(Next<Later>),
    /// They have to wait: [`go_on`] does.
    Waits,
}

impl<Later> Judged<Later> {
    fn instead(self) -> Option<Next<Later>> {
        match self {
            Self::Instead(next) => Some(next),
            Self::Passed | Self::Waits => None,
        }
    }
}

/// Runs the rules for responses, until they have to wait.
pub(super) fn judge<Later>(exchange: &mut Exchange, program: &Program) -> Judged<Later> {
    let verdict = program::run(exchange, program);
    judged(exchange, verdict)
}

/// Goes on with rules that have to wait. `Some`: the answer that takes the place of the response.
#[cold]
pub(super) async fn go_on<D: Downstream, Later>(
    exchange: &mut Exchange,
    down: &mut D,
    program: &Program,
) -> Option<Next<Later>> {
    let verdict = Box::pin(program::go_on_with(exchange, down, program)).await;
    judged(exchange, verdict).instead()
}

/// Runs the rules for responses of a route, if it has any. `Some`: the answer that takes the place of the response.
pub(super) async fn run<D: Downstream, Later>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
) -> Option<Next<Later>> {
    let program = installed.plan.route(exchange.route).response_program.as_ref()?;
    match judge(exchange, program) {
        Judged::Waits => go_on(exchange, down, program).await,
        judged => judged.instead(),
    }
}

fn judged<Later>(exchange: &mut Exchange, verdict: Verdict) -> Judged<Later> {
    Judged::Instead(match verdict {
        Verdict::Respond(respond) => {
            exchange.ending = Ending::LocalHeaders;
            exchange.note_cause(respond.cause, Phase::Headers);
            Next::Respond(respond)
        }
        Verdict::Close(status) => Next::Close(status),
        Verdict::Undecided(why) => {
            errors::undecided(exchange, &why);
            Next::Status(500)
        }
        Verdict::Waits => return Judged::Waits,
        _ => return Judged::Passed,
    })
}
