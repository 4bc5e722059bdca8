//! The protocol: tokens, batches, queries that expire.

use super::{Parameters, Part, execute_request, int_parameter, line, parts, prepare_request};
use crate::harness::{Clients, INSTANCE, TABLE, create_table, entry, set, with_table};
use data::execute_query_response::Response;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use googleapis_tonic_google_rpc::google::rpc;
use prost::Message;
use tonic::{Code, Status};

async fn prepare(clients: &mut Clients, text: &str, parameters: &Parameters) -> Vec<u8> {
    let prepared = clients.data.prepare_query(prepare_request(text, parameters)).await.unwrap();
    prepared.into_inner().prepared_query.to_vec()
}

fn rows(parts: &[Part], columns: usize) -> Vec<String> {
    let values: Vec<_> = parts.iter().flat_map(|part| part.values.clone()).collect();
    values.chunks(columns).map(line).collect()
}

/// A table of 60 rows of 40 KiB, which are read in several batches; every third row has `f:x`.
async fn with_many_rows() -> Clients {
    let mut clients = with_table().await;
    let value = vec![b'v'; 40 << 10];
    for row in 0..60 {
        let mut cells = vec![set("f:v", 0, &value)];
        if row % 3 == 0 {
            cells.push(set("f:x", 0, b"x"));
        }
        let written = clients.write_rows(vec![entry(&format!("r{row:02}"), cells)]).await;
        assert_eq!(written.unwrap(), [Code::Ok]);
    }
    clients
}

#[tokio::test]
async fn a_result_goes_on_after_each_token() {
    let mut clients = with_many_rows().await;
    for text in [
        "SELECT _key, f['v'] FROM t",
        "SELECT _key, f FROM t WHERE f['x'] IS NOT NULL",
        "SELECT _key, f FROM t WHERE f['x'] IS NULL AND _key > 'r05' ORDER BY _key DESC",
        "SELECT _key, f['v'] FROM t ORDER BY _key DESC LIMIT 50 OFFSET 5",
        "SELECT _key, f FROM t WHERE _key != 'r20' LIMIT @n OFFSET 3",
        "SELECT 1, 2",
    ] {
        let parameters = Parameters::from([("n".into(), int_parameter(40))]);
        let prepared = prepare(&mut clients, text, &parameters).await;
        let request = execute_request(&prepared, &parameters);
        let whole = parts(&mut clients, request.clone()).await.unwrap();
        let last = whole.last().unwrap();
        assert!(last.values.is_empty(), "the last token comes alone");
        assert!(whole.len() > 3 || text == "SELECT 1, 2", "{text}: {} parts", whole.len());
        for at in 0..whole.len() {
            let token = whole[at].token.clone();
            let request =
                data::ExecuteQueryRequest { resume_token: token.into(), ..request.clone() };
            let rest = parts(&mut clients, request).await.unwrap();
            assert_eq!(rows(&rest, 2), rows(&whole[at + 1..], 2), "{text}: after part {at}");
            assert_eq!(rest.last().unwrap().token, last.token);
        }
    }
}

