//! The catalog that statements see, with the snapshot that fits it.
//!
//! 1. A change of the catalog is announced before its commit is written, and published when it is visible. In
//!    between a snapshot may have it or not: the header of the catalog tells, read at that snapshot.
//! 2. So a statement has a catalog and rows of one moment: all entries of the indexes that the catalog has, and
//!    no row that was written under a later one.

use super::Database;
use crate::catalog::Catalog;
use crate::catalog::record::{HEADER_ROW, Object};
use engine::Snapshot;
use parking_lot::RwLock;
use std::sync::Arc;

/// The last committed catalog, and the one whose commit is under way.
pub(super) struct Published {
    state: RwLock<State>,
}

struct State {
    current: Arc<Catalog>,
    announced: Option<Arc<Catalog>>,
}

impl Published {
    pub(super) fn new(catalog: Catalog) -> Self {
        Self { state: RwLock::new(State { current: Arc::new(catalog), announced: None }) }
    }
}

impl Database {
    /// Returns the catalog as the last commit left it.
    pub fn catalog(&self) -> Arc<Catalog> {
        let catalog = Arc::clone(&self.published.state.read().current);
        let version = self.store.local().tables_version();
        if catalog.cells_version() == Some(version) {
            return catalog;
        }
        // The Bigtable tables of the store have changed. No record of the catalog tells of them.
        let tables = self.store.local().table_names();
        let mut state = self.published.state.write();
        let mut catalog = Catalog::clone(&state.current);
        catalog.set_cells(version, &tables);
        catalog.version = self.next_catalog_version();
        state.current = Arc::new(catalog);
        Arc::clone(&state.current)
    }

    /// Returns a snapshot of now, and the catalog at it.
    pub(crate) fn look(&self) -> (Arc<Catalog>, Snapshot) {
        // Lets it know of the Bigtable tables of now.
        drop(self.catalog());
        let (current, announced, snapshot) = {
            let state = self.published.state.read();
            // Taken under the lock: a commit that is neither announced nor published is not in it.
            let snapshot = self.store.snapshot();
            (Arc::clone(&state.current), state.announced.clone(), snapshot)
        };
        let seen = announced.filter(|catalog| self.version_at(&snapshot) == Some(catalog.version));
        (seen.unwrap_or(current), snapshot)
    }

    /// Returns the version of the catalog at a snapshot. The row was written a moment ago, so it is in memory.
    pub(crate) fn version_at(&self, snapshot: &Snapshot) -> Option<u64> {
        let header = |record: &[u8]| Object::decode(HEADER_ROW, record);
        match self.catalog_keys.get(Some(snapshot), HEADER_ROW, header) {
            Ok(Some(Ok(Object::Database(header)))) => Some(header.version),
            _ => None,
        }
    }

    /// Tells that a catalog is about to be committed.
    pub(crate) fn announce(&self, catalog: Arc<Catalog>) {
        self.published.state.write().announced = Some(catalog);
    }

    /// Tells that the announced catalog was not committed.
    pub(crate) fn withdraw(&self) {
        self.published.state.write().announced = None;
    }

    /// Makes a committed catalog the one that later statements see.
    pub(crate) fn publish(&self, catalog: Arc<Catalog>) {
        let new = State { current: catalog, announced: None };
        // The old one is dropped outside of the lock: it may be the last that names a tree.
        let before = std::mem::replace(&mut *self.published.state.write(), new);
        drop(before);
    }
}
