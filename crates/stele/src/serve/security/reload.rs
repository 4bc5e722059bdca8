//! Files that are read again while the server runs: when they change, and on SIGHUP.
//!
//! Invariants:
//! 1. A set of files counts as a whole. What cannot be used changes nothing: the old content stays.
//! 2. Stamps are taken before the files are read. A change during the reading is seen the next time.
//! 3. A failure is logged and counted once for each state of the files, not at each look.

use super::metrics::SecurityMetrics;
use security::{Result, Stamp};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;

/// Time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(5);

/// Reads the files. Returns the paths of the set if they are others now.
type Load = Box<dyn FnMut() -> Result<Option<Vec<PathBuf>>> + Send>;

/// A set of files, and what is to be done with them.
pub(crate) struct Reloaded {
    what: &'static str,
    files: Vec<PathBuf>,
    seen: Vec<Stamp>,
    load: Load,
}

impl Reloaded {
    /// Takes the set as read before: `load` reads it when the files differ from their `seen` stamps.
    pub(crate) fn new(
        what: &'static str,
        files: Vec<PathBuf>,
        seen: Vec<Stamp>,
        load: impl FnMut() -> Result<Option<Vec<PathBuf>>> + Send + 'static,
    ) -> Self {
        Self { what, files, seen, load: Box::new(load) }
    }

    /// Reads the files if they changed, or in any case.
    fn look(&mut self, in_any_case: bool, metrics: &SecurityMetrics) {
        let now = stamps(&self.files);
        if now == self.seen && !in_any_case {
            return;
        }
        self.seen = now;
        match (self.load)() {
            Ok(files) => {
                if let Some(files) = files.filter(|files| *files != self.files) {
                    self.seen = stamps(&files);
                    self.files = files;
                }
                metrics.reloaded(self.what, "done");
                tracing::info!(what = self.what, "read files again");
            }
            Err(error) => {
                metrics.reloaded(self.what, "failed");
                tracing::error!(
                    what = self.what,
                    %error,
                    "could not read files again; the old content stays in use"
                );
            }
        }
    }
}

/// Returns the stamps of files, in their order.
pub(crate) fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    files.iter().map(|file| Stamp::of(file)).collect()
}

/// Looks at all sets from time to time, and at once when `hangups` changes, until it closes.
pub(crate) async fn watch_files(
    mut sets: Vec<Reloaded>,
    mut hangups: watch::Receiver<u64>,
    metrics: SecurityMetrics,
) {
    loop {
        let in_any_case = tokio::select! {
            changed = hangups.changed() => match changed {
                Ok(()) => true,
                Err(_) => return,
            },
            () = tokio::time::sleep(INTERVAL) => false,
        };
        let metrics = metrics.clone();
        let looked = tokio::task::spawn_blocking(move || {
            sets.iter_mut().for_each(|set| set.look(in_any_case, &metrics));
            sets
        });
        let Ok(back) = looked.await else { return };
        sets = back;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn files_are_read_when_they_change_and_a_failure_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "good").unwrap();
        let (metrics, loads) = (SecurityMetrics::new(), Arc::new(AtomicU32::new(0)));
        let (read, counted) = (file.clone(), Arc::clone(&loads));
        let files = vec![file.clone()];
        let seen = stamps(&files);
        let mut set = Reloaded::new("test", files, seen, move || {
            counted.fetch_add(1, Ordering::Relaxed);
            match std::fs::read_to_string(&read).as_deref() {
                Ok("good") => Ok(None),
                _ => Err(security::Error::Invalid { path: read.clone(), what: "bad".into() }),
            }
        });
        set.look(false, &metrics);
        assert_eq!(loads.load(Ordering::Relaxed), 0, "nothing changed");
        for (content, in_any_case, want) in
            [("broken", false, 1), ("broken", false, 1), ("broken", true, 2), ("good", false, 3)]
        {
            if std::fs::read_to_string(&file).unwrap() != content {
                std::fs::write(&file, content).unwrap();
            }
            set.look(in_any_case, &metrics);
            assert_eq!(loads.load(Ordering::Relaxed), want, "{content}");
        }
        let text = metrics.render().unwrap();
        assert!(text.contains("stele_reloads_total{outcome=\"failed\",what=\"test\"} 2"), "{text}");
        assert!(text.contains("stele_reloads_total{outcome=\"done\",what=\"test\"} 1"), "{text}");
    }
}
