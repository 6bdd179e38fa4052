//! A small lab, end to end: measured, resumed, reported; and what it says when it cannot.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use weir_lab::accounting::family;
use weir_lab::contender::Contender;
use weir_lab::report::Judged;
use weir_lab::report::Report;
use weir_lab::results::Record;
use weir_lab::stats::median;
use weir_testkit::Deadline;

const SCENARIO: &str = "\
id: tiny
title: a tiny scenario
about: for a test
contenders: [direct, weir, nginx, haproxy]
modes: [http, tcp-https]
keepalive: [true, false]
sizes: [1k, 10k]
connections: 4
plots: [bars, distribution, workers]
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 2, seconds: 0.3, warmup: 0.05, sizes: [1k] }
";

fn lab(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).arg("lab").args(words).current_dir(dir).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tiny.yaml"), SCENARIO).unwrap();
    dir
}

/// The records of a quick run of the scenario `id` with this text; it must succeed.
#[track_caller]
fn measured(dir: &Path, id: &str, text: &str, words: &[&str]) -> Vec<Record> {
    let file = format!("{id}.yaml");
    std::fs::write(dir.join(&file), text).unwrap();
    let run = lab(dir, &[&["run", "--quick", "--out", "out"], words, &[&file]].concat());
    assert!(run.status.success(), "{}", printed(&run));
    let read = |file: PathBuf| serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    records_of(dir, id).into_iter().map(read).collect()
}

/// The report of what `out` holds.
#[track_caller]
fn reported(dir: &Path) -> Report {
    let made = lab(dir, &["report", "out"]);
    assert!(made.status.success(), "{}", printed(&made));
    serde_json::from_str(&std::fs::read_to_string(dir.join("out/report.json")).unwrap()).unwrap()
}

fn records(dir: &Path) -> Vec<PathBuf> {
    records_of(dir, "tiny")
}

fn records_of(dir: &Path, id: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for point in std::fs::read_dir(dir.join("out").join(id)).unwrap().flatten().filter(|e| e.path().is_dir())
    {
        let files = std::fs::read_dir(point.path()).unwrap().flatten().map(|e| e.path());
        found.extend(files.filter(|f| f.extension().is_some_and(|e| e == "json")));
    }
    found
}

#[test]
fn a_run_is_measured_resumed_and_reported() {
    let dir = folder();
    let run = ["run", "--quick", "--out", "out", "tiny.yaml"];
    let first = lab(dir.path(), &run);
    assert!(first.status.success(), "{}", printed(&first));
    let all = records(dir.path());
    // Four contenders at the two points of HTTP, three at the two of TCP, twice each.
    assert_eq!(all.len(), (4 + 4 + 3 + 3) * 2);

    // Stopped and begun again: what is there stays, what is missing is measured.
    let (gone, kept) = (&all[3], &all[4]);
    let before = std::fs::read(kept).unwrap();
    std::fs::remove_file(gone).unwrap();
    let second = lab(dir.path(), &run);
    assert!(second.status.success(), "{}", printed(&second));
    assert!(printed(&second).contains("1 points measured"), "{}", printed(&second));
    assert!(gone.is_file());
    assert_eq!(std::fs::read(kept).unwrap(), before);

    // Results of other settings do not mix.
    let full = lab(dir.path(), &["run", "--out", "out", "tiny.yaml"]);
    assert!(!full.status.success());
    assert!(printed(&full).contains("--quick") && printed(&full).contains("--out"), "{}", printed(&full));

    let made = lab(dir.path(), &["report", "out"]);
    assert!(made.status.success(), "{}", printed(&made));
    reports_agree(&dir.path().join("out"), &records(dir.path()));
    guides_and_sizes(dir.path());
}

