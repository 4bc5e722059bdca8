//! The extended protocol: parse, bind, describe, execute, close, sync.
//!
//! Invariants:
//! 1. After an error every message up to the next sync is passed over.
//! 2. A complete statement is told once the transaction is committed if a sync comes next, and at once
//!    otherwise: other messages of the same transaction follow it.

use super::block::failed;
use super::portal::{Portal, Progress};
use super::run::{columns_message, formats_of};
use super::{Broken, Session, Stop};
use crate::door::Kind;
use crate::statement::{Prepared, parse};
use crate::threads::aside_if_long;
use crate::values;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, CloseComplete, Execute, Parse, ParseComplete, PortalSuspended,
    TARGET_TYPE_BYTE_PORTAL, TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::EmptyQueryResponse;
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use relational::{DataType, Error, SqlState, Value};
use std::sync::Arc;

impl Session {
    /// Carries out a message of the extended protocol.
    pub(super) async fn extended(&mut self, message: PgWireFrontendMessage) -> Result<(), Stop> {
        if let PgWireFrontendMessage::Sync(_) = message {
            return self.sync().await;
        }
        if self.is_skipping {
            return Ok(());
        }
        self.settle_uncommitted().await?;
        match message {
            PgWireFrontendMessage::Parse(parse) => self.on_parse(parse),
            PgWireFrontendMessage::Bind(bind) => self.on_bind(bind),
            PgWireFrontendMessage::Describe(describe) => {
                let name = describe.name.unwrap_or_default();
                match describe.target_type {
                    TARGET_TYPE_BYTE_STATEMENT => self.describe_statement(&name),
                    TARGET_TYPE_BYTE_PORTAL => self.describe_portal(&name),
                    other => Err(unknown_target("DESCRIBE", other)),
                }
            }
            PgWireFrontendMessage::Execute(execute) => self.on_execute(execute).await,
            PgWireFrontendMessage::Close(close) => {
                let name = close.name.unwrap_or_default();
                match close.target_type {
                    TARGET_TYPE_BYTE_STATEMENT => self.portals.deallocate(&name),
                    TARGET_TYPE_BYTE_PORTAL => self.portals.close(&name),
                    other => return Err(unknown_target("CLOSE", other)),
                };
                Ok(self.wire.put(&PgWireBackendMessage::CloseComplete(CloseComplete::new()))?)
            }
            PgWireFrontendMessage::Flush(_) => Ok(self.wire.flush().await?),
            // A client that still sends the data of a COPY that failed.
            PgWireFrontendMessage::CopyData(_)
            | PgWireFrontendMessage::CopyDone(_)
            | PgWireFrontendMessage::CopyFail(_) => Ok(()),
            _ => Err(Broken::Protocol("unexpected message".into()).into()),
        }
    }

    async fn sync(&mut self) -> Result<(), Stop> {
        let tag = self.uncommitted.take();
        match self.more_work().on(self.commit_implicit()).await {
            Ok(()) => {
                if let Some(tag) = tag {
                    self.complete(tag)?;
                }
            }
            Err(Stop::Sql(error)) => self.fail(&error).await?,
            Err(broken) => return Err(broken),
        }
        Ok(self.ready().await?)
    }

    /// Tells of a complete statement whose transaction goes on.
    pub(super) async fn settle_uncommitted(&mut self) -> Result<(), Stop> {
        match self.uncommitted.take() {
            Some(tag) => self.complete(tag),
            None => Ok(()),
        }
    }

