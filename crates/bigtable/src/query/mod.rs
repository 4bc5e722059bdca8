//! SQL: `PrepareQuery` and `ExecuteQuery` over a store.
//!
//! A query is text, the types of its parameters, and for an execution their values. Out comes a stream
//! of encoded rows that can be resumed after each batch. The server keeps nothing between calls: the
//! client brings the prepared query and the token (`tokens.rs`).
//!
//! The room `sql` makes typed expressions of the text. `ranges.rs` finds the row keys that a condition
//! admits, `plan.rs` makes a read of the store of it all, `explain.rs` tells it to people, `rows.rs` evaluates rows while they are read,
//! and `stream.rs` sends them. The room uses `api`, `call` and `names`, and is used by `data`.
//!
//! Invariants:
//! 1. A prepared query stands for the columns that it was prepared with. When the schema of its table
//!    gives it others, it has expired.
//! 2. An execution that is resumed goes on after the last row sent, whatever was written meanwhile.

pub(crate) mod explain;
mod plan;
mod ranges;
mod rows;
mod sql;
mod status;
mod stream;
mod tokens;

use crate::api::data::execute_query_response::Response;
use crate::api::data::{
    ColumnMetadata, ExecuteQueryRequest, ExecuteQueryResponse, PrepareQueryRequest,
    PrepareQueryResponse, ProtoSchema, ResultSetMetadata, Type, Value as WireValue,
    prepare_query_request, result_set_metadata,
};
use crate::call::bounds::answers::Answer;
use crate::call::bounds::meter::Meter;
use crate::call::status::from_error;
use crate::names;
use base::checksum::Xxh3;
use base::env::{Clock, SystemClock};
use bytes::BytesMut;
use futures::stream::{self as streams, BoxStream};
use plan::Plan;
use prost::Message;
use rows::{Batch, ResultRows};
use sql::analyze::{self, Query, Scope};
use sql::expr::Row;
use sql::parse;
use sql::types::{SqlType, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stream::Results;
use table::{Aggregate, Int64Encoding, ScalarType, Store, TableName, TableSchema, ValueType};
use tokens::{Prepared, Progress, Unusable};
use tonic::Status;

/// Time for which a prepared query is valid.
const VALID: Duration = Duration::from_secs(3_600);
/// Most parameters of a query.
const PARAMETERS_MAX: usize = 1_000;
/// Most bytes of all parameters of an execution.
const PARAMETER_BYTES_MAX: usize = 1 << 20;

/// The messages of one execution.
pub(crate) type ResultStream = BoxStream<'static, Result<ExecuteQueryResponse, Status>>;

/// Runs queries over a store.
pub(crate) struct Queries<S> {
    store: Arc<S>,
    clock: Arc<dyn Clock>,
}

/// A query that is understood.
struct Analyzed {
    query: Query,
    scope: Scope,
    /// `None` for a query of constants.
    table: Option<TableName>,
    /// Stands for the columns of the result and the families they come from.
    schema: u64,
}

impl<S: Store> Queries<S> {
    pub(crate) fn new(store: Arc<S>) -> Self {
        Self { store, clock: Arc::new(SystemClock) }
    }

    /// Prepares a query for its executions.
    pub(crate) async fn prepare(
        &self,
        request: PrepareQueryRequest,
    ) -> Result<PrepareQueryResponse, Status> {
        let PrepareQueryRequest {
            instance_name,
            app_profile_id: _,
            query,
            param_types,
            data_format,
        } = request;
        let Some(prepare_query_request::DataFormat::ProtoFormat(_)) = data_format else {
            return Err(status::in_field("data_format", "must be proto_format"));
        };
        let valid_until = self.clock.now_micros() / 1_000_000 + VALID.as_secs() as i64;
        let prepared =
            Prepared { instance: instance_name, query, types: param_types, schema: 0, valid_until };
        let analyzed = self.analyze(&prepared).await?;
        let prepared = Prepared { schema: analyzed.schema, ..prepared }.seal();
        let (len, max) = (prepared.len(), tokens::PREPARED_BYTES_MAX);
        if len > max {
            let message = format!("the prepared query has {len} bytes, over the limit of {max}");
            return Err(status::in_field("param_types", message));
        }
        Ok(PrepareQueryResponse {
            metadata: Some(metadata(&analyzed.query)),
            prepared_query: prepared,
            valid_until: Some(prost_types::Timestamp { seconds: valid_until, nanos: 0 }),
        })
    }

    /// Executes a query, from its beginning or from the place that a token tells. Its rows count as parts
    /// of `answer`.
    pub(crate) async fn execute(
        &self,
        request: ExecuteQueryRequest,
        answer: Option<Arc<Answer>>,
    ) -> Result<ResultStream, Status> {
        let resumes = !request.resume_token.is_empty();
        let names_query = request.prepared_query.is_empty();
        let (prepared, analyzed) = match names_query {
            true => self.unprepared(&request).await?,
            false => self.prepared(&request).await?,
        };
        let parameters = parameters(&prepared, &analyzed.scope, &request.params)?;
        let binding = prepared.binding(&request.params);
        let progress = match resumes {
            false => Progress::start(binding),
            true => Progress::open(&request.resume_token, binding).ok_or_else(|| {
                let message = "is not a token of this query with these parameters";
                status::in_field("resume_token", message)
            })?,
        };
        let plan = Plan::new(&analyzed.query, &analyzed.scope, &parameters);
        let plan = Arc::new(plan.map_err(status::of_refusal)?);
        let mut results = self.results(&analyzed, &plan, progress, answer).await?;
        if names_query && !resumes {
            let response = Some(Response::Metadata(metadata(&analyzed.query)));
            results.ready.push_front(ExecuteQueryResponse { response });
        }
        Ok(Box::pin(streams::unfold(results, |mut results| async move {
            let message = results.next().await?;
            Some((message, results))
        })))
    }

    async fn results(
        &self,
        analyzed: &Analyzed,
        plan: &Arc<Plan>,
        progress: Progress,
        answer: Option<Arc<Answer>>,
    ) -> Result<Results, Status> {
        let Some(table) = &analyzed.table else { return constants(plan, progress) };
        let read = if progress.ended { None } else { plan.read(&progress) };
        let rows = match read {
            None => None,
            Some(read) => {
                let output = ResultRows::new(Arc::clone(plan), progress.matched, answer.clone());
                Some(self.store.read_rows(table, read, output).await.map_err(from_error)?)
            }
        };
        Ok(Results::new(rows, progress, plan.last).counted(answer))
    }

    /// Opens the prepared query of a request, and analyzes it again.
    async fn prepared(
        &self,
        request: &ExecuteQueryRequest,
    ) -> Result<(Prepared, Analyzed), Status> {
        let ExecuteQueryRequest { instance_name, prepared_query, data_format, .. } = request;
        #[expect(deprecated, reason = "older clients send it")]
        if !request.query.is_empty() || data_format.is_some() {
            let message = "excludes query and data_format";
            return Err(status::in_field("prepared_query", message));
        }
        let prepared = Prepared::open(prepared_query).map_err(|unusable| match unusable {
            Unusable::OtherVersion => status::expired("another version of the server made it"),
            Unusable::Malformed => status::in_field("prepared_query", "was made by no server"),
        })?;
        if prepared.instance != *instance_name {
            let message = "is of another instance";
            return Err(status::in_field("prepared_query", message));
        }
        let resumes = !request.resume_token.is_empty();
        // Clients do not expect an execution that is resumed to expire.
        if !resumes && self.clock.now_micros() / 1_000_000 >= prepared.valid_until {
            return Err(status::expired("its time is over"));
        }
        let analyzed = self.analyze(&prepared).await?;
        match analyzed.schema == prepared.schema {
            true => Ok((prepared, analyzed)),
            false if resumes => {
                let message = "the columns of the result have changed; execute the query again";
                Err(Status::failed_precondition(message))
            }
            false => Err(status::expired("the schema of the table has changed")),
        }
    }

    /// Analyzes the query of a request that was not prepared.
    async fn unprepared(
        &self,
        request: &ExecuteQueryRequest,
    ) -> Result<(Prepared, Analyzed), Status> {
        #[expect(deprecated, reason = "older clients send it")]
        let query = request.query.clone();
        if query.is_empty() {
            return Err(status::in_field("prepared_query", "is not set"));
        }
        if request.data_format.is_none() {
            return Err(status::in_field("data_format", "must be proto_format"));
        };
        let mut types = BTreeMap::new();
        for (name, value) in &request.params {
            let Some(of) = &value.r#type else {
                return Err(status::in_field(&format!("params.{name}.type"), "is not set"));
            };
            types.insert(name.clone(), of.clone());
        }
        let instance = request.instance_name.clone();
        let prepared = Prepared { instance, query, types, schema: 0, valid_until: 0 };
        let analyzed = self.analyze(&prepared).await?;
        Ok((Prepared { schema: analyzed.schema, ..prepared }, analyzed))
    }

    async fn analyze(&self, prepared: &Prepared) -> Result<Analyzed, Status> {
        names::instance("instance_name", &prepared.instance).map_err(from_error)?;
        let parameters = parameter_types(&prepared.types)?;
        let statement = parse::parse(&prepared.query).map_err(status::of_refusal)?;
        let table = statement.source().map(|source| {
            names::table("query", &format!("{}/tables/{}", prepared.instance, source.table))
        });
        let table = table.transpose().map_err(from_error)?;
        let schema = match &table {
            None => None,
            Some(table) => Some(self.store.get_table(table).await.map_err(from_error)?),
        };
        let scope = scope(schema.as_deref(), parameters);
        let query = analyze::analyze(&statement, &scope).map_err(status::of_refusal)?;
        let schema = fingerprint(&query, &scope, schema.as_deref());
        Ok(Analyzed { query, scope, table, schema })
    }
}

