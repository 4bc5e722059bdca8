//! Tells an engine, while it is open, what memory this process has for it, so that what is beside
//! the engine's account comes out of its budget (docs/decisions/0029-memory-beside.md).

use engine::Engine;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often: in between, what is beside grows unseen. Asking the system takes some microseconds.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// A thread that tells an engine what the process has for it, until this is dropped.
pub(crate) struct Telling {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Telling {
    /// Tells `engine`, which it keeps open meanwhile, how many bytes `has` gives.
    pub(crate) fn start(
        engine: Engine,
        has: impl Fn() -> usize + Send + 'static,
    ) -> std::io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let tell = move || {
            while !ended.load(Ordering::Relaxed) {
                engine.note_process_memory(has());
                std::thread::park_timeout(TELL_EVERY);
            }
        };
        let thread = std::thread::Builder::new().name("stele-memory".to_owned()).spawn(tell)?;
        Ok(Self { over, thread: Some(thread) })
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It panics no more than the engine does, and then has nothing to tell.
            let _ = thread.join();
        }
    }
}
