//! SQL: the rows of a query, and its plan.

use super::super::Console;
use super::super::request::failure::Failure;
use super::super::request::guard::Visitor;
use super::super::request::shown::Allowance;
use super::client;
use super::values::{told, type_name};
use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use bigtable::PlanStep;
use data::execute_query_response::Response;
use data::partial_result_set::PartialRows;
use data::prepare_query_request::DataFormat;
use data::result_set_metadata::Schema;
use data::{ColumnMetadata, ExecuteQueryRequest, PrepareQueryRequest, PrepareQueryResponse};
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use prost::Message;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tonic::Code;

/// Longest request, and time until it has come.
const BODY_BYTES_MAX: usize = 128 << 10;
const BODY_TIME_MAX: Duration = Duration::from_secs(10);
const ROWS_MAX: usize = 1_000;
/// Bytes of values of an answer.
const SHOWN_BYTES_MAX: usize = 2 << 20;
/// Bytes of one batch of rows that is put together; a longer one ends the answer.
const BATCH_BYTES_MAX: usize = 64 << 20;
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

impl Asked {
    /// Reads the body of a request.
    async fn of(request: Request) -> Result<Self, Failure> {
        let body = to_bytes(request.into_body(), BODY_BYTES_MAX);
        let body = tokio::time::timeout(BODY_TIME_MAX, body).await;
        let body = body.map_err(|_| {
            let seconds = BODY_TIME_MAX.as_secs();
            Failure::new(
                Code::DeadlineExceeded,
                format!("the body did not come within {seconds} s"),
            )
        })?;
        let body = body.map_err(|_| {
            Failure::parameter("body", format!("must have at most {BODY_BYTES_MAX} bytes"))
        })?;
        serde_json::from_slice(&body).map_err(|error| Failure::parameter("body", error))
    }
}

/// Answers with the columns and the first rows of a query.
pub(in super::super) async fn query(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let Asked { instance, query } = Asked::of(request).await?;
    let _place = client::place(&console)?;
    let mut client = client::data(&console, &visitor)?;
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
            && result.add(part)?
        {
            break;
        }
    }
    let columns = columns.iter().map(|column| {
        let of = column.r#type.as_ref().map_or_else(String::new, type_name);
        json!({ "name": column.name, "type": of })
    });
    Ok(Json(json!({
        "columns": columns.collect::<Vec<_>>(),
        "rows": result.rows,
        "more": result.more,
    })))
}

fn columns(prepared: &PrepareQueryResponse) -> Vec<ColumnMetadata> {
    match prepared.metadata.as_ref().and_then(|metadata| metadata.schema.as_ref()) {
        Some(Schema::ProtoSchema(schema)) => schema.columns.clone(),
        None => Vec::new(),
    }
}

/// Rows of a result, put together from the batches of an execution.
struct ResultRows {
    columns: usize,
    batch: Vec<u8>,
    rows: Vec<Vec<Value>>,
    more: bool,
    left: Allowance,
}

impl ResultRows {
    fn new(columns: usize) -> Self {
        let left = Allowance::of(SHOWN_BYTES_MAX);
        Self { columns, batch: Vec::new(), rows: Vec::new(), more: false, left }
    }

    /// Adds a part. Returns whether the answer is full.
    fn add(&mut self, part: data::PartialResultSet) -> Result<bool, Failure> {
        if part.reset {
            self.batch.clear();
        }
        if let Some(PartialRows::ProtoRowsBatch(piece)) = part.partial_rows {
            if self.batch.len() + piece.batch_data.len() > BATCH_BYTES_MAX {
                self.more = true;
                return Ok(true);
            }
            self.batch.extend_from_slice(&piece.batch_data);
        }
        if part.batch_checksum.is_none() {
            return Ok(false);
        }
        let batch = data::ProtoRows::decode(&*std::mem::take(&mut self.batch));
        let batch = batch.map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        for row in batch.values.chunks(self.columns.max(1)) {
            if self.rows.len() >= ROWS_MAX || self.left.is_spent() {
                self.more = true;
                return Ok(true);
            }
            self.rows.push(row.iter().map(|value| told(value, &mut self.left)).collect());
        }
        Ok(false)
    }
}

/// Answers with the plan of a query.
pub(in super::super) async fn explain(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let Asked { instance, query } = Asked::of(request).await?;
    let store = console.server.store().ok_or_else(Failure::opening)?;
    let caller = visitor.caller();
    let caller = caller.as_ref().map(|caller| &*caller.0);
    let plan = bigtable::explain(Arc::clone(store), caller, &instance, &query).await?;
    Ok(Json(json!({ "plan": step(&plan, &mut Allowance::of(KEYS_BYTES_MAX)) })))
}

fn step(of: &PlanStep, left: &mut Allowance) -> Value {
    let facts = of.facts.iter().map(|(name, text)| json!({ "name": name, "text": text }));
    let facts: Vec<_> = facts.collect();
    let mut range = |range: &engine::RowRange| {
        let mut shown = |key: &[u8]| left.show(key, key.len(), KEYS_BYTES_MAX);
        json!({ "start": shown(&range.start), "end": range.end.as_deref().map(shown) })
    };
    let keys: Vec<_> = of.keys.iter().take(RANGES_MAX).map(&mut range).collect();
    let input = of.input.as_deref().map(|input| step(input, left));
    json!({ "name": of.name, "facts": facts, "keys": keys, "input": input })
}