/// What is measured makes a guide, and answers what a load needs.
fn guides_and_sizes(dir: &Path) {
    let merged = lab(dir, &["merge", "--out", "guide", "here=out"]);
    assert!(merged.status.success(), "{}", printed(&merged));
    assert!(std::fs::read_to_string(dir.join("guide/guide.html")).unwrap().contains("here"));
    for from in ["out", "guide"] {
        let sized = lab(dir, &["size", "--rps", "2k", "--page", "1k", "--from", from]);
        let said = printed(&sized);
        assert!(sized.status.success() && said.contains("weir: ") && said.contains("nginx: "), "{said}");
        assert!(said.contains("cores") && said.contains("USD"), "{said}");
    }
    let unmeasured = lab(dir, &["size", "--rps", "2k", "--tps", "5", "--from", "out"]);
    assert!(
        !unmeasured.status.success() && printed(&unmeasured).contains("no curve"),
        "{}",
        printed(&unmeasured)
    );
    let prices = lab(dir, &["size", "--show-prices"]);
    std::fs::write(dir.join("mine.yaml"), prices.stdout.as_slice()).unwrap();
    let mine = lab(dir, &["size", "--rps", "1", "--from", "out", "--prices", "mine.yaml", "--json"]);
    let answers: serde_json::Value = serde_json::from_slice(&mine.stdout).unwrap();
    assert_eq!(answers[0]["cores"]["expected"], 1.0);
}

fn reports_agree(out: &Path, files: &[PathBuf]) {
    let text = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let report: Report = serde_json::from_str(&text("report.json")).unwrap();
    let all: Vec<Record> =
        files.iter().map(|f| serde_json::from_str(&std::fs::read_to_string(f).unwrap()).unwrap()).collect();
    let chapter = &report.scenarios[0];
    assert_eq!(chapter.rows.len(), 14);
    assert!(chapter.missing.is_empty(), "{:?}", chapter.missing);
    assert!(report.environment.versions.len() == 3 && !report.environment.kernel.is_empty());
    let csv = text("report.csv");
    assert_eq!(csv.lines().count(), 15);
    let columns: BTreeSet<usize> = csv.lines().map(|l| l.split(',').count()).collect();
    assert_eq!(columns.len(), 1, "{csv}");
    for row in &chapter.rows {
        let of_row: Vec<&Record> =
            all.iter().filter(|r| r.point == row.point && r.contender == row.contender).collect();
        let rates: Vec<f64> = of_row.iter().map(|r| r.load.total.rate).collect();
        assert_eq!(row.rate.median, median(&rates));
        let (low, high) = row.rate.span();
        assert!(low <= row.rate.median && row.rate.median <= high);
        assert_eq!(row.requests, of_row.iter().map(|r| r.load.total.requests).sum::<u64>());
        assert_eq!((row.errors, row.bad_status), (0, 0), "{row:?}");
        assert!(row.memory_peak > 1 << 20 && row.cpu_us.median > 0.0, "{row:?}");
        let times: Vec<f64> = row.distribution.iter().map(|d| d.0).collect();
        assert!(times.len() > 100 && times.is_sorted(), "{times:?}");
        assert!(csv.contains(&row.rate.median.to_string()), "{csv}");
        assert_eq!(row.weir_over_this.is_some(), row.contender.name() != "weir");
    }
    let page = text("report.html");
    // Two modes, kept and closed: rates, CPU time and distributions, in two forms, of four; ratios of rates and of CPU time.
    // Each is there for wide screens and for narrow ones.
    assert_eq!(page.matches("<svg class=\"plot full\"").count(), 4 + 4 + 2 * 4 + 2);
    assert_eq!(page.matches("<svg class=\"plot slim\"").count(), 4 + 4 + 2 * 4 + 2);
    assert!(!page.contains("NaN"));
    let fetched = ["src=", "<link", "<script ", "@import", "url("].iter().find(|f| page.contains(**f));
    assert_eq!(fetched, None, "it needs no network");
    assert_eq!(page.matches("<script>").count(), 1, "one script, its own");
    let rows = |who: &str| page.matches(&format!("<tr class=\"{who}")).count();
    assert_eq!(["direct", "weir", "nginx", "haproxy"].map(rows), [2, 4, 4, 4]);
    assert_eq!(page.matches("<svg ").count(), page.matches("</svg>").count());
    assert!(
        page.contains("<b>Debug build.</b>") == cfg!(debug_assertions) && page.contains("<b>Quick runs.</b>")
    );
    assert!(text("report.md").contains("| rate /s |"));
}

#[test]
fn a_missing_rival_is_named_and_can_be_left_out() {
    let dir = folder();
    let missing = lab(dir.path(), &["run", "--quick", "--nginx", "/nowhere/nginx", "tiny.yaml"]);
    assert!(!missing.status.success());
    assert!(
        printed(&missing).contains("--nginx /nowhere/nginx: there is no such program"),
        "{}",
        printed(&missing)
    );
    let wrong = lab(dir.path(), &["run", "--quick", "--haproxy", "/bin/true", "tiny.yaml"]);
    assert!(printed(&wrong).contains("/bin/true is no haproxy"), "{}", printed(&wrong));
    let nothing = lab(dir.path(), &["report", "nowhere"]);
    assert!(
        !nothing.status.success() && printed(&nothing).contains("holds no results"),
        "{}",
        printed(&nothing)
    );
    let unknown = lab(dir.path(), &["run", "B77"]);
    assert!(printed(&unknown).contains("no scenario `B77`"), "{}", printed(&unknown));
}

