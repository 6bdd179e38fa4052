//! The packages, installed on this machine's own system as nobody else sees it: an overlay in mount and network namespaces of
//! its own, with Debian's nginx and haproxy beside. What units say is run as the service manager would run it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use weir_testkit::notify::NotifySocket;
use weir_testkit::process::UnixSignal as Signal;
use weir_testkit::{Client, Deadline, Process, Request, eventually, programs};

/// Set inside of the namespaces, to the folder with the packages.
const INSIDE: &str = "WEIR_TEST_PACKAGES";

fn package(to: &Path, compression: &str) {
    let weir = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("weir");
    assert!(weir.exists(), "{} is missing: `make test` builds it", weir.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["package", "--compression", compression, "--weir"]).arg(weir).arg("--to").arg(to);
    command.env("SOURCE_DATE_EPOCH", "1700000000");
    let (code, text) = programs::run_for(command, Duration::from_secs(120)).unwrap();
    assert_eq!(code, 0, "{text}");
}

/// Packages that all tests install.
fn packages() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
        package(&folder, "none");
        folder
    })
}

fn text_of(command: &mut Command) -> String {
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_second_run_gives_the_same_bytes() {
    let again = tempfile::tempdir().unwrap();
    let again = again.path().join("again");
    package(&again, "none");
    let sums = |folder: &Path| std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(&again), sums(packages()));
    assert_eq!(sums(&again).lines().filter(|line| line.ends_with(".deb")).count(), 3);
    let deb = the_package(packages(), "weir_");
    let listing = text_of(Command::new("dpkg-deb").arg("-c").arg(deb));
    for line in listing.lines() {
        assert!(line.contains("root/root"), "{line}");
        assert!(line.contains("2023-11-14"), "no time of the machine: {line}");
    }
    for (mode, path) in [
        ("-rwxr-xr-x", "./usr/bin/weir"),
        ("-rw-r--r--", "./usr/share/man/man1/weir-run.1.gz"),
        ("-rw-r--r--", "./usr/share/bash-completion/completions/weir"),
    ] {
        assert!(
            listing.lines().any(|line| line.starts_with(mode) && line.ends_with(path)),
            "{path}\n{listing}"
        );
    }
    let parts = std::fs::read_dir(packages()).unwrap().map(|found| found.unwrap().path());
    let parts = parts.into_iter().find(|path| path.to_string_lossy().ends_with(".cdx.json")).unwrap();
    let parts: serde_json::Value = serde_json::from_slice(&std::fs::read(parts).unwrap()).unwrap();
    let names: Vec<&str> =
        parts["components"].as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"rustls") && names.contains(&"weir-engine"), "{names:?}");
    assert!(!names.contains(&"proptest") && !names.contains(&"weir-testkit"), "{names:?}");
}

fn the_package(folder: &Path, start: &str) -> PathBuf {
    let mut found = std::fs::read_dir(folder).unwrap().map(|found| found.unwrap().path());
    let wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(start) && name.ends_with(".deb")
    };
    found.find(wanted).unwrap_or_else(|| panic!("no package {start}"))
}

/// Runs the test `name` again, where its mounts and ports are its own; `true` in there.
fn inside(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !rustix::process::getuid().is_root() {
        eprintln!("{name}: only the machine's root can install packages; not tested here");
        return false;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--propagation", "private", "--"]);
    command.arg(std::env::current_exe().unwrap()).args([name, "--exact", "--nocapture"]);
    command.env(INSIDE, packages());
    let (code, text) = programs::run_for(command, Duration::from_secs(200)).unwrap();
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("1 passed"), "{text}");
    false
}

/// This machine's system under an overlay that takes all that is written.
struct Image {
    root: PathBuf,
    _dir: tempfile::TempDir,
}