/// Returns the names of a table. The row key is bytes, and a family is a map by qualifiers.
fn scope(schema: Option<&TableSchema>, parameters: BTreeMap<String, SqlType>) -> Scope {
    let families = schema.into_iter().flat_map(|schema| schema.families.values());
    let families = families.map(|family| {
        let value = Box::new(value_type(family.value_type));
        (family.name.to_string(), SqlType::Map(Box::new(SqlType::Bytes), value))
    });
    let key = schema.and_then(|schema| schema.row_key_schema.as_ref());
    let key_fields = key.into_iter().flat_map(|key| &key.fields).map(|(name, _)| name.clone());
    Scope { families: families.collect(), key_fields: key_fields.collect(), parameters }
}

/// Returns the type of the values of a family.
fn value_type(of: ValueType) -> SqlType {
    use Aggregate::{MaxInt64, MinInt64, SumInt64, Unique};
    use Int64Encoding::{BigEndianBytes, OrderedCodeBytes};
    match of {
        ValueType::Aggregate(SumInt64 | MinInt64 | MaxInt64)
        | ValueType::Scalar(ScalarType::Int64(BigEndianBytes)) => SqlType::Int64,
        ValueType::Scalar(ScalarType::Timestamp(BigEndianBytes)) => SqlType::Timestamp,
        ValueType::Scalar(ScalarType::String) => SqlType::String,
        ValueType::Raw
        | ValueType::Aggregate(Unique(_))
        | ValueType::Scalar(
            ScalarType::Bytes
            | ScalarType::Int64(OrderedCodeBytes)
            | ScalarType::Timestamp(OrderedCodeBytes),
        ) => SqlType::Bytes,
    }
}

