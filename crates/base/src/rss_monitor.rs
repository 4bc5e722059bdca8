//! A thread that reports the memory of the process to an engine while the engine is open, so that
//! memory outside the engine's account comes out of its budget
//! (docs/decisions/0029-memory-beside.md).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two reports: in between, untracked memory grows unseen. To ask the system takes some
/// microseconds.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Calls a report again and again on a thread of its own, until this is dropped.
#[derive(Debug)]
pub struct RssMonitor {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RssMonitor {
    /// Starts the thread, which keeps `report` and what it owns until the monitor is dropped.
    pub fn start(report: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let run = move || {
            while !ended.load(Ordering::Relaxed) {
                report();
                std::thread::park_timeout(REPORT_EVERY);
            }
        };
        let thread = std::thread::Builder::new().name("stele-memory".to_owned()).spawn(run)?;
        Ok(Self { over, thread: Some(thread) })
    }
}

impl Drop for RssMonitor {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A report panics no more than the engine does, and then there is nothing to report.
            let _ = thread.join();
        }
    }
}
