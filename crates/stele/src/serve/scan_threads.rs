//! Threads for scans, of a lower priority than the threads that answer point reads and writes.
//!
//! Scans and point reads share few cores. With equal priorities a point read waits until every scan
//! that runs has had its slice of a core, some milliseconds each. Linux knows priorities of threads;
//! elsewhere all threads are equal.

use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// The nice value of the threads, above that of the process. Their share of a busy core is about a third of
/// that of other threads.
#[cfg(target_os = "linux")]
const NICER_BY: i32 = 5;

/// Time that a thread waits for its next scan before it ends.
const KEPT: Duration = Duration::from_secs(60);

/// The blocking threads of a runtime of their own. They are started as scans need them.
pub(super) struct ScanThreads {
    runtime: Runtime,
}

impl ScanThreads {
    /// Starts the runtime. Fails if the process may have no more threads.
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("stele-scan")
            .thread_keep_alive(KEPT)
            .on_thread_start(lower_priority)
            .build()?;
        Ok(Self { runtime })
    }

    /// Returns the runtime whose blocking threads the scans take.
    pub(super) fn runtime(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Waits `at_most` so long for the scans that still run.
    pub(super) fn end(self, at_most: Duration) {
        self.runtime.shutdown_timeout(at_most);
    }
}

/// Lowers the priority of the calling thread.
#[cfg(target_os = "linux")]
fn lower_priority() {
    // On Linux this is the calling thread's, not the process's.
    if let Err(error) = rustix::process::nice(NICER_BY) {
        tracing::warn!(%error, "scans run at the priority of point reads");
    }
}

#[cfg(not(target_os = "linux"))]
fn lower_priority() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn scans_have_a_lower_priority_than_the_thread_that_started_them() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        let threads = ScanThreads::start().unwrap();
        let scan = threads.runtime().spawn_blocking(nice);
        let of_scan = threads.runtime().block_on(scan).unwrap();
        assert_eq!(of_scan, (before + NICER_BY).min(19));
        assert_eq!(nice(), before, "other threads keep their priority");
        threads.end(Duration::from_secs(10));
    }
}