/// Returns a number that changes with the columns of the result, and with the families they come from.
fn fingerprint(query: &Query, scope: &Scope, schema: Option<&TableSchema>) -> u64 {
    let mut hash = Xxh3::default();
    for column in &query.columns {
        hash.update(format!("{:?}{}", column.name, column.r#type).as_bytes());
    }
    let Some(schema) = schema else { return hash.digest() };
    hash.update(&schema.created_micros.to_le_bytes());
    for at in query.families.iter().copied() {
        let (name, of) = &scope.families[at];
        let id = schema.families.get(name.as_str()).map(|family| family.id);
        hash.update(format!("{name:?}{of}{id:?}").as_bytes());
    }
    hash.digest()
}

fn metadata(query: &Query) -> ResultSetMetadata {
    let column = |column: &analyze::Column| ColumnMetadata {
        name: column.name.clone(),
        r#type: Some(column.r#type.to_wire()),
    };
    let schema = ProtoSchema { columns: query.columns.iter().map(column).collect() };
    ResultSetMetadata { schema: Some(result_set_metadata::Schema::ProtoSchema(schema)) }
}

fn parameter_types(types: &BTreeMap<String, Type>) -> Result<BTreeMap<String, SqlType>, Status> {
    if types.len() > PARAMETERS_MAX {
        let message = format!("{} are over the limit of {PARAMETERS_MAX}", types.len());
        return Err(status::in_field("param_types", message));
    }
    let of = |(name, of): (&String, &Type)| match SqlType::of_parameter(of) {
        Ok(of) => Ok((name.clone(), of)),
        Err(message) => Err(status::in_field(&format!("param_types.{name}"), message)),
    };
    types.iter().map(of).collect()
}

/// Returns the values of all parameters of a prepared query.
fn parameters(
    prepared: &Prepared,
    scope: &Scope,
    wire: &BTreeMap<String, WireValue>,
) -> Result<BTreeMap<String, Value>, Status> {
    let len: usize = wire.values().map(Message::encoded_len).sum();
    if len > PARAMETER_BYTES_MAX {
        let message = format!("{len} bytes are over the limit of {PARAMETER_BYTES_MAX} bytes");
        return Err(status::in_field("params", message));
    }
    if let Some(name) = wire.keys().find(|name| !prepared.types.contains_key(*name)) {
        return Err(status::in_field(&format!("params.{name}"), "is not of the prepared query"));
    }
    let value = |(name, of): (&String, &SqlType)| {
        let refused = |message: String| status::in_field(&format!("params.{name}"), message);
        let wire = wire.get(name).ok_or_else(|| refused("is not set".to_owned()))?;
        let fits =
            wire.r#type.as_ref().is_none_or(|wire| SqlType::of_parameter(wire).as_ref() == Ok(of));
        let value = of.value(wire.clone()).filter(|_| fits);
        let value = value.ok_or_else(|| refused(format!("must be of type {of}")))?;
        Ok((name.clone(), value))
    };
    scope.parameters.iter().map(value).collect()
}

/// Returns the one row of a query without a table.
fn constants(plan: &Plan, progress: Progress) -> Result<Results, Status> {
    let mut results = Results::new(None, progress.clone(), plan.last);
    let wanted = plan.last > 0 && plan.offset == 0;
    if wanted && !progress.ended && progress.matched == 0 {
        let mut rows = BytesMut::new();
        let mut meter = Meter::default();
        rows::encode(plan, &Row::default(), &mut rows, &mut meter).map_err(status::of_refusal)?;
        results.add(Batch { rows: rows.freeze(), passed: None, matched: 1, failed: None });
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::Env;
    use futures::TryStreamExt;
    use tonic::Code;

    const INSTANCE: &str = "projects/p/instances/i";

    /// A clock that stands at a number of seconds.
    struct At(i64);

    impl Clock for At {
        fn now_micros(&self) -> i64 {
            self.0 * 1_000_000
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
    }

    #[tokio::test]
    async fn a_prepared_query_begins_within_an_hour_and_goes_on_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::real(1);
        let clock = env.clock.clone();
        let engine = engine::Engine::open_with_env(env, dir.path(), Default::default()).unwrap();
        let store = Arc::new(table::Local::open(engine, clock).unwrap());
        let at = |seconds| Queries { store: Arc::clone(&store), clock: Arc::new(At(seconds)) };
        let format = prepare_query_request::DataFormat::ProtoFormat(Default::default());
        let prepare = PrepareQueryRequest {
            instance_name: INSTANCE.into(),
            query: "SELECT 1".into(),
            data_format: Some(format),
            ..Default::default()
        };
        let prepared = at(1_000).prepare(prepare).await.unwrap();
        assert_eq!(prepared.valid_until.unwrap().seconds, 1_000 + 3_600);
        let execute = ExecuteQueryRequest {
            instance_name: INSTANCE.into(),
            prepared_query: prepared.prepared_query,
            ..Default::default()
        };
        let results = at(4_599).execute(execute.clone(), None).await.unwrap();
        let mut messages: Vec<ExecuteQueryResponse> = results.try_collect().await.unwrap();
        let Some(Response::Results(first)) = messages.remove(0).response else {
            panic!("the first message has rows")
        };
        let status = at(4_600).execute(execute.clone(), None).await.err().unwrap();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        assert!(status.message().contains("its time is over"), "{status}");
        let resumed = ExecuteQueryRequest { resume_token: first.resume_token, ..execute };
        assert!(at(4_600).execute(resumed, None).await.is_ok());
    }
}
