//! Rows from the chunks of a server's answer to `ReadRows`.
//!
//! 1. Keys ascend, and are inside of the range that was asked for.
//! 2. A row has the chunks from the one with its key to the one that commits it, and no others. So cells
//!    of two rows never become one row.
//! 3. A value has the length that its first chunk announced.
//! 4. An answer that breaks a rule is refused, and another try is not made: a server that lies once is
//!    not believed.

use super::gather::{Gatherer, Piece};
use crate::export::selection::Range;
use crate::import::target::Failure;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use interchange::rows::Cell;
use interchange::rows::limits::VALUE_BYTES_MAX;
use std::sync::Arc;
use table::Bytes;

use data::read_rows_response::CellChunk;
use data::read_rows_response::cell_chunk::RowStatus;

/// Puts rows together from chunks.
pub(super) struct Chunks {
    rows: Gatherer,
    state: State,
    range: Range,
    /// The last row that ended, or the last key that the server scanned.
    passed: Option<Bytes>,
    /// Key of the open row.
    key: Bytes,
    family: Arc<str>,
    qualifier: Bytes,
    timestamp_micros: i64,
    /// The parts of a value whose end is still to come.
    value: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    BetweenRows,
    /// The family and the qualifier of the last cell are known.
    InRow,
    /// The next chunk continues a value, which will have this many bytes.
    InValue(usize),
}

impl Chunks {
    /// Returns a reader of the rows in `range`.
    pub(super) fn new(range: Range) -> Self {
        Self {
            rows: Gatherer::default(),
            state: State::BetweenRows,
            range,
            passed: None,
            key: Bytes::new(),
            family: "".into(),
            qualifier: Bytes::new(),
            timestamp_micros: 0,
            value: Vec::new(),
        }
    }

    /// Takes one message of the answer, and returns the pieces of rows that it completes.
    pub(super) fn take(&mut self, answer: data::ReadRowsResponse) -> Result<Vec<Piece>, Failure> {
        for chunk in answer.chunks {
            self.add(chunk)?;
        }
        if !answer.last_scanned_row_key.is_empty() {
            self.scanned(answer.last_scanned_row_key)?;
        }
        Ok(self.rows.take())
    }

    /// Returns whether all rows ended that began.
    pub(super) fn is_between_rows(&self) -> bool {
        self.state == State::BetweenRows
    }

    fn add(&mut self, chunk: CellChunk) -> Result<(), Failure> {
        if let Some(RowStatus::ResetRow(true)) = chunk.row_status {
            return self.reset();
        }
        let size = match self.state {
            State::BetweenRows => {
                self.begin_row(&chunk)?;
                self.begin_cell(&chunk)?
            }
            State::InRow => self.begin_cell(&chunk)?,
            State::InValue(size) => continued(&chunk, size)?,
        };
        let commits = chunk.row_status == Some(RowStatus::CommitRow(true));
        let len = self.value.len() + chunk.value.len();
        if chunk.value_size > 0 {
            if commits || len > size {
                return Err(malformed("a value does not have its announced length"));
            }
            self.value.extend_from_slice(&chunk.value);
            self.state = State::InValue(size);
            return Ok(());
        }
        if matches!(self.state, State::InValue(_)) && len != size {
            return Err(malformed("a value does not have its announced length"));
        }
        self.end_cell(chunk.value);
        if commits {
            self.rows.end();
            self.passed = Some(std::mem::take(&mut self.key));
            self.state = State::BetweenRows;
        }
        Ok(())
    }

    /// Forgets the open row, which the server will send again.
    fn reset(&mut self) -> Result<(), Failure> {
        if self.state == State::BetweenRows {
            return Err(malformed("a row is reset that did not begin"));
        }
        self.state = State::BetweenRows;
        self.value.clear();
        match self.rows.forget() {
            true => Ok(()),
            false => Err(Failure::Later("the server began a row again".to_owned())),
        }
    }

