//! A control group that limits the CPU time of a server.
//!
//! Owns: groups that it made, below the one that this process is in or one above it, and their end.
//! Never: changes a group that it did not make.
//! Driven by: `run`, for servers on a burstable machine.
//!
//! Both forms are used, whichever has the CPU controller: v2 (`cpu.max`) and v1 (`cpu.cfs_quota_us`).

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time over which a limit is kept: the kernel's own default.
const PERIOD_US: u64 = 100_000;

/// The least that the kernel takes.
const LEAST_US: u64 = 1_000;

/// How long the last processes of a group may take to go.
const PATIENCE: Duration = Duration::from_secs(5);

/// What names of groups begin with; the process that made it follows.
const PREFIX: &str = "weir-lab-";

/// Which form a hierarchy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    V1,
    V2,
}

/// A group of its own; dropping it removes it.
#[derive(Debug)]
pub struct Group {
    dir: PathBuf,
    parent: PathBuf,
    form: Form,
    /// What was last written, so that it is not written again.
    limit: Option<u64>,
}

impl Group {
    /// Makes one.
    ///
    /// # Errors
    /// This machine has no CPU controller, or does not let us use it: the reason, for people.
    pub fn make(name: &str) -> Result<Self> {
        let (parent, form) = controller(
            &fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
            &fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(),
        )?;
        sweep(&parent);
        let dir = parent.join(format!("{PREFIX}{}-{name}", std::process::id()));
        fs::create_dir(&dir)
            .with_context(|| format!("no control group can be made in {}", parent.display()))?;
        let mut group = Self { dir, parent, form, limit: None };
        // Known to work before a server depends on it.
        group.limit(1.0)?;
        Ok(group)
    }

    /// Lets its processes use so many CPUs together.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn limit(&mut self, cpus: f64) -> Result<()> {
        let quota = ((cpus * PERIOD_US as f64) as u64).max(LEAST_US);
        if self.limit == Some(quota) {
            return Ok(());
        }
        match self.form {
            Form::V1 => {
                self.write("cpu.cfs_period_us", &PERIOD_US.to_string())?;
                self.write("cpu.cfs_quota_us", &quota.to_string())?;
            }
            Form::V2 => self.write("cpu.max", &format!("{quota} {PERIOD_US}"))?,
        }
        self.limit = Some(quota);
        Ok(())
    }

    /// Takes these processes in.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn take(&self, pids: &[u32]) -> Result<()> {
        pids.iter().try_for_each(|pid| self.write("cgroup.procs", &pid.to_string()))
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let file = self.dir.join(file);
        fs::write(&file, text).with_context(|| format!("{}: `{text}` was refused", file.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let begun = Instant::now();
        // Processes that were killed stay in it until their parent has seen it.
        while fs::remove_dir(&self.dir).is_err() && self.dir.exists() {
            if begun.elapsed() > PATIENCE {
                eprintln!("{} could not be removed from {}", self.dir.display(), self.parent.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Removes what earlier runs left, which were killed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|n| n.strip_prefix(PREFIX)).and_then(|n| n.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The group that this process is in, in the hierarchy that limits CPU time.
fn controller(own: &str, mounts: &str) -> Result<(PathBuf, Form)> {
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        if controllers.split(',').any(|c| c == "cpu") {
            let mount =
                mount(mounts, |form, options| form == "cgroup" && options.split(',').any(|o| o == "cpu"));
            let mount = mount.context("the CPU controller (v1) is not mounted")?;
            return Ok((below(&mount, path), Form::V1));
        }
    }
    let unified = own.lines().find_map(|l| l.strip_prefix("0::"));
    let (Some(path), Some(mount)) = (unified, mount(mounts, |form, _| form == "cgroup2")) else {
        bail!("there are no control groups");
    };
    let dir = below(&mount, path);
    let grants = |dir: &Path| {
        let list = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
        list.split_ascii_whitespace().any(|c| c == "cpu")
    };
    // A group that holds processes cannot hand controllers down, except the root; so a group above ours serves as well.
    for dir in dir.ancestors().take_while(|d| d.starts_with(&mount)) {
        if grants(dir) || (fs::write(dir.join("cgroup.subtree_control"), "+cpu").is_ok() && grants(dir)) {
            return Ok((dir.to_owned(), Form::V2));
        }
    }
    bail!("the CPU controller is not handed down to {} (control groups v2)", dir.display())
}

fn below(mount: &Path, path: &str) -> PathBuf {
    let dir = mount.join(path.trim().trim_start_matches('/'));
    // In a container the path may be one that is seen from outside.
    if dir.is_dir() { dir } else { mount.to_owned() }
}

/// Where a hierarchy is mounted: `mountinfo` has the folder fifth, and after a dash the form, the source and options.
fn mount(mounts: &str, wanted: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let (form, options) = (kind.next()?, kind.nth(1)?);
        wanted(form, options).then(|| PathBuf::from(place.split(' ').nth(4).unwrap_or("/nowhere")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_is_found() {
        let mounts = "30 29 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs rw,mode=755\n\
                      31 30 0:27 / /nowhere/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 30 0:28 / /nowhere/cpuset rw - cgroup cgroup rw,cpuset\n";
        let own = "3:cpuset:/\n2:cpu,cpuacct:/here\n0::/\n";
        let (dir, form) = controller(own, mounts).unwrap();
        assert_eq!((dir, form), (PathBuf::from("/nowhere/cpu,cpuacct"), Form::V1));
    }

    #[test]
    fn machines_without_say_so() {
        let none = controller("", "").unwrap_err().to_string();
        assert!(none.contains("no control groups"), "{none}");
        let unmounted = controller("2:cpu,cpuacct:/\n", "").unwrap_err().to_string();
        assert!(unmounted.contains("not mounted"), "{unmounted}");
        let mounts = "31 30 0:27 / /nowhere/unified rw - cgroup2 cgroup2 rw\n";
        let kept = controller("0::/user.slice\n", mounts).unwrap_err().to_string();
        assert!(kept.contains("not handed down"), "{kept}");
    }

    #[test]
    fn the_second_form_is_used_where_a_group_above_hands_it_down() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("system.slice/ssh.service");
        fs::create_dir_all(&own).unwrap();
        let mounts = format!("31 30 0:27 / {} rw,nosuid - cgroup2 cgroup2 rw\n", root.path().display());
        fs::write(root.path().join("cgroup.subtree_control"), "cpu memory\n").unwrap();
        let found = controller("0::/system.slice/ssh.service\n", &mounts).unwrap();
        // What is written to a plain file stays there, unlike a kernel's; none of them says `cpu` but the root's.
        assert_eq!(found, (root.path().to_owned(), Form::V2));
        assert_eq!(fs::read_to_string(own.join("cgroup.subtree_control")).unwrap(), "+cpu");
    }

    #[test]
    fn a_group_limits_a_process_and_goes_with_its_handle() {
        // Where the machine does not permit it, the reason is what is tested.
        let mut group = match Group::make("test") {
            Ok(group) => group,
            Err(why) => {
                assert!(!format!("{why:#}").is_empty());
                return;
            }
        };
        group.limit(0.1).unwrap();
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        group.take(&[child.id()]).unwrap();
        let (begun, before) = (Instant::now(), crate::accounting::Cpu::of(child.id()));
        std::thread::sleep(Duration::from_millis(1_500));
        let used = crate::accounting::Cpu::of(child.id()).since(&before) as f64 / 1e9;
        let share = used / begun.elapsed().as_secs_f64();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(share < 0.3, "it used {share} of a CPU");
        let dir = group.dir.clone();
        drop(group);
        assert!(!dir.exists());
    }
}
