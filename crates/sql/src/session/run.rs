//! Running one statement: its rows to the client, its data from the client.

use super::block::failed;
use super::live::Live;
use super::portal::{Portal, Progress};
use super::sequences::SessionSequences;
use super::settings::Span;
use super::{Inbound, Session, SetSetting, Stop};
use crate::door::{MICROS_TO_2000, Watch};
use crate::expression::{EvalContext, Set};
use crate::statement::{
    Column, CopyIn, CopyOut, Environment, Eval, Output, Parsed, Prepared, Rows, Run,
};
use crate::threads::aside_if_long;
use crate::values;
use base::env::{Clock, SystemClock};
use bytes::{BufMut, BytesMut};
use pgwire::messages::copy::{CopyData, CopyDone, CopyInResponse, CopyOutResponse};
use pgwire::messages::data::{DataRow, FieldDescription, RowDescription};
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use relational::{CancelFlag, DataType, Error, Oid, Result, Row, SqlState, Value, Writes};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Rows that are taken from a statement at once.
const BATCH_ROWS: usize = 256;

impl Session {
    /// Plans a statement that has not begun, for what is committed by now. Its parameters have `types`, as far as the
    /// client told them.
    pub(super) fn prepare(
        &mut self,
        text: Arc<str>,
        parsed: Parsed,
        types: Vec<DataType>,
    ) -> Result<Prepared> {
        self.block.see_catalog();
        self.plan(text, parsed, types)
    }

    /// Plans a statement for the catalog of the transaction as it is.
    fn plan(&mut self, text: Arc<str>, parsed: Parsed, types: Vec<DataType>) -> Result<Prepared> {
        if self.block.is_failed() && !parsed.ends_transaction() {
            return Err(failed());
        }
        self.note_settings();
        let catalog = self.catalog();
        let environment = self.environment(&catalog);
        let len = text.len();
        let plan = || Prepared::new(&environment, text, parsed, types);
        let planned = aside_if_long(len, || catch_unwind(AssertUnwindSafe(plan)));
        planned.unwrap_or_else(|_| {
            Err(Error::internal("the planning of the statement met a defect of the server"))
        })
    }