#[test]
fn a_used_port_is_named() {
    let dir = folder();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    let used = lab(dir.path(), &["run", "--quick", "--port", &port, "tiny.yaml"]);
    assert!(!used.status.success());
    let said = printed(&used);
    assert!(said.contains(&format!("port {port} cannot be had")) && said.contains("--port"), "{said}");
}

#[test]
fn a_rival_that_dies_is_named_with_what_it_said() {
    let dir = folder();
    let script = dir.path().join("nginx");
    // Tells its version as nginx does, and ends as soon as it should serve.
    std::fs::write(&script, "#!/bin/sh\ncase $1 in -v|-V) echo 'nginx version: nginx/0' >&2;; *) echo no luck today >&2; exit 3;; esac\n")
        .unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let text =
        SCENARIO.replace("modes: [http, tcp-https]", "modes: [http]").replace("[true, false]", "[true]");
    std::fs::write(dir.path().join("tiny.yaml"), text).unwrap();
    let words =
        ["run", "--quick", "--out", "out", "--without", "haproxy,direct", "--nginx", "./nginx", "tiny.yaml"];
    let run = lab(dir.path(), &words);
    assert!(!run.status.success());
    assert!(printed(&run).contains("nginx ended (exit status: 3): no luck today"), "{}", printed(&run));
    assert_eq!(records(dir.path()).len(), 2, "Weir has its figures");
    let made = lab(dir.path(), &["report", "out"]);
    assert!(made.status.success(), "{}", printed(&made));
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    assert!(page.contains("no luck today"));
}

#[test]
fn rates_are_shares_and_several_clients_count_as_one() {
    let dir = folder();
    let text = "\
id: more
title: several clients, several servers, rates and handshakes
about: for a test
contenders: [weir, nginx]
modes: [http, handshake-p256]
keepalive: [true]
sizes: ['128']
connections: 8
clients: 2
servers: 2
rates: [max, 50% of the slowest, 1g]
full: { runs: 1, seconds: 1, warmup: 0 }
quick: { runs: 1, seconds: 0.2, warmup: 0.05 }
";
    // Far beyond what anybody does: such a rate is left out with a reason.
    let text = text.replace("1g", "1000000000");
    let all = measured(dir.path(), "more", &text, &[]);
    // Two modes, at full speed and at a share, two contenders.
    assert_eq!(all.len(), 2 * 2 * 2);
    for record in &all {
        assert_eq!(record.load.agents.len(), 2, "both clients report");
        assert_eq!(record.load.total.errors.sum(), 0, "{:?}", record.load.total.errors);
    }
    let rates = |paced: bool, mode: &str| -> Vec<f64> {
        let of_mode = all.iter().filter(|r| r.point.mode.name() == mode && r.point.rate.is_some() == paced);
        of_mode.map(|r| r.load.total.rate_wanted.unwrap_or(r.load.total.rate)).collect()
    };
    for mode in ["http", "handshake-p256"] {
        let slowest = rates(false, mode).into_iter().fold(f64::MAX, f64::min);
        let wanted = rates(true, mode);
        assert_eq!(wanted.len(), 2);
        for rate in wanted {
            assert!((rate / slowest - 0.5).abs() < 0.01, "{rate} of {slowest}");
        }
    }
    let left_out =
        std::fs::read_to_string(dir.path().join("out/more/http-kept-128-w1-r1000000000/nginx.failed"));
    assert!(left_out.unwrap().contains("far beyond what the fastest contender does"));
}

const CHANGES: &str = "\
id: changed
title: changes
about: for a test
contenders: [weir, nginx, haproxy]
modes: [http]
keepalive: [true]
sizes: [1k]
connections: 4
rates: [max, 100]
servers: 2
changes: 100
full: { runs: 1, seconds: 60, warmup: 2 }
quick: { runs: 1, seconds: 1.5, warmup: 0.1, changes: 4 }
";

