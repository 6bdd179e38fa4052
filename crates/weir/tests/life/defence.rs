//! What root's process does not let itself be made to do: by a data plane that was taken over, by the owner of a folder
//! that it writes in, by whoever started it.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;

use weir_testkit::process::UnixSignal as Signal;
use weir_testkit::{Client, Process, Request, eventually};

use crate::Case;
use crate::cases::other_user;
use crate::scene::{NOBODY, Scene, alive, code_of, try_facts, until_gone};

pub(crate) const ALL: &[Case] = &[
    ("a_data_plane_that_floods_is_ended", || as_root("a_data_plane_that_floods_is_ended", flood)),
    ("a_data_plane_can_hand_over_nothing", || as_root("a_data_plane_can_hand_over_nothing", descriptors)),
    ("a_data_plane_that_does_not_listen_holds_nobody_up", || {
        as_root("a_data_plane_that_does_not_listen_holds_nobody_up", deaf);
    }),
    ("a_data_plane_has_few_powers", || as_root("a_data_plane_has_few_powers", powers)),
    ("links_of_others_are_not_written_through", || {
        as_root("links_of_others_are_not_written_through", links);
    }),
    ("a_fifo_in_a_logs_place_holds_nobody_up", || as_root("a_fifo_in_a_logs_place_holds_nobody_up", fifo)),
    ("running_as_root_is_said", || as_root("running_as_root_is_said", root_is_said)),
    ("descriptors_of_the_starter_are_closed", descriptors_of_the_starter),
    ("sockets_of_a_service_manager_are_taken_up", passed_sockets),
];

fn as_root(name: &str, body: fn()) {
    if other_user(name) {
        body();
    }
}

/// A keeper with a double of `nobody`'s.
fn kept(sandbox: &str) -> (Scene, Process) {
    let scene = Scene::new();
    scene.nginx("user nobody nogroup;", "");
    let process = scene.start(&["run", "-c", "nginx.conf", "--sandbox", sandbox]);
    (scene, process)
}

/// Has the data plane do something, and returns what it says of that, if it lives to say it.
fn commit(scene: &Scene, path: &str) -> Option<String> {
    let mut client = Client::try_connect(scene.port.clone()).ok()?;
    Some(client.try_request(&Request::get(path)).ok()?.text())
}

fn flood() {
    // Without the filter of system calls, here and below: it must not be the only thing in the way.
    let (scene, mut process) = kept("off");
    for (deed, complaint) in [("/flood", "answers what was not asked"), ("/endless", "has no end")] {
        let before = scene.facts()["pid"].clone();
        commit(&scene, deed);
        eventually("another data plane", || try_facts(&scene.port).filter(|facts| facts["pid"] != before));
        scene.until_logged(complaint);
        let reached = scene.run(&["reload", "--pid", "weir.pid"]);
        assert_eq!(reached.0, 0, "{}", reached.1);
    }
    // One line for each, and none that the data plane made.
    let errors = scene.errors();
    assert_eq!(errors.lines().filter(|line| line.contains("nonsense")).count(), 2, "{errors}");
    assert!(!errors.contains("forged") && errors.len() < 10_000, "{errors}");
    // A status that was asked for comes, once.
    process.signal(Signal::TTIN);
    scene.until_logged("the double is well");
    process.expect_clean_exit(Signal::QUIT);
}

fn descriptors() {
    let (scene, mut process) = kept("off");
    assert_eq!(commit(&scene, "/descriptors").as_deref(), Some("deed=Broken pipe (os error 32)"));
    process.expect_clean_exit(Signal::QUIT);
}

fn deaf() {
    let (scene, mut process) = kept("off");
    let plane: i32 = scene.facts()["pid"].parse().unwrap();
    assert_eq!(commit(&scene, "/deaf").as_deref(), Some("deed=done"));
    for round in 0..100 {
        std::fs::write(scene.path("error.log"), "").unwrap();
        process.signal(Signal::USR1);
        scene.until_logged("logs are open again");
        assert!(alive(plane), "round {round}");
    }
    process.signal(Signal::TERM);
    // `weir run` gives its connections a moment; a second one ends it.
    scene.until_told("STOPPING=1", &process);
    process.signal(Signal::TERM);
    assert_eq!(code_of(&mut process), Some(0));
    until_gone(plane);
}

fn powers() {
    for (sandbox, filtered, expected) in [
        ("on", true, "execute=no packets=no trace=no thread=yes file=yes connect=yes"),
        ("off", false, "execute=yes packets=yes trace=yes thread=yes file=yes connect=yes"),
    ] {
        let (scene, mut process) = kept(sandbox);
        assert_eq!(commit(&scene, "/powers").as_deref(), Some(expected));
        let plane = &scene.facts()["pid"];
        let status = std::fs::read_to_string(format!("/proc/{plane}/status")).unwrap();
        assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2") == filtered, "{status}");
        process.expect_clean_exit(Signal::QUIT);
    }
}

/// A folder of `nobody`'s inside the scene.
fn theirs(scene: &Scene) -> PathBuf {
    let folder = scene.path("theirs");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
    chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    folder
}