    /// Returns what planning depends on.
    pub(super) fn environment<'a>(
        &'a self,
        catalog: &'a Arc<relational::Catalog>,
    ) -> Environment<'a> {
        Environment {
            shared: &self.shared,
            catalog,
            settings: &self.settings,
            identity: &self.identity,
            evaluation: &self.evaluation,
        }
    }

    /// Runs a statement for the simple protocol: all of its rows, in text. Returns its tag.
    pub(super) async fn run_to_end(
        &mut self,
        prepared: Arc<Prepared>,
        params: Arc<[Value]>,
        watch: Watch,
    ) -> Result<String, Stop> {
        if prepared.is_block_command() {
            return self.block_command(&prepared).await;
        }
        let flag = watch.flag().clone();
        flag.check()?;
        self.set.lock().clear();
        let tag = watch.over(self.run_whole(&prepared, params, &flag)).await?;
        self.apply_set()?;
        Ok(tag)
    }

    async fn run_whole(
        &mut self,
        prepared: &Arc<Prepared>,
        params: Arc<[Value]>,
        flag: &CancelFlag,
    ) -> Result<String, Stop> {
        match self.start(prepared, &params, flag).await? {
            Output::Done(tag) => Ok(tag),
            Output::Rows(mut rows) => {
                let columns = rows.columns();
                self.wire.put(&columns_message(&columns, &[])?)?;
                let count = self.put_rows(&mut rows, &[], None).await?;
                Ok(rows.tag(count))
            }
            Output::CopyIn(copy) => self.copy_in(*copy, flag).await,
            Output::CopyOut(copy) => self.copy_out(*copy).await,
        }
    }

    /// Runs a portal until it has given `rows_max` rows, or to its end. Returns the tag at the end.
    pub(super) async fn run_portal(
        &mut self,
        portal: &mut Portal,
        rows_max: Option<usize>,
    ) -> Result<Option<String>, Stop> {
        let prepared = Arc::clone(&portal.prepared);
        if self.block.is_failed() && !prepared.ends_transaction() {
            return Err(failed().into());
        }
        if prepared.is_block_command() {
            return self.block_command(&prepared).await.map(Some);
        }
        let watch = self.watch();
        let flag = watch.flag().clone();
        self.set.lock().clear();
        let tag = watch.over(self.step(portal, rows_max, &flag)).await?;
        self.apply_set()?;
        Ok(tag)
    }

    async fn step(
        &mut self,
        portal: &mut Portal,
        rows_max: Option<usize>,
        flag: &CancelFlag,
    ) -> Result<Option<String>, Stop> {
        if let Progress::Done(tag) = &portal.progress {
            return Ok(Some(tag.clone()));
        }
        if let Progress::Bound = portal.progress {
            let (prepared, params) = (Arc::clone(&portal.prepared), Arc::clone(&portal.params));
            let tag = match self.start(&prepared, &params, flag).await? {
                Output::Rows(rows) => {
                    portal.progress = Progress::running(*rows, flag);
                    None
                }
                Output::Done(tag) => Some(tag),
                Output::CopyIn(copy) => Some(self.copy_in(*copy, flag).await?),
                Output::CopyOut(copy) => Some(self.copy_out(*copy).await?),
            };
            if let Some(tag) = tag {
                portal.progress = Progress::Done(tag.clone());
                return Ok(Some(tag));
            }
        }
        let formats = portal.formats.clone();
        let Progress::Running(rows, stops) = &mut portal.progress else { return Ok(None) };
        let rows = Arc::clone(rows);
        let mut rows = rows.lock().await;
        let count = self.put_rows(&mut rows, &formats, rows_max).await?;
        if rows_max == Some(count) {
            return Ok(None);
        }
        let tag = rows.tag(count);
        stops.end();
        portal.progress = Progress::Done(rows.tag(0));
        Ok(Some(tag))
    }

    /// Starts a statement in its transaction.
    pub(super) async fn start(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &Arc<[Value]>,
        flag: &CancelFlag,
    ) -> Result<Output, Stop> {
        self.note_statement(&prepared.text());
        if prepared.is_command() {
            return Box::pin(self.command(prepared, params, flag)).await;
        }
        self.begin_in_transaction().await?;
        if let Some((table, writes)) = prepared.written_table() {
            self.lock_to_write(table, writes).await?;
        }
        let prepared = self.replan(prepared)?;
        let mut run = self.run_with(Arc::clone(params), flag)?;
        Ok(Box::pin(prepared.start(&mut run)).await?)
    }

    /// Locks the table that a statement writes to, with the tables that foreign keys join with it. If a change of the
    /// table was in the way the catalog is another now, for which the statement is planned again.
    async fn lock_to_write(&mut self, table: Oid, writes: Writes) -> Result<()> {
        let transaction = self.block.for_statement(&self.shared.database, &self.settings)?;
        if transaction.is_read_only() || transaction.catalog().table(table).is_none() {
            // The statement tells what is wrong.
            return Ok(());
        }
        transaction.lock_to_write(table, writes).await
    }

    /// Begins a statement in the transaction, which is started if there was no open one.
    async fn begin_in_transaction(&mut self) -> Result<()> {
        self.note_settings();
        let lock_timeout = self.settings.times().lock;
        let transaction = self.block.for_statement(&self.shared.database, &self.settings)?;
        transaction.set_lock_timeout(lock_timeout);
        self.advisory.begin_transaction(transaction.number());
        transaction.start_statement().await?;
        self.evaluation.statement_start = self.now();
        Ok(())
    }

    /// Gives expressions the settings as they are now, and the start of the transaction: this moment if it has not
    /// begun. Called before anything is planned, or values of a client are read.
    pub(super) fn note_settings(&mut self) {
        if self.block.is_idle() {
            self.started = self.now();
        }
        let current = self.settings.of_values();
        if !Arc::ptr_eq(&self.noted, current) {
            self.noted = Arc::clone(current);
            self.evaluation.show = Some(self.settings.shown());
            self.evaluation.set = Some(self.setter());
            self.evaluation.settings = Arc::clone(current);
        }
        if self.evaluation.settings.now != self.started {
            let now = self.started;
            let settings = values::Settings { now, ..values::Settings::clone(current) };
            self.evaluation.settings = Arc::new(settings);
        }
    }

    /// Returns the means by which expressions change settings.
    fn setter(&self) -> Set {
        let (trial, changes) = (self.settings.clone(), Arc::clone(&self.set));
        Arc::new(move |name: &str, value: &str, is_local: bool| {
            let mut trial = trial.clone();
            trial.set(name, value, Span::Session)?;
            let span = if is_local { Span::Local } else { Span::Session };
            changes.lock().push(SetSetting {
                name: name.to_owned(),
                value: value.to_owned(),
                span,
            });
            trial.show(name)
        })
    }

    pub(super) fn now(&self) -> i64 {
        self.shared.database.now_micros() - MICROS_TO_2000
    }

    /// Returns the plan for the catalog of the transaction, which may be newer than the one it was made for. 0A000 if
    /// the client was told of other columns.
    fn replan(&mut self, prepared: &Arc<Prepared>) -> Result<Arc<Prepared>> {
        let catalog = self.catalog();
        if prepared.fits(&catalog, self.settings.path()) {
            return Ok(Arc::clone(prepared));
        }
        let given = prepared.given_params().to_vec();
        let again = self.plan(prepared.text(), prepared.parsed().clone(), given)?;
        if prepared.is_told() && !again.has_columns_of(prepared) {
            return Err(Error::unsupported("cached plan must not change result type"));
        }
        Ok(Arc::new(again))
    }

    /// Returns everything that a statement runs with.
    fn run_with(&mut self, params: Arc<[Value]>, flag: &CancelFlag) -> Result<Run<'_>> {
        let is_in_block = self.block.is_open();
        let transaction = self.block.for_statement(&self.shared.database, &self.settings)?;
        let catalog = transaction.catalog();
        let sequences = SessionSequences {
            acting: self.identity.acting,
            is_read_only: transaction.is_read_only(),
            database: Arc::clone(&self.shared.database),
            catalog: Arc::clone(&catalog),
            path: Arc::clone(self.settings.path()),
            given: Arc::clone(&self.given),
            restarts: transaction.restarts(),
            threads: self.shared.threads.handle().clone(),
        };
        let server = Live {
            shared: Arc::clone(&self.shared),
            advisory: Arc::clone(&self.advisory),
            lock_timeout: self.settings.times().lock,
            transaction: transaction.number(),
        };
        let context = EvalContext {
            catalog: Some(catalog),
            sequences: Some(Arc::new(sequences)),
            server: Some(Arc::new(server)),
            cancel: flag.clone(),
            deadline: self.deadline,
            ..self.evaluation.clone()
        };
        Ok(Run {
            shared: &self.shared,
            transaction,
            settings: &self.settings,
            identity: &self.identity,
            eval: Eval { context, params },
            given: &self.given,
            flag: flag.clone(),
            notices: &mut self.notices,
            is_in_block,
        })
    }

    /// Begins to watch a statement, from its text on.
    pub(super) fn watch(&mut self) -> Watch {
        let timeout = self.statement_timeout();
        self.deadline = timeout.map(|timeout| SystemClock.monotonic() + timeout);
        Watch::begin(&self.registered.cancel, timeout)
    }

    /// Sends rows, at most `rows_max`. Returns their number.
    async fn put_rows(
        &mut self,
        rows: &mut Rows,
        formats: &[i16],
        rows_max: Option<usize>,
    ) -> Result<usize, Stop> {
        let columns = rows.columns();
        let formats = formats_of(formats, columns.len(), "result column")?;
        let (mut count, mut form) = (0, Form::default());
        loop {
            let wanted = rows_max.map_or(BATCH_ROWS, |max| BATCH_ROWS.min(max - count));
            if wanted == 0 {
                return Ok(count);
            }
            let batch = rows.next(wanted).await?;
            if batch.is_empty() {
                return Ok(count);
            }
            count += batch.len();
            for row in &batch {
                let settings = self.settings.of_values();
                let message = form.row(row, &columns, &formats, settings);
                self.wire.put(&message)?;
                form.take_back(message);
            }
            self.wire.drain().await?;
        }
    }

    async fn copy_in(&mut self, mut copy: CopyIn, flag: &CancelFlag) -> Result<String, Stop> {
        let (format, count) = (copy.format_code(), copy.columns());
        let response = CopyInResponse::new(format as i8, count as i16, vec![format; count]);
        self.wire.put(&PgWireBackendMessage::CopyInResponse(response))?;
        self.wire.flush().await?;
        loop {
            let message = match self.wire.next().await? {
                Inbound::Message(message) => message,
                Inbound::Refused { .. } => return Err(unexpected_in_copy()),
            };
            let mut run = self.run_with(Arc::from([]), flag)?;
            match message {
                PgWireFrontendMessage::CopyData(data) => copy.push(&mut run, &data.data).await?,
                PgWireFrontendMessage::CopyDone(_) => return Ok(copy.finish(&mut run).await?),
                PgWireFrontendMessage::CopyFail(fail) => {
                    let message = format!("COPY from stdin failed: {}", fail.message);
                    return Err(Error::new(SqlState::QUERY_CANCELED, message).into());
                }
                // Clients may send them with the statement, before they know that it is a COPY.
                PgWireFrontendMessage::Flush(_) | PgWireFrontendMessage::Sync(_) => {}
                _ => return Err(unexpected_in_copy()),
            }
        }
    }

    async fn copy_out(&mut self, mut copy: CopyOut) -> Result<String, Stop> {
        let (format, count) = (copy.format_code(), copy.columns());
        let response = CopyOutResponse::new(format as i8, count as i16, vec![format; count]);
        self.wire.put(&PgWireBackendMessage::CopyOutResponse(response))?;
        while let Some(lines) = copy.next(self.settings.of_values()).await? {
            for line in lines {
                self.wire.put(&PgWireBackendMessage::CopyData(CopyData::new(line)))?;
            }
            self.wire.drain().await?;
        }
        self.wire.put(&PgWireBackendMessage::CopyDone(CopyDone::new()))?;
        Ok(copy.tag())
    }
}

