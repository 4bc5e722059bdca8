//! Rows from the chunks of a ReadRows answer. An answer with more cells or bytes than were asked for is
//! refused before it is kept.

use super::data::read_rows_response::CellChunk;
use super::data::read_rows_response::cell_chunk::RowStatus;
use super::{Cell, Failure, Row};
use bytes::{Bytes, BytesMut};

/// Rows of one answer, as far as its chunks have come.
pub(super) struct Assembler<'a> {
    family: &'a str,
    cells_left: u64,
    bytes_left: u64,
    rows: Vec<Row>,
    /// The row whose chunks come now.
    row: Option<Row>,
    /// The chunks of this row named the family.
    in_family: bool,
    qualifier: Option<Bytes>,
    /// A cell whose value is not complete: timestamp and value so far.
    partial: Option<(i64, BytesMut)>,
}

impl<'a> Assembler<'a> {
    /// Returns an assembler for cells of `family`, of at most so many cells and bytes of values.
    pub(super) fn new(family: &'a str, cells_max: u64, bytes_max: u64) -> Self {
        Self {
            family,
            cells_left: cells_max,
            bytes_left: bytes_max,
            rows: Vec::new(),
            row: None,
            in_family: false,
            qualifier: None,
            partial: None,
        }
    }

    pub(super) fn add(&mut self, chunk: CellChunk) -> Result<(), Failure> {
        if matches!(chunk.row_status, Some(RowStatus::ResetRow(true))) {
            self.begin(None);
            return Ok(());
        }
        if !chunk.row_key.is_empty() && self.row.as_ref().is_none_or(|row| row.key != chunk.row_key)
        {
            if self.row.is_some() {
                return Err(Failure::Protocol("a row without an end"));
            }
            self.begin(Some(chunk.row_key));
        }
        if let Some(family) = chunk.family_name {
            if family != self.family {
                return Err(Failure::Protocol("a cell of another family"));
            }
            self.in_family = true;
        }
        if let Some(qualifier) = chunk.qualifier {
            self.qualifier = Some(qualifier.into());
        }
        let len = chunk.value.len() as u64;
        let left = self.bytes_left.checked_sub(len);
        self.bytes_left = left.ok_or(Failure::Protocol("more bytes than were written"))?;
        self.value(chunk.timestamp_micros, chunk.value, chunk.value_size > 0)?;
        if matches!(chunk.row_status, Some(RowStatus::CommitRow(true))) {
            if self.partial.is_some() {
                return Err(Failure::Protocol("a row that ends within a value"));
            }
            self.rows.extend(self.row.take());
            self.begin(None);
        }
        Ok(())
    }

    fn begin(&mut self, key: Option<Bytes>) {
        self.row = key.map(|key| Row { key, cells: Vec::new() });
        self.in_family = false;
        self.qualifier = None;
        self.partial = None;
    }

    /// Adds a value or a piece of one; `more` pieces follow.
    fn value(&mut self, timestamp: i64, value: Bytes, more: bool) -> Result<(), Failure> {
        let (timestamp, value) = match (self.partial.take(), more) {
            (None, false) => (timestamp, value),
            (None, true) => {
                self.partial = Some((timestamp, BytesMut::from(&value[..])));
                return Ok(());
            }
            (Some((timestamp, mut begun)), more) => {
                begun.extend_from_slice(&value);
                if more {
                    self.partial = Some((timestamp, begun));
                    return Ok(());
                }
                (timestamp, begun.freeze())
            }
        };
        let left = self.cells_left.checked_sub(1);
        self.cells_left = left.ok_or(Failure::Protocol("more cells than were asked for"))?;
        let (Some(row), Some(qualifier), true) = (&mut self.row, &self.qualifier, self.in_family)
        else {
            return Err(Failure::Protocol("a cell without a row, family or qualifier"));
        };
        row.cells.push(Cell { qualifier: qualifier.clone(), timestamp, value });
        Ok(())
    }

    /// Returns the rows after the last chunk.
    pub(super) fn finish(self) -> Result<Vec<Row>, Failure> {
        match self.row {
            None => Ok(self.rows),
            Some(_) => Err(Failure::Protocol("an answer that ends within a row")),
        }
    }
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
        let mut rows = Assembler::new("f", 3, 20);
        chunks.into_iter().try_for_each(|chunk| rows.add(chunk))?;
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let cell = |cell: &Cell| format!(" {}={}", text(&cell.qualifier), text(&cell.value));
        let row = |row: Row| text(&row.key) + &row.cells.iter().map(cell).collect::<String>();
        Ok(rows.finish()?.into_iter().map(row).collect())
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
        let other = CellChunk { family_name: Some("g".into()), ..chunk("a", "x", "1") };
        for (case, chunks) in [
            ("no end", vec![chunk("a", "x", "1")]),
            ("next row too early", vec![chunk("a", "x", "1"), last(chunk("b", "x", "1"))]),
            ("no row", vec![last(chunk("", "x", "1"))]),
            ("no qualifier", vec![last(chunk("a", "", "1"))]),
            ("another family", vec![last(other)]),
            ("end within a value", vec![last(piece(chunk("a", "x", "1")))]),
            ("many bytes", vec![last(chunk("a", "x", "123456789012345678901"))]),
            ("many cells", (0..4).map(|_| chunk("a", "x", "1")).collect()),
        ] {
            assert!(matches!(rows(chunks), Err(Failure::Protocol(_))), "{case}");
        }
    }
}
