//! Backends behind FastCGI: `use-fcgi-app` and what its section says.
//!
//! Owns: which parameters an application is told, and their order.
//! Never: speaks FastCGI.
//! Why: a parameter with a condition is a variable that the route's program sets; the others are formats of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_expr::AuthPart;
use weir_expr::settings::Spoken;
use weir_model::{
    Condition, ErrorLog, FastCgi, FastCgiParam, Op, Pattern, ProxyTarget, Subject, Template, Test, Var, Words,
};

use super::condition::{Acls, clause};
use super::context::Context;
use super::format::Formatter;
use super::logs;
use super::scope::Scope;
use super::settings::{local_address, upstream_settings};
use crate::draft::{Application, Proxy};
use crate::read::Word;

/// A backend's application.
pub(super) struct Built {
    pub(super) action: FastCgi,
    /// What runs before it is asked.
    pub(super) program: Vec<Op>,
    /// Where its errors are told, if not where all are.
    pub(super) error_logs: Option<Arc<Vec<ErrorLog>>>,
}

/// Fields of answers that speak to other servers than HAProxy.
const SIGNALS: [&str; 5] =
    ["X-Accel-Redirect", "X-Accel-Expires", "X-Accel-Limit-Rate", "X-Accel-Buffering", "X-Accel-Charset"];

/// The application that a backend's servers run. `None`: they speak HTTP, or what they are is an error (reported).
pub(super) fn built<'a>(context: &mut Context<'a>, front: &Proxy, backend: &'a Proxy) -> Option<Built> {
    let app = named(context, backend)?;
    let scope = Scope { proxy: &app.scope, ..context.scope(backend) };
    let acls = Acls::build(&scope, context.findings);
    let mut told = Told::new(app);
    for line in &app.params {
        let (Some(name), Some(format)) = (line.word(1), line.word(2)) else { continue };
        let span = format.span;
        let mut formatter = Formatter { scope, log: None, groups: false, span, findings: context.findings };
        let Some(value) = formatter.template(format.as_str()) else { continue };
        let Some(condition) = condition(line.from(3), &acls, &scope, context) else { continue };
        told.set(&name.text.to_ascii_uppercase(), value, condition);
    }
    for line in &app.passes {
        let Some(name) = line.word(1) else { continue };
        let Some(condition) = condition(line.from(2), &acls, &scope, context) else { continue };
        let upper = name.text.to_ascii_uppercase().replace('-', "_");
        told.set(
            &format!("HTTP_{upper}"),
            Template::var(Var::Header(name.text.to_ascii_lowercase())),
            condition,
        );
    }
    let error_logs = (!app.logs.is_empty()).then(|| {
        let global = &context.draft.global;
        let tag = logs::tag(Some(backend), global);
        Arc::new(logs::error_logs(&app.logs, &tag, context.draft, context.findings))
    });
    let (params, program) = told.finish();
    let pattern =
        |word: &Word| Pattern { source: word.text.clone(), ignore_case: false, origin: Some(word.span) };
    let action = FastCgi {
        spoken: Spoken::FastCgi,
        target: ProxyTarget::Pool(backend.name.text.clone()),
        tls: None,
        bind: local_address(backend),
        transparent: false,
        key: None,
        params: Arc::new(params),
        index: app.index.as_ref().map(|word| word.text.clone()),
        split_path_info: app.path_info.as_ref().map(pattern),
        pass_request_headers: true,
        usual_names: true,
        silent: !app.tells,
        pass_request_body: true,
        keep_connection: app.keeps,
        settings: Arc::new(upstream_settings(front, backend)),
        hide_headers: Arc::default(),
        ignore_headers: Arc::new(SIGNALS.map(str::to_owned).to_vec()),
        cache: None,
        store: None,
    };
    Some(Built { action, program, error_logs })
}

/// The section that a backend names, if all of its servers speak FastCGI.
fn named<'a>(context: &mut Context<'a>, backend: &'a Proxy) -> Option<&'a Application> {
    let speak = backend.servers.iter().filter(|server| server.parameter("proto") == Some("fcgi")).count();
    let Some(word) = &backend.settings.application else {
        if speak > 0 {
            let title =
                format!("servers of `{}` speak FastCGI, and no application is named", backend.name.text);
            let found = Diagnostic::error("haproxy::missing", title).at(backend.name.span);
            context.findings.push(found.help("name an fcgi-app section: `use-fcgi-app NAME`"));
        }
        return None;
    };
    let found = context.draft.applications.iter().find(|app| app.scope.name.text == word.text);
    let Some(app) = found else {
        let title = format!("no fcgi-app is named `{}`", word.text);
        let names = context.draft.applications.iter().map(|app| app.scope.name.as_str());
        let found = Diagnostic::error("haproxy::unknown-name", title).at(word.span);
        context.findings.push(found.suggest(&word.text, word.span, names));
        return None;
    };
    if speak == backend.servers.len() {
        return Some(app);
    }
    if speak == 0 {
        let title = format!("`{}` is used for no server: none has `proto fcgi`", word.text);
        context.findings.ignored(word.span, title);
    } else {
        let why = "give all servers of the backend `proto fcgi`, or none";
        context.findings.not_built(word.span, "FastCGI beside HTTP in one backend", why);
    }
    None
}

