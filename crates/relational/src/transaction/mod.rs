//! Transactions: what one sees, locks and writes until it commits.
//!
//! 1. Writes are buffered. A commit is one atomic write of the engine; before it no other transaction sees any of
//!    them, and dropping a transaction rolls it back.
//! 2. READ COMMITTED takes a snapshot for each statement. A row that is to be changed is locked and read
//!    again as the last commit left it.
//! 3. REPEATABLE READ has one snapshot, and the catalog of that moment. Locking a row that a later commit
//!    wrote fails with 40001.
//! 4. Who writes a key of a row or of a unique index holds its lock in mode `Update` until the end, so
//!    that a key is looked up and written without another writer in between.
//! 5. Who writes rows holds the lock `Write` of their table, whose definition then does not change.

mod commit;
mod ddl;
mod loads;
mod locking;
mod references;
mod row_checks;
mod rows;
mod writes;

pub(crate) use commit::put_record;
pub use ddl::{
    AlterColumn, AlterTable, CommentOn, CreateTable, GrantChange, GrantOn, IndexProgress,
    NewColumn, NewConstraint, NewForeignKey, NewIndex, NewRole, NewSequence, NewView, NewWide,
    RoleChange, SequenceChange,
};
pub use loads::{SegmentLoad, SegmentWriter, WrittenSegments};
pub use references::Writes;
pub use rows::OnConflict;
pub(crate) use writes::{Entries, Overlay};

use crate::catalog::Catalog;
use crate::database::{BuiltPart, Database, LoadedSegments, Restarts, Storage};
use crate::error::{Error, Result};
use crate::locks::HeldLocks;
use crate::read::View;
use crate::state::SqlState;
use engine::Snapshot;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use writes::WriteSet;

/// The commits of others that a transaction sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each statement sees what was committed before it began.
    #[default]
    ReadCommitted,
    /// All statements see what was committed before the first one began.
    RepeatableRead,
}

/// A transaction. Dropping it rolls it back.
pub struct Transaction {
    pub(crate) database: Arc<Database>,
    isolation: Isolation,
    read_only: bool,
    snapshot: Option<Snapshot>,
    /// True if commits of others are compared with the snapshot of REPEATABLE READ.
    is_noted: bool,
    catalog: Arc<Catalog>,
    /// The catalog that its own changes of the catalog began with, if it made any.
    base: Option<Arc<Catalog>>,
    /// Trees that it created, with their storages. They are dropped unless the commit keeps them.
    created: Vec<Arc<Storage>>,
    /// Parts of trees that it built, whose entries are removed unless the commit keeps them.
    built: Vec<Arc<BuiltPart>>,
    /// Segments whose pages it wrote, which are removed unless the commit keeps them.
    loaded: Vec<Arc<LoadedSegments>>,
    writes: WriteSet,
    locks: HeldLocks,
    savepoints: Vec<(String, Mark)>,
    restarts: Restarts,
}

/// A moment of a transaction to which its writes can be taken back.
#[derive(Debug, Clone)]
pub struct Mark {
    journal: usize,
    locks: usize,
    catalog: Arc<Catalog>,
    has_ddl: bool,
    restarts: usize,
}

impl Transaction {
    pub(crate) fn new(database: Arc<Database>, isolation: Isolation, read_only: bool) -> Self {
        let bytes_max = database.options.transaction_bytes_max;
        let mut locks = database.locks.holder();
        locks.bytes_max = bytes_max;
        Self {
            isolation,
            read_only,
            snapshot: None,
            is_noted: false,
            catalog: database.catalog(),
            base: None,
            created: Vec::new(),
            built: Vec::new(),
            loaded: Vec::new(),
            writes: WriteSet::new(bytes_max),
            locks,
            savepoints: Vec::new(),
            restarts: Restarts::default(),
            database,
        }
    }

    /// Returns how the transaction is isolated from others.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Sets the isolation. 25001 once a statement has begun, unless nothing changes.
    pub fn set_isolation(&mut self, isolation: Isolation) -> Result<()> {
        if self.snapshot.is_some() && isolation != self.isolation {
            let message = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
            return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        self.isolation = isolation;
        Ok(())
    }

    /// Returns true if writes are refused (25006).
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Sets if writes are refused. 25001 if they were, and a statement has begun.
    pub fn set_read_only(&mut self, read_only: bool) -> Result<()> {
        if self.snapshot.is_some() && self.read_only && !read_only {
            let message = "transaction read-write mode must be set before any query";
            return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        self.read_only = read_only;
        Ok(())
    }

    /// Sets the longest time to wait for one lock; without one, waiting may take for ever.
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.locks.timeout = timeout;
    }

    /// Returns a number of the transaction, which no other has in this process.
    pub fn number(&self) -> u64 {
        self.locks.owner()
    }

    /// Returns the database of the transaction.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Begins a statement: READ COMMITTED looks at what was acknowledged by now, by any node. 40001 if this
    /// node does not lead the database any more.
    pub async fn start_statement(&mut self) -> Result<()> {
        if self.isolation == Isolation::ReadCommitted || self.snapshot.is_none() {
            self.database.store.ask().await?;
            self.see_now();
        }
        Ok(())
    }

    /// Looks at what is committed by now, as this node knows. Enough within a statement that has begun, and for
    /// one that writes: its commit fails if the node did not lead.
    fn see_now(&mut self) {
        let (catalog, snapshot) = match (self.isolation, &self.snapshot) {
            (Isolation::RepeatableRead, Some(_)) => return,
            // Without writes there is nothing that commits of others could be in conflict with.
            (Isolation::RepeatableRead, None) if !self.read_only => {
                self.is_noted = true;
                self.database.conflicts.begin(|| self.database.look())
            }
            _ => self.database.look(),
        };
        self.snapshot = Some(snapshot);
        // A transaction that changed its catalog keeps its own.
        if self.base.is_none() {
            self.catalog = catalog;
        }
    }

    /// Takes the newest catalog, for which a statement is planned before it begins. REPEATABLE READ keeps the catalog of
    /// its snapshot, and a transaction that changed its catalog keeps its own.
    pub fn see_catalog(&mut self) {
        if self.base.is_none() && self.conflict_snapshot().is_none() {
            self.catalog = self.database.catalog();
        }
    }

    /// Leaves all Bigtable tables out of the catalog that the statement sees, until the next statement begins.
    /// 25000 in a transaction that may write, since its commit would drop them.
    pub fn leave_out_bigtable(&mut self) -> Result<()> {
        if !self.read_only {
            let message = "only a transaction that reads may see a part of the catalog";
            return Err(Error::new(SqlState::INVALID_TRANSACTION_STATE, message));
        }
        if self.catalog.wides().next().is_some() {
            self.catalog = Arc::new(self.catalog.without_wides());
        }
        Ok(())
    }

    /// Returns the catalog that the statement sees, own changes included.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog)
    }

