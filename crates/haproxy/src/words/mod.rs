//! Words of haproxy.cfg that need nobody to take them in: parameters, actions, fetches, sections' own.
//!
//! Owns: what is known of each, and the form of what is known of keywords ([`Keyword`]).
//! Never: takes a line in; `take` does, and `table` says which keyword is taken in by what.
//! Driven by: `take`, `table`, `build`.

mod actions;
mod bind;
mod converters;
mod fetches;
mod keyword;
mod others;
mod parameter;
mod server;
mod sticks;

pub(crate) use actions::{Action, RuleSet, action, action_names, all_actions};
pub(crate) use bind::{BIND, CRT_LIST};
pub(crate) use converters::{Converter, converter_names, kind_behind, known_converter, takes_bytes};
pub(crate) use fetches::{Fetch, Matching, acl_word, fetch, fetch_names, is_raw, nearest_fetch, predefined};
pub(crate) use keyword::{Call, DB, DF, DFB, FB, Keyword, MANY, Sections, Status, word};
pub(crate) use others::words as section_words;
pub(crate) use parameter::{Parameter, ParameterStatus};
pub(crate) use server::SERVER;
pub(crate) use sticks::{StickPrefix, StickWord, stick_converter, stick_fetch};
