//! Files that other programs may write, and files that are no cells.

use crate::rows::fuzz::read;
use crate::rows::{Cell, Format, Row};
use parquet::basic::{Compression, Encoding};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

const BYTES: &str = "required binary key; required binary family; required binary qualifier;";

/// Writes row groups of `cells` with `columns`, all bytes being `k`, `f`, `q` or `v`, and the timestamps
/// given. A column without a timestamp's value there is null.
fn file(columns: &str, groups: &[&[Option<i64>]]) -> Vec<u8> {
    let properties = WriterProperties::builder().set_writer_version(WriterVersion::PARQUET_2_0);
    file_with(columns, groups, properties.build())
}

fn file_with(columns: &str, groups: &[&[Option<i64>]], properties: WriterProperties) -> Vec<u8> {
    let schema = parse_message_type(&format!("message cells {{ {columns} }}")).unwrap();
    let mut file = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut file, Arc::new(schema), Arc::new(properties)).unwrap();
    for stamps in groups {
        let mut group = writer.next_row_group().unwrap();
        let levels: Vec<i16> = stamps.iter().map(|stamp| i16::from(stamp.is_some())).collect();
        let there: Vec<i64> = stamps.iter().flatten().copied().collect();
        let mut at = 0;
        while let Some(mut column) = group.next_column().unwrap() {
            match column.untyped() {
                ColumnWriter::Int64ColumnWriter(column) => {
                    let optional = column.get_descriptor().max_def_level() > 0;
                    column.write_batch(&there, optional.then_some(&levels[..]), None).unwrap();
                }
                ColumnWriter::ByteArrayColumnWriter(column) => {
                    let name = column.get_descriptor().name().as_bytes()[..1].to_vec();
                    let values = vec![ByteArray::from(name); stamps.len()];
                    let optional = column.get_descriptor().max_def_level() > 0;
                    let levels = vec![1; stamps.len()];
                    column.write_batch(&values, optional.then_some(&levels[..]), None).unwrap();
                }
                _ => panic!("a column of another type"),
            }
            column.close().unwrap();
            at += 1;
        }
        assert!(at > 0);
        group.close().unwrap();
    }
    writer.close().unwrap();
    file
}

fn stamps(rows: &[Row]) -> Vec<Vec<i64>> {
    let stamps = |row: &Row| row.cells.iter().map(|cell| cell.timestamp_micros).collect();
    rows.iter().map(stamps).collect()
}

#[test]
fn timestamps_of_every_unit_become_microseconds() {
    for (stamp, stamps_in, want) in [
        ("required int64 timestamp;", [5, -7], [5, -7]),
        ("required int64 timestamp (INTEGER(64,true));", [5, 7], [5, 7]),
        ("required int64 timestamp (TIMESTAMP(MICROS,false));", [5, 7], [5, 7]),
        ("required int64 timestamp (TIMESTAMP_MILLIS);", [5, 7], [5000, 7000]),
        ("required int64 timestamp (TIMESTAMP(NANOS,true));", [5000, -7000], [5, -7]),
        ("optional int64 timestamp (TIMESTAMP(MILLIS,true));", [5, 7], [5000, 7000]),
    ] {
        let columns = format!("{BYTES} {stamp} required binary value;");
        let rows = read(Format::Parquet, &file(&columns, &[&stamps_in.map(Some)])).unwrap();
        assert_eq!(stamps(&rows), [want], "{stamp}");
    }
}

#[test]
fn columns_may_come_in_any_order_and_be_optional() {
    let columns =
        "optional int64 timestamp; optional binary value; required binary qualifier (JSON);
        optional binary family (STRING); optional binary key (STRING);";
    let rows = read(Format::Parquet, &file(columns, &[&[Some(2), Some(1)], &[Some(0)]])).unwrap();
    let cell = |at| Cell {
        family: "f".into(),
        qualifier: "q".into(),
        timestamp_micros: at,
        value: "v".into(),
    };
    // A row goes on over the end of a row group.
    assert_eq!(rows, [Row { key: "k".into(), cells: [2, 1, 0].map(cell).to_vec() }]);
}

