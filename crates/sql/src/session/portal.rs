//! Prepared statements and portals of a session. A cursor is a portal that a statement declared.

use crate::statement::{Prepared, Rows};
use relational::{CancelFlag, Error, Result, SqlState, Value};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Most prepared statements of a session.
const PREPARED_MAX: usize = 10_000;
/// Most portals of a session.
const PORTALS_MAX: usize = 1_000;
/// Most bytes that prepared statements and portals of a session take, about.
const BYTES_MAX: usize = 256 << 20;
/// Bytes that a plan takes for each byte of its text, about, and at least.
const PLAN_FACTOR: usize = 8;
const PLAN_BYTES_MIN: usize = 4 << 10;

/// Progress of a portal through its statement's rows.
pub(crate) enum Progress {
    /// It was bound, and not executed yet.
    Bound,
    /// It gives rows, and may have given some.
    Running(Arc<Mutex<Rows>>, Stops),
    /// It gave all of its rows, or was no query. Executing it again gives nothing, with this tag.
    Done(String),
    /// It failed, and cannot be executed again.
    Failed,
}

impl Progress {
    /// Returns the progress of a statement that began to give rows under a flag.
    pub(crate) fn running(rows: Rows, flag: &CancelFlag) -> Self {
        let stops = Stops { flag: flag.clone(), is_over: false };
        Self::Running(Arc::new(Mutex::new(rows)), stops)
    }
}

/// Stops the work for rows that are not wanted any more, when it is dropped: some joins look at nothing but the flag
/// of the statement that began them.
pub(crate) struct Stops {
    flag: CancelFlag,
    is_over: bool,
}

impl Stops {
    /// Notes that all rows were given, so that nothing is to be stopped.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }
}

impl Drop for Stops {
    fn drop(&mut self) {
        if !self.is_over {
            self.flag.cancel();
        }
    }
}

/// A statement with its parameters.
pub(crate) struct Portal {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) params: Arc<[Value]>,
    /// Format codes of the columns: none for text, one for all, or one for each.
    pub(crate) formats: Vec<i16>,
    pub(crate) progress: Progress,
    /// Bytes of the rows that it keeps, about.
    pub(crate) rows_bytes: usize,
    /// True if it outlives its transaction: a cursor WITH HOLD.
    pub(crate) is_held: bool,
    /// True until the transaction that opened it has committed.
    pub(crate) is_new: bool,
    /// Savepoints that its transaction had when it was opened, without the ones that were released since.
    pub(crate) savepoints: usize,
}

impl Portal {
    /// Returns whether it failed, or was given up while it worked.
    pub(crate) fn is_failed(&self) -> bool {
        match &self.progress {
            Progress::Failed => true,
            // No other task works with the rows between two statements.
            Progress::Running(rows, _) => rows.try_lock().is_ok_and(|rows| rows.is_failed()),
            Progress::Bound | Progress::Done(_) => false,
        }
    }

    fn bytes(&self) -> usize {
        let params = self.params.iter().map(Value::memory_bytes).sum::<usize>();
        PLAN_BYTES_MIN + params + self.rows_bytes
    }
}

/// Prepared statements and portals by their names.
#[derive(Default)]
pub(crate) struct Portals {
    prepared: HashMap<String, Arc<Prepared>>,
    /// Bytes of all prepared statements.
    prepared_bytes: usize,
    portals: HashMap<String, Portal>,
}

