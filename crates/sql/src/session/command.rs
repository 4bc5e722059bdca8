//! Statements about the session itself, but for its blocks: settings, prepared statements, cursors.

use super::sequences::Given;
use super::variables::columns_of_show;
use super::{Session, Stop};
use crate::statement::{Column, Output, Parsed, Prepared, literal, name_of};
use datafusion::sql::sqlparser::ast::{
    CloseCursor, DiscardObject, Expr, ObjectName, Reset, Statement,
};
use relational::{CancelFlag, Error, Result, SqlState, Value};
use std::sync::Arc;

impl Session {
    /// Carries out any other statement about the session.
    pub(super) async fn command(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &Arc<[Value]>,
        flag: &CancelFlag,
    ) -> Result<Output, Stop> {
        if let Some(tag) = prepared.nothing() {
            return done(tag);
        }
        let (statement, is_move) = match prepared.parsed().clone() {
            Parsed::Tree(statement) => (*statement, false),
            Parsed::Move(statement) => (*statement, true),
            Parsed::Nothing(_) | Parsed::AlterSequence(_) | Parsed::Foreign(_) => {
                return Err(not_a_command());
            }
        };
        match statement {
            Statement::Set(set) => {
                self.settle_settings();
                self.set(set)?;
                done("SET")
            }
            Statement::Reset(reset) => {
                self.settle_settings();
                match reset.reset {
                    Reset::ALL => self.settings.reset_all(),
                    Reset::ConfigurationParameter(name) => {
                        self.settings.reset(&setting_name(&name))?
                    }
                }
                done("RESET")
            }
            Statement::ShowVariable { variable } => Ok(self.show(&variable)?),
            Statement::Discard { object_type } => {
                if object_type == DiscardObject::ALL {
                    if self.block.is_open() {
                        let message = "DISCARD ALL cannot run inside a transaction block";
                        return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, message).into());
                    }
                    self.portals.close_all();
                    self.portals.deallocate_all();
                    self.settings.reset_all();
                    self.advisory.give_back_all();
                }
                if matches!(object_type, DiscardObject::ALL | DiscardObject::SEQUENCES) {
                    *self.given.lock() = Given::default();
                }
                done(&format!("DISCARD {object_type}"))
            }
            Statement::Prepare { name, data_types, statement } => {
                let types = data_types.iter().map(crate::statement::data_type);
                let types = types.collect::<Result<Vec<_>>>()?;
                let inner = Parsed::Tree(statement);
                let inner = self.prepare(prepared.text(), inner, types)?;
                self.portals.keep(&name_of(&name), Arc::new(inner))?;
                done("PREPARE")
            }
            Statement::Execute { name: Some(name), parameters, .. } => {
                self.execute(&name, &parameters, params, flag).await
            }
            Statement::Deallocate { name, .. } => {
                if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all") {
                    self.portals.deallocate_all();
                    return done("DEALLOCATE ALL");
                }
                let name = name_of(&name);
                if !self.portals.deallocate(&name) {
                    self.portals.prepared(&name)?;
                }
                done("DEALLOCATE")
            }
            Statement::Declare { stmts } => self.declare(prepared, stmts, params, flag).await,
            Statement::Fetch { name, direction, into: None, .. } => {
                self.fetch(&name_of(&name), &direction, is_move, flag).await
            }
            Statement::Close { cursor } => {
                match cursor {
                    CloseCursor::All => self.portals.close_all(),
                    CloseCursor::Specific { name } => {
                        let name = name_of(&name);
                        self.portals.portal(&name)?;
                        self.portals.close(&name);
                    }
                }
                done("CLOSE CURSOR")
            }
            _ => Err(not_a_command()),
        }
    }

    async fn execute(
        &mut self,
        name: &ObjectName,
        arguments: &[Expr],
        params: &Arc<[Value]>,
        flag: &CancelFlag,
    ) -> Result<Output, Stop> {
        let name = setting_name(name);
        let prepared = self.fresh(&name)?;
        if prepared.params().len() != arguments.len() {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            let detail = format!(
                "Expected {} parameters but got {}.",
                prepared.params().len(),
                arguments.len()
            );
            return Err(Error::new(SqlState::SYNTAX_ERROR, message).with_detail(detail).into());
        }
        let catalog = self.catalog();
        let environment = self.environment(&catalog);
        let mut values = Vec::with_capacity(arguments.len());
        for (argument, data_type) in arguments.iter().zip(prepared.params()) {
            values.push(literal(&environment, argument, data_type, params)?);
        }
        if prepared.is_command() || prepared.is_block_command() {
            return Err(Error::unsupported("EXECUTE of this kind of statement").into());
        }
        Box::pin(self.start(&prepared, &values.into(), flag)).await
    }

    /// Returns the columns of what a statement gives, or nothing for one that gives no rows.
    pub(super) fn columns_of(&self, prepared: &Prepared) -> Result<Option<Arc<[Column]>>> {
        let Parsed::Tree(statement) = prepared.parsed() else { return Ok(None) };
        match statement.as_ref() {
            Statement::ShowVariable { variable } => Ok(Some(columns_of_show(variable))),
            Statement::Execute { name: Some(name), .. } => {
                let named = self.portals.prepared(&setting_name(name))?;
                named.tell();
                Ok(named.columns())
            }
            Statement::Fetch { name, .. } => {
                Ok(self.portals.portal(&name_of(name))?.prepared.columns())
            }
            _ => Ok(prepared.columns()),
        }
    }
}

pub(super) fn done(tag: &str) -> Result<Output, Stop> {
    Ok(Output::Done(tag.to_owned()))
}

pub(super) fn not_a_command() -> Stop {
    Error::unsupported("this statement is not supported").into()
}

/// Returns the name of a setting or of a prepared statement, folded.
pub(super) fn setting_name(name: &ObjectName) -> String {
    let parts = name.0.iter().filter_map(|part| part.as_ident()).map(name_of);
    parts.collect::<Vec<_>>().join(".")
}