/// The condition of a line; `None` where it failed (reported).
fn condition(
    words: &[Word],
    acls: &Acls,
    scope: &Scope<'_>,
    context: &mut Context<'_>,
) -> Option<Option<Condition>> {
    match words.first() {
        None => Some(None),
        Some(first) if matches!(first.as_str(), "if" | "unless") => {
            clause(words, acls, scope, context.findings).map(Some)
        }
        Some(first) => {
            let cause = format!("`if` or `unless` is expected here, not `{}`", first.text);
            context.findings.bad_value(first, cause);
            None
        }
    }
}

/// Parameters as they come to be known.
struct Told {
    /// In order; a value that is set in more than one way is a variable's.
    order: Vec<String>,
    values: BTreeMap<String, Vec<(Template, Option<Condition>)>>,
}

impl Told {
    /// What every application is told.
    fn new(app: &Application) -> Self {
        let mut told = Self { order: Vec::new(), values: BTreeMap::new() };
        let docroot = app.docroot.as_ref().map_or("", Word::as_str);
        let var = Template::var;
        told.set("AUTH_TYPE", var(Var::Authorization(AuthPart::Scheme)), None);
        told.set("CONTENT_LENGTH", Template::literal("0"), None);
        told.set("CONTENT_LENGTH", var(Var::ContentLength), Some(filled(var(Var::ContentLength))));
        told.set("CONTENT_TYPE", var(Var::ContentType), None);
        told.set("DOCUMENT_ROOT", Template::literal(docroot), None);
        told.set("GATEWAY_INTERFACE", Template::literal("CGI/1.1"), None);
        told.set("HTTPS", var(Var::HttpsOn), None);
        told.set("PATH_INFO", var(Var::FastcgiPathInfo), None);
        // Where it is, and where the script is, is told once both and the docroot are known.
        told.order.push(TRANSLATED.to_owned());
        told.set("QUERY_STRING", var(Var::Query), None);
        told.set("REMOTE_ADDR", var(Var::ClientAddr), None);
        told.set("REMOTE_PORT", var(Var::ClientPort), None);
        told.set("REMOTE_USER", var(Var::RemoteUser), None);
        told.set("REQUEST_METHOD", var(Var::Method), None);
        let mut target = var(Var::RawPath);
        target.push_var(Var::IsArgs);
        target.push_var(Var::Query);
        told.set("REQUEST_URI", target, None);
        told.order.push(FILENAME.to_owned());
        told.set("SCRIPT_NAME", var(Var::FastcgiScriptName), None);
        told.set("SERVER_NAME", var(Var::ServerAddr), None);
        let host = var(Var::Header("host".into()));
        told.set("SERVER_NAME", host.clone(), Some(filled(host)));
        told.set("SERVER_PORT", var(Var::ServerPort), None);
        told.set("SERVER_PROTOCOL", var(Var::Protocol), None);
        told.set("SERVER_SOFTWARE", Template::literal("Weir"), None);
        // A parameter that is never set keeps the client's field from being passed.
        told.order.push("HTTP_AUTHORIZATION".to_owned());
        told
    }

    /// Without a condition it is what holds, whatever was said before.
    fn set(&mut self, name: &str, value: Template, condition: Option<Condition>) {
        if !self.order.iter().any(|known| known == name) {
            self.order.push(name.to_owned());
        }
        let values = self.values.entry(name.to_owned()).or_default();
        if condition.is_none() {
            values.clear();
        }
        values.push((value, condition));
    }

    fn finish(mut self) -> (Vec<FastCgiParam>, Vec<Op>) {
        let mut program = Vec::new();
        let root = self.value("DOCUMENT_ROOT", &mut program);
        let below = |value: &Template| {
            let mut whole = root.clone();
            whole.pieces.extend(value.pieces.iter().cloned());
            whole
        };
        let (script, info) = (self.value("SCRIPT_NAME", &mut program), self.value("PATH_INFO", &mut program));
        if !self.values.contains_key(FILENAME) {
            self.set(FILENAME, below(&script), None);
        }
        if !self.values.contains_key(TRANSLATED) {
            self.set(TRANSLATED, below(&info), Some(filled(info.clone())));
        }
        let known = [("DOCUMENT_ROOT", root), ("SCRIPT_NAME", script), ("PATH_INFO", info)];
        let mut params = Vec::new();
        for name in std::mem::take(&mut self.order) {
            let value = match known.iter().find(|(known, _)| *known == name) {
                Some((_, value)) => value.clone(),
                None => self.value(&name, &mut program),
            };
            params.push(FastCgiParam { name, value, if_not_empty: true });
        }
        (params, program)
    }

    /// What a parameter is in the end, and what has to run before.
    fn value(&self, name: &str, program: &mut Vec<Op>) -> Template {
        let values = self.values.get(name).map_or(&[][..], Vec::as_slice);
        match values {
            [] => Template::default(),
            [(value, None)] => value.clone(),
            values => {
                // No configuration can write this name.
                let variable = format!("txn.fcgi-{name}");
                for (value, condition) in values {
                    let set = Op::Set { variable: variable.clone(), value: value.clone() };
                    program.push(match condition.clone() {
                        None => set,
                        Some(condition) => Op::When { condition, then: vec![set], otherwise: Vec::new() },
                    });
                }
                Template::var(Var::User(variable))
            }
        }
    }
}

/// The script's file, and what path info would be as one.
const FILENAME: &str = "SCRIPT_FILENAME";
const TRANSLATED: &str = "PATH_TRANSLATED";

/// Whether there is text.
fn filled(value: Template) -> Condition {
    let words = Words { any_of: vec![Template::default()], ignore_case: false };
    let subject = Subject::Value(value);
    Condition::Not(Box::new(Condition::Test { subject, test: Test::Equals(words) }))
}
