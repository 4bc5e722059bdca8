//! Files that other programs may write, and files that are no cells.

use crate::rows::fuzz::read;
use crate::rows::{Cell, Format, Row};
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
    let schema = parse_message_type(&format!("message cells {{ {columns} }}")).unwrap();
    let properties =
        WriterProperties::builder().set_writer_version(WriterVersion::PARQUET_2_0).build();
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
