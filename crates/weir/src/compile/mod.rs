//! From a launch to a plan: read, understand, lower.
//!
//! Owns: [`Compiled`], the choice of front end, what the command line adds to a model.
//! Never: opens a file or looks up a name by itself; the [`store::Store`] does.
//! Driven by: `cli` (check, explain), `life::master` (start, reload), `keeper::plane` (the same again from a parcel).

pub(crate) mod document;
pub(crate) mod front;
pub(crate) mod host_names;
pub(crate) mod layer;
pub(crate) mod store;
pub(crate) mod text;
pub(crate) mod wire;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use weir_diag::{Diagnostic, Sources, has_errors};
use weir_model::{Model, Workers};
use weir_native::Plain;
use weir_plan::Plan;

use crate::launch::{Launch, Manner};
use crate::report;
use store::Store;
use text::Text;

/// What came of a configuration.
pub(crate) struct Compiled {
    /// What it means; present even if there are errors.
    pub(crate) model: Model,
    /// What will run, if there are no errors and it was asked for.
    pub(crate) plan: Option<Plan>,
    /// Every finding, in order.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The texts they mark.
    pub(crate) sources: Sources,
    /// What the files say as a document, or why there is none, if the admin API may want to decide otherwise.
    pub(crate) base: Option<Result<Text, String>>,
    /// What was understood in place of the files.
    pub(crate) text: Option<Text>,
    /// What was understood, without secrets, if there is an admin API to show it.
    pub(crate) shown: Option<Plain>,
}

impl Compiled {
    /// What a front end has understood.
    pub(crate) fn understood(model: Model, diagnostics: Vec<Diagnostic>, sources: Sources) -> Self {
        Self {
            model,
            plan: None,
            diagnostics: bounded(diagnostics),
            sources,
            base: None,
            text: None,
            shown: None,
        }
    }

    /// Whether it can run.
    pub(crate) fn is_ok(&self) -> bool {
        !has_errors(&self.diagnostics)
    }

    /// Model and plan, or why there is none, on few lines.
    pub(crate) fn into_runnable(self) -> Result<(Arc<Model>, Arc<Plan>), String> {
        match self.plan {
            Some(plan) if !has_errors(&self.diagnostics) => Ok((Arc::new(self.model), Arc::new(plan))),
            _ => {
                let errors = self.diagnostics.iter().filter(|d| d.severity == weir_diag::Severity::Error);
                let lines: Vec<_> = errors.map(|found| report::one_line(found, &self.sources)).collect();
                Err(lines.join("\n"))
            }
        }
    }
}

/// Most findings that are kept of one step: nobody reads more, and each is drawn with its line.
const MOST_FINDINGS: usize = 1000;

/// The findings, errors before all others where they are too many, in their order.
fn bounded(mut found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let Some(left_out) = found.len().checked_sub(MOST_FINDINGS).filter(|&n| n > 0) else { return found };
    let is_error = |found: &Diagnostic| found.severity == weir_diag::Severity::Error;
    let errors = found.iter().filter(|found| is_error(found)).count().min(MOST_FINDINGS);
    let (mut errors, mut others) = (errors, MOST_FINDINGS - errors);
    found.retain(|found| {
        let left = if is_error(found) { &mut errors } else { &mut others };
        std::mem::replace(left, left.saturating_sub(1)) > 0
    });
    found.push(Diagnostic::note("too-many-findings", format!("{left_out} more findings are not shown")));
    found
}

/// Reads and understands; no plan is made.
pub(crate) fn understand(launch: &Launch, store: &Store) -> Compiled {
    let mut compiled = match &launch.text {
        Some(text) => of_text(Text::clone(text), launch.admin.is_some()),
        None => of_files(launch, store),
    };
    add_overrides(&mut compiled.model, launch);
    compiled
}

fn of_files(launch: &Launch, store: &Store) -> Compiled {
    let dialect = launch.sourcing.dialect.unwrap_or_else(|| front::tell_apart(&launch.main_path(), store));
    let compiled = front::load(launch, dialect, store);
    match launch.admin.is_some() && compiled.is_ok() {
        true => under_layer(compiled, launch),
        false => compiled,
    }
}

/// A document that stands in for the files.
fn of_text(text: Text, is_shown: bool) -> Compiled {
    let read = text.read();
    let mut compiled = Compiled::understood(read.model, read.diagnostics, read.sources);
    if compiled.is_ok() && is_shown {
        // In the form in which models are printed: in what somebody wrote, objects may have shorter forms.
        let printed = text.print(&compiled.model, true).ok();
        compiled.shown = text.print(&compiled.model, false).ok();
        compiled.text = printed.map(|document| Text::new(&document, &text));
    }
    compiled.text.get_or_insert(text);
    compiled
}

/// What the files say, and what the admin API decides over it.
fn under_layer(mut files: Compiled, launch: &Launch) -> Compiled {
    let base = Text::of(&files.model);
    if launch.layer.is_empty() {
        files.base = Some(base.map(|(text, shown)| {
            files.shown = Some(shown);
            text
        }));
        return files;
    }
    let text = match base {
        Ok((text, _)) => text,
        Err(why) => {
            let title = format!("what the admin API decided cannot be put over the files: {why}");
            files.diagnostics.push(Diagnostic::error("admin::no-document", title));
            return files;
        }
    };
    let document = text.document();
    // What was said of the files marks their texts, and from here on there is another one.
    let unmarked = |one: Diagnostic| Diagnostic {
        title: report::one_line(&one, &files.sources),
        primary: None,
        secondary: Vec::new(),
        help: Vec::new(),
        fix: None,
        ..one
    };
    let mut found: Vec<Diagnostic> =
        std::mem::take(&mut files.diagnostics).into_iter().map(unmarked).collect();
    found.extend(launch.layer.findings(&document));
    let mut compiled = of_text(Text::new(&launch.layer.over(&document), &text), true);
    found.append(&mut compiled.diagnostics);
    Compiled { diagnostics: found, base: Some(Ok(text)), ..compiled }
}

