//! Statements that open and end blocks, and their savepoints.

use super::block::{Mode, isolation};
use super::command::not_a_command;
use super::settings::Span;
use super::{Session, Stop};
use crate::door::Notice;
use crate::statement::{Parsed, Prepared, name_of};
use datafusion::sql::sqlparser::ast::{
    Set, Statement, TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};
use relational::{Error, Result, SqlState};

impl Session {
    /// Carries out a statement that opens or ends a block. It is never interrupted.
    pub(super) async fn block_command(&mut self, prepared: &Prepared) -> Result<String, Stop> {
        let Parsed::Tree(statement) = prepared.parsed().clone() else {
            return Err(not_a_command());
        };
        match *statement {
            Statement::StartTransaction { modes, begin, .. } => {
                let mode = self.mode_with(Mode::of(&self.settings)?, &modes)?;
                if !self.block.begin(&self.shared.database, &self.settings, mode)? {
                    self.warn(
                        SqlState::ACTIVE_SQL_TRANSACTION,
                        "there is already a transaction in progress",
                    );
                } else if !modes.is_empty() {
                    self.block.change_mode(mode)?;
                }
                Ok(if begin { "BEGIN" } else { "START TRANSACTION" }.into())
            }
            Statement::Commit { chain, .. } => {
                self.warn_without_block();
                let mode = self.block.mode();
                let committed = self.block.commit(&mut self.settings).await;
                match committed {
                    Ok(true) => self.portals.commit(),
                    _ => self.portals.roll_back(),
                }
                self.advisory.end_transaction();
                let is_committed = committed?;
                self.chain(chain, mode)?;
                Ok(if is_committed { "COMMIT" } else { "ROLLBACK" }.into())
            }
            Statement::Rollback { chain, savepoint: None } => {
                self.warn_without_block();
                let mode = self.block.mode();
                self.portals.roll_back();
                self.block.roll_back(&mut self.settings).await;
                self.advisory.end_transaction();
                self.chain(chain, mode)?;
                Ok("ROLLBACK".into())
            }
            Statement::Rollback { savepoint: Some(name), .. } => {
                self.block.roll_back_to(&name_of(&name), &mut self.settings)?;
                self.portals.roll_back_to(self.block.savepoint_count());
                Ok("ROLLBACK".into())
            }
            Statement::Savepoint { name } => {
                self.block.savepoint(&name_of(&name), &self.settings)?;
                Ok("SAVEPOINT".into())
            }
            Statement::ReleaseSavepoint { name } => {
                self.block.release(&name_of(&name))?;
                self.portals.release(self.block.savepoint_count());
                Ok("RELEASE".into())
            }
            Statement::Set(Set::SetTransaction { modes, snapshot, session }) => {
                if snapshot.is_some() {
                    return Err(Error::unsupported("SET TRANSACTION SNAPSHOT").into());
                }
                self.set_transaction(&modes, session)?;
                Ok("SET".into())
            }
            _ => Err(not_a_command()),
        }
    }

    fn chain(&mut self, chain: bool, mode: Option<Mode>) -> Result<()> {
        if let Some(mode) = mode.filter(|_| chain) {
            self.block.begin(&self.shared.database, &self.settings, mode)?;
        }
        Ok(())
    }

    fn warn_without_block(&mut self) {
        if !self.block.is_open() {
            let message = "there is no transaction in progress";
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
        }
    }

    pub(super) fn warn(&mut self, state: SqlState, message: &str) {
        self.notices.push(Notice::warning(state, message));
    }

    fn mode_with(&self, mut mode: Mode, modes: &[TransactionMode]) -> Result<Mode> {
        for wanted in modes {
            match wanted {
                TransactionMode::AccessMode(access) => {
                    mode.is_read_only = *access == TransactionAccessMode::ReadOnly;
                }
                TransactionMode::IsolationLevel(level) => {
                    mode.isolation = isolation(match level {
                        TransactionIsolationLevel::ReadUncommitted
                        | TransactionIsolationLevel::ReadCommitted => "read committed",
                        TransactionIsolationLevel::RepeatableRead => "repeatable read",
                        _ => "serializable",
                    })?;
                }
            }
        }
        Ok(mode)
    }

    fn set_transaction(&mut self, modes: &[TransactionMode], session: bool) -> Result<()> {
        if !session {
            match self.block.mode() {
                Some(mode) if self.block.is_open() => {
                    let mode = self.mode_with(mode, modes)?;
                    self.block.change_mode(mode)?;
                }
                _ => self.warn(
                    SqlState::NO_ACTIVE_SQL_TRANSACTION,
                    "SET TRANSACTION can only be used in transaction blocks",
                ),
            }
            return Ok(());
        }
        for wanted in modes {
            let (name, value) = match wanted {
                TransactionMode::AccessMode(TransactionAccessMode::ReadOnly) => {
                    ("default_transaction_read_only", "on".to_owned())
                }
                TransactionMode::AccessMode(_) => ("default_transaction_read_only", "off".into()),
                TransactionMode::IsolationLevel(level) => {
                    ("default_transaction_isolation", level.to_string().to_lowercase())
                }
            };
            if name == "default_transaction_isolation" {
                isolation(&value)?;
            }
            self.settings.set(name, &value, Span::Session)?;
        }
        Ok(())
    }
}