#[test]
fn the_configuration_changes_while_sockets_are_open() {
    let dir = folder();
    let all = measured(dir.path(), "changed", CHANGES, &[]);
    let changed: Vec<&Record> = all.iter().filter(|r| r.point.rate.is_some()).collect();
    assert_eq!(changed.len(), 3);
    for record in &changed {
        let (who, changes) = (record.contender, record.changes.unwrap());
        assert!(changes.made > 0 && changes.made == changes.sockets, "{who:?}: {changes:?}");
        // nginx and HAProxy keep an old process for each socket.
        assert_eq!(changes.processes > 2, who != Contender::Weir, "{who:?}: {changes:?}");
        let load = &record.load.total;
        if who == Contender::Weir {
            assert_eq!((changes.dropped, load.errors.sum(), load.status.failed()), (0, 0, 0), "{load:?}");
        }
    }
    assert!(all.iter().filter(|r| r.point.rate.is_none()).all(|r| r.changes.is_none()), "none at full speed");
    let findings = &reported(dir.path()).scenarios[0].findings;
    let told = findings.iter().find(|f| f.starts_with("weir, ")).unwrap();
    assert!(told.contains(" changes: 0 of ") && told.contains("sockets were refused or cut"), "{told}");
    let alone = CHANGES.replace("servers: 2", "servers: 1");
    std::fs::write(dir.path().join("alone.yaml"), alone).unwrap();
    let refused = lab(dir.path(), &["run", "alone.yaml"]);
    assert!(printed(&refused).contains("two servers or more"), "{}", printed(&refused));
}

#[test]
fn a_burstable_machine_slows_down_when_its_credits_are_spent() {
    let dir = folder();
    let text = "\
id: burst
title: credits are spent
about: for a test
contenders: [weir]
modes: [http]
keepalive: [true]
sizes: [1k]
connections: 4
rates: [max, 60%]
burstable: { baseline: 0.1, launch_credits: 0.001, most_credits: 1 }
full: { runs: 3, seconds: 1, warmup: 0 }
quick: { runs: 3, seconds: 1, warmup: 0 }
";
    let mut all = measured(dir.path(), "burst", text, &[]);
    // A machine without control groups says so, and goes on.
    if let Ok(why) = std::fs::read_to_string(dir.path().join("out/burst/skipped")) {
        assert!(why.contains("CPU time cannot be rationed on this machine"), "{why}");
        return;
    }
    all.retain(|r| r.point.rate.is_some());
    all.sort_by_key(|r| r.run);
    let accounts: Vec<_> = all.iter().map(|r| r.account.unwrap()).collect();
    assert_eq!(accounts.len(), 3);
    assert_eq!(accounts[0].before, 0.001);
    for pair in accounts.windows(2) {
        assert_eq!(pair[1].before, pair[0].after, "what a run leaves is what the next one has");
    }
    // On a machine whose other work leaves the server less than its baseline, nobody can spend the credits.
    let Some(spent) = accounts.iter().position(|account| account.limited > 0.9) else { return };
    let p99 = all[spent].load.total.latency.at(99.0).unwrap();
    assert!(p99 > 20_000.0, "{p99} us is no stall");
}

#[test]
fn a_rival_that_is_killed_is_named_and_the_others_go_on() {
    let dir = folder();
    let text = SCENARIO
        .replace("[direct, weir, nginx, haproxy]", "[weir, haproxy]")
        .replace("modes: [http, tcp-https]", "modes: [http]")
        .replace("[true, false]", "[true]")
        .replace("seconds: 0.3,", "seconds: 2,");
    std::fs::write(dir.path().join("tiny.yaml"), text).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["lab", "run", "--quick", "--out", "out", "tiny.yaml"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Deadline::after(Duration::from_secs(30));
    let rival = loop {
        // Weir's run comes first, so haproxy is seen from when it is its turn.
        let named = |pid: &u32| {
            let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.contains("haproxy\0-db\0")
        };
        if let Some(pid) = family(run.id()).into_iter().find(named) {
            break pid;
        }
        assert!(deadline.look_again(), "haproxy is not seen");
    };
    let killed = Command::new("kill").args(["-9", &rival.to_string()]).status().unwrap();
    assert!(killed.success());
    let run = run.wait_with_output().unwrap();
    assert!(!run.status.success());
    let said = printed(&run);
    assert!(said.contains("haproxy ended (signal: 9 (SIGKILL))"), "{said}");
    assert_eq!(records(dir.path()).len(), 2, "Weir has its figures");
    let noted = std::fs::read_to_string(dir.path().join("out/tiny/http-kept-1k-w1/haproxy.failed")).unwrap();
    assert!(noted.contains("SIGKILL"), "{noted}");
}

/// Answers as kubectl does before a cluster with one controller of nginx's and one of somebody else's, and notes what it was asked.
const KUBECTL: &str = r#"#!/bin/sh
echo "$*" >> "$KUBECTL_LOG"
case "$*" in
  *ingressclasses*) echo '{"items":[{"metadata":{"name":"public"},"spec":{"controller":"k8s.io/ingress-nginx"}},
    {"metadata":{"name":"t"},"spec":{"controller":"traefik.io/ingress-controller"}}]}';;
  apply*) cat > "$KUBECTL_LOG.applied";;