impl Image {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("system");
        let at = dir.path().display();
        sh(&format!(
            "ip link set lo up && mount -t tmpfs none {at} && mkdir {at}/up {at}/work {at}/system \
             && mount -t overlay overlay -o lowerdir=/,upperdir={at}/up,workdir={at}/work {at}/system \
             && mount -t proc proc {at}/system/proc && mount --rbind /dev {at}/system/dev \
             && mount -t tmpfs none {at}/system/run && mkdir -p {at}/system/run/lock \
             && mount -t tmpfs none {at}/system/tmp && chmod 1777 {at}/system/tmp"
        ));
        // No service is started by a package here, whatever this machine's policy is.
        std::fs::write(root.join("usr/sbin/policy-rc.d"), "#!/bin/sh\nexit 101\n").unwrap();
        sh(&format!("chmod 755 {at}/system/usr/sbin/policy-rc.d && cp \"${INSIDE}\"/*.deb {at}/system/tmp"));
        Self { root, _dir: dir }
    }

    fn try_run(&self, script: &str) -> (i32, String) {
        let mut command = Command::new("chroot");
        command.arg(&self.root).args(["sh", "-c", script]).env("DEBIAN_FRONTEND", "noninteractive");
        // The folder with the packages is not in there.
        command.current_dir("/");
        programs::run_for(command, Duration::from_secs(100)).unwrap()
    }

    #[track_caller]
    fn run(&self, script: &str) -> String {
        let (code, text) = self.try_run(script);
        assert_eq!(code, 0, "{script}\n{text}");
        text
    }

    fn has(&self, path: &str) -> bool {
        self.root.join(path).symlink_metadata().is_ok()
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path)).unwrap()
    }

    /// What a unit's file assigns to a name, in order.
    fn setting(&self, unit: &str, name: &str) -> Vec<String> {
        let text = self.read(&format!("usr/lib/systemd/system/{unit}"));
        let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        lines.map(str::to_owned).collect()
    }
}

#[track_caller]
fn sh(script: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let (code, text) = programs::run_for(command, Duration::from_secs(60)).unwrap();
    assert_eq!(code, 0, "{script}\n{text}");
}

const DPKG: &str = "dpkg --force-unsafe-io --no-triggers";

#[test]
fn weir_installs_beside_both_serves_by_its_unit_and_leaves() {
    if !inside("weir_installs_beside_both_serves_by_its_unit_and_leaves") {
        return;
    }
    let image = Image::new();
    let rivals = image.run("nginx -v 2>&1; haproxy -v | head -1");
    image.run(&format!("{DPKG} -i /tmp/weir_*.deb"));
    assert_eq!(image.run("nginx -v 2>&1; haproxy -v | head -1"), rivals);
    assert_eq!(image.run("dpkg -V weir"), "", "what is installed is what was packaged");
    image.run("weir check /etc/weir/weir.conf");
    units_are_sound(&image);
    let port = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
    // As systemd with weir.socket: it holds the socket for as long as the unit is there.
    let socket = TcpListener::bind(port).unwrap();
    let service = Service::start(&image, &socket);
    let page = Client::connect(port).request(&Request::get("/"));
    assert_eq!((page.status, page.text().contains("Weir is running")), (200, true));
    reload(&image, &service);
    rotate(&image);
    service.stop();
    // Nobody listens now, and nobody is refused.
    let mut waiting = Client::connect(port);
    waiting.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let service = Service::start(&image, &socket);
    assert_eq!(waiting.read().status, 200);
    service.stop();
    image.run(&format!("{DPKG} -r weir"));
    assert!(!image.has("usr/bin/weir") && !image.has("usr/lib/systemd/system/weir.service"));
    assert!(
        image.has("etc/weir/weir.conf") && image.has("var/log/weir"),
        "settings and logs outlive the program"
    );
    // What an operator added is not a package's to remove.
    image.run(&format!("rm -r /etc/weir/conf.d; {DPKG} -P weir"));
    assert!(!image.has("etc/weir") && !image.has("var/log/weir") && !image.has("var/lib/weir"));
    assert_eq!(image.run("dpkg -l nginx haproxy | grep -c ^ii").trim(), "2");
}

/// What systemd itself says of the units.
fn units_are_sound(image: &Image) {
    for unit in ["weir.service", "weir.socket"] {
        let said = image.run(&format!("systemd-analyze verify --man=no /usr/lib/systemd/system/{unit} 2>&1"));
        assert!(!said.contains("weir"), "{said}");
    }
    // From 0 (nothing is left to attack) to 10; Debian's units of nginx and haproxy stand at 9.6.
    image.run("systemd-analyze security --offline=yes --threshold=25 /usr/lib/systemd/system/weir.service");
}

/// The process of weir.service.
struct Service {
    process: Process,
    told: NotifySocket,
}

