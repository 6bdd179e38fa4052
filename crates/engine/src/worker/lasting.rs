//! Work that must go on although it panicked: tasks beside the connections, threads beside the workers.
//!
//! Owns: catching the panic, the pause after it, the new beginning.
//! Never: is used for a connection, which ends with its panic; or for a worker, which has sockets to be given again.
//! Driven by: accept loops, log buffers, sweeps of kept things, health checks, look-ups of names, the measuring of memory.
//! Why: a task or thread that ended by a panic leaves a process that looks alive and no longer does what it is there for.

use std::any::Any;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Between a panic and the new beginning, so that work that panics each time costs little.
const PAUSE: Duration = Duration::from_millis(100);

/// Does what `begin` begins until that ends by itself. After a panic, which `note` hears of, it begins anew.
pub(crate) async fn task<F: Future<Output = ()>>(
    note: impl Fn(&(dyn Any + Send)),
    mut begin: impl FnMut() -> F,
) {
    loop {
        let mut run = pin!(begin());
        let poll = |cx: &mut Context<'_>| match catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(cx))) {
            Ok(ended) => ended.map(Ok),
            Err(payload) => Poll::Ready(Err(payload)),
        };
        let Err(payload) = poll_fn(poll).await else { return };
        note(&*payload);
        weir_rt::sleep(PAUSE).await;
    }
}

/// As [`task`], of what a thread of its own does.
pub(crate) fn work(note: impl Fn(&(dyn Any + Send)), mut work: impl FnMut()) {
    while let Err(payload) = catch_unwind(AssertUnwindSafe(&mut work)) {
        note(&*payload);
        std::thread::sleep(PAUSE);
    }
}

/// As [`work`], in a new thread.
///
/// # Errors
/// No thread can be had.
pub(crate) fn thread(
    name: &str,
    note: impl Fn(&(dyn Any + Send)) + Send + 'static,
    begin: impl FnMut() + Send + 'static,
) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || work(note, begin))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::mpsc::channel;

    #[test]
    fn a_task_goes_on_after_panics_and_ends_by_itself() {
        let runtime = weir_rt::Runtime::new(weir_rt::RuntimeConfig::default()).unwrap();
        let (begun, noted) = (Cell::new(0), Cell::new(0));
        runtime.block_on(task(
            |_| noted.set(noted.get() + 1),
            || async {
                begun.set(begun.get() + 1);
                weir_rt::yield_now().await;
                assert!(begun.get() > 2, "a test asked for this panic");
            },
        ));
        assert_eq!((begun.get(), noted.get()), (3, 2));
    }

    #[test]
    fn a_thread_goes_on_after_panics_and_ends_by_itself() {
        let (told, hears) = channel();
        let mut begun = 0;
        let note = told.clone();
        let started = thread(
            "test",
            move |payload| drop(note.send(crate::worker::shared::panic_message(payload).to_owned())),
            move || {
                begun += 1;
                assert!(begun > 2, "the {begun}. time");
                let _ = told.send("it ends".to_owned());
            },
        );
        started.unwrap();
        let heard: Vec<String> = hears.iter().collect();
        assert_eq!(heard, ["the 1. time", "the 2. time", "it ends"]);
    }
}
