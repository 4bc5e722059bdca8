//! CPU time of this thread: on a busy machine steadier than the time of day.

use bench_core::thread_cpu;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Nanoseconds of CPU per item: the least and the middle of `rounds` runs of `run`, which handles
/// `items` of them.
pub(crate) fn nanos_per_item(rounds: usize, items: usize, mut run: impl FnMut()) -> (f64, f64) {
    let mut each: Vec<f64> = (0..rounds.max(1))
        .map(|_| {
            let start = thread_cpu();
            run();
            (thread_cpu() - start).as_nanos() as f64 / items as f64
        })
        .collect();
    each.sort_by(f64::total_cmp);
    (each[0], each[each.len() / 2])
}

/// What a thread has waited for a core, as Linux accounts it; none where it does not.
pub(crate) struct WaitForCore(Option<File>);

impl WaitForCore {
    /// Of the thread that calls.
    pub(crate) fn of_this_thread() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Time waited so far; zero where the system does not tell.
    pub(crate) fn so_far(&self) -> Duration {
        let mut text = [0; 64];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let text = std::str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or_default();
        // Nanoseconds on a core, nanoseconds waiting for one, times on a core.
        let waited = text.split(' ').nth(1).and_then(|nanos| nanos.parse().ok());
        Duration::from_nanos(waited.unwrap_or(0))
    }
}