#[test]
fn files_that_are_no_cells_are_refused_by_name() {
    let value = "required binary value;";
    let micros = "required int64 timestamp;";
    for (columns, stamps, want) in [
        (format!("{BYTES} {micros}"), &[Some(1)][..], "the Parquet schema is not that of cells"),
        (format!("{BYTES} {micros} {value} required binary more;"), &[Some(1)], "schema"),
        (format!("{BYTES} required binary timestamp; {value}"), &[Some(1)], "schema"),
        (format!("{BYTES} repeated int64 timestamp; {value}"), &[], "schema"),
        (
            format!("{BYTES} required group timestamp {{ required int64 timestamp; }} {value}"),
            &[Some(1)],
            "schema",
        ),
        (
            format!("{BYTES} required int64 timestamp (TIME(MICROS,true)); {value}"),
            &[Some(1)],
            "schema",
        ),
        (
            format!("{BYTES} optional int64 timestamp; {value}"),
            &[Some(1), None],
            "record 2: the timestamp is null",
        ),
        (
            format!("{BYTES} required int64 timestamp (TIMESTAMP(NANOS,true)); {value}"),
            &[Some(1000), Some(1001)],
            "record 2: the timestamp of 1001 nanoseconds is not of whole microseconds",
        ),
        (
            format!("{BYTES} required int64 timestamp (TIMESTAMP_MILLIS); {value}"),
            &[Some(i64::MAX)],
            "record 1: the timestamp of 9223372036854775807 milliseconds is too large",
        ),
    ] {
        let error = read(Format::Parquet, &file(&columns, &[stamps])).unwrap_err().to_string();
        assert!(error.contains(want), "{columns}: {error}");
    }
    for (bytes, want) in
        [(&b""[..], "malformed"), (b"PAR1", "malformed"), (b"PAR1PAR1", "malformed")]
    {
        let error = read(Format::Parquet, bytes).unwrap_err().to_string();
        assert!(error.contains(want), "{bytes:?}: {error}");
    }
}

const CELLS: &str = "required binary key; required binary family; required binary qualifier;
    required int64 timestamp; required binary value;";

/// Replaces the only place of `old` in `file`, or the last one.
fn replaced(mut file: Vec<u8>, old: &[u8], new: &[u8], first: bool) -> Vec<u8> {
    let mut places = file.windows(old.len()).enumerate().filter(|(_, part)| *part == old);
    let found = if first { places.next() } else { places.next_back() };
    let (at, _) = found.expect("the file has the bytes");
    file.splice(at..at + old.len(), new.iter().copied());
    file
}

#[test]
fn a_dictionary_of_more_values_than_bytes_is_refused() {
    let whole = file(CELLS, &[&[Some(1); 3]]);
    assert_eq!(read(Format::Parquet, &whole).unwrap()[0].cells.len(), 3);
    // The header of a dictionary page: type 2, 5 bytes, 5 bytes, 1 value. No length of the file changes.
    let old = [0x15, 4, 0x15, 10, 0x15, 10, 0x4c, 0x15, 2];
    let new = [0x15, 4, 0x15, 10, 0x15, 10, 0x4c, 0x15, 126];
    let error = read(Format::Parquet, &replaced(whole, &old, &new, true)).unwrap_err().to_string();
    assert!(error.contains("a dictionary of 63 values in 5 bytes"), "{error}");
}

#[test]
fn pages_of_any_version_compression_and_encoding_are_read() {
    let optional = CELLS.replace("required", "optional");
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for columns in [CELLS, &optional] {
            let compressions = [
                Compression::UNCOMPRESSED,
                Compression::SNAPPY,
                Compression::GZIP(Default::default()),
                Compression::ZSTD(Default::default()),
            ];
            for compression in compressions {
                let properties = || {
                    let properties = WriterProperties::builder().set_writer_version(version);
                    properties.set_compression(compression)
                };
                let mut kinds = vec![properties().build()];
                for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
                    let mut plain = properties().set_dictionary_enabled(false);
                    for column in ["key", "family", "qualifier", "value"] {
                        plain = plain.set_column_encoding(column.into(), encoding);
                    }
                    let delta = Encoding::DELTA_BINARY_PACKED;
                    kinds.push(plain.set_column_encoding("timestamp".into(), delta).build());
                }
                for properties in kinds {
                    let bytes = file_with(columns, &[&[Some(7); 300]], properties);
                    let rows = read(Format::Parquet, &bytes);
                    let rows =
                        rows.unwrap_or_else(|why| panic!("{version:?} {compression}: {why}"));
                    assert_eq!(stamps(&rows), [[7; 300]], "{version:?} {columns} {compression}");
                }
            }
        }
    }
}

