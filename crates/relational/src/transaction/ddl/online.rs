//! Building an index while others write to its table.
//!
//! 1. The index is added to the catalog as not ready. Transactions that write from then on keep its entries,
//!    and reads do not use it.
//! 2. Every row of a snapshot taken after that gets its entry, under the lock of the row, if it is still
//!    there. A row that is not in the snapshot was written by a transaction that keeps the index.
//! 3. If the rows get other keys or another tree meanwhile, all of it begins again with a snapshot of then.
//! 4. The index becomes ready. If the build fails, or its future is dropped, the index is dropped; after a
//!    crash the next start drops it.
//!
//! A build waits for a lock of a row only while it holds no other one, so it is part of no circle of waits.

use super::super::Transaction;
use super::super::rows::{index_entry, unique_violation};
use super::build::{CancelOnDrop, clear_part};
use super::definitions::NewIndex;
use super::indexes::{define, table_of};
use crate::Row;
use crate::catalog::Table;
use crate::database::{Database, blocking};
use crate::error::{Error, Result};
use crate::locks::{LockKey, Mode, TableLock, Wait};
use crate::read::{CancelFlag, ScanSpec};
use crate::state::SqlState;
use crate::transaction::Isolation;
use crate::types::Oid;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Rows whose entries are committed together.
const ROWS: usize = 256;
/// Time after which a row is tried again whose entry another transaction has locked.
const PAUSE: Duration = Duration::from_millis(2);
/// Longest pause between two attempts to end a build.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Errors of the end of a build that may pass. After 40003 the end may have been written, and is written again.
const PASSING: &[SqlState] = &[
    SqlState::DEADLOCK_DETECTED,
    SqlState::SERIALIZATION_FAILURE,
    SqlState::LOCK_NOT_AVAILABLE,
    SqlState::STATEMENT_COMPLETION_UNKNOWN,
    SqlState::INSUFFICIENT_RESOURCES,
    SqlState::DISK_FULL,
    SqlState::OUT_OF_MEMORY,
];

/// Progress of the build of an index. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct IndexProgress {
    rows: Arc<AtomicU64>,
}

impl IndexProgress {
    /// Returns the number of rows that have been looked at.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

/// The outcome of a row's turn.
enum Turn {
    /// The row has its entry, or is gone.
    Done,
    /// A lock is in the way.
    Locked,
    /// The table has rows of other keys by now, or in another tree.
    Moved,
}

/// The end of an index that was built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Ready,
    Dropped,
}

/// A build of an index under way.
struct Build {
    database: Arc<Database>,
    table: Oid,
    progress: IndexProgress,
    cancel: CancelFlag,
    /// Cancelled when the future of the build is dropped.
    dropped: CancelFlag,
}

impl Database {
    /// Creates an index over all rows while others write, in transactions of its own, and returns its
    /// number. It waits for the transactions that have written to the table to end, twice.
    ///
    /// Errors are as of [`Transaction::create_index`], and 57014 once it is cancelled. The index is then
    /// dropped, also if the future is.
    pub async fn create_index_online(
        self: &Arc<Self>,
        new: NewIndex,
        progress: IndexProgress,
        cancel: CancelFlag,
    ) -> Result<Oid> {
        let guard = CancelOnDrop::default();
        let (database, dropped) = (Arc::clone(self), guard.flag());
        let build = Build { database, table: new.table, progress, cancel, dropped };
        match tokio::spawn(build.run(new)).await {
            Ok(built) => built,
            Err(error) => Err(Error::internal(format!("the build of an index ended: {error}"))),
        }
    }
}

impl Build {
    fn begin(&self) -> Transaction {
        self.database.begin(Isolation::ReadCommitted, false)
    }

    async fn run(self, new: NewIndex) -> Result<Oid> {
        let mut transaction = self.begin();
        transaction.begin_table_change("CREATE INDEX", new.table).await?;
        let index = transaction.change(|catalog| define(catalog, &new, false))?;
        let definition = transaction.table(new.table)?;
        let store = Arc::clone(&self.database.store);
        blocking(move || clear_part(&store, &definition, index)).await?;
        transaction.commit().await?;
        let built = match self.fill(index).await {
            Ok(()) => self.finish(index, End::Ready).await,
            failed => failed,
        };
        if built.is_err()
            && let Err(error) = self.finish(index, End::Dropped).await
        {
            tracing::warn!(%error, index, "could not drop an index whose build failed; the next start drops it");
        }
        built.map(|()| index)
    }

    /// Gives every row its entry.
    async fn fill(&self, index: Oid) -> Result<()> {
        while !self.fill_from_view(index).await? {}
        Ok(())
    }

