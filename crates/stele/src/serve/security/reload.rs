//! Files that are read again while the server runs: when they change, and on SIGHUP.
//!
//! Invariants:
//! 1. A set of files counts as a whole. What cannot be used changes nothing: the old content stays.
//! 2. Stamps are taken before the files are read. A change during the reading is seen the next time.
//! 3. After a failure the files are read at every look, since the one that was missing may be none of
//!    the set. The failure is logged and counted again only for another reason or state of the set.

use super::metrics::SecurityMetrics;
use security::{Error, Result, Stamp};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;

/// Time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(5);

/// Files with the stamps that they had before they were read.
type Stamped = Vec<(PathBuf, Stamp)>;

/// Reads the files. Returns them if they may be others now.
type Load = Box<dyn FnMut() -> Result<Option<Stamped>> + Send>;

/// A set of files, and what is to be done with them.
pub(crate) struct Reloaded {
    what: &'static str,
    seen: Stamped,
    /// Reason for which the files could not be used when they were read last.
    failure: Option<String>,
    load: Load,
}

impl Reloaded {
    /// Takes the set as read before: `load` reads it when the files differ from their `seen` stamps.
    pub(crate) fn new(
        what: &'static str,
        seen: Stamped,
        load: impl FnMut() -> Result<Option<Stamped>> + Send + 'static,
    ) -> Self {
        Self { what, seen, failure: None, load: Box::new(load) }
    }

    /// Reads the files if they changed or could not be used, or in any case.
    pub(super) fn look(&mut self, in_any_case: bool, metrics: &SecurityMetrics) {
        let now = stamped(self.seen.iter().map(|(path, _)| path.as_path()));
        let is_news = in_any_case || now != self.seen;
        if !is_news && self.failure.is_none() {
            return;
        }
        self.seen = now;
        match (self.load)() {
            Ok(files) => {
                self.seen = files.unwrap_or_else(|| std::mem::take(&mut self.seen));
                self.failure = None;
                metrics.reloaded(self.what, "done");
                tracing::info!(what = self.what, "read files again");
            }
            Err(error) => self.fail(&error, is_news, metrics),
        }
    }

    /// Keeps the reason of a failure, and tells it if it is another one or `is_news`.
    fn fail(&mut self, error: &Error, is_news: bool, metrics: &SecurityMetrics) {
        let reason = error.to_string();
        if is_news || self.failure.as_ref() != Some(&reason) {
            metrics.reloaded(self.what, "failed");
            tracing::error!(
                what = self.what,
                %error,
                "could not read files again; the old content stays in use"
            );
        }
        self.failure = Some(reason);
    }
}

/// Returns files with their stamps, in their order.
pub(crate) fn stamped<'a>(files: impl IntoIterator<Item = &'a Path>) -> Stamped {
    files.into_iter().map(|file| (file.to_owned(), Stamp::of(file))).collect()
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

    /// A file that is usable while it says "good" and a file beside it, if it names one, is there.
    struct Setting {
        dir: tempfile::TempDir,
        loads: Arc<AtomicU32>,
        metrics: SecurityMetrics,
        set: Reloaded,
    }

    fn setting() -> Setting {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "good").unwrap();
        let loads = Arc::new(AtomicU32::new(0));
        let (read, counted, beside) = (file.clone(), Arc::clone(&loads), dir.path().to_owned());
        let set = Reloaded::new("test", stamped([file.as_path()]), move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let text = std::fs::read_to_string(&read).unwrap();
            let missing = |name: &str| !beside.join(name).exists();
            match text.split_once(' ') {
                None if text == "good" => Ok(None),
                Some(("good", name)) if !missing(name) => Ok(None),
                _ => Err(Error::Invalid { path: read.clone(), what: text }),
            }
        });
        Setting { dir, loads, metrics: SecurityMetrics::new(), set }
    }

    impl Setting {
        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.dir.path().join(name), text).unwrap();
        }

        /// Looks. Returns how often the files were read so far.
        pub(super) fn look(&mut self, in_any_case: bool) -> u32 {
            self.set.look(in_any_case, &self.metrics);
            self.loads.load(Ordering::Relaxed)
        }

        #[track_caller]
        fn assert_counts(&self, failed: u32, done: u32) {
            let text = self.metrics.render().unwrap();
            for (outcome, count) in [("failed", failed), ("done", done)] {
                let name = format!("stele_reloads_total{{outcome=\"{outcome}\",what=\"test\"}}");
                let line = text.lines().find_map(|line| line.strip_prefix(&*name));
                assert_eq!(line.unwrap_or(" 0"), format!(" {count}"), "{outcome}");
            }
        }
    }

    #[test]
    fn files_are_read_when_they_change_and_a_failure_is_told_once() {
        let mut setting = setting();
        assert_eq!(setting.look(false), 0, "nothing changed");
        setting.write("file", "broken");
        assert_eq!(setting.look(false), 1);
        assert_eq!(setting.look(false), 2, "it could not be used");
        setting.assert_counts(1, 0);
        assert_eq!(setting.look(true), 3);
        setting.assert_counts(2, 0);
        setting.write("file", "broken, too");
        assert_eq!(setting.look(false), 4);
        setting.assert_counts(3, 0);
        setting.write("file", "good");
        assert_eq!(setting.look(false), 5);
        assert_eq!(setting.look(false), 5, "nothing changed");
        setting.assert_counts(3, 1);
    }

    #[test]
    fn a_missing_file_that_the_set_did_not_have_is_found_when_it_appears() {
        let mut setting = setting();
        setting.write("file", "good keys");
        setting.look(false);
        setting.look(false);
        setting.assert_counts(1, 0);
        setting.write("keys", "");
        setting.look(false);
        setting.assert_counts(1, 1);
    }

    #[test]
    fn a_change_while_files_are_read_is_seen_the_next_time() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "first").unwrap();
        let (loads, path) = (Arc::new(AtomicU32::new(0)), file.clone());
        let counted = Arc::clone(&loads);
        let mut set = Reloaded::new("test", stamped([file.as_path()]), move || {
            // The stamp of the identities, for one, comes from their reader.
            let before = stamped([path.as_path()]);
            if counted.fetch_add(1, Ordering::Relaxed) == 0 {
                std::fs::write(&path, "a longer third").unwrap();
            }
            Ok(Some(before))
        });
        std::fs::write(&file, "the second").unwrap();
        let metrics = SecurityMetrics::new();
        for want in [1, 2, 2] {
            set.look(false, &metrics);
            assert_eq!(loads.load(Ordering::Relaxed), want);
        }
    }
}