    /// Returns what the statement sees: its snapshot, and what the transaction has written up to now. If none
    /// has begun it sees what this node knows to be committed by now. Drop views before many writes: the first write while one is alive
    /// copies what was written to the table.
    pub fn view(&mut self) -> View {
        if self.snapshot.is_none() {
            self.see_now();
        }
        let snapshot = self.snapshot.clone().unwrap_or_else(|| self.database.store.snapshot());
        View::new(Arc::clone(&self.catalog), snapshot, self.writes.overlay().clone())
    }

    /// Returns the moment up to which [`Self::undo_to`] keeps writes, for the atomicity of a statement.
    pub fn mark(&self) -> Mark {
        let catalog = Arc::clone(&self.catalog);
        let (journal, locks) = (self.writes.mark(), self.locks.mark());
        let (has_ddl, restarts) = (self.base.is_some(), self.restarts.len());
        Mark { journal, locks, catalog, has_ddl, restarts }
    }

    /// Takes back what was written, and gives back what was locked, since a mark.
    pub fn undo_to(&mut self, mark: &Mark) {
        self.writes.undo_to(mark.journal);
        self.restarts.truncate(mark.restarts);
        match mark.has_ddl {
            true => self.catalog = Arc::clone(&mark.catalog),
            // The lock of the catalog is among the locks that are given back.
            false => {
                if let Some(base) = self.base.take() {
                    self.catalog = base;
                }
            }
        }
        self.locks.undo_to(mark.locks);
    }

    /// Takes back all since the last savepoint, if there is one: a statement has failed. Others need not wait
    /// for what it locked until [`Self::rollback_to`].
    pub fn undo_to_last_savepoint(&mut self) {
        if let Some((_, mark)) = self.savepoints.last().cloned() {
            self.undo_to(&mark);
        }
    }

    /// Sets a savepoint. One of the same name stays behind it.
    pub fn savepoint(&mut self, name: &str) {
        self.savepoints.push((name.to_owned(), self.mark()));
    }

    /// Takes back all since a savepoint, which stays. 3B001 if no savepoint has that name.
    pub fn rollback_to(&mut self, name: &str) -> Result<()> {
        let at = self.savepoint_at(name)?;
        self.savepoints.truncate(at + 1);
        let mark = self.savepoints[at].1.clone();
        self.undo_to(&mark);
        Ok(())
    }

    /// Forgets a savepoint and those behind it, and keeps what was written. 3B001 if no savepoint has that name.
    pub fn release(&mut self, name: &str) -> Result<()> {
        let at = self.savepoint_at(name)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    fn savepoint_at(&self, name: &str) -> Result<usize> {
        let at = self.savepoints.iter().rposition(|(of, _)| of == name);
        at.ok_or_else(|| {
            let message = format!("savepoint \"{name}\" does not exist");
            Error::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, message)
        })
    }

    /// Returns the sequences that the transaction restarted, from which its own numbers come.
    pub fn restarts(&self) -> Restarts {
        self.restarts.clone()
    }

    /// Returns true if the transaction wrote rows or changed the catalog.
    pub fn has_written(&self) -> bool {
        self.base.is_some() || !self.writes.is_empty()
    }

    fn check_writable(&self, what: &str) -> Result<()> {
        if self.read_only {
            let message = format!("cannot execute {what} in a read-only transaction");
            return Err(Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        Ok(())
    }

    /// Returns the snapshot that writes of others are in conflict with, in REPEATABLE READ.
    fn conflict_snapshot(&self) -> Option<&Snapshot> {
        match self.isolation {
            Isolation::ReadCommitted => None,
            Isolation::RepeatableRead => self.snapshot.as_ref(),
        }
    }

    /// Rolls the transaction back. If it made trees or parts of them, it returns once they are dropped.
    pub async fn rollback(self) {
        let made_garbage =
            !self.created.is_empty() || !self.built.is_empty() || !self.loaded.is_empty();
        let database = Arc::clone(&self.database);
        drop(self);
        if made_garbage {
            database.drop_garbage().await;
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let (true, Some(snapshot)) = (self.is_noted, &self.snapshot) {
            self.database.conflicts.end(snapshot.sequence());
        }
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Transaction");
        shown.field("number", &self.number()).field("isolation", &self.isolation);
        shown.finish_non_exhaustive()
    }
}
