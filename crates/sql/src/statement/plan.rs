//! Prepared statements: the plan of a statement, and what it depends on.

use super::change::{Delete, Insert, Update};
use super::copy::Copy;
use super::explain::{self, Explain, explain_plan, plan_columns};
use super::select::Select;
use super::{AlterSequence, Column, Environment, Output, Parsed, Run, define, privilege};
use crate::wide::{self, Foreign};
use datafusion::sql::sqlparser::ast::{AnalyzeFormatKind, Set, Statement, UtilityOption};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use relational::{Catalog, DataType, Error, Oid, Result, SqlState, Writes};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most parameters of a statement.
const PARAMS_MAX: usize = 65_535;

/// The way to carry out a statement.
pub(crate) enum Plan {
    /// A text without a statement.
    Empty,
    /// A statement about the session, which the session carries out.
    Command,
    /// A statement that opens or ends a block.
    BlockCommand,
    /// A statement that is taken and does nothing, by its tag.
    Nothing(&'static str),
    Select(Select),
    Insert(Insert),
    Update(Update),
    Delete(Delete),
    Copy(Copy),
    Explain(Box<Plan>, Explain),
    AlterSequence(Box<AlterSequence>),
    /// A statement about objects of the catalog.
    Define(Box<Statement>),
    /// A statement about declared Bigtable tables.
    Foreign(Box<Foreign>),
}

/// A statement with its plan.
pub(crate) struct Prepared {
    text: Arc<str>,
    parsed: Parsed,
    plan: Plan,
    /// Types that the client gave to the parameters.
    given: Vec<DataType>,
    params: Vec<DataType>,
    columns: Option<Arc<[Column]>>,
    /// Version of the catalog that the plan was made for.
    version: u64,
    path: Arc<[String]>,
    /// True once the client was told of the columns.
    is_told: AtomicBool,
}

impl Parsed {
    /// Returns whether the statement ends a block, or returns to a savepoint of it.
    pub(crate) fn ends_transaction(&self) -> bool {
        let Self::Tree(statement) = self else { return false };
        matches!(**statement, Statement::Commit { .. } | Statement::Rollback { .. })
    }
}

impl Prepared {
    /// Plans a statement. Parameters have the types of `given`, as far as they go and are known.
    pub(crate) fn new(
        environment: &Environment<'_>,
        text: Arc<str>,
        parsed: Parsed,
        given: Vec<DataType>,
    ) -> Result<Self> {
        let mut params = given.clone();
        let count = count_params(&text)?;
        if params.len() < count {
            params.resize(count, DataType::Unknown);
        }
        let plan = match &parsed {
            Parsed::Nothing(tag) => Plan::Nothing(tag),
            Parsed::Move(_) => Plan::Command,
            Parsed::AlterSequence(alter) => Plan::AlterSequence(alter.clone()),
            Parsed::Foreign(foreign) => Plan::Foreign(foreign.clone()),
            Parsed::Tree(statement) => plan(environment, &text, statement, &mut params)?,
        };
        for data_type in &mut params {
            if *data_type == DataType::Unknown {
                *data_type = DataType::Text;
            }
        }
        let columns = plan.columns();
        let (version, path) =
            (environment.catalog.version, Arc::clone(environment.settings.path()));
        let is_told = AtomicBool::new(false);
        Ok(Self { text, parsed, plan, given, params, columns, version, path, is_told })
    }

    /// Returns a text without a statement.
    pub(crate) fn empty(text: Arc<str>) -> Self {
        Self {
            text,
            parsed: Parsed::Nothing(""),
            plan: Plan::Empty,
            given: Vec::new(),
            params: Vec::new(),
            columns: None,
            version: 0,
            path: Arc::from([]),
            is_told: AtomicBool::new(false),
        }
    }

    /// Returns the whole text that the statement is part of.
    pub(crate) fn text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// Returns the statement that the plan was made of.
    pub(crate) fn parsed(&self) -> &Parsed {
        &self.parsed
    }

    /// Returns the types of the parameters.
    pub(crate) fn params(&self) -> &[DataType] {
        &self.params
    }

    /// Returns the types that the client gave to the parameters.
    pub(crate) fn given_params(&self) -> &[DataType] {
        &self.given
    }

    /// Returns the columns of the rows; nothing for a statement that gives none.
    pub(crate) fn columns(&self) -> Option<Arc<[Column]>> {
        self.columns.clone()
    }

    /// Returns whether there is no statement.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.plan, Plan::Empty)
    }

