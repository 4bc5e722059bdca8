//! Rows from the chunks of a ReadRows answer.
//!
//! Invariants:
//! 1. An answer is kept up to the first cell beyond the wanted number, and up to the first chunk beyond
//!    the bytes that a right answer has. Such an answer is cut there and not refused: it shows in its
//!    rows that it is wrong.
//! 2. Cells that the server takes back by a reset do not count.

use super::data::read_rows_response::CellChunk;
use super::data::read_rows_response::cell_chunk::RowStatus;
use super::{Cell, Failure, Row};
use bytes::{Bytes, BytesMut};

/// Rows of one answer, as far as its chunks have come.
pub(super) struct Assembler<'a> {
    family: &'a str,
    cells_max: u64,
    bytes_max: u64,
    /// Cells and bytes of values in `rows`.
    kept: Size,
    rows: Vec<Row>,
    /// The row whose chunks come now, with its complete cells.
    row: Option<Row>,
    begun: Size,
    /// Family of the chunks of this row; `None` before the first.
    chunk_family: Option<String>,
    qualifier: Option<Bytes>,
    /// A cell whose value is not complete: timestamp and value so far.
    partial: Option<(i64, BytesMut)>,
}

/// Complete cells, and bytes of values, complete or not.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    cells: u64,
    bytes: u64,
}

/// Answer to the question if more chunks are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    More,
    /// The answer has more than was asked for.
    NoMore,
}

impl<'a> Assembler<'a> {
    /// Returns an assembler for an answer of at most so many cells of `family` and bytes of values.
    pub(super) fn new(family: &'a str, cells_max: u64, bytes_max: u64) -> Self {
        Self {
            family,
            cells_max,
            bytes_max,
            kept: Size::default(),
            rows: Vec::new(),
            row: None,
            begun: Size::default(),
            chunk_family: None,
            qualifier: None,
            partial: None,
        }
    }

    /// Takes the next chunk of the answer.
    pub(super) fn add(&mut self, chunk: CellChunk) -> Result<Wanted, Failure> {
        if matches!(chunk.row_status, Some(RowStatus::ResetRow(true))) {
            self.begin(None);
            return Ok(Wanted::More);
        }
        if !chunk.row_key.is_empty() && self.row.as_ref().is_none_or(|row| row.key != chunk.row_key)
        {
            if self.row.is_some() {
                return Err(Failure::Protocol("a row without an end"));
            }
            self.begin(Some(chunk.row_key));
        }
        self.chunk_family = chunk.family_name.or(self.chunk_family.take());
        if let Some(qualifier) = chunk.qualifier {
            self.qualifier = Some(qualifier.into());
        }
        self.value(chunk.timestamp_micros, chunk.value, chunk.value_size > 0)?;
        if self.kept.cells + self.begun.cells > self.cells_max
            || self.kept.bytes + self.begun.bytes > self.bytes_max
        {
            return Ok(Wanted::NoMore);
        }
        if matches!(chunk.row_status, Some(RowStatus::CommitRow(true))) {
            if self.partial.is_some() {
                return Err(Failure::Protocol("a row that ends within a value"));
            }
            self.commit();
        }
        Ok(Wanted::More)
    }

    fn begin(&mut self, key: Option<Bytes>) {
        self.row = key.map(|key| Row { key, cells: Vec::new() });
        self.begun = Size::default();
        self.chunk_family = None;
        self.qualifier = None;
        self.partial = None;
    }

    fn commit(&mut self) {
        self.rows.extend(self.row.take());
        self.kept.cells += self.begun.cells;
        self.kept.bytes += self.begun.bytes;
        self.begin(None);
    }

    /// Adds a value or a piece of one; `more` pieces follow.
    fn value(&mut self, timestamp: i64, value: Bytes, more: bool) -> Result<(), Failure> {
        if self.row.is_none() || self.qualifier.is_none() || self.chunk_family.is_none() {
            return Err(Failure::Protocol("a cell without a row, family or qualifier"));
        }
        self.begun.bytes += value.len() as u64;
        match (self.partial.take(), more) {
            (None, false) => self.cell(timestamp, value),
            (None, true) => self.partial = Some((timestamp, BytesMut::from(&value[..]))),
            (Some((timestamp, mut begun)), more) => {
                begun.extend_from_slice(&value);
                match more {
                    true => self.partial = Some((timestamp, begun)),
                    false => self.cell(timestamp, begun.freeze()),
                }
            }
        }
        Ok(())
    }

    /// Adds a cell to the row. The qualifier of a cell of another family has the family before it, so
    /// that it equals no wanted qualifier.
    fn cell(&mut self, timestamp: i64, value: Bytes) {
        let (Some(row), Some(qualifier)) = (&mut self.row, &self.qualifier) else { return };
        let qualifier = match &self.chunk_family {
            Some(family) if family != self.family => {
                [family.as_bytes(), b":", qualifier].concat().into()
            }
            _ => qualifier.clone(),
        };
        row.cells.push(Cell { qualifier, timestamp, value });
        self.begun.cells += 1;
    }

