//! What the page is configured to show, and what a request asks of it.
//!
//! Owns: the settings of the page, the words behind its path.
//! Never: sees a figure.
//! Driven by: `stats`, for each request.
//!
//! What follows the prefix in the path chooses the form: `;csv`, `;json`, else HTML; `;norefresh` leaves out the
//! refresh, `;up` hides what is down, `scope=text` shows only proxies whose name holds the text.

use super::form::Outcome;

/// How the page was configured.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Path prefix.
    pub uri: String,
    /// Do not name product and version.
    pub hide_version: bool,
    /// Realm of `users`.
    pub realm: String,
    /// Users and passwords; empty: open.
    pub users: Vec<(String, String)>,
    /// Seconds between refreshes of the page.
    pub refresh: Option<u64>,
    /// Show endpoints' addresses and cookies.
    pub show_legends: bool,
    /// Description shown.
    pub description: Option<String>,
    /// Node name shown.
    pub node: Option<String>,
    /// Only these proxies are shown; empty: all.
    pub scope: Vec<String>,
    /// Whoever asks may change the states of servers.
    pub admin: bool,
}

/// What a request asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) form: Form,
    pub(super) no_refresh: bool,
    pub(super) hide_down: bool,
    pub(super) scope: String,
    /// What came of a form.
    pub(super) outcome: Option<Outcome>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    #[default]
    Html,
    Csv,
    Json,
}

impl View {
    pub(super) fn of(options: &Options, target: &[u8]) -> Self {
        let target = String::from_utf8_lossy(target);
        let rest = target.strip_prefix(options.uri.as_str()).unwrap_or(&target);
        let mut view = Self::default();
        for word in rest.split([';', '?', '&']).skip(1) {
            match word {
                "csv" => view.form = Form::Csv,
                "json" => view.form = Form::Json,
                "norefresh" => view.no_refresh = true,
                "up" => view.hide_down = true,
                word => {
                    if let Some(text) = word.strip_prefix("scope=") {
                        view.scope = text.to_owned();
                    }
                    if let Some(outcome) = word.strip_prefix("st=").and_then(Outcome::of) {
                        view.outcome = Some(outcome);
                    }
                }
            }
        }
        view
    }
}
