//! A table in memory for tests, which lies or fails when it is told to.

use super::assemble::assemble;
use super::data::read_rows_response::CellChunk;
use super::data::read_rows_response::cell_chunk::RowStatus;
use super::{Api, Cell, Failure, NewRow, Row, Rows, Selection};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tonic::Code;

type Columns = BTreeMap<Vec<u8>, (i64, Bytes)>;

/// Changes an answer before the client gets it.
pub(crate) type Lie = Arc<dyn Fn(&mut Vec<Row>) + Send + Sync>;

/// A table whose clones share their rows.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) rows: Arc<Mutex<BTreeMap<Vec<u8>, Columns>>>,
    pub(crate) lie: Option<Lie>,
    /// Time that every call takes.
    pub(crate) delay: Duration,
    /// Time after which a call fails, if it takes longer.
    pub(crate) timeout: Option<Duration>,
    /// Calls before the endpoint vanishes; all calls after them fail at once.
    pub(crate) calls_left: Option<Arc<AtomicU64>>,
    pub(crate) calls: Arc<AtomicU64>,
}

impl Fake {
    async fn call(&self) -> Result<(), Failure> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(left) = &self.calls_left {
            let taken =
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            taken.map_err(|_| Failure::Status(Code::Unavailable, "vanished".to_owned()))?;
        }
        match self.timeout.filter(|timeout| *timeout < self.delay) {
            None => tokio::time::sleep(self.delay).await,
            Some(timeout) => {
                tokio::time::sleep(timeout).await;
                return Err(Failure::Timeout);
            }
        }
        Ok(())
    }

    fn put(&self, row: NewRow) {
        let mut rows = self.rows.lock();
        let columns = rows.entry(row.key).or_default();
        for cell in row.cells {
            let old = columns.get(&cell.qualifier).map_or(i64::MIN, |(timestamp, _)| *timestamp);
            if cell.timestamp >= old {
                columns.insert(cell.qualifier, (cell.timestamp, cell.value));
            }
        }
    }
}

impl Api for Fake {
    async fn write(&mut self, row: NewRow) -> Result<(), Failure> {
        self.call().await?;
        self.put(row);
        Ok(())
    }

    async fn write_many(&mut self, rows: Vec<NewRow>) -> Result<Vec<Result<(), Failure>>, Failure> {
        self.call().await?;
        let written = rows.into_iter().map(|row| {
            self.put(row);
            Ok(())
        });
        Ok(written.collect())
    }

    async fn read(&mut self, selection: Selection) -> Result<Vec<Row>, Failure> {
        self.call().await?;
        let (start, end, limit) = match selection.rows {
            Rows::One(key) => (key.clone(), [&key[..], b"\0"].concat(), 1),
            Rows::Range { start, end, limit } => (start, end, limit),
        };
        let inside = |qualifier: &Vec<u8>| match &selection.columns {
            None => true,
            Some((first, last)) => qualifier >= first && qualifier <= last,
        };
        let rows = self.rows.lock();
        let found = rows.range(start..end).map(|(key, columns)| {
            let columns = columns.iter().filter(|(qualifier, _)| inside(qualifier));
            let cells = columns.map(|(qualifier, (timestamp, value))| Cell {
                qualifier: qualifier.clone().into(),
                timestamp: *timestamp,
                value: value.clone(),
            });
            Row { key: key.clone().into(), cells: cells.collect() }
        });
        let mut found: Vec<Row> =
            found.filter(|row| !row.cells.is_empty()).take(limit as usize).collect();
        if let Some(lie) = &self.lie {
            lie(&mut found);
        }
        let chunks = found.iter().flat_map(chunks);
        assemble(chunks, "f", selection.cells_max, selection.bytes_max)
    }
}

/// Returns a row as a server sends it.
fn chunks(row: &Row) -> Vec<CellChunk> {
    let chunk = |cell: &Cell| CellChunk {
        row_key: row.key.clone(),
        family_name: Some("f".to_owned()),
        qualifier: Some(cell.qualifier.to_vec()),
        timestamp_micros: cell.timestamp,
        value: cell.value.clone(),
        ..Default::default()
    };
    let mut chunks: Vec<CellChunk> = row.cells.iter().map(chunk).collect();
    if let Some(last) = chunks.last_mut() {
        last.row_status = Some(RowStatus::CommitRow(true));
    }
    chunks
}