impl Service {
    /// Starts it as its unit says: user, capability, folders, variables, and the socket as number 3.
    fn start(image: &Image, socket: &TcpListener) -> Self {
        let of = |name: &str| image.setting("weir.service", name).join(" ");
        assert_eq!((of("User"), of("AmbientCapabilities")), ("weir".into(), "CAP_NET_BIND_SERVICE".into()));
        image.run(
            "install -d -o weir -g weir /run/weir && install -d -m 750 -o weir -g weir /var/lib/weir /var/log/weir /var/cache/weir",
        );
        let folder = image.root.join("tmp/notify.d");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        let told = NotifySocket::bind(&folder).unwrap();
        let start = of("ExecStart").replace("${WEIR_CONFIG}", "$WEIR_CONFIG");
        let script = format!(
            "exec 3<&0 </dev/null; export {} LISTEN_FDS=1 LISTEN_PID=$$ NOTIFY_SOCKET=/tmp/notify.d/notify; exec setpriv \
             --reuid weir --regid weir --init-groups --no-new-privs --inh-caps -all,+net_bind_service \
             --ambient-caps -all,+net_bind_service --bounding-set -all,+net_bind_service {start}",
            of("Environment")
        );
        let mut command = Command::new("chroot");
        command.arg(&image.root).args(["sh", "-c", &script]).current_dir("/");
        let process = Process::spawn_reading(command, OwnedFd::from(socket.try_clone().unwrap())).unwrap();
        assert!(told.told("READY=1", Duration::from_secs(20)), "{}", process.printed());
        Self { process, told }
    }

    fn stop(mut self) {
        self.process.signal(Signal::TERM);
        let status = self.process.wait(Deadline::standard()).expect("it ends");
        assert!(status.success(), "{status}: {}", self.process.printed());
    }
}

/// The unit's reload tells whether the file was taken.
fn reload(image: &Image, service: &Service) {
    let reload = image.setting("weir.service", "ExecReload").remove(0);
    let as_weir = format!("setpriv --reuid weir --regid weir --init-groups {reload}");
    image.run("mkdir -p /etc/weir/conf.d && echo 'server { listen 127.0.0.1:81; return 204; }' > /etc/weir/conf.d/a.conf");
    // Port 81 needs the capability that the unit grants.
    image.run(&as_weir);
    assert!(service.told.told("RELOADING=1", Duration::from_secs(20)));
    let more = SocketAddr::from((Ipv4Addr::LOCALHOST, 81));
    assert_eq!(Client::connect(more).get("/").status, 204);
    image.run("echo 'lisn 1;' > /etc/weir/conf.d/b.conf");
    let (code, text) = image.try_run(&as_weir);
    assert!(code == 1 && text.contains("lisn"), "{code} {text}");
    assert_eq!(Client::connect(more).get("/").status, 204);
    image.run("rm /etc/weir/conf.d/b.conf");
}

/// logrotate itself, with the file of the package.
fn rotate(image: &Image) {
    eventually("a line in the log", || (!image.read("var/log/weir/access.log").is_empty()).then_some(()));
    image.run("logrotate --force --state /tmp/logrotate.state /etc/logrotate.d/weir");
    assert!(image.has("var/log/weir/access.log.1"));
    let port = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
    eventually("a line in the new log", || {
        Client::connect(port).get("/");
        (!image.read("var/log/weir/access.log").is_empty()).then_some(())
    });
}

