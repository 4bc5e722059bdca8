//! Rows from chunks, as strict as the strictest of the clients.

use googleapis_tonic_google_bigtable_v2::google::bigtable::v2::ReadRowsResponse;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2::read_rows_response::CellChunk;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2::read_rows_response::cell_chunk::RowStatus;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GotCell {
    pub(crate) family: String,
    pub(crate) qualifier: Vec<u8>,
    pub(crate) timestamp_micros: i64,
    pub(crate) value: Vec<u8>,
    pub(crate) labels: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GotRow {
    pub(crate) key: Vec<u8>,
    pub(crate) cells: Vec<GotCell>,
}

/// Puts rows together from the messages of one read.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    rows: Vec<GotRow>,
    open: Option<GotRow>,
    /// Bytes that the last cell still lacks of the size announced.
    missing: Option<usize>,
    pub(crate) last_scanned: Vec<Vec<u8>>,
}

impl Assembler {
    pub(crate) fn message(&mut self, message: ReadRowsResponse) {
        message.chunks.into_iter().for_each(|chunk| self.chunk(chunk));
        assert!(self.open.is_none(), "a message ends within a row");
        if !message.last_scanned_row_key.is_empty() {
            self.last_scanned.push(message.last_scanned_row_key.to_vec());
        }
    }

    pub(crate) fn finish(self) -> Vec<GotRow> {
        assert!(self.open.is_none(), "the stream ended in the middle of a row");
        self.rows
    }

    fn chunk(&mut self, chunk: CellChunk) {
        match self.missing {
            Some(missing) => self.continue_value(&chunk, missing),
            None => self.start_cell(&chunk),
        }
        match chunk.row_status {
            Some(RowStatus::CommitRow(true)) => {
                assert_eq!(self.missing, None, "commit in the middle of a value");
                self.rows.extend(self.open.take());
            }
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }

    fn start_cell(&mut self, chunk: &CellChunk) {
        let row = match &mut self.open {
            Some(row) => {
                assert!(chunk.row_key.is_empty(), "a row key in the middle of a row");
                row
            }
            None => {
                assert!(!chunk.row_key.is_empty(), "a row without a key");
                self.open.insert(GotRow { key: chunk.row_key.to_vec(), cells: Vec::new() })
            }
        };
        let last = row.cells.last();
        let (family, qualifier) = match (&chunk.family_name, &chunk.qualifier, last) {
            (Some(family), Some(qualifier), _) => (family.clone(), qualifier.clone()),
            (None, Some(qualifier), Some(last)) => (last.family.clone(), qualifier.clone()),
            (None, None, Some(last)) => (last.family.clone(), last.qualifier.clone()),
            other => panic!("a cell without a column: {other:?}"),
        };
        row.cells.push(GotCell {
            family,
            qualifier,
            timestamp_micros: chunk.timestamp_micros,
            value: chunk.value.to_vec(),
            labels: chunk.labels.clone(),
        });
        self.missing = (chunk.value_size > 0)
            .then(|| (chunk.value_size as usize).checked_sub(chunk.value.len()).unwrap());
    }

    fn continue_value(&mut self, chunk: &CellChunk, missing: usize) {
        let plain = chunk.row_key.is_empty()
            && chunk.family_name.is_none()
            && chunk.qualifier.is_none()
            && chunk.timestamp_micros == 0
            && chunk.labels.is_empty();
        assert!(plain, "a piece of a value that says more: {chunk:?}");
        let cell = self.open.as_mut().and_then(|row| row.cells.last_mut()).unwrap();
        cell.value.extend_from_slice(&chunk.value);
        let missing = missing.checked_sub(chunk.value.len()).expect("longer than announced");
        assert_eq!(missing == 0, chunk.value_size == 0, "the size is on all pieces but the last");
        self.missing = (missing > 0).then_some(missing);
    }
}

/// One line a cell: `row family:qualifier@timestamp=value [label]`.
pub(crate) fn lines(rows: &[GotRow]) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows {
        for cell in &row.cells {
            let mut line = format!(
                "{} {}:{}@{}={}",
                row.key.escape_ascii(),
                cell.family,
                cell.qualifier.escape_ascii(),
                cell.timestamp_micros,
                cell.value.escape_ascii()
            );
            cell.labels.iter().for_each(|label| line += &format!(" [{label}]"));
            lines.push(line);
        }
    }
    lines
}
