//! Indexes that are built beside writers, as `pg_stat_progress_create_index` tells them.

use parking_lot::Mutex;
use relational::{IndexProgress, Oid};
use std::sync::Arc;

/// A build that is under way.
#[derive(Debug, Clone)]
pub struct Build {
    /// The session that waits for it.
    pub pid: i32,
    /// The table of the index.
    pub table: Oid,
    /// Name of the index, if one was given.
    pub index: String,
    /// The work that it has done so far.
    pub progress: IndexProgress,
}

/// All builds of a database.
#[derive(Debug, Clone, Default)]
pub(crate) struct Builds(Arc<Mutex<Vec<(u64, Build)>>>);

/// A build in the list. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Listed {
    builds: Builds,
    number: u64,
}

impl Builds {
    /// Adds a build to the list.
    pub(crate) fn list(&self, build: Build) -> Listed {
        let mut all = self.0.lock();
        let number = all.last().map_or(0, |(number, _)| number + 1);
        all.push((number, build));
        Listed { builds: self.clone(), number }
    }

    /// Returns the builds of now.
    pub(crate) fn all(&self) -> Vec<Build> {
        self.0.lock().iter().map(|(_, build)| build.clone()).collect()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.builds.0.lock().retain(|(number, _)| *number != self.number);
    }
}
