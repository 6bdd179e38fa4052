//! Descriptors that whoever started us meant for us.
//!
//! Owns: telling them from those that were merely left open.
//! Never: opens or closes one.
//! Driven by: `life::start`, before anything else is open.

use std::os::fd::RawFd;
use std::path::Path;

use crate::launch::Launch;

/// The first descriptor of sd_listen_fds(3).
const FIRST: RawFd = 3;

/// Whether descriptor `number` is one that a service manager passes on, or that the command line names as a file.
pub(crate) fn is_wanted(launch: &Launch, number: RawFd) -> bool {
    let variable = |name: &str| std::env::var(name).ok()?.parse::<RawFd>().ok();
    let ours = variable("LISTEN_PID").is_some_and(|pid| i64::from(pid) == i64::from(std::process::id()));
    let passed = variable("LISTEN_FDS").filter(|_| ours).unwrap_or(0);
    (FIRST..FIRST.saturating_add(passed)).contains(&number)
        || launch.sourcing.paths.iter().any(|path| is_descriptor(path, number))
}

/// `<(command)` of a shell is a file of this kind.
fn is_descriptor(path: &Path, number: RawFd) -> bool {
    ["/dev/fd", "/proc/self/fd"].iter().any(|folder| path == Path::new(folder).join(number.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{Manner, Sourcing};

    #[test]
    fn a_file_that_is_a_descriptor_is_wanted() {
        let sourcing = Sourcing { paths: vec!["/dev/fd/63".into()], ..Sourcing::default() };
        let launch = Launch::new(Manner::Weir, sourcing);
        assert!(is_wanted(&launch, 63) && !is_wanted(&launch, 6) && !is_wanted(&launch, 3));
    }
}
