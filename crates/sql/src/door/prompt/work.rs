//! The work of a prompt: its statement is parsed, planned and carried out as one of a session is.
//!
//! Invariants:
//! 1. Expressions have no sequences and no means to change settings: `nextval`, `setval` and `set_config` are 0A000.
//! 2. It is counted and observed as a statement of a client.

use super::reads::only_read;
use super::view_of_server::ViewOfServer;
use super::{Prompt, PromptAnswer, PromptColumn, PromptLimits, PromptRows, PromptValue};
use crate::door::{Identity, Kind, MICROS_TO_2000, Notice, Registered, Shared, Underway, Watch};
use crate::expression::{Acting, EvalContext};
use crate::session::{Given, Settings};
use crate::statement::{
    Column, Environment, Eval, Output, Parsed, Prepared, Rows, Run, parse, plan_of,
};
use crate::threads::aside_if_long;
use crate::values;
use base::env::{Clock, SystemClock};
use engine::perf_context;
use parking_lot::Mutex;
use relational::{CancelFlag, Error, Isolation, Result, SqlState, Transaction, Value};
use std::sync::Arc;

/// Name of the user of prompts. No role can have a name that begins with `pg_`.
const USER: &str = "pg_read_all_data";
/// Name by which `pg_stat_activity` tells prompts.
const APPLICATION: &str = "stele prompt";
/// Words before a statement whose plan is asked for.
const EXPLAIN: &str = "EXPLAIN (VERBOSE off) ";
/// Rows that are taken from a statement at once.
const BATCH_ROWS: usize = 256;

/// Answers a prompt, and counts it.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    prompt: &Prompt,
    registered: &Registered,
    watch: Watch,
) -> Result<PromptAnswer> {
    let answer = observed(shared, prompt, registered, watch).await;
    answer.map_err(|mut error| {
        shared.counts.error(error.state);
        if prompt.is_explained {
            let moved = |position: u32| position.saturating_sub(EXPLAIN.len() as u32).max(1);
            error.position = error.position.map(moved);
        }
        error
    })
}

async fn observed(
    shared: &Arc<Shared>,
    prompt: &Prompt,
    registered: &Registered,
    watch: Watch,
) -> Result<PromptAnswer> {
    let text: Arc<str> = match prompt.is_explained {
        true => format!("{EXPLAIN}{}", prompt.text).into(),
        false => prompt.text.as_str().into(),
    };
    let parsed = only_read(aside_if_long(text.len(), || parse(&text))?)?;
    let observer = shared.options.observer.as_ref();
    let underway = Underway::begin(Kind::of(&parsed), Arc::clone(&text), observer);
    let work = Work {
        shared,
        limits: prompt.limits,
        is_explained: prompt.is_explained,
        registered,
        flag: watch.flag().clone(),
    };
    let work = watch.over(work.run(&text, parsed));
    let mut context = underway.context();
    let done = perf_context::within(&mut context, || perf_context::carried(work)).await;
    let error = done.as_ref().err().map(|error| error.state);
    let (kind, took) = underway.end(registered.pid, None, error);
    shared.counts.took(kind.label(), error, took);
    if error.is_none() {
        shared.counts.statement(kind);
    }
    done
}

/// A prompt whose statement is carried out.
struct Work<'a> {
    shared: &'a Arc<Shared>,
    limits: PromptLimits,
    is_explained: bool,
    registered: &'a Registered,
    flag: CancelFlag,
}

impl Work<'_> {
    async fn run(self, text: &Arc<str>, parsed: Parsed) -> Result<PromptAnswer> {
        let identity =
            Identity { user: USER.to_owned(), acting: Acting::Reader, settings: Vec::new() };
        let now = self.shared.database.now_micros() - MICROS_TO_2000;
        self.registered.activity.enter(&identity, None, now);
        self.registered.activity.name(APPLICATION);
        self.registered.activity.begin(text, now, now);
        let settings = Settings::new(&identity.user, false, self.shared.options.version);
        let evaluation = self.evaluation(&settings, now);
        let mut transaction = self.shared.database.begin(Isolation::ReadCommitted, true);
        transaction.start_statement().await?;
        transaction.leave_out_bigtable()?;
        let catalog = transaction.catalog();
        let prepared = {
            let environment = Environment {
                shared: self.shared,
                catalog: &catalog,
                settings: &settings,
                identity: &identity,
                evaluation: &evaluation,
            };
            let plan = || Prepared::new(&environment, Arc::clone(text), parsed, Vec::new());
            aside_if_long(text.len(), plan)?
        };
        if !prepared.params().is_empty() {
            let message = "there is no parameter $1";
            return Err(Error::new(SqlState::UNDEFINED_PARAMETER, message));
        }
        let context = EvalContext {
            server: Some(Arc::new(self.view_of_server(&transaction))),
            catalog: Some(catalog),
            ..evaluation
        };
        let given: Arc<Mutex<Given>> = Arc::default();
        let mut notices: Vec<Notice> = Vec::new();
        let mut run = Run {
            shared: self.shared,
            transaction: &mut transaction,
            settings: &settings,
            identity: &identity,
            eval: Eval { context, params: Arc::from([]) },
            given: &given,
            flag: self.flag.clone(),
            notices: &mut notices,
            is_in_block: false,
        };
        let Output::Rows(rows) = Box::pin(prepared.start(&mut run)).await? else {
            return Err(Error::internal("a query of a prompt gives no rows"));
        };
        match self.is_explained {
            true => plan(*rows).await,
            false => Taken::new(&rows, self.limits, settings.of_values()).all(*rows).await,
        }
    }

    /// Returns what expressions are evaluated with, without a catalog and the server.
    fn evaluation(&self, settings: &Settings, now: i64) -> EvalContext {
        let of_values = values::Settings::clone(settings.of_values());
        let version = self.shared.options.version;
        EvalContext {
            settings: Arc::new(values::Settings { now, ..of_values }),
            statement_start: now,
            user: USER.into(),
            acting: Acting::Reader,
            session_user: USER.into(),
            database: self.shared.database.catalog().database.as_str().into(),
            version: format!("15.0 (Stele {version})").into(),
            backend: self.registered.pid,
            show: Some(settings.shown()),
            cancel: self.flag.clone(),
            deadline: Some(SystemClock.monotonic() + self.limits.time),
            ..EvalContext::default()
        }
    }

    fn view_of_server(&self, transaction: &Transaction) -> ViewOfServer {
        ViewOfServer { shared: Arc::clone(self.shared), transaction: transaction.number() }
    }
}

