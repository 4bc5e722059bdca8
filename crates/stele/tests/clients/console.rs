//! The console of a real server in a browser.
//!
//! The suite in `browser/` needs Node and a Chromium. It is skipped where one of them is missing, unless
//! `STELE_REQUIRE_BROWSER` is `1`. `STELE_CONSOLE_SHOTS` names a directory that gets pictures of all pages.

use crate::server::{Server, run};
use crate::setup;
use data::mutate_rows_request::Entry;
use data::mutation::{Mutation, SetCell};
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use std::net::SocketAddr;
use std::process::Command;
use tonic::transport::Endpoint;

const INSTANCE: &str = "projects/local/instances/local";
/// Bytes that would be markup in a page, end a text, are no UTF-8, and turn the text after them round.
const HOSTILE: &[u8] = b"<img src=x onerror=alert(1)>\x00\xff\xe2\x80\xae";

#[test]
fn every_page_of_the_console_works_in_a_browser() {
    let Some((suite, browser)) = setup::browser() else { return };
    let (dir, secured_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut server = Server::start(dir.path(), &[]);
    tokio::runtime::Runtime::new().unwrap().block_on(fill(server.bigtable()));
    let identities = secured_dir.path().join("identities");
    let flag = format!("--identities={}", identities.display());
    let token = run(&["identity", "token", "ann", &flag]);
    let token = String::from_utf8(token.stdout).unwrap();
    let mut secured = Server::start(&secured_dir.path().join("data"), &[&flag]);
    let mut command = Command::new("node");
    command.args(["--test", "--test-concurrency=1"]).current_dir(suite);
    command.env("CONSOLE_BROWSER", browser).env("CONSOLE_TOKEN", token.trim());
    command.env("CONSOLE_URL", format!("http://{}", server.http()));
    command.env("CONSOLE_SECURED_URL", format!("http://{}", secured.http()));
    command.envs(std::env::var("STELE_CONSOLE_SHOTS").map(|dir| ("CONSOLE_SHOTS", dir)));
    if let Err(error) = setup::run(&mut command) {
        panic!("{error}");
    }
    assert!(server.terminate().success() && secured.terminate().success());
}

/// Creates the table `people` and its rows, some of them hostile.
async fn fill(address: SocketAddr) {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let table = admin::Table {
        column_families: [("f".to_owned(), admin::ColumnFamily::default())].into(),
        ..admin::Table::default()
    };
    let request = admin::CreateTableRequest {
        parent: INSTANCE.into(),
        table_id: "people".into(),
        table: Some(table),
        ..admin::CreateTableRequest::default()
    };
    let mut admin =
        admin::bigtable_table_admin_client::BigtableTableAdminClient::new(channel.clone());
    admin.create_table(request).await.unwrap();
    let mut entries = vec![entry(HOSTILE, HOSTILE, HOSTILE)];
    for at in 0..60 {
        entries.push(entry(format!("user#{at:04}").as_bytes(), b"name", b"Ada"));
    }
    let request = data::MutateRowsRequest {
        table_name: format!("{INSTANCE}/tables/people"),
        entries,
        ..data::MutateRowsRequest::default()
    };
    let mut client = data::bigtable_client::BigtableClient::new(channel);
    let mut answers = client.mutate_rows(request).await.unwrap().into_inner();
    while let Some(answer) = answers.message().await.unwrap() {
        let failed = answer
            .entries
            .iter()
            .find(|entry| entry.status.as_ref().is_some_and(|of| of.code != 0));
        assert_eq!(failed, None);
    }
}

fn entry(key: &[u8], qualifier: &[u8], value: &[u8]) -> Entry {
    let cell = SetCell {
        family_name: "f".into(),
        column_qualifier: qualifier.to_vec().into(),
        timestamp_micros: 1_700_000_000_000_000,
        value: value.to_vec().into(),
    };
    let mutation = data::Mutation { mutation: Some(Mutation::SetCell(cell)) };
    Entry { row_key: key.to_vec().into(), mutations: vec![mutation], ..Entry::default() }
}
