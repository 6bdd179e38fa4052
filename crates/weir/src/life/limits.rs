//! The limit of open files.
//!
//! Owns: raising it as far as the system grants.
//! Never: refuses to start because less was granted than asked for.
//! Driven by: `life::master` before privileges are dropped.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What became of a wish for open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFiles {
    /// The limit now in force; `u64::MAX` for none.
    pub(crate) effective: u64,
    /// The wish, where it was beyond the grant.
    pub(crate) wanted_more: Option<u64>,
}

/// Raises the limit to `wanted` (as far as granted), or to the hard limit if nothing is wanted in particular.
///
/// A wish below the hard limit is a limit too and is obeyed, unless the process already has more descriptors open.
pub(crate) fn raise_open_files(wanted: Option<u64>) -> OpenFiles {
    let hard = getrlimit(Resource::Nofile).maximum;
    if let Some(wanted) = wanted {
        let maximum = hard.map(|hard| hard.max(wanted));
        if setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).is_ok() {
            return OpenFiles { effective: wanted, wanted_more: None };
        }
    }
    // Without a hard limit the kernel still refuses more than fs.nr_open.
    let ceiling = hard.or_else(nr_open);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: ceiling, maximum: hard });
    let effective = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    OpenFiles { effective, wanted_more: wanted.filter(|&wanted| wanted > effective) }
}

fn nr_open() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/fs/nr_open").ok()?.trim().parse().ok()
}
