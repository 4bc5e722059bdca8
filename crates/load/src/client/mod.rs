//! Calls of a Bigtable endpoint: connections, requests, and rows from their chunks.

mod api;
mod assemble;
mod dial;
mod failure;
mod schema;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use api::Api;
pub use dial::{Dial, Stream};
pub(crate) use dial::{Service, connect};
pub(crate) use failure::Failure;
pub(crate) use schema::make_table;

use assemble::{Assembler, Wanted};
use bytes::Bytes;
use data::bigtable_client::BigtableClient;
use data::column_range::{EndQualifier, StartQualifier};
use data::mutate_rows_request::Entry;
use data::mutation::{Mutation, SetCell};
use data::row_filter::{Chain, Filter};
use data::row_range::{EndKey, StartKey};
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use std::sync::Arc;
use std::time::Duration;
use tonic::Code;

/// Largest message that is accepted from a server.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// A table, and the column family that the run uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Full name of the table.
    pub(crate) table: String,
    pub(crate) family: String,
    pub(crate) profile: String,
}

#[derive(Debug, Clone)]
pub(crate) struct NewCell {
    pub(crate) qualifier: Vec<u8>,
    pub(crate) timestamp: i64,
    pub(crate) value: Bytes,
}

#[derive(Debug, Clone)]
pub(crate) struct NewRow {
    pub(crate) key: Vec<u8>,
    pub(crate) cells: Vec<NewCell>,
}

/// A cell that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) qualifier: Bytes,
    pub(crate) timestamp: i64,
    pub(crate) value: Bytes,
}

/// A row that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) key: Bytes,
    pub(crate) cells: Vec<Cell>,
}

/// The rows and columns of a read.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) rows: Rows,
    /// First and last qualifier; `None` reads all columns.
    pub(crate) columns: Option<(Vec<u8>, Vec<u8>)>,
    /// Most cells that a right answer has.
    pub(crate) cells_max: u64,
    /// Bytes of values beyond which the answer is wrong.
    pub(crate) bytes_max: u64,
}

/// The rows of a read.
#[derive(Debug, Clone)]
pub(crate) enum Rows {
    /// The row with this key.
    One(Vec<u8>),
    /// Rows from `start` up to and without `end`, at most `limit`.
    Range { start: Vec<u8>, end: Vec<u8>, limit: u64 },
}

/// One worker's client. Clones share the connection.
#[derive(Clone)]
pub(crate) struct Client {
    service: BigtableClient<Service>,
    place: Arc<Place>,
    timeout: Duration,
}

impl Client {
    /// Returns a client whose calls end after `timeout`.
    pub(crate) fn new(service: Service, place: Arc<Place>, timeout: Duration) -> Self {
        let service = BigtableClient::new(service).max_decoding_message_size(MESSAGE_BYTES_MAX);
        Self { service, place, timeout }
    }

    fn mutations(&self, cells: Vec<NewCell>) -> Vec<data::Mutation> {
        let mutation = |cell: NewCell| data::Mutation {
            mutation: Some(Mutation::SetCell(SetCell {
                family_name: self.place.family.clone(),
                column_qualifier: cell.qualifier.into(),
                timestamp_micros: cell.timestamp,
                value: cell.value,
            })),
        };
        cells.into_iter().map(mutation).collect()
    }
}

impl Api for Client {
    async fn write(&mut self, row: NewRow) -> Result<(), Failure> {
        let request = data::MutateRowRequest {
            table_name: self.place.table.clone(),
            app_profile_id: self.place.profile.clone(),
            row_key: row.key.into(),
            mutations: self.mutations(row.cells),
            ..Default::default()
        };
        let call = self.service.mutate_row(request);
        tokio::time::timeout(self.timeout, call).await.map_err(|_| Failure::Timeout)??;
        Ok(())
    }

    async fn write_many(&mut self, rows: Vec<NewRow>) -> Result<Vec<Result<(), Failure>>, Failure> {
        let mut outcomes = vec![Err(Failure::Protocol("a row without a result")); rows.len()];
        let entry = |row: NewRow| Entry {
            row_key: row.key.into(),
            mutations: self.mutations(row.cells),
            ..Default::default()
        };
        let request = data::MutateRowsRequest {
            table_name: self.place.table.clone(),
            app_profile_id: self.place.profile.clone(),
            entries: rows.into_iter().map(entry).collect(),
            ..Default::default()
        };
        let call = async {
            let mut answers = self.service.mutate_rows(request).await?.into_inner();
            while let Some(answer) = answers.message().await? {
                for entry in answer.entries {
                    let index = usize::try_from(entry.index).unwrap_or(usize::MAX);
                    let outcome = outcomes.get_mut(index);
                    let outcome = outcome.ok_or(Failure::Protocol("a result without a row"))?;
                    let status = entry.status.unwrap_or_default();
                    *outcome = match Code::from(status.code) {
                        Code::Ok => Ok(()),
                        code => Err(Failure::Status(code, status.message)),
                    };
                }
            }
            Ok::<(), Failure>(())
        };
        tokio::time::timeout(self.timeout, call).await.map_err(|_| Failure::Timeout)??;
        Ok(outcomes)
    }

    async fn read(&mut self, selection: Selection) -> Result<Vec<Row>, Failure> {
        let (rows, limit) = row_set(selection.rows);
        let request = data::ReadRowsRequest {
            table_name: self.place.table.clone(),
            app_profile_id: self.place.profile.clone(),
            rows: Some(rows),
            filter: Some(filter(&self.place.family, selection.columns)),
            rows_limit: i64::try_from(limit).unwrap_or(i64::MAX),
            ..Default::default()
        };
        let place = Arc::clone(&self.place);
        let call = async {
            let mut rows = Assembler::new(&place.family, selection.cells_max, selection.bytes_max);
            let mut answers = self.service.read_rows(request).await?.into_inner();
            while let Some(answer) = answers.message().await? {
                for chunk in answer.chunks {
                    if rows.add(chunk)? == Wanted::NoMore {
                        return Ok(rows.cut());
                    }
                }
            }
            rows.finish()
        };
        tokio::time::timeout(self.timeout, call).await.map_err(|_| Failure::Timeout)?
    }
}

fn row_set(rows: Rows) -> (data::RowSet, u64) {
    match rows {
        Rows::One(key) => (data::RowSet { row_keys: vec![key.into()], ..Default::default() }, 1),
        Rows::Range { start, end, limit } => {
            let range = data::RowRange {
                start_key: Some(StartKey::StartKeyClosed(start.into())),
                end_key: Some(EndKey::EndKeyOpen(end.into())),
            };
            (data::RowSet { row_ranges: vec![range], ..Default::default() }, limit)
        }
    }
}

fn filter(family: &str, columns: Option<(Vec<u8>, Vec<u8>)>) -> data::RowFilter {
    let of = |filter| data::RowFilter { filter: Some(filter) };
    let newest = of(Filter::CellsPerColumnLimitFilter(1));
    let Some((first, last)) = columns else { return newest };
    let range = data::ColumnRange {
        family_name: family.to_owned(),
        start_qualifier: Some(StartQualifier::StartQualifierClosed(first.into())),
        end_qualifier: Some(EndQualifier::EndQualifierClosed(last.into())),
    };
    of(Filter::Chain(Chain { filters: vec![of(Filter::ColumnRangeFilter(range)), newest] }))
}