    /// Begins a row, which must come after all rows that were read.
    fn begin_row(&mut self, chunk: &CellChunk) -> Result<(), Failure> {
        let key = &chunk.row_key;
        if key.is_empty() || chunk.family_name.is_none() || chunk.qualifier.is_none() {
            return Err(malformed("a row begins without key, family or qualifier"));
        }
        if self.passed.as_ref().is_some_and(|passed| key <= passed) {
            return Err(malformed(&format!(
                "row \"{:.80}\" comes after \"{:.80}\"",
                key.escape_ascii(),
                self.passed.as_deref().unwrap_or_default().escape_ascii()
            )));
        }
        if *key < self.range.start || self.range.end.as_ref().is_some_and(|end| key >= end) {
            let key = key.escape_ascii();
            return Err(malformed(&format!("row \"{key:.80}\" was not asked for")));
        }
        self.key = key.clone();
        self.rows.start(key.clone());
        Ok(())
    }

    /// Takes the names of a cell, and returns the announced length of its value. A name that is not
    /// sent is that of the cell before it.
    fn begin_cell(&mut self, chunk: &CellChunk) -> Result<usize, Failure> {
        if !chunk.row_key.is_empty() && chunk.row_key != self.key {
            return Err(malformed("a row begins before the end of the last one"));
        }
        if let Some(family) = &chunk.family_name {
            if chunk.qualifier.is_none() {
                return Err(malformed("a family without qualifier"));
            }
            self.family = family.as_str().into();
        }
        if let Some(qualifier) = &chunk.qualifier {
            self.qualifier = qualifier.clone().into();
        }
        self.timestamp_micros = chunk.timestamp_micros;
        let size = usize::try_from(chunk.value_size).unwrap_or(usize::MAX);
        if size.max(chunk.value.len()) > VALUE_BYTES_MAX {
            return Err(malformed("a value is too long"));
        }
        Ok(size)
    }

    fn end_cell(&mut self, last: Bytes) {
        let value = if self.value.is_empty() {
            last
        } else {
            self.value.extend_from_slice(&last);
            std::mem::take(&mut self.value).into()
        };
        self.rows.cell(Cell {
            family: Arc::clone(&self.family),
            qualifier: self.qualifier.clone(),
            timestamp_micros: self.timestamp_micros,
            value,
        });
        self.state = State::InRow;
    }

    /// Takes the news that rows up to `key` were read.
    fn scanned(&mut self, key: Bytes) -> Result<(), Failure> {
        if self.state != State::BetweenRows {
            return Err(malformed("a scanned row is told within a row"));
        }
        if self.passed.as_ref().is_none_or(|passed| *passed < key) {
            self.passed = Some(key);
        }
        Ok(())
    }
}

/// Checks a chunk that continues a value of `size` bytes.
fn continued(chunk: &CellChunk, size: usize) -> Result<usize, Failure> {
    let named = !chunk.row_key.is_empty()
        || chunk.family_name.is_some()
        || chunk.qualifier.is_some()
        || chunk.timestamp_micros != 0;
    if named {
        return Err(malformed("a cell begins before the end of the last value"));
    }
    match usize::try_from(chunk.value_size) {
        Ok(again) if again == 0 || again == size => Ok(size),
        _ => Err(malformed("a value does not have its announced length")),
    }
}

