//! SQL: queries prepared and executed as clients do, who check what they get.

mod model;
mod protocol;
mod served;

use crate::harness::{Clients, INSTANCE};
use data::execute_query_response::Response;
use data::partial_result_set::PartialRows;
use data::value::Kind;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use prost::Message;
use std::collections::BTreeMap;
use tonic::{Code, Status};

/// Parameters by name: each a value with its type.
type Parameters = BTreeMap<String, data::Value>;

/// The rows that came with one token.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    values: Vec<data::Value>,
    token: Vec<u8>,
}

fn prepare_request(query: &str, parameters: &Parameters) -> data::PrepareQueryRequest {
    let types =
        parameters.iter().map(|(name, value)| (name.clone(), value.r#type.clone().unwrap()));
    data::PrepareQueryRequest {
        instance_name: INSTANCE.into(),
        query: query.into(),
        param_types: types.collect(),
        data_format: Some(data::prepare_query_request::DataFormat::ProtoFormat(
            data::ProtoFormat {},
        )),
        ..Default::default()
    }
}

fn execute_request(prepared: &[u8], parameters: &Parameters) -> data::ExecuteQueryRequest {
    data::ExecuteQueryRequest {
        instance_name: INSTANCE.into(),
        prepared_query: prepared.to_vec().into(),
        params: parameters.clone(),
        ..Default::default()
    }
}

/// Takes the messages of an execution as its protocol says, and checks them.
async fn parts(
    clients: &mut Clients,
    request: data::ExecuteQueryRequest,
) -> Result<Vec<Part>, Status> {
    let mut stream = clients.data.execute_query(request).await?.into_inner();
    let (mut parts, mut batch, mut first) = (Vec::new(), Vec::new(), true);
    while let Some(message) = stream.message().await? {
        assert!(message.encoded_len() < 2 << 20, "a message is too long");
        let Some(Response::Results(results)) = message.response else {
            panic!("clients take nothing but results")
        };
        assert_eq!(results.reset, first, "the first message voids what came before, no other");
        first = false;
        if let Some(PartialRows::ProtoRowsBatch(rows)) = results.partial_rows {
            let estimated = results.estimated_batch_size as usize;
            assert!(if batch.is_empty() {
                estimated >= rows.batch_data.len()
            } else {
                estimated == 0
            });
            batch.extend_from_slice(&rows.batch_data);
        }
        if results.resume_token.is_empty() {
            assert_eq!(results.batch_checksum, None);
            continue;
        }
        let checksum = (!batch.is_empty()).then(|| base::checksum::crc32c(&[&batch]));
        assert_eq!(results.batch_checksum, checksum);
        let rows = data::ProtoRows::decode(&std::mem::take(&mut batch)[..]).unwrap();
        parts.push(Part { values: rows.values, token: results.resume_token.to_vec() });
    }
    assert!(batch.is_empty(), "rows without a token");
    Ok(parts)
}

/// The rows of a query, one line each: values after each other, with a space between.
async fn try_query(
    clients: &mut Clients,
    query: &str,
    parameters: &Parameters,
) -> Result<Vec<String>, Status> {
    let prepared = clients.data.prepare_query(prepare_request(query, parameters)).await?;
    let prepared = prepared.into_inner();
    assert!(prepared.valid_until.is_some());
    let columns = columns(&prepared).len();
    let parts = parts(clients, execute_request(&prepared.prepared_query, parameters)).await?;
    let values: Vec<_> = parts.into_iter().flat_map(|part| part.values).collect();
    assert_eq!(values.len() % columns, 0);
    Ok(values.chunks(columns).map(line).collect())
}

async fn query(clients: &mut Clients, query: &str) -> Vec<String> {
    match try_query(clients, query, &Parameters::new()).await {
        Ok(rows) => rows,
        Err(status) => panic!("{query}: {status}"),
    }
}

async fn refused(clients: &mut Clients, query: &str) -> (Code, String) {
    let status = try_query(clients, query, &Parameters::new()).await.expect_err(query);
    (status.code(), status.message().to_owned())
}

fn columns(prepared: &data::PrepareQueryResponse) -> &[data::ColumnMetadata] {
    match &prepared.metadata.as_ref().unwrap().schema {
        Some(data::result_set_metadata::Schema::ProtoSchema(schema)) => &schema.columns,
        None => panic!("no columns"),
    }
}

fn line(row: &[data::Value]) -> String {
    row.iter().map(text).collect::<Vec<_>>().join(" ")
}

fn text(value: &data::Value) -> String {
    assert_eq!(value.r#type, None, "values of a result have no types");
    match &value.kind {
        None => "NULL".into(),
        Some(Kind::BytesValue(bytes)) => format!("b'{}'", bytes.escape_ascii()),
        Some(Kind::StringValue(text)) => format!("'{text}'"),
        Some(Kind::IntValue(value)) => value.to_string(),
        Some(Kind::FloatValue(value)) => format!("{value:?}"),
        Some(Kind::BoolValue(value)) => value.to_string(),
        Some(Kind::TimestampValue(time)) => format!("@{}.{:09}", time.seconds, time.nanos),
        Some(Kind::DateValue(date)) => format!("{}-{}-{}", date.year, date.month, date.day),
        Some(Kind::ArrayValue(array)) => {
            let values: Vec<String> = array.values.iter().map(text).collect();
            format!("[{}]", values.join(", "))
        }
        Some(other) => panic!("{other:?} is in no result"),
    }
}

fn parameter(kind: data::r#type::Kind, value: Option<Kind>) -> data::Value {
    data::Value { r#type: Some(data::Type { kind: Some(kind) }), kind: value }
}

fn bytes_parameter(value: &[u8]) -> data::Value {
    let kind = Kind::BytesValue(value.to_vec().into());
    parameter(data::r#type::Kind::BytesType(Default::default()), Some(kind))
}

fn int_parameter(value: i64) -> data::Value {
    let kind = data::r#type::Kind::Int64Type(Default::default());
    parameter(kind, Some(Kind::IntValue(value)))
}
