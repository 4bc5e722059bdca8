//! The tables under attack: many small rows, some large rows, and rows of many cells.

use super::honest::{SignIn, channel};
use crate::AnyError;
use bench_core::{KeyKind, random_key, random_value};
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use tonic::Code;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;

/// The instance whose tables are attacked.
pub(super) const INSTANCE: &str = "projects/hostile/instances/hostile";
/// Table of small rows of one cell.
pub(super) const NARROW: &str = "projects/hostile/instances/hostile/tables/narrow";
/// Table of large rows of one cell, and of rows of many cells.
pub(super) const BROAD: &str = "projects/hostile/instances/hostile/tables/broad";
/// The one family that each table has.
pub(super) const FAMILY: &str = "f";
/// Prefixes of the keys of [`BROAD`].
pub(super) const LARGE: &str = "large-";
pub(super) const WIDE: &str = "wide-";

const KEY_BYTES: usize = 50;
const VALUE_BYTES: usize = 256;
const ROWS_A_BATCH: u64 = 500;
const LARGE_ROWS: u64 = 16;
const LARGE_VALUE_BYTES: usize = 16 << 20;
const WIDE_ROWS: u64 = 4;
const WIDE_CELLS: u64 = 200_000;
const WIDE_VALUE_BYTES: usize = 32;
/// Cells of one request that writes a wide row.
const CELLS_A_BATCH: u64 = 50_000;

/// A client of the data service, which signs in if the server knows its clients.
pub(super) type Client = data::bigtable_client::BigtableClient<InterceptedService<Channel, SignIn>>;

/// Returns a client that signs in.
pub(super) fn client(channel: Channel, sign_in: SignIn) -> Client {
    data::bigtable_client::BigtableClient::with_interceptor(channel, sign_in)
}

/// Returns the key of row `number` of [`NARROW`].
pub(super) fn row_key(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; KEY_BYTES];
    random_key(number, KeyKind::Present, &mut bytes);
    bytes
}

/// Creates the tables of the server at `address`, which lets everybody do so, and fills
/// them, [`NARROW`] with `rows` rows.
pub(super) async fn fill(address: SocketAddr, rows: u64) -> Result<(), AnyError> {
    let channel = channel(address).await?;
    let mut tables =
        admin::bigtable_table_admin_client::BigtableTableAdminClient::new(channel.clone());
    for name in [NARROW, BROAD] {
        let families = BTreeMap::from([(FAMILY.to_owned(), admin::ColumnFamily::default())]);
        let request = admin::CreateTableRequest {
            parent: INSTANCE.to_owned(),
            table_id: name.rsplit('/').next().unwrap_or_default().to_owned(),
            table: Some(admin::Table { column_families: families, ..Default::default() }),
            ..Default::default()
        };
        match tables.create_table(request).await {
            Err(status) if status.code() != Code::AlreadyExists => return Err(status.into()),
            _ => {}
        }
    }
    let mut client = client(channel, SignIn::not_needed());
    for first in (0..rows).step_by(ROWS_A_BATCH as usize) {
        fill_narrow(&mut client, first..rows.min(first + ROWS_A_BATCH)).await?;
    }
    for row in 0..LARGE_ROWS {
        fill_row(&mut client, format!("{LARGE}{row}"), 0..1, LARGE_VALUE_BYTES).await?;
    }
    for row in 0..WIDE_ROWS {
        for first in (0..WIDE_CELLS).step_by(CELLS_A_BATCH as usize) {
            let cells = first..first + CELLS_A_BATCH;
            fill_row(&mut client, format!("{WIDE}{row}"), cells, WIDE_VALUE_BYTES).await?;
        }
    }
    Ok(())
}

async fn fill_narrow(client: &mut Client, rows: Range<u64>) -> Result<(), AnyError> {
    let entries = rows.map(|number| data::mutate_rows_request::Entry {
        row_key: row_key(number).into(),
        mutations: vec![set_cell(0, number, VALUE_BYTES)],
        ..Default::default()
    });
    let request = data::MutateRowsRequest {
        table_name: NARROW.to_owned(),
        entries: entries.collect(),
        ..Default::default()
    };
    let mut replies = client.mutate_rows(request).await?.into_inner();
    while let Some(reply) = replies.message().await? {
        let mut statuses = reply.entries.into_iter().filter_map(|entry| entry.status);
        if let Some(failed) = statuses.find(|status| status.code != 0) {
            return Err(failed.message.into());
        }
    }
    Ok(())
}

async fn fill_row(
    client: &mut Client,
    key: String,
    cells: Range<u64>,
    bytes: usize,
) -> Result<(), AnyError> {
    let request = data::MutateRowRequest {
        table_name: BROAD.to_owned(),
        row_key: key.into(),
        mutations: cells.map(|cell| set_cell(cell, cell, bytes)).collect(),
        ..Default::default()
    };
    client.mutate_row(request).await?;
    Ok(())
}

/// Returns a mutation that sets column `number` to random bytes drawn from `seed`.
fn set_cell(number: u64, seed: u64, bytes: usize) -> data::Mutation {
    let mut value = vec![0; bytes];
    random_value(seed, &mut value);
    let set = data::mutation::SetCell {
        family_name: FAMILY.to_owned(),
        column_qualifier: format!("{number:06}").into(),
        timestamp_micros: 0,
        value: value.into(),
    };
    data::Mutation { mutation: Some(data::mutation::Mutation::SetCell(set)) }
}