esac
"#;

#[test]
fn ingress_controllers_are_measured_where_they_answer() {
    let dir = folder();
    let ports = [weir_testkit::Port::lease(), weir_testkit::Port::lease()];
    let [http, https] = [ports[0].number(), ports[1].number()];
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["load", "serve", "--sizes", "1k"]);
    command.args(["--http", &format!("127.0.0.1:{http}"), "--https", &format!("127.0.0.1:{https}")]);
    let _controller = weir_testkit::Process::spawn(command).unwrap();
    let deadline = Deadline::after(Duration::from_secs(20));
    while ![http, https].into_iter().all(weir_testkit::port::is_listening) {
        assert!(deadline.look_again(), "the server does not listen");
    }
    let kubectl = dir.path().join("kubectl");
    std::fs::write(&kubectl, KUBECTL).unwrap();
    std::fs::set_permissions(&kubectl, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let text = "\
id: cluster
title: in a cluster
about: for a test
contenders: [weir, nginx]
modes: [http, handshake-p256]
keepalive: [true]
sizes: [1k]
connections: 4
kubernetes: { image: pages, folder: /pages, replicas: 1 }
full: { runs: 1, seconds: 1, warmup: 0 }
quick: { runs: 1, seconds: 0.3, warmup: 0 }
";
    std::fs::write(dir.path().join("cluster.yaml"), text).unwrap();
    let run = |path: &str| {
        Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["lab", "run", "--quick", "--out", "out", "--ingress"])
            .args([&format!("nginx=127.0.0.1:{http}:{https}"), "cluster.yaml"])
            .current_dir(dir.path())
            .env("PATH", path)
            .env("KUBECTL_LOG", dir.path().join("log"))
            .output()
            .unwrap()
    };
    // No cluster, no figures: the reason is kept, and nothing has failed.
    let none = run("/nowhere");
    assert!(none.status.success(), "{}", printed(&none));
    let skipped = dir.path().join("out/cluster/skipped");
    assert_eq!(std::fs::read_to_string(&skipped).unwrap(), "kubectl is not on this machine");

    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let there = run(&path);
    assert!(there.status.success(), "{}", printed(&there));
    assert!(!skipped.exists());
    let all = records_of(dir.path(), "cluster");
    assert_eq!(all.len(), 2, "requests and handshakes, of the one controller that is there");
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("delete namespace weir-lab-"), "{log}");
    let applied = std::fs::read_to_string(dir.path().join("log.applied")).unwrap();
    let applied: serde_json::Value = serde_json::from_str(&applied).unwrap();
    let ingress = applied["items"].as_array().unwrap().iter().find(|i| i["kind"] == "Ingress").unwrap();
    assert_eq!(ingress["spec"]["ingressClassName"], "public");
    assert_eq!(ingress["spec"]["rules"][0]["host"], "nginx.weir-lab.example");
}