#[test]
fn it_takes_the_places_of_nginx_and_haproxy() {
    if !inside("it_takes_the_places_of_nginx_and_haproxy") {
        return;
    }
    let image = Image::new();
    let apt = "apt-get -q -y -o APT::Sandbox::User=root -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Options::=--no-triggers \
               --no-install-recommends";
    let before = image.run("cat /etc/haproxy/haproxy.cfg /etc/nginx/nginx.conf");
    image.run(&format!("{apt} install /tmp/weir_*.deb /tmp/weir-as-nginx_*.deb /tmp/weir-as-haproxy_*.deb"));
    assert_eq!(image.run("cat /etc/haproxy/haproxy.cfg /etc/nginx/nginx.conf"), before);
    assert_eq!(image.run("readlink -f /usr/sbin/nginx /usr/sbin/haproxy"), "/usr/bin/weir\n/usr/bin/weir\n");
    assert_eq!(image.run("dpkg-query -W -f='${db:Status-Abbrev}' nginx-common").trim(), "ii");
    // Programs that ask for nginx or haproxy are content.
    image.run("apt-get check && test -z \"$(dpkg --audit)\"");
    image.run("haproxy -c -f /etc/haproxy/haproxy.cfg");
    image.run("systemctl --root=/ is-enabled haproxy.service weir-as-haproxy.service");
    let said =
        image.run("systemd-analyze verify --man=no /usr/lib/systemd/system/weir-as-haproxy.service 2>&1");
    assert!(!said.contains("weir"), "{said}");
    image.run("rm -f /etc/nginx/modules-enabled/*; mkdir -p /var/log/nginx");
    for step in ["ExecStartPre", "ExecStart"] {
        let unit = if image.has("usr/lib/systemd/system/nginx.service") { "usr/lib" } else { "lib" };
        let text = image.read(&format!("{unit}/systemd/system/nginx.service"));
        let command = text.lines().find_map(|line| line.strip_prefix(step)?.strip_prefix('=')).unwrap();
        image.run(command);
    }
    assert_eq!(Client::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, 80))).get("/").status, 200);
    image.run("nginx -s quit");
    eventually("its end", || (!image.has("run/nginx.pid")).then_some(()));
    image.run(&format!("{apt} remove weir-as-nginx weir-as-haproxy"));
    assert!(!image.has("usr/sbin/nginx") && !image.has("usr/sbin/haproxy") && image.has("usr/bin/weir"));
    assert_eq!(image.run("cat /etc/haproxy/haproxy.cfg /etc/nginx/nginx.conf"), before);
}

#[test]
fn the_container_needs_no_more_than_its_base_has() {
    if !inside("the_container_needs_no_more_than_its_base_has") {
        return;
    }
    sh("ip link set lo up");
    let packages = PathBuf::from(std::env::var_os(INSIDE).unwrap());
    let image = tempfile::tempdir().unwrap();
    std::fs::set_permissions(image.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let recipe = std::fs::read_to_string(packages.join("container/Dockerfile")).unwrap();
    let words = |start: &'static str| {
        recipe
            .lines()
            .filter_map(move |line| Some(line.strip_prefix(start)?.split_whitespace().collect::<Vec<_>>()))
    };
    // The base has these of glibc and gcc, and nothing else that runs.
    let libraries =
        ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];
    let needed = text_of(Command::new("ldd").arg(packages.join("container/weir")).env_remove("LD_PRELOAD"));
    let place = |from: &Path, to: &str, mode: u32| {
        let to = image.path().join(to.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, &to).unwrap();
        std::fs::set_permissions(&to, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    for path in needed.split_whitespace().filter(|word| word.starts_with('/')) {
        let name = path.rsplit('/').next().unwrap();
        assert!(libraries.contains(&name), "{name} is not in the base: {needed}");
        place(Path::new(path), path, 0o755);
    }
    let copies: Vec<_> = words("COPY ").collect();
    assert_eq!(copies.len(), 3, "{recipe}");
    for copy in copies {
        let mode = u32::from_str_radix(copy[0].strip_prefix("--chmod=").unwrap(), 8).unwrap();
        place(&packages.join("container").join(copy[1]), copy[2], mode);
    }
    for folder in ["tmp", "proc", "dev"] {
        std::fs::create_dir(image.path().join(folder)).unwrap();
    }
    let at = image.path().display();
    sh(&format!(
        "mount --rbind /dev {at}/dev && mount -t proc proc {at}/proc && mount -t tmpfs none {at}/tmp"
    ));
    let told = NotifySocket::bind(&image.path().join("tmp")).unwrap();
    let list = |start: &str| {
        let line = recipe.lines().find_map(|line| line.strip_prefix(start)).unwrap();
        serde_json::from_str::<Vec<String>>(line).unwrap()
    };
    let user = words("USER ").next().unwrap().remove(0).to_owned();
    assert!(!user.starts_with('0'), "{user}");
    let mut command = Command::new("chroot");
    command.arg(format!("--userspec={user}")).arg(image.path()).args(list("ENTRYPOINT ")).args(list("CMD "));
    command.env("NOTIFY_SOCKET", "/tmp/notify").current_dir("/");
    let mut process = Process::spawn(command).unwrap();
    assert!(told.told("READY=1", Duration::from_secs(20)), "{}", process.printed());
    let port: u16 = words("EXPOSE ").next().unwrap()[0].parse().unwrap();
    let page = Client::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).get("/");
    assert!(page.status == 200 && page.text().contains("Weir is running"));
    // The recipe's STOPSIGNAL.
    process.expect_clean_exit(Signal::QUIT);
}