    fn on_parse(&mut self, message: Parse) -> Result<(), Stop> {
        let watch = self.watch();
        let len = message.query.len();
        let mut statements = aside_if_long(len, || parse(&message.query))?;
        if statements.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message).into());
        }
        let types = message.type_oids.iter().map(|oid| type_of(*oid));
        let types = types.collect::<Result<Vec<_>, Error>>()?;
        let text = Arc::from(message.query.as_str());
        self.begin_statement(Kind::PREPARE, &text);
        let prepared = match statements.pop() {
            Some(parsed) => self.prepare(text, parsed, types)?,
            None => Prepared::empty(text),
        };
        watch.flag().check()?;
        self.portals.keep(&message.name.unwrap_or_default(), Arc::new(prepared))?;
        self.end_statement(Ok(Some("PREPARE")));
        Ok(self.wire.put(&PgWireBackendMessage::ParseComplete(ParseComplete::new()))?)
    }

    fn on_bind(&mut self, bind: Bind) -> Result<(), Stop> {
        let name = bind.statement_name.unwrap_or_default();
        let prepared = self.fresh(&name)?;
        if self.block.is_failed() && !prepared.ends_transaction() {
            return Err(failed().into());
        }
        let types = prepared.params();
        if bind.parameters.len() != types.len() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{name}\" requires {}",
                bind.parameters.len(),
                types.len()
            );
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message).into());
        }
        let codes = bind.result_column_format_codes.len();
        // One code is for all columns, however many there are.
        if codes > 1
            && let Some(columns) = self.columns_of(&prepared)?
            && codes != columns.len()
        {
            let count = columns.len();
            let message =
                format!("bind message has {codes} result formats but query has {count} columns");
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message).into());
        }
        self.note_settings();
        let formats = formats_of(&bind.parameter_format_codes, types.len(), "parameter")?;
        let mut params = Vec::with_capacity(types.len());
        for ((bytes, format), data_type) in bind.parameters.iter().zip(formats).zip(types) {
            params.push(match (bytes, format) {
                (None, _) => Value::Null,
                (Some(bytes), 0) => {
                    values::decode_text(bytes, data_type, &self.evaluation.settings)?
                }
                (Some(bytes), _) => {
                    values::decode_binary(bytes, data_type, &self.evaluation.settings)?
                }
            });
        }
        let portal = Portal {
            prepared,
            params: params.into(),
            formats: bind.result_column_format_codes,
            progress: Progress::Bound,
            rows_bytes: 0,
            is_held: false,
            is_new: true,
            savepoints: self.block.savepoint_count(),
        };
        self.portals.open(&bind.portal_name.unwrap_or_default(), portal)?;
        Ok(self.wire.put(&PgWireBackendMessage::BindComplete(BindComplete::new()))?)
    }

    fn describe_statement(&mut self, name: &str) -> Result<(), Stop> {
        let prepared = self.fresh(name)?;
        let types = prepared.params().iter().map(values::type_oid).collect();
        let types = ParameterDescription::new(types);
        self.wire.put(&PgWireBackendMessage::ParameterDescription(types))?;
        self.put_columns(&prepared, &[])
    }

    fn describe_portal(&mut self, name: &str) -> Result<(), Stop> {
        let portal = self.portals.portal(name)?;
        let (prepared, formats) = (Arc::clone(&portal.prepared), portal.formats.clone());
        self.put_columns(&prepared, &formats)
    }

    fn put_columns(&mut self, prepared: &Prepared, formats: &[i16]) -> Result<(), Stop> {
        prepared.tell();
        let message = match self.columns_of(prepared)? {
            Some(columns) => columns_message(&columns, formats)?,
            None => PgWireBackendMessage::NoData(NoData::new()),
        };
        Ok(self.wire.put(&message)?)
    }

    async fn on_execute(&mut self, execute: Execute) -> Result<(), Stop> {
        let name = execute.name.unwrap_or_default();
        let was_failed = self.block.is_failed();
        if !was_failed {
            self.portals.check(&name)?;
        }
        let mut portal = self.portals.take(&name)?;
        if portal.prepared.is_empty() {
            self.portals.put_back(&name, portal);
            let empty = PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new());
            return Ok(self.wire.put(&empty)?);
        }
        let rows_max = usize::try_from(execute.max_rows).ok().filter(|max| *max > 0);
        let prepared = &portal.prepared;
        let work = self.begin_statement(Kind::of(prepared.parsed()), &prepared.text());
        let ended = match work.on(self.run_portal(&mut portal, rows_max)).await {
            Ok(ended) => ended,
            Err(stopped) => {
                // A failed block does not begin it.
                if !was_failed {
                    portal.progress = Progress::Failed;
                }
                self.portals.put_back(&name, portal);
                return Err(stopped);
            }
        };
        // Whatever ends a transaction or a part of it ends its own portal.
        let is_open = self.block.transaction().is_some() || portal.is_held;
        if is_open && !portal.prepared.ends_transaction() {
            self.portals.put_back(&name, portal);
        }
        match ended {
            None => {
                self.end_statement(Ok(None));
                Ok(self.wire.put(&PgWireBackendMessage::PortalSuspended(PortalSuspended::new()))?)
            }
            Some(tag) if self.block.is_open() => self.complete(tag),
            Some(tag) => {
                self.uncommitted = Some(tag);
                Ok(())
            }
        }
    }

    /// Returns a prepared statement that fits the catalog, planned again if it has changed since. 0A000 if it gives
    /// other columns then.
    pub(super) fn fresh(&mut self, name: &str) -> Result<Arc<Prepared>, Stop> {
        self.note_settings();
        let prepared = self.portals.prepared(name)?;
        self.block.see_catalog();
        if self.block.is_failed() || prepared.fits(&self.catalog(), self.settings.path()) {
            return Ok(prepared);
        }
        let (text, parsed) = (prepared.text(), prepared.parsed().clone());
        let again = self.prepare(text, parsed, prepared.given_params().to_vec())?;
        // A client that names no statement and asks for no columns takes what comes.
        let is_fixed = prepared.is_told() || !name.is_empty();
        if is_fixed && !again.has_columns_of(&prepared) {
            let message = "cached plan must not change result type";
            return Err(Error::unsupported(message).into());
        }
        if prepared.is_told() {
            again.tell();
        }
        let again = Arc::new(again);
        self.portals.refresh(name, Arc::clone(&again));
        Ok(again)
    }
}

/// Returns the type of a parameter by its number. A text of blank-padded type has no length there.
fn type_of(oid: u32) -> Result<DataType, Error> {
    let any_length = |data_type| match data_type {
        DataType::Char(_) => DataType::Varchar(None),
        DataType::Array(element) if matches!(*element, DataType::Char(_)) => {
            DataType::Array(Box::new(DataType::Varchar(None)))
        }
        other => other,
    };
    values::type_from_oid(oid).map(any_length).ok_or_else(|| {
        let message = format!("type with OID {oid} does not exist");
        Error::new(SqlState::UNDEFINED_OBJECT, message)
    })
}

fn unknown_target(message: &str, target: u8) -> Stop {
    Broken::Protocol(format!("invalid {message} message subtype {target}")).into()
}
