//! SQL: the rows of a query, and its plan.

use super::super::Console;
use super::super::request::body::read;
use super::super::request::failure::Failure;
use super::super::request::guard::Visitor;
use super::super::request::shown::{Allowance, Shown};
use super::super::request::work::{answer, within};
use super::client;
use super::values::{Told, of_batch, told, type_name};
use axum::extract::{Request, State};
use axum::response;
use bigtable::PlanStep;
use data::execute_query_response::Response;
use data::partial_result_set::PartialRows;
use data::prepare_query_request::DataFormat;
use data::result_set_metadata::Schema;
use data::{ExecuteQueryRequest, PrepareQueryRequest, PrepareQueryResponse};
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Longest body of a request, in bytes.
const BODY_BYTES_MAX: usize = 128 << 10;
const ROWS_MAX: usize = 1_000;
/// Bytes of values of an answer, and of their nodes.
const SHOWN_BYTES_MAX: usize = 2 << 20;
/// Bytes of one batch of rows that are put together. A longer one is cut, and ends the answer.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Ranges of keys of a plan that an answer has, and bytes of all keys in it.
const RANGES_MAX: usize = 50;
const KEYS_BYTES_MAX: usize = 64 << 10;

/// A query of an instance.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Name of the instance: `projects/P/instances/I`.
    instance: String,
    query: String,
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

/// Answers with the columns and the first rows of a query.
pub(in super::super) async fn query(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    request: Request,
) -> Result<response::Response, Failure> {
    let asked: Asked = read(request, BODY_BYTES_MAX).await?;
    let place = console.reads.take()?;
    let result = within(run(&console, &visitor, asked)).await?;
    answer(place, move || Ok(result)).await
}

async fn run(console: &Console, visitor: &Visitor, asked: Asked) -> Result<ResultView, Failure> {
    let Asked { instance, query } = asked;
    let mut client = client::data(console, visitor)?;
    let prepare = PrepareQueryRequest {
        instance_name: instance.clone(),
        query,
        data_format: Some(DataFormat::ProtoFormat(data::ProtoFormat::default())),
        ..PrepareQueryRequest::default()
    };
    let prepared = client.prepare_query(client::in_time(prepare)).await?.into_inner();
    let columns = columns(&prepared);
    let execute = ExecuteQueryRequest {
        instance_name: instance,
        prepared_query: prepared.prepared_query,
        ..ExecuteQueryRequest::default()
    };
    let mut answers = client.execute_query(client::in_time(execute)).await?.into_inner();
    let mut result = ResultRows::new(columns.len());
    while let Some(answer) = answers.message().await? {
        if let Some(Response::Results(part)) = answer.response
            && result.add(part)
        {
            break;
        }
    }
    let ResultRows { rows, more, .. } = result;
    Ok(ResultView { columns, rows, more })
}

fn columns(prepared: &PrepareQueryResponse) -> Vec<ColumnView> {
    let schema = prepared.metadata.as_ref().and_then(|metadata| metadata.schema.as_ref());
    let Some(Schema::ProtoSchema(schema)) = schema else { return Vec::new() };
    let column = |column: &data::ColumnMetadata| ColumnView {
        name: column.name.clone(),
        r#type: column.r#type.as_ref().map_or_else(String::new, type_name),
    };
    schema.columns.iter().map(column).collect()
}

/// Rows of a result, put together from the batches of an execution.
struct ResultRows {
    columns: usize,
    batch: Vec<u8>,
    rows: Vec<Vec<Told>>,
    more: bool,
    left: Allowance,
}

impl ResultRows {
    fn new(columns: usize) -> Self {
        let (columns, left) = (columns.max(1), Allowance::of(SHOWN_BYTES_MAX));
        Self { columns, batch: Vec::new(), rows: Vec::new(), more: false, left }
    }

    /// Adds a part. Returns whether the answer is full.
    fn add(&mut self, part: data::PartialResultSet) -> bool {
        if part.reset {
            self.batch.clear();
        }
        if let Some(PartialRows::ProtoRowsBatch(piece)) = part.partial_rows {
            let room = BATCH_BYTES_MAX - self.batch.len();
            let there = &piece.batch_data[..piece.batch_data.len().min(room)];
            self.batch.extend_from_slice(there);
            self.more = there.len() < piece.batch_data.len();
        }
        if self.more || part.batch_checksum.is_some() {
            self.add_batch();
        }
        self.more
    }

