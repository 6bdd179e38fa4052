//! `weir …`: our own command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::values::{IoWord, texts};
use super::{check, convert, diff, explain, lab, load, reload, top};
use crate::launch::{Admin, Launch, Sandbox, absolute};
use crate::life;
use crate::plane::Start;

const EXAMPLES: &str = "\
Examples:
  weir check /etc/nginx/nginx.conf      every mistake at once, with line, column, cause and remedy
  weir run -c haproxy.cfg               serve it in the foreground; Ctrl-C lets exchanges finish
  weir reload --pid /run/nginx.pid      read it again, cut nothing, and say whether it was taken
  weir explain nginx.conf | less        what the file means, with every default filled in
  weir convert haproxy.cfg > weir.yaml  the same configuration in Weir's own language
  weir diff nginx.conf weir.yaml        what two configurations mean differently
  weir top http://127.0.0.1/dashboard/   what it does right now (needs `weir_dashboard`)
  weir load -c50 -R2000 http://host/    measure a server: wrk2's command line, and more
  ln -s $(which weir) /usr/sbin/nginx   be nginx (or haproxy): same flags, signals, units, logrotate

FILE is an nginx.conf, a haproxy.cfg or a weir.yaml; which of them, its content tells.";

const RUN_HELP: &str = "\
Signals:
  HUP    reload: a broken file changes nothing, and the log says why
  USR1   open log files again
  QUIT   take no new connections, end when the last exchange is done (or at the file's own limit)
  TERM   the same within 10 seconds; a second one ends at once. INT (Ctrl-C) does what TERM does.

Examples:
  weir run -c nginx.conf
  weir run -c haproxy.cfg --workers 2 --io epoll
  weir run -c nginx.conf --pid /run/weir.pid --daemon";

/// A load balancer, reverse proxy and web server that runs the nginx.conf or haproxy.cfg you already have.
#[derive(Parser)]
#[command(name = "weir", version = env!("WEIR_VERSION"), after_help = EXAMPLES, arg_required_else_help = true)]
struct Weir {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve what a configuration says.
    #[command(after_help = RUN_HELP)]
    Run(Run),
    /// Show every mistake in a configuration. Exits 0 if it can run, 1 if not.
    Check(Check),
    /// Print what a configuration means, as YAML with secrets redacted.
    Explain(Explain),
    /// Print a configuration in Weir's own language, with its secrets.
    Convert(Convert),
    /// Show what two configurations mean differently. Exits 0 if nothing, 1 if something, 2 if one has errors.
    Diff(Diff),
    /// Make a running server read its configuration again, and say whether it was taken.
    Reload(Reload),
    /// Put a server under load, and measure it: wrk2's command line, and more.
    #[command(version = env!("WEIR_VERSION"), disable_version_flag = true, after_help = load::HELP)]
    Load(Box<load::Load>),
    /// Repeat published benchmarks on this machine: Weir beside nginx and HAProxy, with a report.
    #[command(after_help = lab::HELP)]
    Lab(lab::Lab),
    /// Watch a running server: pools, endpoints, sites, requests. Reads its dashboard.
    #[command(after_help = top::HELP)]
    Top(top::Top),
    /// Print the version.
    Version,
    /// Be nginx: `weir nginx -h` lists its flags. A link called `nginx` does the same.
    #[command(disable_help_flag = true, after_long_help = super::nginx_help::HELP.trim_end())]
    Nginx {
        /// nginx's own flags.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<OsString>,
    },
    /// Be HAProxy: `weir haproxy -h` lists its flags. A link called `haproxy` does the same.
    #[command(disable_help_flag = true, after_long_help = super::haproxy_help::USAGE.trim_end())]
    Haproxy {
        /// HAProxy's own flags.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<OsString>,
    },
}

#[derive(Args)]
struct Run {
    /// The configuration: an nginx.conf, a haproxy.cfg or a weir.yaml.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// How sockets are driven: `auto` takes io_uring where the system allows it, else epoll.
    #[arg(long, value_enum, env = "WEIR_IO", default_value = "auto")]
    io: IoWord,
    /// System calls that an unprivileged data plane has no use for: refused and logged by the kernel, only logged, or neither.
    #[arg(long, value_enum, env = Sandbox::VARIABLE, default_value = "on")]
    sandbox: SandboxWord,
    /// Keep what is changed while running (endpoints, weights, drains, certificates, resolved addresses) in this file over restarts.
    #[arg(long, value_name = "FILE", env = crate::launch::STATE)]
    state: Option<std::path::PathBuf>,
    /// Answer the admin API (/v1) here: `unix:PATH`, or a loopback address with a port, which needs --admin-tokens. Several: with commas.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', env = Admin::ADDRESS)]
    admin: Vec<String>,
    /// Who may use it, a line each: a role (read, operate, configure), a name, a token or `sha256:` and its hash.
    #[arg(long, value_name = "FILE", env = Admin::TOKENS, requires = "admin")]
    admin_tokens: Option<PathBuf>,
    /// Keep what it changes of the configuration, with all versions, in this file over restarts.
    #[arg(long, value_name = "FILE", env = Admin::VERSIONS, requires = "admin")]
    admin_versions: Option<PathBuf>,
    /// Write who changed what through it to this file, a line of JSON each. The error log has it in any case.
    #[arg(long, value_name = "FILE", env = Admin::LOG, requires = "admin")]
    admin_log: Option<PathBuf>,
    /// Worker threads, instead of what the file says.
    #[arg(long, value_name = "N")]
    workers: Option<u16>,
    /// Where to write the process id, instead of what the file says.
    #[arg(long, value_name = "FILE")]
    pid: Option<PathBuf>,
    /// Go to the background; exits 0 once the ports are bound.
    #[arg(long)]
    daemon: bool,
    /// Folder that relative paths of an nginx.conf start from.
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
}

/// A [`Sandbox`], by name.
#[derive(Clone, Copy, ValueEnum)]
enum SandboxWord {
    On,
    Log,
    Off,
}

#[derive(Args)]
struct Check {
    /// The configuration.
    file: PathBuf,
    /// For people, or one JSON object for each finding.
    #[arg(long, value_enum, default_value = "terminal")]
    format: check::Format,
    /// Folder that relative paths of an nginx.conf start from.
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
}

#[derive(Args)]
struct Explain {
    /// The configuration.
    file: PathBuf,
    /// What will run instead of what was meant.
    #[arg(long)]
    plan: bool,
    /// Folder that relative paths of an nginx.conf start from.
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
}

#[derive(Args)]
struct Convert {
    /// The configuration.
    file: PathBuf,
    /// What is written.
    #[arg(long, value_enum, default_value = "yaml")]
    to: convert::Form,
    /// Folder that relative paths of an nginx.conf start from.
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
}

#[derive(Args)]
struct Diff {
    /// One configuration.
    one: PathBuf,
    /// The other one.
    other: PathBuf,
}

#[derive(Args)]
struct Reload {
    /// The pid file of the server.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pid: Option<PathBuf>,
    /// Its configuration, which names the pid file.
    #[arg(short, long, value_name = "FILE", required_unless_present = "pid")]
    config: Option<PathBuf>,
}

/// The definition of the command line: manual pages and completions are made of it.
pub(super) fn definition() -> clap::Command {
    <Weir as clap::CommandFactory>::command()
}

/// Obeys.
pub(super) fn run(arguments: &[OsString], start: Start) -> ExitCode {
    match Weir::parse_from(arguments).command {
        Command::Run(run) => life::start::start(launch(run), start),
        Command::Check(check) => check::run(&Launch::of_file(check.file, check.prefix), check.format),
        Command::Explain(explain) => {
            explain::run(&Launch::of_file(explain.file, explain.prefix), explain.plan)
        }
        Command::Convert(convert) => convert::run(&Launch::of_file(convert.file, convert.prefix), convert.to),
        Command::Diff(diff) => {
            diff::run(&Launch::of_file(diff.one, None), &Launch::of_file(diff.other, None))
        }
        Command::Reload(reload) => reload::run(reload.pid, reload.config),
        Command::Load(load) => load::run(*load),
        Command::Lab(lab) => lab::run(lab),
        Command::Top(top) => top::run(&top),
        Command::Version => {
            outln!("weir {}", env!("WEIR_VERSION"));
            ExitCode::SUCCESS
        }
        // `cli::run` has looked at the first word before, so these are here for the help text.
        Command::Nginx { flags } => super::nginx::run(&texts(&flags), start),
        Command::Haproxy { flags } => super::haproxy::run(&texts(&flags), start),
    }
}

fn launch(run: Run) -> Launch {
    let mut launch = Launch::of_file(run.config, run.prefix);
    launch.daemon = Some(run.daemon);
    launch.io = run.io.into();
    launch.state = run.state.map(absolute);
    // A variable may be set to nothing.
    let path = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty()).map(absolute);
    let addresses: Vec<String> = run.admin.into_iter().filter(|address| !address.is_empty()).collect();
    launch.admin = (!addresses.is_empty()).then(|| Admin {
        addresses,
        tokens: path(run.admin_tokens),
        versions: path(run.admin_versions),
        log: path(run.admin_log),
    });
    launch.sandbox = match run.sandbox {
        SandboxWord::On => Sandbox::On,
        SandboxWord::Log => Sandbox::Log,
        SandboxWord::Off => Sandbox::Off,
    };
    launch.workers = run.workers;
    launch.pid_file = run.pid;
    launch
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_sound() {
        super::definition().debug_assert();
    }
}