#[test]
fn a_run_that_is_stopped_leaves_nobody_behind_and_goes_on() {
    let dir = folder();
    let words = ["run", "--quick", "--out", "out", "--without", "direct", "tiny.yaml"];
    let run = Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("lab")
        .args(words)
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Deadline::after(Duration::from_secs(30));
    while !dir.path().join("out/tiny/http-kept-1k-w1/haproxy-0.json").exists() {
        assert!(deadline.look_again(), "nothing is measured");
    }
    let started: Vec<u32> = family(run.id()).into_iter().filter(|pid| *pid != run.id()).collect();
    assert!(started.len() >= 4, "contenders and their origin stand ready");
    assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap().success());
    let stopped = run.wait_with_output().unwrap();
    assert!(!stopped.status.success());
    assert!(printed(&stopped).contains("the same command goes on from here"), "{}", printed(&stopped));
    let alive = |pid: &&u32| {
        // One that nobody has waited for yet is dead all the same.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z') && !rest.starts_with('X'))
    };
    let deadline = Deadline::after(Duration::from_secs(10));
    while let Some(pid) = started.iter().find(alive) {
        assert!(deadline.look_again(), "process {pid} is still there");
    }
    let before = records(dir.path()).len();
    assert!(before < 24);
    let again = lab(dir.path(), &words);
    assert!(again.status.success(), "{}", printed(&again));
    assert_eq!(records(dir.path()).len(), 24);
}

#[test]
fn instructions_are_counted_where_something_counts_them() {
    let dir = folder();
    let text = "\
id: counted
title: instructions
about: for a test
contenders: [nginx]
modes: [http]
keepalive: [true]
sizes: [1k]
connections: 4
placement: packed
instructions: true
full: { runs: 1, seconds: 0.3, warmup: 0 }
quick: { runs: 1, seconds: 0.3, warmup: 0 }
";
    std::fs::write(dir.path().join("counted.yaml"), text).unwrap();
    let run = lab(dir.path(), &["run", "--out", "out", "counted.yaml"]);
    assert!(run.status.success(), "{}", printed(&run));
    let settings = std::fs::read_to_string(dir.path().join("out/lab.json")).unwrap();
    let by_processor = settings.contains("\"instructions\": \"counted\"");
    let files = records_of(dir.path(), "counted");
    let record: Record = serde_json::from_str(&std::fs::read_to_string(&files[0]).unwrap()).unwrap();
    match record.instructions_per_request {
        Some(count) => assert!((1_000.0..1_000_000.0).contains(&count), "{count}"),
        None => assert!(!by_processor && !weir_lab::callgrind::is_here(), "{}", printed(&run)),
    }
}

const AIMS: &str = "\
id: aims
title: what is aimed at
about: for a test
contenders: [weir, nginx, haproxy]
points:
  - { id: files, title: a file, mode: files-http, size: 1k, target: 100 }
  - { id: files-epoll, title: 'a file, epoll', by: weir-epoll, mode: files-http, size: 1k, target: 100 }
  - { id: proxy, title: a proxy, mode: http, size: 1k, target: 0.0001 }
  - { id: shakes, title: full handshakes, mode: handshake-p256, size: '0', target: 100 }
  - { id: waits, title: waiting, mode: idle-http, size: '0', runs: 1, target: 100 }
  - { id: waits-tls, title: 'waiting, TLS', mode: idle-https, size: '0', runs: 1, target: 100 }
  - { id: sites, title: many sites, mode: sites, size: 1k, against: weir-one-site, target: 100 }
targets: { mean: 0.72, stretch: 0.62, ceiling: 1.0 }
connections: 4
idle: 500
sites: 12
locations: 3
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 2, seconds: 0.3, warmup: 0.1 }
";

fn judged(report: &Report) -> &[Judged] {
    &report.scenarios[0].verdict.as_ref().unwrap().rows
}