/// Reads, understands and lowers.
pub(crate) fn compile(launch: &Launch, store: &Store) -> Compiled {
    lower(understand(launch, store), launch, store)
}

fn lower(mut compiled: Compiled, launch: &Launch, store: &Store) -> Compiled {
    if compiled.is_ok() {
        front::lower(&mut compiled, launch, store);
    }
    compiled
}

/// Compiles. Names that the configuration needs addresses of are looked up all at once with `look_up`, between reading
/// and lowering: their time is one bound for all of them.
pub(crate) fn compile_resolved(
    launch: &Launch,
    store: &Store,
    look_up: impl FnOnce(&Model, &[String]) -> BTreeMap<String, Vec<IpAddr>>,
) -> Compiled {
    finish(understand(launch, store), launch, store, look_up)
}

/// The second half of [`compile_resolved`], for a configuration that was understood already.
pub(crate) fn finish(
    understood: Compiled,
    launch: &Launch,
    store: &Store,
    look_up: impl FnOnce(&Model, &[String]) -> BTreeMap<String, Vec<IpAddr>>,
) -> Compiled {
    // A few directives mean one thing or another by what a name resolves to (`listen`, `set_real_ip_from`).
    let read_with_gaps = !store.unresolved().is_empty();
    for name in weir_lower::host_names(&understood.model) {
        store.resolve(&name);
    }
    let names = store.unresolved();
    if !names.is_empty() {
        store.learn(look_up(&understood.model, &names));
    }
    let understood = if read_with_gaps { understand(launch, store) } else { understood };
    let compiled = lower(understood, launch, store);
    debug_assert!(store.unresolved().is_empty(), "`host_names` leaves out {:?}", store.unresolved());
    compiled
}

/// What the command line says about the process stands above the text.
fn add_overrides(model: &mut Model, launch: &Launch) {
    model.process.transparent = model.is_transparent();
    let process = &mut model.process;
    if let Some(workers) = launch.workers {
        process.workers = Workers::Count(workers.max(1));
    }
    if let Some(path) = &launch.pid_file {
        process.pid_file = Some(path.clone());
    }
    if let Some(daemon) = launch.daemon {
        process.daemon = daemon;
    }
    process.master_worker |= launch.master_worker;
    if launch.manner == Manner::Haproxy && !process.daemon && !process.master_worker {
        // HAProxy writes the file of what goes to the background, and of masters.
        process.pid_file = None;
    }
    // nginx's workers are never root unless the file says so. What is run by `weir run` stays who it is.
    if launch.manner == Manner::Nginx && launch.sourcing.low_ports && process.user.is_none() {
        process.user = Some(weir_model::User { user: "nobody".into(), group: None, origin: None });
    }
    process.max_connections = launch.max_connections.or(process.max_connections);
    process.memory_budget = launch.memory.or(process.memory_budget);
}

/// The number of worker threads that a model asks for on this machine.
pub(crate) fn worker_count(model: &Model) -> usize {
    match model.process.workers {
        Workers::Count(count) => usize::from(count.max(1)),
        // Respects the affinity mask and the CPU bandwidth of the control group.
        Workers::Auto => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Sourcing;

    /// A launch of the file.
    fn launch(path: &std::path::Path) -> Launch {
        Launch::new(Manner::Weir, Sourcing { paths: vec![path.into()], ..Sourcing::default() })
    }

    #[test]
    fn what_was_read_is_lowered_once_its_names_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("haproxy.cfg");
        let text = "defaults\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n mode http\n\
                    frontend f\n bind 127.0.0.1:18080\n default_backend b\n\
                    backend b\n server s origin.example:80\n";
        std::fs::write(&path, text).unwrap();
        let compiled = compile_resolved(&launch(&path), &Store::disk(), |_, names| {
            assert_eq!(names, ["origin.example"]);
            // A second reading would find this.
            std::fs::write(&path, "nonsense").unwrap();
            [("origin.example".to_owned(), vec!["192.0.2.7".parse().unwrap()])].into()
        });
        assert!(compiled.is_ok(), "{:?}", compiled.diagnostics);
        let plan = compiled.plan.unwrap();
        let address = plan.pools[0].set.endpoints[0].address.as_ref().unwrap();
        assert_eq!(address.to_string(), "192.0.2.7:80");
    }

    #[test]
    fn names_that_decide_how_a_file_is_read_are_known_before_it_is_lowered() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nginx.conf");
        let text = "events {}\nhttp { access_log off; server { listen 127.0.0.1:18081; \
                    set_real_ip_from trusted.example; location / { proxy_pass http://origin.example; } } }\n";
        std::fs::write(&path, text).unwrap();
        let compiled = compile_resolved(&launch(&path), &Store::disk(), |_, names| {
            assert_eq!(names, ["origin.example", "trusted.example"]);
            names.iter().map(|name| (name.clone(), vec!["192.0.2.8".parse().unwrap()])).collect()
        });
        assert!(compiled.is_ok(), "{:?}", compiled.diagnostics);
        assert!(compiled.model.routes.iter().any(|route| route.real_ip.is_some()));
    }
}