#[tokio::test]
async fn tokens_of_another_execution_are_refused() {
    let mut clients = with_many_rows().await;
    let parameters = |n| Parameters::from([("n".into(), int_parameter(n))]);
    let text = "SELECT _key FROM t LIMIT @n";
    let prepared = prepare(&mut clients, text, &parameters(0)).await;
    let request = |n| execute_request(&prepared, &parameters(n));
    let token = parts(&mut clients, request(5)).await.unwrap()[0].token.clone();
    let request =
        |n| data::ExecuteQueryRequest { resume_token: token.clone().into(), ..request(n) };
    assert!(parts(&mut clients, request(5)).await.is_ok());
    let status = parts(&mut clients, request(6)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
}

#[tokio::test]
async fn stretches_without_rows_give_tokens() {
    let mut clients = with_many_rows().await;
    let text = "SELECT _key FROM t WHERE f['v'] = 'none'";
    let prepared = prepare(&mut clients, text, &Parameters::new()).await;
    let all = parts(&mut clients, execute_request(&prepared, &Parameters::new())).await.unwrap();
    assert!(all.len() > 2, "{} parts", all.len());
    assert!(all.iter().all(|part| part.values.is_empty()));
}

#[tokio::test]
async fn large_rows_come_in_pieces() {
    let mut clients = with_table().await;
    let value: Vec<u8> = (0..5 << 20).map(|n| (n % 251) as u8).collect();
    clients.write("a", vec![set("f:q", 0, &value)]).await;
    clients.write("b", vec![set("f:q", 0, b"small")]).await;
    let prepared = prepare(&mut clients, "SELECT f['q'] FROM t", &Parameters::new()).await;
    // The helper checks that no message is longer than 2 MiB.
    let all = parts(&mut clients, execute_request(&prepared, &Parameters::new())).await.unwrap();
    let values: Vec<_> = all.into_iter().flat_map(|part| part.values).collect();
    let bytes = |value: &data::Value| match &value.kind {
        Some(data::value::Kind::BytesValue(bytes)) => bytes.to_vec(),
        other => panic!("{other:?}"),
    };
    assert_eq!(values.iter().map(bytes).collect::<Vec<_>>(), [value, b"small".to_vec()]);
}

#[tokio::test]
async fn a_query_that_was_not_prepared_begins_with_its_columns() {
    let mut clients = with_many_rows().await;
    #[expect(deprecated, reason = "older clients send it")]
    let request = data::ExecuteQueryRequest {
        instance_name: INSTANCE.into(),
        query: "SELECT _key FROM t LIMIT @n".into(),
        params: Parameters::from([("n".into(), int_parameter(1))]),
        data_format: Some(data::execute_query_request::DataFormat::ProtoFormat(
            data::ProtoFormat {},
        )),
        ..Default::default()
    };
    let mut stream = clients.data.execute_query(request.clone()).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert!(matches!(first.response, Some(Response::Metadata(_))));
    let Some(Response::Results(results)) = stream.message().await.unwrap().unwrap().response else {
        panic!("the second message has rows")
    };
    // The metadata is not sent again.
    let request = data::ExecuteQueryRequest { resume_token: results.resume_token, ..request };
    assert_eq!(rows(&parts(&mut clients, request).await.unwrap(), 1), [""; 0]);
}

async fn change(
    clients: &mut Clients,
    change: admin::modify_column_families_request::modification::Mod,
    id: &str,
) {
    let request = admin::ModifyColumnFamiliesRequest {
        name: TABLE.into(),
        modifications: vec![admin::modify_column_families_request::Modification {
            id: id.into(),
            r#mod: Some(change),
            ..Default::default()
        }],
        ..Default::default()
    };
    clients.tables.modify_column_families(request).await.unwrap();
}

/// Clients prepare a query again when they find this violation in its status.
fn is_expired(status: &Status) -> bool {
    let whole = rpc::Status::decode(status.details()).unwrap();
    let failures = whole.details.iter().map(|detail| {
        assert_eq!(detail.type_url, "type.googleapis.com/google.rpc.PreconditionFailure");
        rpc::PreconditionFailure::decode(&detail.value[..]).unwrap()
    });
    status.code() == Code::FailedPrecondition
        && failures
            .flat_map(|failure| failure.violations)
            .any(|violation| violation.r#type == "PREPARED_QUERY_EXPIRED")
}

#[tokio::test]
async fn a_prepared_query_expires_when_its_columns_change() {
    use admin::modify_column_families_request::modification::Mod;
    let mut clients = with_many_rows().await;
    let none = Parameters::new();
    let all = prepare(&mut clients, "SELECT * FROM t", &none).await;
    let one = prepare(&mut clients, "SELECT f['v'] FROM t", &none).await;
    let token = parts(&mut clients, execute_request(&all, &none)).await.unwrap()[0].token.clone();
    change(&mut clients, Mod::Create(admin::ColumnFamily::default()), "new").await;
    let status = parts(&mut clients, execute_request(&all, &none)).await.unwrap_err();
    assert!(is_expired(&status), "{status}");
    assert!(parts(&mut clients, execute_request(&one, &none)).await.is_ok());
    let resumed =
        data::ExecuteQueryRequest { resume_token: token.into(), ..execute_request(&all, &none) };
    let status = parts(&mut clients, resumed).await.unwrap_err();
    assert_eq!((status.code(), status.details()), (Code::FailedPrecondition, &b""[..]));

    change(&mut clients, Mod::Drop(true), "f").await;
    let status = parts(&mut clients, execute_request(&one, &none)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "the family is gone: {status}");
    change(&mut clients, Mod::Create(admin::ColumnFamily::default()), "f").await;
    let status = parts(&mut clients, execute_request(&one, &none)).await.unwrap_err();
    assert!(is_expired(&status), "{status}");
}

#[tokio::test]
async fn a_prepared_query_expires_with_its_table_and_its_server() {
    let mut clients = with_many_rows().await;
    let none = Parameters::new();
    let prepared = prepare(&mut clients, "SELECT _key FROM t", &none).await;
    let mut other = prepared.clone();
    other[0] += 1;
    let status = parts(&mut clients, execute_request(&other, &none)).await.unwrap_err();
    assert!(is_expired(&status), "{status}");
    let delete = admin::DeleteTableRequest { name: TABLE.into() };
    clients.tables.delete_table(delete).await.unwrap();
    let status = parts(&mut clients, execute_request(&prepared, &none)).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "{status}");
    clients.tables.create_table(create_table("t", [])).await.unwrap();
    let status = parts(&mut clients, execute_request(&prepared, &none)).await.unwrap_err();
    assert!(is_expired(&status), "{status}");
}
