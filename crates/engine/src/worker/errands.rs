//! Work on files that may take long, beside the workers.
//!
//! Owns: its threads, and the bound of what waits for them.
//! Never: knows what is done.
//! Driven by: actions that change files, which wait for what comes of it.
//! Why: removing or copying a folder takes as long as the disk does; a worker has other connections meanwhile. What
//! was begun is done, though its client may have left.

use tokio::sync::oneshot;
use weir_rt::SideThreads;

/// Most threads.
const THREADS: usize = 4;
/// Most errands that wait.
const QUEUE: usize = 256;

/// The threads of a process.
pub(crate) struct Errands(SideThreads);

impl Default for Errands {
    fn default() -> Self {
        Self(SideThreads::new("weir-files", THREADS))
    }
}

impl Errands {
    /// Has something done, and waits for it. `None`: too much waits already, or it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (tell, done) = oneshot::channel();
        let begun = self.0.run(QUEUE, move || {
            let _ = tell.send(work());
        });
        if begun { done.await.ok() } else { None }
    }
}
