//! Rules for responses.
//!
//! Owns: what their verdict means for the response that they judge.
//! Never: runs them; `eval::program` does.
//! Driven by: actions, once the head of a response is here.

use weir_plan::Program;

use crate::eval::program::{self, Verdict};
use crate::exchange::{Ending, Exchange, Next, Phase, errors};

/// Runs the rules for responses. `Some`: the answer that takes the place of the response.
pub(super) fn run<Later>(exchange: &mut Exchange, program: &Program) -> Option<Next<Later>> {
    match program::run(exchange, program) {
        Verdict::Respond(respond) => {
            exchange.ending = Ending::LocalHeaders;
            exchange.note_cause(respond.cause, Phase::Headers);
            Some(Next::Respond(respond))
        }
        Verdict::Close(status) => Some(Next::Close(status)),
        Verdict::Undecided(why) => {
            errors::undecided(exchange, &why);
            Some(Next::Status(500))
        }
        _ => None,
    }
}