    /// Returns the rows after the last chunk.
    pub(super) fn finish(self) -> Result<Vec<Row>, Failure> {
        match self.row {
            None => Ok(self.rows),
            Some(_) => Err(Failure::Protocol("an answer that ends within a row")),
        }
    }

    /// Returns the rows of an answer that has more than was asked for, with the excess so far.
    pub(super) fn cut(mut self) -> Vec<Row> {
        if let Some((timestamp, value)) = self.partial.take() {
            self.cell(timestamp, value.freeze());
        }
        self.commit();
        self.rows
    }
}

/// Returns the rows of chunks, of which at most so many cells and bytes of values were asked for.
#[cfg(test)]
pub(super) fn assemble(
    chunks: impl IntoIterator<Item = CellChunk>,
    family: &str,
    cells_max: u64,
    bytes_max: u64,
) -> Result<Vec<Row>, Failure> {
    let mut rows = Assembler::new(family, cells_max, bytes_max);
    for chunk in chunks {
        if rows.add(chunk)? == Wanted::NoMore {
            return Ok(rows.cut());
        }
    }
    rows.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(row: &'static str, qualifier: &'static str, value: &'static str) -> CellChunk {
        CellChunk {
            row_key: row.into(),
            family_name: (!row.is_empty()).then(|| "f".to_owned()),
            qualifier: (!qualifier.is_empty()).then(|| qualifier.into()),
            timestamp_micros: 1000,
            value: value.into(),
            ..Default::default()
        }
    }

    fn last(chunk: CellChunk) -> CellChunk {
        CellChunk { row_status: Some(RowStatus::CommitRow(true)), ..chunk }
    }

    fn piece(chunk: CellChunk) -> CellChunk {
        CellChunk { value_size: 100, ..chunk }
    }

    fn rows(chunks: Vec<CellChunk>) -> Result<Vec<String>, Failure> {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let cell = |cell: &Cell| format!(" {}={}", text(&cell.qualifier), text(&cell.value));
        let row = |row: Row| text(&row.key) + &row.cells.iter().map(cell).collect::<String>();
        Ok(assemble(chunks, "f", 3, 20)?.into_iter().map(row).collect())
    }

    #[test]
    fn chunks_become_rows() {
        let two = vec![chunk("a", "x", "1"), last(chunk("", "y", "2")), last(chunk("b", "x", "3"))];
        assert_eq!(rows(two).unwrap(), ["a x=1 y=2", "b x=3"]);
        let pieces = vec![piece(chunk("a", "x", "12")), piece(chunk("", "", "34")), {
            last(chunk("", "", "5"))
        }];
        assert_eq!(rows(pieces).unwrap(), ["a x=12345"]);
        let reset = CellChunk { row_status: Some(RowStatus::ResetRow(true)), ..Default::default() };
        assert_eq!(
            rows(vec![chunk("a", "x", "1"), reset, last(chunk("b", "x", "2"))]).unwrap(),
            ["b x=2"]
        );
        assert!(rows(vec![]).unwrap().is_empty());
    }

    #[test]
    fn answers_that_break_the_protocol_are_failures() {
        for (case, chunks) in [
            ("no end", vec![chunk("a", "x", "1")]),
            ("next row too early", vec![chunk("a", "x", "1"), last(chunk("b", "x", "1"))]),
            ("no row", vec![last(chunk("", "x", "1"))]),
            ("no qualifier", vec![last(chunk("a", "", "1"))]),
            ("end within a value", vec![last(piece(chunk("a", "x", "1")))]),
            ("value before its row", vec![piece(chunk("", "x", "123456789012345678901"))]),
        ] {
            assert!(matches!(rows(chunks), Err(Failure::Protocol(_))), "{case}");
        }
    }

    #[test]
    fn an_answer_with_too_much_is_cut_and_shows_its_excess() {
        let other = CellChunk { family_name: Some("g".into()), ..chunk("a", "x", "1") };
        let long = "123456789012345678901";
        for (case, chunks, want) in [
            ("another family", vec![last(other)], vec!["a g:x=1"]),
            ("cells", (0..9).map(|_| chunk("a", "x", "1")).collect(), vec!["a x=1 x=1 x=1 x=1"]),
            ("rows", vec![last(chunk("a", "x", "1")); 9], vec!["a x=1"; 4]),
            ("bytes", vec![last(chunk("a", "x", long))], vec!["a x=123456789012345678901"]),
            (
                "bytes of a value that never ends",
                vec![piece(chunk("a", "x", long)); 9],
                vec!["a x=123456789012345678901"],
            ),
        ] {
            assert_eq!(rows(chunks).unwrap(), want, "{case}");
        }
    }

    #[test]
    fn cells_that_were_taken_back_do_not_count() {
        let reset = CellChunk { row_status: Some(RowStatus::ResetRow(true)), ..Default::default() };
        let attempt = [chunk("a", "x", "1234567"), piece(chunk("", "y", "1234567")), reset];
        let mut chunks: Vec<CellChunk> = (0..9).flat_map(|_| attempt.clone()).collect();
        chunks.push(last(chunk("a", "x", "1")));
        assert_eq!(rows(chunks).unwrap(), ["a x=1"]);
    }
}