fn malformed(what: &str) -> Failure {
    Failure::Fatal(format!("the server's answer is malformed: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(key: &'static str, value: &'static str, size: i32, end: bool) -> CellChunk {
        CellChunk {
            row_key: key.into(),
            family_name: (!key.is_empty()).then(|| "f".to_owned()),
            qualifier: (!key.is_empty()).then(|| "q".into()),
            value: value.into(),
            value_size: size,
            row_status: end.then_some(RowStatus::CommitRow(true)),
            ..Default::default()
        }
    }

    fn reset() -> CellChunk {
        CellChunk { row_status: Some(RowStatus::ResetRow(true)), ..CellChunk::default() }
    }

    fn answer(chunks: &[CellChunk]) -> data::ReadRowsResponse {
        data::ReadRowsResponse { chunks: chunks.to_vec(), ..Default::default() }
    }

    fn scanned(key: &'static str) -> data::ReadRowsResponse {
        data::ReadRowsResponse { last_scanned_row_key: key.into(), ..Default::default() }
    }

    /// Returns the key and the values of each row of `answers` to a read of the rows from `a` up to `x`.
    fn read(
        answers: impl IntoIterator<Item = data::ReadRowsResponse>,
    ) -> Result<Vec<(Bytes, Vec<Bytes>)>, Failure> {
        let mut chunks = Chunks::new(Range { start: b"a".into(), end: Some(b"x".into()) });
        let mut rows = Vec::new();
        for answer in answers {
            for piece in chunks.take(answer)? {
                let values = piece.row.cells.into_iter().map(|cell| cell.value);
                rows.push((piece.row.key, values.collect()));
            }
        }
        assert!(chunks.is_between_rows());
        Ok(rows)
    }

    #[test]
    fn chunks_become_rows() {
        let first = [
            chunk("a", "whole", 0, false),
            chunk("", "pa", 6, false),
            chunk("", "rt", 6, false),
            chunk("", "ed", 0, true),
            chunk("b", "lost", 0, false),
            reset(),
            chunk("b", "kept", 0, false),
            chunk("b", "again", 0, true),
        ];
        let rows = read([answer(&first), scanned("c"), answer(&[chunk("d", "", 0, true)])]);
        let want = [
            ("a".into(), vec!["whole".into(), "parted".into()]),
            ("b".into(), vec!["kept".into(), "again".into()]),
            ("d".into(), vec!["".into()]),
        ];
        assert_eq!(rows.unwrap(), want);
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_refused() {
        let a = || chunk("a", "v", 0, true);
        let nameless = CellChunk { family_name: Some("g".into()), ..chunk("", "v", 0, true) };
        let open = chunk("b", "v", 0, false);
        let long = chunk("b", "", i32::MAX, false);
        let parted = chunk("b", "v", 3, false);
        for (chunks, why) in [
            (vec![chunk("", "v", 0, true)], "without key, family or qualifier"),
            (vec![CellChunk { qualifier: None, ..a() }], "without key, family or qualifier"),
            (vec![a(), a()], "row \"a\" comes after \"a\""),
            (vec![chunk("c", "v", 0, true), open.clone()], "row \"b\" comes after \"c\""),
            (vec![chunk("x", "v", 0, true)], "row \"x\" was not asked for"),
            (vec![chunk("A", "v", 0, true)], "row \"A\" was not asked for"),
            (vec![open.clone(), chunk("c", "v", 0, true)], "a row begins before the end"),
            (vec![open, nameless], "a family without qualifier"),
            (vec![reset()], "a row is reset that did not begin"),
            (vec![long], "a value is too long"),
            (vec![CellChunk { value_size: -1, ..a() }], "a value is too long"),
            (vec![parted.clone(), a()], "a cell begins before the end of the last value"),
            (vec![parted.clone(), chunk("", "v", 4, false)], "announced length"),
            (vec![parted.clone(), chunk("", "v", 0, true)], "announced length"),
            (vec![parted.clone(), chunk("", "vvv", 3, false)], "announced length"),
            (vec![CellChunk { value_size: 3, ..a() }], "announced length"),
        ] {
            let error = read([answer(&chunks)]).unwrap_err();
            let Failure::Fatal(text) = error else { panic!("{error:?} is no answer to lies") };
            assert!(text.contains(why), "{why}: {text}");
        }
        let told = read([scanned("c"), answer(&[chunk("b", "v", 0, true)])]).unwrap_err();
        assert_eq!(told, malformed("row \"b\" comes after \"c\""));
        let within =
            data::ReadRowsResponse { last_scanned_row_key: "c".into(), ..answer(&[parted]) };
        assert_eq!(read([within]), Err(malformed("a scanned row is told within a row")));
    }
}
