//! The keeper: a small parent that stays root and reads no traffic.
//!
//! Owns: the split in two processes, and what passes between them.
//! Never: lets the data plane ask for anything.
//! Driven by: `life`, when started as root with another `user` (or a `chroot`) in the configuration.
//!
//! ```text
//!   keeper (root)                                   data plane (user)
//!   reads configuration, certificates, keys    ──→  parcel: all that was read, in a sealed memory file
//!   binds ports, opens logs                    ──→  descriptors (SCM_RIGHTS)
//!   takes signals, writes the pid file         ──→  apply · reopen · drain · stop
//!   restarts the data plane should it die      ←──  ready · applied · refused · drained (a pipe)
//! ```
//!
//! Why push and not pull: a data plane that was taken over could use any request it may make. So it may make none:
//! the keeper compiles the configuration itself, remembers every file it read for that, and sends them along; the
//! data plane compiles the same texts again and gets the same plan. What comes back are a few words, each due only
//! once its order was given, without consequence beyond the data plane's own life; whoever says more is ended.
//! Compiling twice costs milliseconds; the keeper reads only files that root's own configuration names, which nginx's
//! and HAProxy's masters do too.
//!
//! Why a new program image and not a bare fork: the data plane starts with clean memory (no keys of an earlier
//! configuration, no allocator state), it is `/proc/self/exe` and so the same file even after an upgrade, and no
//! `unsafe` is needed. Should it die, the next one gets the same sockets and the same parcel.

pub(crate) mod channel;
pub(crate) mod child;
pub(crate) mod confine;
pub(crate) mod parcel;
pub(crate) mod plane;
pub(crate) mod replies;
pub(crate) mod resolver;
mod zone;
