//! Ids of requests, as clients and operators of the real server see them.

use crate::server::{Server, run, stderr};
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use googleapis_tonic_google_rpc::google::rpc;
use prost::Message;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// Upper bound for a line of the audit log.
const PATIENCE: Duration = Duration::from_secs(60);
const INFO: &str = "type.googleapis.com/google.rpc.RequestInfo";

async fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

/// Returns the request with this id, as its client chose it.
fn with_id<T>(message: T, id: Option<&[u8]>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(id) = id {
        let id = AsciiMetadataValue::try_from(id).unwrap();
        request.metadata_mut().insert("x-request-id", id);
    }
    request
}

/// Returns the id that an error tells, and the types of its other details.
fn told(error: &Status) -> (String, Vec<String>) {
    let id = error.metadata().get("x-request-id").expect("an error has an id");
    let whole = rpc::Status::decode(error.details()).unwrap();
    let (info, others): (Vec<_>, Vec<_>) =
        whole.details.into_iter().partition(|detail| detail.type_url == INFO);
    assert_eq!(info.len(), 1);
    let info = rpc::RequestInfo::decode(&info[0].value[..]).unwrap();
    assert_eq!(info.request_id, id.to_str().unwrap());
    (info.request_id, others.into_iter().map(|detail| detail.type_url).collect())
}

#[test]
fn errors_tell_the_id_that_the_client_chose_or_one_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client =
            data::bigtable_client::BigtableClient::new(channel(server.bigtable()).await);
        let table_name = "projects/p/instances/i/tables/none".to_owned();
        let mut seen = Vec::new();
        for (id, want) in [
            (Some(&b"order-17"[..]), Some("order-17")),
            (None, None),
            (Some(b"two words"), None),
            (Some(b"\xff"), None),
            (Some(&[b'x'; 5_000]), None),
        ] {
            let read =
                data::ReadRowsRequest { table_name: table_name.clone(), ..Default::default() };
            let error = match client.read_rows(with_id(read, id)).await {
                Ok(answers) => answers.into_inner().message().await.unwrap_err(),
                Err(error) => error,
            };
            assert_eq!(error.code(), Code::NotFound);
            let (told, others) = told(&error);
            assert_eq!(others, ["type.googleapis.com/google.rpc.ResourceInfo"]);
            match want {
                Some(want) => assert_eq!(told, want),
                None => seen.push(told),
            }
        }
        let (process, _) = seen[0].split_once('-').unwrap();
        assert!(seen.iter().all(|id| id.starts_with(process) && id.len() < 30), "{seen:?}");
        seen.dedup();
        assert_eq!(seen.len(), 4, "each call has an id of its own");
    });
}

#[test]
fn the_audit_log_tells_the_id_of_a_refused_call() {
    let (dir, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = |name: &str| files.path().join(name).display().to_string();
    let identities = format!("--identities={}", file("identities"));
    let made = run(&["identity", "token", "ci", &identities]);
    assert!(made.status.success(), "{}", stderr(&made));
    let server =
        Server::start(dir.path(), &[&identities, &format!("--audit-log={}", file("audit"))]);
    let error = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let channel = channel(server.bigtable()).await;
        let mut client = admin::bigtable_table_admin_client::BigtableTableAdminClient::new(channel);
        let parent = "projects/p/instances/i".to_owned();
        let list = admin::ListTablesRequest { parent, ..Default::default() };
        client.list_tables(with_id(list, None)).await.unwrap_err()
    });
    assert_eq!(error.code(), Code::Unauthenticated);
    let (id, _) = told(&error);
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(file("audit")).unwrap();
        if text.contains(&format!("\"result\":\"UNAUTHENTICATED\",\"request\":\"{id}\"")) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "no line of {id}:\n{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