    /// Returns the tag of a statement that is taken and does nothing.
    pub(crate) fn nothing(&self) -> Option<&'static str> {
        match self.plan {
            Plan::Nothing(tag) => Some(tag),
            _ => None,
        }
    }

    /// Returns whether the session carries the statement out.
    pub(crate) fn is_command(&self) -> bool {
        matches!(self.plan, Plan::Command | Plan::Nothing(_))
    }

    /// Returns whether the statement opens or ends a block.
    pub(crate) fn is_block_command(&self) -> bool {
        matches!(self.plan, Plan::BlockCommand)
    }

    /// Returns whether the statement may be executed in a failed block.
    pub(crate) fn ends_transaction(&self) -> bool {
        self.parsed.ends_transaction()
    }

    /// Returns whether the plan holds for `catalog` and a search path.
    pub(crate) fn fits(&self, catalog: &Catalog, path: &[String]) -> bool {
        match self.plan {
            Plan::Empty | Plan::Command | Plan::BlockCommand | Plan::Nothing(_) => true,
            _ => self.version == catalog.version && *self.path == *path,
        }
    }

    /// Returns whether another plan has columns of the same names and types.
    pub(crate) fn has_columns_of(&self, other: &Self) -> bool {
        match (&self.columns, &other.columns) {
            (Some(own), Some(others)) => {
                let mut pairs = own.iter().zip(others.iter());
                own.len() == others.len() && pairs.all(|(one, other)| one.is_like(other))
            }
            (None, None) => true,
            _ => false,
        }
    }

    /// Takes notice that the client is told of the columns: the rows have no others from now on.
    pub(crate) fn tell(&self) {
        self.is_told.store(true, Ordering::Relaxed);
    }

    /// Returns whether the client was told of the columns.
    pub(crate) fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    /// Returns the number of the table whose rows the statement writes or locks, and which of both.
    pub(crate) fn written_table(&self) -> Option<(Oid, Writes)> {
        self.plan.written_table()
    }

    /// Starts the statement in a transaction of its session.
    pub(crate) async fn start(&self, run: &mut Run<'_>) -> Result<Output> {
        start(&self.plan, &self.text, run).await
    }
}

/// Starts a statement that was planned.
pub(super) async fn start(plan: &Plan, text: &Arc<str>, run: &mut Run<'_>) -> Result<Output> {
    match plan {
        Plan::Select(select) => select.start(run).await,
        Plan::Insert(insert) => insert.start(run).await,
        Plan::Update(update) => update.start(run).await,
        Plan::Delete(delete) => delete.start(run).await,
        Plan::Copy(copy) => copy.start(run).await,
        Plan::AlterSequence(alter) => define::alter_sequence(alter, text, run).await,
        Plan::Define(statement) => define::start(statement, text, run).await,
        Plan::Foreign(foreign) => {
            let tag = match **foreign {
                Foreign::Create { .. } => wide::create(foreign, run).await?,
                Foreign::Drop { .. } => wide::drop(foreign, run).await?,
            };
            Ok(Output::Done(tag.to_owned()))
        }
        Plan::Explain(plan, explain) => explain_plan(plan, *explain, text, run).await,
        Plan::Empty | Plan::Command | Plan::BlockCommand | Plan::Nothing(_) => {
            Err(Error::internal("a statement of the session reached the plans"))
        }
    }
}

impl Plan {
    /// Returns the number of the table whose rows the statement writes or locks, and which of both.
    fn written_table(&self) -> Option<(Oid, Writes)> {
        match self {
            Self::Select(select) => select.locked_table().map(|table| (table, Writes::Locks)),
            Self::Insert(insert) => Some((insert.table().oid, insert.writes())),
            Self::Update(update) => Some((update.table(), Writes::Changes)),
            Self::Delete(delete) => Some((delete.table(), Writes::Changes)),
            Self::Copy(copy) => copy.filled_table().map(|table| (table, Writes::Inserts)),
            Self::Explain(plan, explain) if explain.is_analyzed => plan.written_table(),
            _ => None,
        }
    }

    fn columns(&self) -> Option<Arc<[Column]>> {
        match self {
            Self::Select(select) => Some(select.columns()),
            Self::Insert(insert) => insert.columns(),
            Self::Update(update) => update.columns(),
            Self::Delete(delete) => delete.columns(),
            Self::Explain(_, explain) => Some(plan_columns(explain.format)),
            _ => None,
        }
    }
}