/// Returns the tree of a plan, whose lines are the rows.
async fn plan(mut rows: Rows) -> Result<PromptAnswer> {
    let mut lines = Vec::new();
    loop {
        let batch = rows.next(BATCH_ROWS).await?;
        if batch.is_empty() {
            break;
        }
        lines.extend(batch.iter().flatten().filter_map(|value| match value {
            Value::Text(line) => Some(line.to_string()),
            _ => None,
        }));
    }
    let plan = plan_of(&lines).ok_or_else(|| Error::internal("a plan has no lines"))?;
    Ok(PromptAnswer::Plan(plan))
}

/// The rows that were taken for an answer, and the room for others.
struct Taken {
    columns: Arc<[Column]>,
    limits: PromptLimits,
    settings: Arc<values::Settings>,
    rows: Vec<Vec<Option<PromptValue>>>,
    /// Bytes that the answer has so far.
    bytes: usize,
    buffer: Vec<u8>,
}

impl Taken {
    fn new(rows: &Rows, limits: PromptLimits, settings: &Arc<values::Settings>) -> Self {
        let (columns, settings) = (rows.columns(), Arc::clone(settings));
        let head = |column: &Column| limits.node_bytes + column.name.len();
        let bytes = columns.iter().map(head).sum();
        Self { columns, limits, settings, rows: Vec::new(), bytes, buffer: Vec::new() }
    }

    /// Takes rows as far as there is room.
    async fn all(mut self, mut rows: Rows) -> Result<PromptAnswer> {
        let mut more = false;
        while !more {
            // One more row, which tells that there are more.
            let wanted = self.limits.rows.saturating_add(1) - self.rows.len();
            let batch = rows.next(wanted.min(BATCH_ROWS)).await?;
            if batch.is_empty() {
                break;
            }
            more = !batch.iter().all(|row| self.take(row));
        }
        let column = |column: &Column| PromptColumn {
            name: column.name.clone(),
            data_type: values::type_name(&column.data_type),
        };
        let columns = self.columns.iter().map(column).collect();
        Ok(PromptAnswer::Rows(PromptRows { columns, rows: self.rows, more }))
    }

    /// Takes a row. Returns false if there was no room for all of it.
    fn take(&mut self, row: &[Value]) -> bool {
        if self.rows.len() >= self.limits.rows || self.is_full() {
            return false;
        }
        let columns = Arc::clone(&self.columns);
        let mut taken = Vec::with_capacity(columns.len());
        for (value, column) in row.iter().zip(columns.iter()) {
            if self.is_full() {
                break;
            }
            taken.push(self.value(value, column));
        }
        let is_whole = taken.len() == columns.len();
        self.rows.push(taken);
        is_whole
    }

    fn is_full(&self) -> bool {
        self.bytes >= self.limits.bytes
    }

    /// Returns the beginning of a value's text; nothing for NULL.
    fn value(&mut self, value: &Value, column: &Column) -> Option<PromptValue> {
        self.bytes += self.limits.node_bytes;
        if *value == Value::Null {
            return None;
        }
        self.buffer.clear();
        match column.vector {
            Some(_) => {
                let text = values::value_text(value, &self.settings);
                let numbers = text.trim_matches(['{', '}']).replace(',', " ");
                self.buffer.extend_from_slice(numbers.as_bytes());
            }
            None => {
                let (of, settings) = (&column.data_type, &self.settings);
                values::encode_text(value, of, settings, &mut self.buffer);
            }
        }
        let kept = self.buffer.len().min(self.limits.value_bytes);
        self.bytes += kept;
        Some(PromptValue { text: self.buffer[..kept].to_vec(), bytes: self.buffer.len() })
    }
}