#[test]
fn targets_are_judged_from_what_was_measured() {
    let dir = folder();
    let old = format!("old=weir:{}", env!("CARGO_BIN_EXE_weir"));
    // First some points, once, beside another build; then the rest.
    let some = ["--points", "files,waits", "--runs", "1", "--rival", &old, "--io", "epoll"];
    let first = measured(dir.path(), "aims", AIMS, &some);
    // A file by both drivers, the other build, nginx and HAProxy; connections that wait by all but the second driver.
    assert_eq!(first.len(), 5 + 2 * 4);
    let report = reported(dir.path());
    let ids: Vec<&str> = judged(&report).iter().map(|r| r.id.as_str()).collect();
    assert_eq!(ids, ["files", "files-epoll", "waits", "waits-tls"], "what was left out is not missing");
    for row in judged(&report) {
        assert!(row.met.is_none() && row.ratio.unwrap().median > 0.0, "{row:?}");
        let other = row.others.iter().find(|a| a.contender.name() == "old").unwrap();
        assert!(other.min <= other.ratio.median && other.ratio.median <= other.max, "{other:?}");
        assert!(row.best != Some(other.contender), "another build is no measure");
    }
    for record in first.iter().filter(|r| r.point.mode.is_idle()) {
        let idle = record.idle.unwrap();
        assert!(idle.connections == 500 && idle.bytes_each > 1.0 && idle.bytes_each < 1e6, "{idle:?}");
    }

    let whole =
        ["run", "--quick", "--out", "out", "--runs", "1", "--rival", &old, "--io", "epoll", "aims.yaml"];
    let second = lab(dir.path(), &whole);
    let said = printed(&second);
    assert!(second.status.success(), "{said}");
    assert!(said.contains("3 points measured"), "what is there is not measured again: {said}");
    let table: Vec<&str> = said.lines().filter(|l| l.starts_with("a proxy ")).collect();
    assert!(
        table.len() == 1 && table[0].contains("too few runs: "),
        "the table stands at the end of a run: {said}"
    );
    assert!(said.contains("nothing is judged") && !said.contains("fall short"), "{said}");
    let report = reported(dir.path());
    assert_eq!(judged(&report).len(), 7);
    let row = |id: &str| judged(&report).iter().find(|r| r.id == id).unwrap();
    assert_eq!((row("proxy").met, row("shakes").met), (None, None));
    assert_eq!(row("sites").best, Some(Contender::WeirOneSite));
    let many = report.scenarios[0]
        .rows
        .iter()
        .find(|r| r.point == row("sites").point && r.contender == Contender::Weir);
    let many = many.unwrap();
    assert_eq!((many.sites, many.errors, many.bad_status), (Some([12, 3]), 0, 0));
    assert!(many.start.unwrap().seconds.median > 0.0 && many.start.unwrap().memory.median > 1e6);

    // Runs of other lengths do not mix, and neither do drivers.
    let longer =
        lab(dir.path(), &["run", "--quick", "--out", "out", "--seconds", "1", "--io", "epoll", "aims.yaml"]);
    assert!(!longer.status.success() && printed(&longer).contains("--seconds"), "{}", printed(&longer));
    let other = lab(dir.path(), &["run", "--quick", "--out", "out", "aims.yaml"]);
    assert!(!other.status.success() && printed(&other).contains("driver of weir"), "{}", printed(&other));
}

#[test]
fn wrk_and_nginx_stand_around_a_server_where_a_scenario_says_so() {
    let dir = folder();
    let text = AIMS
        .replace("connections: 4", "connections: 4\ngenerator: wrk\norigin: nginx")
        .replace("seconds: 0.3, warmup: 0.1", "seconds: 1, warmup: 1");
    let words = ["--points", "proxy,sites", "--runs", "1", "--without", "nginx,haproxy"];
    let all = measured(dir.path(), "aims", &text, &words);
    assert_eq!(all.len(), 1 + 2);
    for record in &all {
        let total = &record.load.total;
        assert_eq!((record.load.version.as_str(), total.errors.sum(), total.status.failed()), ("wrk", 0, 0));
        assert!(total.requests > 10 && record.cpu_us_per_request > 0.1, "{total:?}");
        assert!(total.latency.at(99.0) >= total.latency.at(50.0) && total.latency.at(50.0) > Some(0.0));
    }
    let report = reported(dir.path());
    let proxy = judged(&report).iter().find(|r| r.id == "proxy").unwrap();
    assert_eq!((proxy.met, proxy.why.as_deref()), (Some(false), Some("nobody to compare with")));
}

#[test]
fn rivals_and_points_that_do_not_exist_are_named() {
    let dir = folder();
    std::fs::write(dir.path().join("aims.yaml"), AIMS).unwrap();
    let said = |words: &[&str]| {
        let run = lab(dir.path(), &[&["run", "--quick", "aims.yaml"], words].concat());
        assert!(!run.status.success());
        printed(&run)
    };
    assert!(said(&["--points", "prxy"]).contains("no point's name begins with `prxy`"));
    assert!(
        said(&["--rival", "old=weir:/nowhere/weir"])
            .contains("--rival old=weir: /nowhere/weir: there is no such")
    );
    assert!(said(&["--rival", "nginx:/usr/sbin/nginx"]).contains("NAME=KIND:PATH is wanted"));
    assert!(said(&["--rival", "x=haproxy:/bin/true"]).contains("/bin/true is no haproxy"));
    let listed = lab(dir.path(), &["list", "aims.yaml"]);
    assert!(printed(&listed).lines().any(|l| l.starts_with("files-epoll ")), "{}", printed(&listed));
}
