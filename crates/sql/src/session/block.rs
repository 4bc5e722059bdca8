//! The transaction block of a session.
//!
//! ```text
//! Idle ─ first statement ─▶ Implicit ─ end of the messages ─▶ Idle
//! Idle, Implicit ─ BEGIN ─▶ Open ─ COMMIT, ROLLBACK ─▶ Idle
//! Open ─ error ─▶ Failed ─ ROLLBACK TO ─▶ Open;  Failed ─ COMMIT, ROLLBACK ─▶ Idle
//! ```
//!
//! Invariants:
//! 1. A failed block without a savepoint holds no transaction, hence no locks; one with savepoints holds the
//!    locks up to the last of them.
//! 2. Settings follow the transaction: a rollback restores them, also one to a savepoint.

use super::settings::{Saved, Settings};
use crate::door::Counts;
use pgwire::messages::response::TransactionStatus;
use relational::{Database, Error, Isolation, Result, SqlState, Transaction};
use std::sync::Arc;

/// Most savepoints of a transaction, the ones of the same name included.
const SAVEPOINTS_MAX: usize = 100_000;

/// Kind of a transaction: of a block, or of one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) isolation: Isolation,
    pub(crate) is_read_only: bool,
}

impl Mode {
    /// Returns the mode that the settings give to a transaction without modes of its own.
    pub(crate) fn of(settings: &Settings) -> Result<Self> {
        let level = settings.show("default_transaction_isolation")?;
        let is_read_only = settings.is_on("default_transaction_read_only");
        Ok(Self { isolation: isolation(&level)?, is_read_only })
    }
}

/// Returns the level that `name` names; SERIALIZABLE is refused.
pub(crate) fn isolation(name: &str) -> Result<Isolation> {
    match name {
        "read committed" | "read uncommitted" => Ok(Isolation::ReadCommitted),
        "repeatable read" => Ok(Isolation::RepeatableRead),
        _ => {
            let error = Error::unsupported("isolation level SERIALIZABLE is not supported");
            Err(error.with_hint("Use REPEATABLE READ, which is snapshot isolation."))
        }
    }
}

enum State {
    Idle,
    Implicit(Transaction),
    Open(Transaction),
    Failed(Option<Transaction>),
}

/// A savepoint of the block, and the settings at it.
struct Savepoint {
    name: String,
    settings: Arc<Saved>,
}

/// The transaction block of a session.
pub(crate) struct Block {
    state: State,
    mode: Mode,
    at_start: Arc<Saved>,
    savepoints: Vec<Savepoint>,
    counts: Arc<Counts>,
}

impl Block {
    /// Returns the block of a session that has no transaction.
    pub(crate) fn new(counts: Arc<Counts>) -> Self {
        Self {
            state: State::Idle,
            mode: Mode { isolation: Isolation::ReadCommitted, is_read_only: false },
            at_start: Arc::default(),
            savepoints: Vec::new(),
            counts,
        }
    }

    /// Returns the status that the ready message tells.
    pub(crate) fn status(&self) -> TransactionStatus {
        match self.state {
            State::Idle | State::Implicit(_) => TransactionStatus::Idle,
            State::Open(_) => TransactionStatus::Transaction,
            State::Failed(_) => TransactionStatus::Error,
        }
    }