impl Portals {
    /// Keeps a prepared statement. Only the one without a name may be replaced.
    pub(crate) fn keep(&mut self, name: &str, prepared: Arc<Prepared>) -> Result<()> {
        if !name.is_empty() {
            if self.prepared.contains_key(name) {
                let message = format!("prepared statement \"{name}\" already exists");
                return Err(Error::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
            }
            if self.prepared.len() >= PREPARED_MAX {
                let message = format!("more than {PREPARED_MAX} prepared statements");
                return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            }
        }
        self.deallocate(name);
        let bytes = plan_bytes(&prepared);
        self.check_room(bytes)?;
        self.prepared_bytes += bytes;
        self.prepared.insert(name.to_owned(), prepared);
        Ok(())
    }

    /// Fails with 53200 if the session keeps too much for `bytes` more.
    fn check_room(&self, bytes: usize) -> Result<()> {
        let portals: usize = self.portals.values().map(Portal::bytes).sum();
        if self.prepared_bytes + portals + bytes <= BYTES_MAX {
            return Ok(());
        }
        let message = "prepared statements and cursors of the session take too much memory";
        Err(Error::new(SqlState::OUT_OF_MEMORY, message)
            .with_hint("Close the ones that are not needed."))
    }

    /// Replaces a prepared statement by one of the same text that was planned again.
    pub(crate) fn refresh(&mut self, name: &str, prepared: Arc<Prepared>) {
        self.prepared.insert(name.to_owned(), prepared);
    }

    /// Returns a prepared statement by its name, or 26000.
    pub(crate) fn prepared(&self, name: &str) -> Result<Arc<Prepared>> {
        self.prepared.get(name).cloned().ok_or_else(|| {
            let message = match name {
                "" => "unnamed prepared statement does not exist".to_owned(),
                name => format!("prepared statement \"{name}\" does not exist"),
            };
            Error::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    /// Forgets a prepared statement. Returns false if there was none.
    pub(crate) fn deallocate(&mut self, name: &str) -> bool {
        let removed = self.prepared.remove(name);
        self.prepared_bytes -= removed.as_deref().map_or(0, plan_bytes);
        removed.is_some()
    }

    /// Forgets all prepared statements of the session.
    pub(crate) fn deallocate_all(&mut self) {
        self.prepared.clear();
        self.prepared_bytes = 0;
    }

    /// Opens a portal. Only the one without a name may be replaced.
    pub(crate) fn open(&mut self, name: &str, portal: Portal) -> Result<()> {
        if !name.is_empty() && self.portals.contains_key(name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_CURSOR, message));
        }
        if self.portals.len() >= PORTALS_MAX {
            let message = format!("more than {PORTALS_MAX} open portals");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        self.portals.remove(name);
        self.check_room(portal.bytes())?;
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    /// Fails with 55000 if a portal failed before, and with 34000 if no portal has the name.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        if !self.portal(name)?.is_failed() {
            return Ok(());
        }
        let message = format!("portal \"{name}\" cannot be run");
        Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
    }

    /// Returns a portal by its name, or 34000.
    pub(crate) fn portal(&self, name: &str) -> Result<&Portal> {
        self.portals.get(name).ok_or_else(|| no_portal(name))
    }

    /// Takes a portal out, to be put back by [`Portals::put_back`].
    pub(crate) fn take(&mut self, name: &str) -> Result<Portal> {
        self.portals.remove(name).ok_or_else(|| no_portal(name))
    }

    /// Puts a portal back that was taken out.
    pub(crate) fn put_back(&mut self, name: &str, portal: Portal) {
        self.portals.insert(name.to_owned(), portal);
    }

    /// Closes a portal. Returns false if there was none.
    pub(crate) fn close(&mut self, name: &str) -> bool {
        self.portals.remove(name).is_some()
    }

    /// Closes the portals that end with a transaction that commits.
    pub(crate) fn commit(&mut self) {
        self.portals.retain(|_, portal| portal.is_held);
        for portal in self.portals.values_mut() {
            (portal.is_new, portal.savepoints) = (false, 0);
        }
    }

    /// Closes the portals that end with a transaction that is rolled back: also cursors WITH HOLD that it
    /// declared.
    pub(crate) fn roll_back(&mut self) {
        self.portals.retain(|_, portal| portal.is_held && !portal.is_new);
    }

    /// Closes the portals that were opened behind the first `savepoints` savepoints, which are taken back.
    pub(crate) fn roll_back_to(&mut self, savepoints: usize) {
        self.portals.retain(|_, portal| portal.savepoints < savepoints);
    }

    /// Takes notice that all savepoints but the first `savepoints` are released.
    pub(crate) fn release(&mut self, savepoints: usize) {
        let behind = |portal: &mut Portal| portal.savepoints = portal.savepoints.min(savepoints);
        self.portals.values_mut().for_each(behind);
    }

    /// Closes all portals of the session, cursors included.
    pub(crate) fn close_all(&mut self) {
        self.portals.clear();
    }
}

/// Returns the bytes that a prepared statement takes, about. They follow from its text alone.
fn plan_bytes(prepared: &Prepared) -> usize {
    PLAN_BYTES_MIN + prepared.text().len() * PLAN_FACTOR
}

fn no_portal(name: &str) -> Error {
    let kind = if name.is_empty() { "portal" } else { "cursor" };
    let message = format!("{kind} \"{name}\" does not exist");
    Error::new(SqlState::INVALID_CURSOR_NAME, message)
}