#[test]
fn more_lengths_than_values_are_refused() {
    for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
        let properties = WriterProperties::builder().set_dictionary_enabled(false);
        let properties = properties.set_column_encoding("value".into(), encoding).build();
        let whole = file_with(CELLS, &[&[Some(1); 3]], properties);
        assert_eq!(read(Format::Parquet, &whole).unwrap()[0].cells.len(), 3);
        // Blocks of 128 numbers in 4 parts, and how many: of prefixes, and of lengths after them.
        for first in [true, false] {
            let bytes = replaced(whole.clone(), &[128, 1, 4, 3], &[128, 1, 4, 127], first);
            let error = read(Format::Parquet, &bytes).unwrap_err().to_string();
            assert!(error.contains("127 lengths of 3 values"), "{encoding}: {error}");
        }
    }
}

/// Replaces the first place of `old` in the footer of `file`.
fn with_footer(file: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let (content, tail) = file.split_at(file.len() - 8);
    let len = u32::from_le_bytes(tail[..4].try_into().unwrap()) as usize;
    let (pages, footer) = content.split_at(content.len() - len);
    let footer = replaced(footer.to_vec(), old, new, true);
    let len = (footer.len() as u32).to_le_bytes();
    [pages, &footer, &len, b"PAR1"].concat()
}

/// Before room is made for them.
#[test]
fn a_footer_that_claims_too_much_is_refused() {
    let whole = file(CELLS, &[&[Some(1); 3]]);
    let many = [0xff, 0xff, 0xff, 0xff, 7];
    let list = |head: u8| [&[0x19, head][..], &many].concat();
    let children = [b"cells\x15".as_slice(), &[0xfe, 0xff, 0xff, 0xff, 15]].concat();
    // A field that no reader knows: structs in structs.
    let deep = [&[0x1c; 100_000][..], &[0; 100_000]].concat();
    for (old, new, want) in [
        (&[0x19, 0x6c][..], list(0xfc), "the Parquet schema is not that of cells"),
        (b"cells\x15\x0a", children, "the Parquet schema is not that of cells"),
        (&[0x16, 6, 0x19, 0x1c], [&[0x16, 6][..], &list(0xfc)].concat(), "lists 2147483647 values"),
        (&[0x16, 6, 0x19, 0x1c], [&[0x16, 6][..], &deep, &[0x09, 6, 0x1c]].concat(), "is too deep"),
        (&[0x19, 0x6c], vec![0x19], "malformed"),
    ] {
        let error = read(Format::Parquet, &with_footer(&whole, old, &new)).unwrap_err().to_string();
        assert!(error.contains(want), "{want}: {error}");
    }
    let mut long = whole.clone();
    let at = long.len() - 8;
    long[at..at + 4].fill(0xff);
    let error = read(Format::Parquet, &long).unwrap_err().to_string();
    assert!(error.contains("a footer of 4294967295 bytes"), "{error}");
}

#[test]
fn cells_beyond_the_rows_that_a_file_claims_are_refused() {
    let whole = file(CELLS, &[&[Some(1); 3]]);
    // The number of rows of the file, after the schema: field 3 of the footer, then a list of one group.
    let fewer = replaced(whole.clone(), &[0x16, 6, 0x19, 0x1c], &[0x16, 4, 0x19, 0x1c], false);
    let error = read(Format::Parquet, &fewer).unwrap_err().to_string();
    assert!(error.contains("the file has 3 cells and claims 2"), "{error}");
    // And that of the row group, after its bytes: fields 2 and 3 of it.
    let group = whole.windows(2).rposition(|part| part == [0x16, 6]).unwrap();
    let mut fewer = whole;
    fewer[group + 1] = 4;
    let error = read(Format::Parquet, &fewer).unwrap_err().to_string();
    assert!(error.contains("record 3: the column key has more values"), "{error}");
}