fn links() {
    let scene = Scene::new();
    let theirs = theirs(&scene);
    std::fs::write(scene.path("precious"), "root's").unwrap();
    let place = theirs.join("file");
    symlink(scene.path("precious"), &place).unwrap();
    std::os::unix::fs::lchown(&place, Some(NOBODY), Some(NOBODY)).unwrap();
    for words in ["pid", "error_log"] {
        let text = format!(
            "user nobody nogroup; daemon off; error_log stderr; {words} {{dir}}/theirs/file; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{{port}}; }} }}"
        );
        let file = scene.write("nginx.conf", &text).display().to_string();
        let (code, printed) = scene.run(&["nginx", "-c", &file]);
        assert_eq!(code, 1, "{printed}");
        assert!(printed.contains("a link that user 65534 can exchange is not followed"), "{printed}");
    }
    assert_eq!(std::fs::read(scene.path("precious")).unwrap(), b"root's");
}

fn fifo() {
    let scene = Scene::new();
    let theirs = theirs(&scene);
    let log = theirs.join("access.log");
    scene.write(
        "nginx.conf",
        "user nobody nogroup; pid {dir}/weir.pid; error_log {dir}/error.log notice; events {} http { access_log {dir}/theirs/access.log; server { listen 127.0.0.1:{port}; location / { return 200 ok; } } }",
    );
    let mut process = scene.start(&["run", "-c", "nginx.conf"]);
    std::fs::remove_file(&log).unwrap();
    nix::unistd::mkfifo(&log, nix::sys::stat::Mode::from_bits_truncate(0o666)).unwrap();
    process.signal(Signal::USR1);
    scene.until_logged("logs are open again");
    let (code, printed) = scene.run(&["reload", "--pid", "weir.pid"]);
    assert_eq!(code, 0, "{printed}");
    assert_eq!(scene.facts()["generation"], "2");
    process.expect_clean_exit(Signal::QUIT);
}

fn root_is_said() {
    let scene = Scene::new();
    for (user, said) in [("", true), ("user root;", false), ("user nobody nogroup;", false)] {
        scene.nginx(user, "");
        let mut process = scene.start(&["run", "-c", "nginx.conf"]);
        if said {
            process.wait_for_output("warning[process::runs-as-root]");
        }
        process.expect_clean_exit(Signal::QUIT);
        assert_eq!(process.printed().contains("runs-as-root"), said, "{user:?}: {}", process.printed());
    }
}

fn descriptors_of_the_starter() {
    let scene = Scene::new();
    scene.nginx("", "");
    let weir = scene.command(&["run", "-c", "nginx.conf"]);
    let held = scene.path("held");
    std::fs::write(&held, "").unwrap();
    let start = |script: &str| {
        scene.notify.forget();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec 3<held 7<held; {script} exec \"$@\"")]).arg("sh");
        command.arg(weir.get_program()).args(weir.get_args());
        command.envs(weir.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(scene.dir.path());
        let process = Process::spawn(command).unwrap();
        scene.until_told("READY=1", &process);
        let open = |number: u32| {
            let link = std::fs::read_link(format!("/proc/{}/fd/{number}", process.pid()));
            link.is_ok_and(|target| target == held)
        };
        let open = (open(3), open(7));
        (process, open)
    };
    let (mut process, open) = start("");
    assert_eq!(open, (false, false));
    process.expect_clean_exit(Signal::QUIT);
    // What a service manager passes on is meant for us.
    let (mut process, open) = start("export LISTEN_PID=$$ LISTEN_FDS=1;");
    assert_eq!(open, (true, false));
    process.expect_clean_exit(Signal::QUIT);
}

fn passed_sockets() {
    let scene = Scene::new();
    scene.nginx("", "listen unix:{dir}/socket;");
    let tcp = std::net::TcpListener::bind(("127.0.0.1", scene.port.number())).unwrap();
    let unix = UnixListener::bind(scene.path("socket")).unwrap();
    let weir = scene.command(&["run", "-c", "nginx.conf"]);
    let start = |socket: OwnedFd, more: &str| {
        scene.notify.forget();
        let script = format!("exec 3<&0 </dev/null; {more} export LISTEN_PID=$$; exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(weir.get_program()).args(weir.get_args());
        command.envs(weir.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(scene.dir.path());
        let process = Process::spawn_reading(command, socket).unwrap();
        scene.until_told("READY=1", &process);
        process
    };
    // The one at a port; the listener beside it is Weir's own.
    drop(unix);
    std::fs::remove_file(scene.path("socket")).unwrap();
    let mut process = start(tcp.try_clone().unwrap().into(), "export LISTEN_FDS=1;");
    assert_eq!(scene.facts()["generation"], "1");
    process.expect_clean_exit(Signal::QUIT);
    assert!(!process.printed().contains("socket-unused"), "{}", process.printed());
    assert!(!scene.path("socket").exists(), "its own socket goes with it");
    // Between two runs nobody is refused, as the socket's holder is still there.
    let waiting = Client::connect(scene.port.clone());
    let mut process = start(tcp.into(), "exec 4</dev/null; export LISTEN_FDS=2;");
    let mut waiting = waiting;
    assert_eq!(waiting.request(&Request::get("/")).status, 200);
    process.wait_for_output("passed a descriptor that is no listening stream socket (LISTEN_FDS, number 4)");
    process.expect_clean_exit(Signal::QUIT);
    // The one with a path: whoever made the file removes it.
    let unix = UnixListener::bind(scene.path("socket")).unwrap();
    let mut process = start(unix.into(), "export LISTEN_FDS=1;");
    let mut client = std::os::unix::net::UnixStream::connect(scene.path("socket")).unwrap();
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert!(text.contains("generation=1"), "{text}");
    process.expect_clean_exit(Signal::QUIT);
    assert!(scene.path("socket").exists());
}