    /// Returns whether a block was opened by `BEGIN`.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_) | State::Failed(_))
    }

    /// Returns whether there is no transaction, neither of a block nor of a statement.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Returns whether there is a transaction, be it one that waits in a failed block for a savepoint.
    pub(crate) fn holds_transaction(&self) -> bool {
        !matches!(self.state, State::Idle | State::Failed(None))
    }

    /// Returns whether the block takes nothing but its end.
    pub(crate) fn is_failed(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }

    /// Returns the mode of the transaction in progress.
    pub(crate) fn mode(&self) -> Option<Mode> {
        (!matches!(self.state, State::Idle)).then_some(self.mode)
    }

    /// Returns the transaction in progress, if there is one.
    pub(crate) fn transaction(&self) -> Option<&Transaction> {
        match &self.state {
            State::Implicit(transaction) | State::Open(transaction) => Some(transaction),
            State::Idle | State::Failed(_) => None,
        }
    }

    /// Has the transaction in progress take the newest catalog that it may see.
    pub(crate) fn see_catalog(&mut self) {
        if let State::Implicit(transaction) | State::Open(transaction) = &mut self.state {
            transaction.see_catalog();
        }
    }

    /// Returns the transaction for a statement, and starts an implicit one if there was no open one.
    pub(crate) fn for_statement(
        &mut self,
        database: &Arc<Database>,
        settings: &Settings,
    ) -> Result<&mut Transaction> {
        if matches!(self.state, State::Idle) {
            self.mode = Mode::of(settings)?;
            self.at_start = settings.save();
            let Mode { isolation, is_read_only } = self.mode;
            self.state = State::Implicit(database.begin(isolation, is_read_only));
        }
        match &mut self.state {
            State::Implicit(transaction) | State::Open(transaction) => Ok(transaction),
            State::Idle | State::Failed(_) => Err(failed()),
        }
    }

    /// Opens the block. Returns false if it was open already.
    pub(crate) fn begin(
        &mut self,
        database: &Arc<Database>,
        settings: &Settings,
        mode: Mode,
    ) -> Result<bool> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => {
                self.mode = mode;
                self.at_start = settings.save();
                let transaction = database.begin(mode.isolation, mode.is_read_only);
                self.state = State::Open(transaction);
                Ok(true)
            }
            State::Implicit(transaction) => {
                self.state = State::Open(transaction);
                Ok(true)
            }
            open @ State::Open(_) => {
                self.state = open;
                Ok(false)
            }
            failed_state @ State::Failed(_) => {
                self.state = failed_state;
                Err(failed())
            }
        }
    }

    /// Gives the transaction another mode. 25001 if it has another isolation, or is to write from now on, and has
    /// run a statement.
    pub(crate) fn change_mode(&mut self, mode: Mode) -> Result<()> {
        if let State::Open(transaction) | State::Implicit(transaction) = &mut self.state {
            transaction.set_isolation(mode.isolation)?;
            transaction.set_read_only(mode.is_read_only)?;
            self.mode = mode;
        }
        Ok(())
    }

    /// Commits what there is. Returns false if the block had failed and was rolled back instead. An error
    /// means that nothing was committed.
    pub(crate) async fn commit(&mut self, settings: &mut Settings) -> Result<bool> {
        self.savepoints.clear();
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => {
                settings.end_transaction();
                Ok(true)
            }
            State::Implicit(transaction) | State::Open(transaction) => {
                match transaction.commit().await {
                    Ok(()) => {
                        settings.end_transaction();
                        self.counts.commit();
                        Ok(true)
                    }
                    Err(error) => {
                        settings.restore(std::mem::take(&mut self.at_start));
                        self.counts.roll_back();
                        Err(error)
                    }
                }
            }
            State::Failed(transaction) => {
                self.undo(transaction, settings).await;
                Ok(false)
            }
        }
    }

    /// Commits an implicit transaction, and leaves an open block as it is.
    pub(crate) async fn commit_implicit(&mut self, settings: &mut Settings) -> Result<()> {
        if matches!(self.state, State::Implicit(_)) {
            self.commit(settings).await?;
        }
        Ok(())
    }

    /// Rolls back what there is.
    pub(crate) async fn roll_back(&mut self, settings: &mut Settings) {
        self.savepoints.clear();
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => settings.end_transaction(),
            State::Implicit(transaction) | State::Open(transaction) => {
                self.undo(Some(transaction), settings).await;
            }
            State::Failed(transaction) => self.undo(transaction, settings).await,
        }
    }

    async fn undo(&mut self, transaction: Option<Transaction>, settings: &mut Settings) {
        if let Some(transaction) = transaction {
            transaction.rollback().await;
        }
        settings.restore(std::mem::take(&mut self.at_start));
        self.counts.roll_back();
    }

    /// Takes notice of an error: an implicit transaction ends, an open block fails.
    pub(crate) async fn fail(&mut self, settings: &mut Settings) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => {}
            State::Implicit(transaction) => self.undo(Some(transaction), settings).await,
            State::Open(transaction) if self.savepoints.is_empty() => {
                transaction.rollback().await;
                self.state = State::Failed(None);
            }
            State::Open(mut transaction) => {
                transaction.undo_to_last_savepoint();
                self.state = State::Failed(Some(transaction));
            }
            State::Failed(transaction) => self.state = State::Failed(transaction),
        }
    }

    /// Returns the number of savepoints of the block.
    pub(crate) fn savepoint_count(&self) -> usize {
        self.savepoints.len()
    }

    /// Makes a savepoint, of settings and rows alike.
    pub(crate) fn savepoint(&mut self, name: &str, settings: &Settings) -> Result<()> {
        let State::Open(transaction) = &mut self.state else { return Err(no_block("SAVEPOINT")) };
        if self.savepoints.len() >= SAVEPOINTS_MAX {
            let message = format!("a transaction has more than {SAVEPOINTS_MAX} savepoints");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        transaction.savepoint(name);
        self.savepoints.push(Savepoint { name: name.to_owned(), settings: settings.save() });
        Ok(())
    }

    /// Forgets a savepoint and the later ones, and keeps what was done since.
    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        let at = self.find(name);
        let State::Open(transaction) = &mut self.state else {
            return Err(no_block("RELEASE SAVEPOINT"));
        };
        let at = at.ok_or_else(|| unknown(name))?;
        transaction.release(name)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    /// Returns to a savepoint, also from a failed block.
    pub(crate) fn roll_back_to(&mut self, name: &str, settings: &mut Settings) -> Result<()> {
        let at = self.find(name);
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Open(mut transaction) | State::Failed(Some(mut transaction)) => {
                let outcome = at
                    .ok_or_else(|| unknown(name))
                    .and_then(|at| transaction.rollback_to(name).map(|()| at));
                self.state = State::Open(transaction);
                let at = outcome?;
                self.savepoints.truncate(at + 1);
                settings.restore(self.savepoints[at].settings.clone());
                Ok(())
            }
            State::Failed(None) => {
                self.state = State::Failed(None);
                Err(unknown(name))
            }
            other => {
                self.state = other;
                Err(no_block("ROLLBACK TO SAVEPOINT"))
            }
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.savepoints.iter().rposition(|savepoint| savepoint.name == name)
    }
}

/// Returns the error of a statement in a failed block.
pub(crate) fn failed() -> Error {
    Error::new(
        SqlState::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

fn no_block(statement: &str) -> Error {
    let message = format!("{statement} can only be used in transaction blocks");
    Error::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message)
}

fn unknown(name: &str) -> Error {
    let message = format!("savepoint \"{name}\" does not exist");
    Error::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, message)
}