    /// Adds the rows of the batch, until the answer is full.
    fn add_batch(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let mut row = Vec::new();
        for value in of_batch(&batch) {
            if self.left.is_spent() || self.rows.len() >= ROWS_MAX {
                self.more = true;
                break;
            }
            row.push(told(value, &mut self.left));
            if row.len() == self.columns {
                self.rows.push(std::mem::take(&mut row));
            }
        }
        if !row.is_empty() {
            self.rows.push(row);
        }
    }
}

/// The answer with a plan.
#[derive(Debug, Serialize)]
struct PlanView {
    plan: StepView,
}

/// A step of a plan, which takes the rows of the next.
#[derive(Debug, Serialize)]
struct StepView {
    name: &'static str,
    facts: Vec<FactView>,
    keys: Vec<RangeView>,
    input: Option<Box<StepView>>,
}

/// A property of a step.
#[derive(Debug, Serialize)]
struct FactView {
    name: &'static str,
    text: String,
}

/// A range of keys that a step reads.
#[derive(Debug, Serialize)]
struct RangeView {
    start: Shown,
    end: Option<Shown>,
}

/// Answers with the plan of a query.
pub(in super::super) async fn explain(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    request: Request,
) -> Result<response::Response, Failure> {
    let Asked { instance, query } = read(request, BODY_BYTES_MAX).await?;
    let place = console.reads.take()?;
    let store = console.server.store().ok_or_else(Failure::opening)?;
    let caller = visitor.caller();
    let caller = caller.as_ref().map(|caller| &*caller.0);
    let plan = within(bigtable::explain(Arc::clone(store), caller, &instance, &query)).await?;
    let plan = move || Ok(PlanView { plan: step(plan, &mut Allowance::of(KEYS_BYTES_MAX)) });
    answer(place, plan).await
}

fn step(of: PlanStep, left: &mut Allowance) -> StepView {
    let facts = of.facts.into_iter().map(|(name, text)| FactView { name, text });
    let facts = facts.collect();
    let mut range = |range: &engine::RowRange| {
        let mut shown = |key: &[u8]| left.show(key, key.len(), KEYS_BYTES_MAX);
        RangeView { start: shown(&range.start), end: range.end.as_deref().map(shown) }
    };
    let keys = of.keys.iter().take(RANGES_MAX).map(&mut range).collect();
    let input = of.input.map(|input| Box::new(step(*input, left)));
    StepView { name: of.name, facts, keys, input }
}

#[cfg(test)]
mod tests {
    use super::super::values::NODE_BYTES;
    use super::*;
    use data::value::Kind;
    use data::{PartialResultSet, ProtoRows, ProtoRowsBatch};
    use prost::Message;

    fn bytes(len: usize) -> data::Value {
        let kind = Some(Kind::BytesValue(vec![b'x'; len].into()));
        data::Value { kind, ..data::Value::default() }
    }

    /// Adds a batch in pieces. Returns whether the answer is full.
    fn add(to: &mut ResultRows, values: Vec<data::Value>) -> bool {
        let batch = ProtoRows { values }.encode_to_vec();
        let mut pieces = batch.chunks(1 << 20).peekable();
        while let Some(piece) = pieces.next() {
            let rows = ProtoRowsBatch { batch_data: piece.to_vec().into() };
            let full = to.add(PartialResultSet {
                partial_rows: Some(PartialRows::ProtoRowsBatch(rows)),
                batch_checksum: pieces.peek().is_none().then_some(1),
                ..PartialResultSet::default()
            });
            if full {
                return true;
            }
        }
        false
    }

    #[test]
    fn an_answer_ends_within_a_row_that_has_no_room() {
        let mut result = ResultRows::new(100_000);
        assert!(add(&mut result, vec![data::Value::default(); 100_000]));
        assert_eq!((result.rows.len(), result.more), (1, true));
        assert_eq!(result.rows[0].len(), SHOWN_BYTES_MAX / NODE_BYTES);
        let mut result = ResultRows::new(2);
        assert!(!add(&mut result, vec![bytes(1), bytes(2), bytes(3), bytes(4)]));
        assert_eq!((result.rows.len(), result.more), (2, false));
    }

    #[test]
    fn the_beginning_of_a_batch_that_is_too_long_is_told() {
        let mut result = ResultRows::new(2);
        let long = BATCH_BYTES_MAX + 1;
        assert!(add(&mut result, vec![bytes(5), bytes(6), bytes(long), bytes(7)]));
        assert_eq!((result.rows.len(), result.batch.capacity(), result.more), (2, 0, true));
        assert!(matches!(&result.rows[1][..], [Told::Bytes { bytes }] if bytes.bytes == long));
    }
}
