//! A prompt for SQL over SQL tables: the first rows of a query, or its plan.
//!
//! The statement is run by the door of PostgreSQL clients, which sees to it that it only reads.
//!
//! Invariants:
//! 1. A visitor needs [`READ`] and, since the system catalog tells what there is, [`LIST`] too.
//! 2. A statement ends soon after its request is gone: answered, late, or left by its client.

use super::super::super::Console;
use super::super::super::request::body::read;
use super::super::super::request::failure::Failure;
use super::super::super::request::guard::Visitor;
use super::super::super::request::shown::Allowance;
use super::super::super::request::work::{answer, within};
use super::super::values::{NODE_BYTES, Told};
use super::{LIST, READ, check_passwords, door, of_sql};
use ::relational::{Error, Isolation};
use ::sql::{Door, PlanNode, Prompt, PromptAnswer, PromptLimits, PromptRows, PromptValue};
use axum::extract::{Request, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tonic::Code;

/// Longest text of a statement, and longest request: an escape of JSON has six bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;
const BODY_BYTES_MAX: usize = 6 * TEXT_BYTES_MAX + (1 << 10);
/// Bounds of a statement and its rows.
const LIMITS: PromptLimits = PromptLimits {
    rows: 1_000,
    value_bytes: VALUE_BYTES_MAX,
    node_bytes: NODE_BYTES,
    bytes: ANSWER_BYTES_MAX,
    time: Duration::from_secs(10),
};
/// Bytes of an answer's values, or of the texts of a plan, with their nodes.
const ANSWER_BYTES_MAX: usize = 2 << 20;
/// Bytes of a value or of a text of a plan that are told.
const VALUE_BYTES_MAX: usize = 1 << 10;

/// Bytes of each text of an error that are told.
const ERROR_BYTES_MAX: usize = 4 << 10;

/// A statement that a visitor runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    sql: String,
    /// True if the plan is asked for.
    #[serde(default)]
    explain: bool,
}

/// A column of a result.
#[derive(Debug, Serialize)]
struct ColumnView {
    name: String,
    r#type: String,
}

/// The columns and the first rows of a result.
#[derive(Debug, Serialize)]
struct ResultView {
    columns: Vec<ColumnView>,
    /// The last row has less values than columns if the answer ends within it.
    rows: Vec<Vec<Told>>,
    /// True if the result has more.
    more: bool,
}

/// The answer with a plan.
#[derive(Debug, Serialize)]
struct PlanView {
    plan: StepView,
}

/// A step of a plan, which takes the rows of the steps below it.
#[derive(Debug, Serialize)]
struct StepView {
    name: String,
    facts: Vec<FactView>,
    /// Steps below it, as far as the answer has room.
    inputs: Vec<StepView>,
}

/// A property of a step.
#[derive(Debug, Serialize)]
struct FactView {
    name: String,
    text: String,
}

/// An answer, which is one of both.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum AnswerView {
    Rows(ResultView),
    Plan(PlanView),
}

/// Answers with the columns and the first rows of a query, or with its plan.
pub(in super::super::super) async fn query(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    request: Request,
) -> Result<Response, Failure> {
    visitor.needs(LIST)?;
    visitor.needs(READ)?;
    let asked: Asked = read(request, BODY_BYTES_MAX).await?;
    if asked.sql.len() > TEXT_BYTES_MAX {
        let rule = format!("must have at most {TEXT_BYTES_MAX} bytes");
        return Err(Failure::parameter("sql", rule));
    }
    let door = door(&console)?;
    let place = console.reads.take()?;
    let told = within(run(&door, &visitor, asked)).await?;
    answer(place, move || Ok(view(told))).await
}

async fn run(door: &Door, visitor: &Visitor, asked: Asked) -> Result<PromptAnswer, Failure> {
    {
        let mut transaction = door.database().begin(Isolation::ReadCommitted, true);
        transaction.start_statement().await.map_err(|error| of_sql(&error))?;
        check_passwords(&transaction.catalog(), visitor)?;
    }
    let prompt = Prompt { text: asked.sql, is_explained: asked.explain, limits: LIMITS };
    door.prompt(prompt).await.map_err(|error| of_statement(&error))
}

/// Returns the failure that an error of a statement is.
fn of_statement(error: &Error) -> Failure {
    let code = match error.state.code() {
        "40001" | "57P01" | "57P03" => Code::Unavailable,
        "57014" if error.message.ends_with("statement timeout") => Code::DeadlineExceeded,
        "57014" => Code::Aborted,
        "42501" => Code::PermissionDenied,
        "0A000" => Code::Unimplemented,
        "XX001" | "XX002" => Code::DataLoss,
        state if state.starts_with("53") => Code::ResourceExhausted,
        _ if error.state.is_of_server() => Code::Internal,
        _ => Code::InvalidArgument,
    };
    // A message may have all of a value, which is as long as any.
    let short = |text: &str| Allowance::of(ERROR_BYTES_MAX).text(text, ERROR_BYTES_MAX);
    let failure = Failure::new(code, short(&error.message)).with("sqlstate", error.state.code());
    let texts = [("detail", &error.detail), ("hint", &error.hint)];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name, short(text.as_deref()?))));
    let failure = texts.fold(failure, |failure, (name, text)| failure.with(name, text));
    match error.position {
        Some(position) => failure.with("position", position),
        None => failure,
    }
}

fn view(told: PromptAnswer) -> AnswerView {
    let mut left = Allowance::of(ANSWER_BYTES_MAX);
    match told {
        PromptAnswer::Rows(PromptRows { columns, rows, more }) => {
            let columns = columns.into_iter();
            let columns =
                columns.map(|column| ColumnView { name: column.name, r#type: column.data_type });
            let row = |row: Vec<Option<PromptValue>>| row.into_iter().map(told_value).collect();
            let rows = rows.into_iter().map(row).collect();
            AnswerView::Rows(ResultView { columns: columns.collect(), rows, more })
        }
        PromptAnswer::Plan(plan) => AnswerView::Plan(PlanView { plan: step(plan, &mut left) }),
    }
}

/// Returns a value, which the limits of the prompt have cut.
fn told_value(value: Option<PromptValue>) -> Told {
    match value {
        None => Told::Null,
        Some(PromptValue { text, bytes }) => {
            let string = Allowance::of(text.len()).show(&text, bytes, text.len());
            Told::String { string }
        }
    }
}

fn step(of: PlanNode, left: &mut Allowance) -> StepView {
    left.take(NODE_BYTES);
    let name = left.text(&of.name, VALUE_BYTES_MAX);
    let mut facts = Vec::new();
    for (name, text) in of.properties {
        left.take(NODE_BYTES);
        facts.push(FactView { name, text: left.text(&text, VALUE_BYTES_MAX) });
    }
    let mut inputs = Vec::new();
    for input in of.inputs {
        if left.is_spent() {
            break;
        }
        inputs.push(step(input, left));
    }
    StepView { name, facts, inputs }
}