fn unexpected_in_copy() -> Stop {
    let message = "unexpected message type during COPY from stdin";
    Error::new(SqlState::PROTOCOL_VIOLATION, message).into()
}

/// Returns a format for each of `count` values.
pub(super) fn formats_of(codes: &[i16], count: usize, what: &str) -> Result<Vec<i16>> {
    let formats = match codes {
        [] => vec![0; count],
        [one] => vec![*one; count],
        many if many.len() == count => many.to_vec(),
        many => {
            let message = format!("{} {what} formats for {count} values", many.len());
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
        }
    };
    match formats.iter().find(|code| !matches!(code, 0 | 1)) {
        None => Ok(formats),
        Some(code) => {
            let message = format!("unsupported format code: {code}");
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// Returns the message that describes columns.
pub(super) fn columns_message(columns: &[Column], formats: &[i16]) -> Result<PgWireBackendMessage> {
    let formats = formats_of(formats, columns.len(), "result column")?;
    let fields = columns.iter().zip(formats).map(|(column, format)| {
        FieldDescription::new(
            column.name.replace('\0', ""),
            column.table as i32,
            column.number,
            column.vector.unwrap_or_else(|| values::type_oid(&column.data_type)),
            values::type_len(&column.data_type),
            values::type_modifier(&column.data_type),
            format,
        )
    });
    Ok(PgWireBackendMessage::RowDescription(RowDescription::new(fields.collect())))
}

/// Makes messages of rows, with buffers that are used again.
#[derive(Default)]
struct Form {
    data: BytesMut,
    value: Vec<u8>,
}

impl Form {
    fn row(
        &mut self,
        row: &Row,
        columns: &[Column],
        formats: &[i16],
        settings: &values::Settings,
    ) -> PgWireBackendMessage {
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        for ((value, column), format) in row.iter().zip(columns).zip(formats) {
            if *value == Value::Null {
                data.put_i32(-1);
                continue;
            }
            self.value.clear();
            match format {
                0 if column.vector.is_some() => {
                    let text = values::value_text(value, settings);
                    let numbers = text.trim_matches(['{', '}']).replace(',', " ");
                    self.value.extend_from_slice(numbers.as_bytes());
                }
                0 => values::encode_text(value, &column.data_type, settings, &mut self.value),
                _ => values::encode_binary(value, &column.data_type, settings, &mut self.value),
            }
            data.put_i32(self.value.len() as i32);
            data.put_slice(&self.value);
        }
        PgWireBackendMessage::DataRow(DataRow::new(data, columns.len() as i16))
    }

    fn take_back(&mut self, message: PgWireBackendMessage) {
        if let PgWireBackendMessage::DataRow(row) = message {
            self.data = row.data;
        }
    }
}
