//! Bodies of fuzz targets, called by `/fuzz` and, with damaged files, by the tests.

use super::{Compression, Encoding, Format, Row, RowWriter, Source, WriteOptions, reader, writer};
use crate::error::Result;
use crate::lines::Lines;
use crate::records::{self, Layout};
use std::io::{Cursor, Write};
use std::sync::{Arc, Mutex};

const OPTIONS: WriteOptions =
    WriteOptions { encoding: Encoding::Escaped, compression: Compression::None, sync: [7; 16] };

/// Reads `data` as a file of `format`. What can be read is written and read again, and must be the
/// same. Returns the number of records.
pub fn rows(format: Format, data: &[u8]) -> usize {
    let Ok(rows) = read(format, data) else { return 0 };
    let written = write(format, OPTIONS, &rows).expect("what was read can be written");
    let again = read(format, &written).expect("what was written can be read");
    assert_eq!(cells(&rows), cells(&again));
    rows.len()
}

/// Reads `data` as each of the text formats of records. Returns the number of records.
pub fn text_records(data: &[u8]) -> usize {
    let formats = [
        records::Format::Csv,
        records::Format::Tsv,
        records::Format::Jsonl,
        records::Format::Deb822,
    ];
    let mut found = 0;
    for format in formats {
        let mut lines = Lines::new(Box::new(Cursor::new(data.to_vec())));
        let Ok(mut records) = records::records(format, &Layout::default(), &mut lines) else {
            continue;
        };
        let mut last = 0;
        while let Some(item) = records.next(&mut lines).expect("memory has no errors") {
            assert!(item.end.offset > last, "no progress");
            last = item.end.offset;
            found += usize::from(item.content.is_ok());
        }
        assert!(last <= data.len() as u64);
    }
    found
}

/// Returns all records of a file in memory.
pub(super) fn read(format: Format, data: &[u8]) -> Result<Vec<Row>> {
    let mut reader = reader(format, Source::Memory(data.to_vec().into()))?;
    let mut rows = Vec::new();
    while let Some(row) = reader.next()? {
        assert!(!row.cells.is_empty());
        rows.push(row);
    }
    assert!(reader.offset() <= data.len() as u64);
    Ok(rows)
}

/// Returns the file of `rows`.
pub(super) fn write(format: Format, options: WriteOptions, rows: &[Row]) -> Result<Vec<u8>> {
    ended(format, options, rows, |writer| writer.finish())
}

/// As [`write`], but `end` writes the end of the file.
pub(super) fn ended(
    format: Format,
    options: WriteOptions,
    rows: &[Row],
    end: impl FnOnce(&mut dyn RowWriter) -> Result<()>,
) -> Result<Vec<u8>> {
    let file = Shared::default();
    let mut writer = writer(format, options, Box::new(file.clone()))?;
    for row in rows {
        writer.write(row)?;
    }
    end(writer.as_mut())?;
    let bytes = std::mem::take(&mut *file.0.lock().expect("no writer panics"));
    Ok(bytes)
}

/// Returns the cells of all records in order, each with its key: how rows are cut does not count.
fn cells(rows: &[Row]) -> Vec<(&[u8], &super::Cell)> {
    rows.iter().flat_map(|row| row.cells.iter().map(|cell| (&row.key[..], cell))).collect()
}

/// A file in memory that outlives its writer.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
