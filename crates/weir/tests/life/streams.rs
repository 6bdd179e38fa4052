//! The standard streams of servers in the background and in the foreground, beside those of the originals.

use std::process::Command;

use weir_testkit::process::UnixSignal as Signal;
use weir_testkit::{Process, eventually, programs};

use crate::Case;
use crate::cases::other_user;
use crate::scene::{Scene, facts, is_root, until_gone};

pub(crate) const ALL: &[Case] = &[
    ("in_the_background_outputs_are_let_go", in_the_background_outputs_are_let_go),
    ("a_rotated_error_log_is_let_go", a_rotated_error_log_is_let_go),
    ("haproxys_outputs_in_the_background", haproxys_outputs_in_the_background),
    ("in_the_foreground_outputs_are_kept", in_the_foreground_outputs_are_kept),
    ("flags_name_files_below_the_prefix", flags_name_files_below_the_prefix),
];

/// What streams 0, 1 and 2 of a process and of its children are.
fn streams(pid: i32) -> Vec<[String; 3]> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().map(|child| child.parse().unwrap());
    let of = |pid: i32| {
        [0, 1, 2].map(|number| {
            let link = std::fs::read_link(format!("/proc/{pid}/fd/{number}"));
            link.map_or_else(|error| error.to_string(), |target| target.display().to_string())
        })
    };
    std::iter::once(pid).chain(children).map(of).collect()
}

/// The different ones.
fn distinct(mut streams: Vec<[String; 3]>) -> Vec<[String; 3]> {
    streams.sort();
    streams.dedup();
    streams
}

/// Starts a server that detaches, as a script does that captures what it prints: through a pipe that has to end.
fn captured(command: &Command) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "text=$(\"$@\" 2>&1 </dev/null)", "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(command.get_current_dir().unwrap());
    let (code, printed) = programs::run(shell);
    assert_eq!(code, 0, "{printed}");
}

fn rival(scene: &Scene, program: &str, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).current_dir(scene.dir.path());
    command
}

fn in_the_background_outputs_are_let_go() {
    let users: &[&str] = if is_root() { &["user nobody nogroup;", "user root;"] } else { &[""] };
    for user in users {
        let scene = Scene::new();
        let file = scene.nginx(user, "").display().to_string();
        let log = scene.path("error.log").display().to_string();
        let expected = vec![["/dev/null".to_owned(), "/dev/null".to_owned(), log]];
        for command in [scene.command(&["nginx", "-c", &file]), rival(&scene, "nginx", &["-c", &file])] {
            let name = format!("{command:?}");
            captured(&command);
            let pid = eventually("the pid file", || {
                std::fs::read_to_string(scene.path("weir.pid")).ok()?.trim().parse().ok()
            });
            eventually("the streams", || (distinct(streams(pid)) == expected).then_some(()));
            assert_eq!(distinct(streams(pid)), expected, "{name}");
            scene.signal(pid, Signal::QUIT);
            until_gone(pid);
        }
    }
}

fn a_rotated_error_log_is_let_go() {
    let users: &[&str] = if is_root() { &["user nobody nogroup;", "user root;"] } else { &[""] };
    for user in users {
        let scene = Scene::new();
        let file = scene.nginx(user, "").display().to_string();
        captured(&scene.command(&["nginx", "-c", &file]));
        let (pid, log) = (scene.pid(), scene.path("error.log"));
        std::fs::rename(&log, scene.path("error.log.1")).unwrap();
        scene.signal(pid, Signal::USR1);
        let log = log.display().to_string();
        eventually("the new file", || streams(pid).iter().all(|streams| streams[2] == log).then_some(()));
        scene.signal(pid, Signal::QUIT);
        until_gone(pid);
    }
}

fn haproxys_outputs_in_the_background() {
    let users: &[&str] = if is_root() { &["  user nobody\n  group nogroup", ""] } else { &[""] };
    for user in users {
        let scene = Scene::new();
        let log = "\n  log stdout format raw local0";
        let file = scene.haproxy(&format!("{user}{log}")).display().to_string();
        let expected = vec![["/dev/null"; 3].map(str::to_owned)];
        for command in
            [scene.command(&["haproxy", "-D", "-f", &file]), rival(&scene, "haproxy", &["-D", "-f", &file])]
        {
            captured(&command);
            let pid = scene.pid();
            assert_eq!(distinct(streams(pid)), expected);
            scene.signal(pid, Signal::TERM);
            until_gone(pid);
            let _ = std::fs::remove_file(scene.path("weir.pid"));
        }
    }
}

fn in_the_foreground_outputs_are_kept() {
    let name = "in_the_foreground_outputs_are_kept";
    let user = if other_user(name) { "user nobody nogroup;" } else { "" };
    let scene = Scene::new();
    let text = format!(
        "{user} pid {{dir}}/weir.pid; error_log /dev/stderr notice; events {{}} http {{ access_log /dev/stdout; server {{ listen 127.0.0.1:{{port}}; location / {{ return 200 ok; }} }} }}"
    );
    scene.write("nginx.conf", &text);
    let out = std::fs::File::create(scene.path("out")).unwrap();
    let mut command = scene.command(&["run", "-c", "nginx.conf"]);
    let mut child = command.stdout(out.try_clone().unwrap()).stderr(out).spawn().unwrap();
    eventually("the pid file", || scene.path("weir.pid").exists().then_some(()));
    facts(&scene.port);
    let pid = i32::try_from(child.id()).unwrap();
    let out = scene.path("out").display().to_string();
    let streams = eventually("both processes", || {
        let streams = streams(pid);
        (streams.len() == if is_root() { 2 } else { 1 }).then_some(streams)
    });
    assert!(streams.iter().all(|one| one[1] == out && one[2] == out), "{streams:?}");
    scene.signal(pid, Signal::QUIT);
    assert!(child.wait().unwrap().success());
}

fn flags_name_files_below_the_prefix() {
    let scene = Scene::new();
    scene.nginx("", "");
    std::fs::create_dir(scene.path("logs")).unwrap();
    let prefix = scene.dir.path().display().to_string();
    let words = ["-t", "-p", &prefix, "-c", "nginx.conf", "-e", "logs/early.log"];
    let elsewhere = |mut command: Command| {
        command.args(words).current_dir("/");
        programs::run(command)
    };
    let mut ours = scene.command(&["nginx"]);
    ours.env_remove("NOTIFY_SOCKET");
    assert_eq!(elsewhere(ours), elsewhere(Command::new("nginx")));
    // Without a prefix they are below the one that was built in, not where the command was given.
    let here = |mut command: Command| {
        command.args(["-t", "-c", "nginx.conf"]).current_dir(scene.dir.path());
        let (code, text) = programs::run(command);
        let last = text.lines().last().unwrap_or_default().to_owned();
        (code, last)
    };
    assert_eq!(here(scene.command(&["nginx"])), here(Command::new("nginx")));
    // Early lines go to the file that the flag names, until the configuration names another.
    scene.write("nginx.conf", "pid {dir}/weir.pid; events {} http { access_log off; server { listen 127.0.0.1:{port}; location / { return 200 ok; } } }");
    let command = scene.command(&[
        "nginx",
        "-p",
        &prefix,
        "-c",
        "nginx.conf",
        "-e",
        "logs/early.log",
        "-g",
        "daemon off;",
    ]);
    let mut process = Process::spawn(command).unwrap();
    scene.until_told("READY=1", &process);
    assert!(scene.path("logs/early.log").exists());
    process.signal(Signal::QUIT);
    process.wait(weir_testkit::Deadline::standard());
}