    /// Gives every row of a view its entry. Returns false if that has to begin again.
    async fn fill_from_view(&self, index: Oid) -> Result<bool> {
        let view = self.database.begin(Isolation::ReadCommitted, true).view();
        let seen = Arc::clone(view.table(self.table)?);
        let spec = ScanSpec { cancel: self.dropped.clone(), ..ScanSpec::of(self.table) };
        let mut scan = view.scan(spec)?;
        loop {
            self.cancel.check()?;
            let (rows, rest) = blocking(move || Ok((scan.next_batch(ROWS)?, scan))).await?;
            scan = rest;
            if rows.is_empty() {
                return Ok(true);
            }
            if !self.fill_rows(index, &seen, &rows).await? {
                return Ok(false);
            }
            self.progress.rows.fetch_add(rows.len() as u64, Ordering::Relaxed);
        }
    }

    async fn fill_rows(&self, index: Oid, seen: &Table, rows: &[Row]) -> Result<bool> {
        let mut transaction = self.begin();
        for row in rows {
            match transaction.fill_row(seen, index, row, Wait::Skip).await? {
                Turn::Done => continue,
                Turn::Moved => return Ok(false),
                Turn::Locked => {}
            }
            // The rows before it are committed, and this one is waited for alone.
            std::mem::replace(&mut transaction, self.begin()).commit().await?;
            loop {
                match transaction.fill_row(seen, index, row, Wait::Wait).await? {
                    Turn::Done => break,
                    Turn::Moved => return Ok(false),
                    Turn::Locked => {}
                }
                // Its locks end before the pause.
                drop(std::mem::replace(&mut transaction, self.begin()));
                self.cancel.check()?;
                tokio::time::sleep(PAUSE).await;
            }
            std::mem::replace(&mut transaction, self.begin()).commit().await?;
        }
        transaction.commit().await?;
        Ok(true)
    }

    /// Makes an index ready, or drops it. An error that may pass is waited for, as long as the database has its
    /// term: without it the next one drops the index.
    async fn finish(&self, index: Oid, end: End) -> Result<()> {
        let mut pause = PAUSE;
        loop {
            let error = match self.finish_once(index, end).await {
                // The table is gone, and the index with it.
                Err(error) if end == End::Dropped && error.state == SqlState::UNDEFINED_TABLE => {
                    return Ok(());
                }
                Err(error) if PASSING.contains(&error.state) => error,
                done => return done,
            };
            let is_in_doubt = error.state == SqlState::STATEMENT_COMPLETION_UNKNOWN;
            let store = &self.database.store;
            if store.is_over().await || is_in_doubt && !store.settle().await {
                return Err(error);
            }
            if end == End::Ready {
                self.cancel.check()?;
                self.dropped.check()?;
            }
            if pause == PAUSE_MAX {
                tracing::warn!(%error, index, "a new index waits for its end; trying again");
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn finish_once(&self, index: Oid, end: End) -> Result<()> {
        let mut transaction = self.begin();
        transaction.begin_table_change("CREATE INDEX", self.table).await?;
        transaction.change(|catalog| {
            let mut table = table_of(catalog, self.table)?;
            match end {
                End::Ready => {
                    let found = table.indexes.iter_mut().find(|found| found.oid == index);
                    found.ok_or_else(dropped_meanwhile)?.ready = true;
                }
                End::Dropped => table.indexes.retain(|found| found.oid != index),
            }
            catalog.put_table(table);
            Ok(())
        })?;
        transaction.commit().await
    }
}

fn dropped_meanwhile() -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, "the index was dropped while it was built")
}

impl Transaction {
    /// Gives a row its entry in an index, as the row is now. `seen` is the table that the row was read from. A lock
    /// of the entry that is in the way is not waited for, since the row's is held then.
    async fn fill_row(&mut self, seen: &Table, index: Oid, row: &Row, wait: Wait) -> Result<Turn> {
        let table: Arc<Table> = self.lock_table(seen.oid, TableLock::Write).await?;
        if table.tree != seen.tree || table.layout.key != seen.layout.key {
            return Ok(Turn::Moved);
        }
        let at = table.indexes.iter().position(|found| found.oid == index);
        let at = at.ok_or_else(dropped_meanwhile)?;
        let places = seen.key_places();
        let key = table.layout.key.encode(places.iter().map(|place| &row[*place]))?;
        let key = Bytes::from(key);
        if !self.lock_key(&table, &key, Mode::Share, wait).await? {
            return Ok(Turn::Locked);
        }
        let Some(row) = self.newest_row(&table, &key).await? else { return Ok(Turn::Done) };
        let (definition, layout) = (&table.indexes[at], &table.layout.indexes[at]);
        let (entry, value, is_distinct) = index_entry(definition, layout, &row, &key[2..])?;
        let entry = Bytes::from(entry);
        if is_distinct {
            let lock = LockKey::Row(table.tree, entry.clone());
            if !self.locks.take(lock, Mode::Update, Wait::Skip).await? {
                return Ok(Turn::Locked);
            }
            match self.newest(&table, &entry).await? {
                Some(there) if there == value => return Ok(Turn::Done),
                Some(_) => {
                    let mut error =
                        unique_violation(&table, &definition.name, &layout.places, &row);
                    error.message =
                        format!("could not create unique index \"{}\"", definition.name);
                    return Err(error);
                }
                None => {}
            }
        }
        self.writes.set(table.tree, entry, Some(value))?;
        Ok(Turn::Done)
    }
}