/// Returns the number of parameters that `text` names.
fn count_params(text: &str) -> Result<usize> {
    if !text.contains('$') {
        return Ok(0);
    }
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().unwrap_or_default();
    let mut count = 0;
    for token in tokens {
        let Token::Placeholder(name) = token else { continue };
        match name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok()) {
            Some(number) if (1..=PARAMS_MAX).contains(&number) => count = count.max(number),
            _ => {
                let message = format!("there is no parameter {name}");
                return Err(Error::new(SqlState::UNDEFINED_PARAMETER, message));
            }
        }
    }
    Ok(count)
}

/// Returns the form that the options of an EXPLAIN ask for, of which the last counts.
fn explain_format<'a>(
    given: Option<&AnalyzeFormatKind>,
    options: impl Iterator<Item = &'a UtilityOption>,
) -> Result<explain::Format> {
    let mut wanted = given.map(|given| match given {
        AnalyzeFormatKind::Keyword(format) | AnalyzeFormatKind::Assignment(format) => {
            format.to_string()
        }
    });
    for option in options.filter(|option| option.name.value.eq_ignore_ascii_case("format")) {
        wanted = Some(option.arg.as_ref().map(ToString::to_string).unwrap_or_default());
    }
    let wanted = wanted.unwrap_or_else(|| "text".to_owned()).to_lowercase();
    match wanted.trim_matches('\'') {
        "text" => Ok(explain::Format::Text),
        "json" => Ok(explain::Format::Json),
        other @ ("xml" | "yaml") => {
            Err(Error::unsupported(format!("EXPLAIN in the format {other} is not supported")))
        }
        other => {
            let message = format!("unrecognized value for EXPLAIN option \"format\": \"{other}\"");
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

fn plan(
    environment: &Environment<'_>,
    text: &Arc<str>,
    statement: &Statement,
    params: &mut Vec<DataType>,
) -> Result<Plan> {
    Ok(match statement {
        Statement::StartTransaction { .. }
        | Statement::Commit { .. }
        | Statement::Rollback { .. }
        | Statement::Savepoint { .. }
        | Statement::ReleaseSavepoint { .. }
        | Statement::Set(Set::SetTransaction { .. }) => Plan::BlockCommand,
        Statement::Set(_)
        | Statement::Reset(_)
        | Statement::ShowVariable { .. }
        | Statement::Discard { .. }
        | Statement::Prepare { .. }
        | Statement::Execute { .. }
        | Statement::Deallocate { .. }
        | Statement::Declare { .. }
        | Statement::Fetch { .. }
        | Statement::Close { .. } => Plan::Command,
        Statement::Query(query) => Plan::Select(Select::plan(environment, text, query, params)?),
        Statement::Insert(insert) => Plan::Insert(Insert::plan(environment, text, insert, params)?),
        Statement::Update(update) => Plan::Update(Update::plan(environment, text, update, params)?),
        Statement::Delete(delete) => Plan::Delete(Delete::plan(environment, text, delete, params)?),
        Statement::Copy { .. } => Plan::Copy(Copy::plan(environment, text, statement, params)?),
        Statement::Explain { analyze, verbose, statement, options, format, .. } => {
            let has = |name: &str| {
                let mut options = options.iter().flatten();
                options.any(|option| {
                    let is_off = option.arg.as_ref().is_some_and(|arg| {
                        matches!(arg.to_string().to_lowercase().as_str(), "false" | "off" | "0")
                    });
                    option.name.value.eq_ignore_ascii_case(name) && !is_off
                })
            };
            let explain = Explain {
                format: explain_format(format.as_ref(), options.iter().flatten())?,
                is_analyzed: *analyze || has("analyze"),
                is_verbose: *verbose || has("verbose"),
            };
            Plan::Explain(Box::new(plan(environment, text, statement, params)?), explain)
        }
        // Nothing is listened to, so that there is nothing to end.
        Statement::UNLISTEN { .. } => Plan::Nothing("UNLISTEN"),
        Statement::LISTEN { .. } | Statement::NOTIFY { .. } => {
            return Err(Error::unsupported("LISTEN and NOTIFY are not supported"));
        }
        Statement::Lock(lock) => {
            privilege::check_lock(environment, text, lock)?;
            Plan::Nothing("LOCK TABLE")
        }
        other if define::is_supported(other) => Plan::Define(Box::new(other.clone())),
        other => {
            let text = other.to_string();
            let words: Vec<_> = text.split(' ').take(2).collect();
            let message = format!("{} is not supported", words.join(" ").to_uppercase());
            return Err(Error::unsupported(message));
        }
    })
}
