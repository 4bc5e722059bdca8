//! A client that makes something happen.

use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use std::net::SocketAddr;
use tonic::transport::{Channel, Endpoint};

const INSTANCE: &str = "projects/p/instances/i";

/// Returns the full name of a table.
pub(super) fn full_name(table: &str) -> String {
    format!("{INSTANCE}/tables/{table}")
}

/// Creates the tables, and writes a row to each and reads it.
pub(super) fn write_and_read(address: SocketAddr, tables: &[&str]) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let channel = endpoint.connect().await.unwrap();
        for table in tables {
            create(channel.clone(), table).await;
            write(channel.clone(), table).await;
            let found = read(channel.clone(), table).await;
            assert_eq!(found, 1, "the row of {table}");
        }
    });
}

async fn create(channel: Channel, table: &str) {
    let mut client = admin::bigtable_table_admin_client::BigtableTableAdminClient::new(channel);
    let families = [("f".to_owned(), admin::ColumnFamily::default())].into();
    let request = admin::CreateTableRequest {
        parent: INSTANCE.into(),
        table_id: table.to_owned(),
        table: Some(admin::Table { column_families: families, ..Default::default() }),
        ..Default::default()
    };
    client.create_table(request).await.unwrap();
}

async fn write(channel: Channel, table: &str) {
    let set = data::mutation::SetCell {
        family_name: "f".into(),
        column_qualifier: "q".into(),
        timestamp_micros: 1_000,
        value: "value".into(),
    };
    let mutation = data::Mutation { mutation: Some(data::mutation::Mutation::SetCell(set)) };
    let request = data::MutateRowRequest {
        table_name: full_name(table),
        row_key: "row".into(),
        mutations: vec![mutation],
        ..Default::default()
    };
    let mut client = data::bigtable_client::BigtableClient::new(channel);
    client.mutate_row(request).await.unwrap();
}

/// Returns the number of rows.
async fn read(channel: Channel, table: &str) -> usize {
    let mut client = data::bigtable_client::BigtableClient::new(channel);
    let request = data::ReadRowsRequest { table_name: full_name(table), ..Default::default() };
    let mut answers = client.read_rows(request).await.unwrap().into_inner();
    let mut rows = 0;
    while let Some(answer) = answers.message().await.unwrap() {
        rows += answer.chunks.iter().filter(|chunk| chunk.row_status.is_some()).count();
    }
    rows
}
