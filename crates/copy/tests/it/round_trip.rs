//! Columns that are written are read again as the same columns.

use crate::reading::{Cuts, read};
use arrow_array::builder::BooleanBuilder;
use arrow_array::{
    ArrayRef, BinaryArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, UInt32Array,
};
use copy::{Column, ColumnType, Format, Header, IsoForms, Layout, Limits, Options, Writer};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

const TYPES: [ColumnType; 17] = [
    ColumnType::Bool,
    ColumnType::Int2,
    ColumnType::Int4,
    ColumnType::Int8,
    ColumnType::Oid,
    ColumnType::Float4,
    ColumnType::Float8,
    ColumnType::Numeric { precision: 38, scale: 9 },
    ColumnType::Numeric { precision: 5, scale: -2 },
    ColumnType::Text,
    ColumnType::Char(20),
    ColumnType::Bytea,
    ColumnType::Uuid,
    ColumnType::Date,
    ColumnType::Time,
    ColumnType::Timestamp,
    ColumnType::TimestampTz,
];

fn values<T>(
    random: &mut StdRng,
    rows: usize,
    mut one: impl FnMut(&mut StdRng) -> T,
) -> Vec<Option<T>> {
    (0..rows).map(|_| random.random_bool(0.8).then(|| one(random))).collect()
}

fn text(random: &mut StdRng, is_padded: bool) -> String {
    let letters: Vec<char> = "ab ,;\t\"\\'\n\rtf0-N.\u{8}\u{b}\u{c}éЖ€".chars().collect();
    let len = random.random_range(0..9);
    let text: String = (0..len).map(|_| letters[random.random_range(0..letters.len())]).collect();
    if is_padded { text.trim_end_matches(' ').to_owned() } else { text }
}

fn column(random: &mut StdRng, column_type: ColumnType, rows: usize) -> ArrayRef {
    // The years 1 to 9999, which ISO forms have.
    let date = |random: &mut StdRng| random.random_range(-730_119..2_921_940);
    let day = 86_400_000_000_i64;
    let moment = |random: &mut StdRng| {
        i64::from(date(random)) * day + random.random_range(0..day) / 1_000 * 1_000
    };
    match column_type {
        ColumnType::Bool => {
            let mut builder = BooleanBuilder::new();
            values(random, rows, |random| random.random())
                .into_iter()
                .for_each(|value| builder.append_option(value));
            Arc::new(builder.finish())
        }
        ColumnType::Int2 => Arc::new(Int16Array::from(values(random, rows, StdRng::random))),
        ColumnType::Int4 => Arc::new(Int32Array::from(values(random, rows, StdRng::random))),
        ColumnType::Int8 => Arc::new(Int64Array::from(values(random, rows, |random| {
            random.random::<i64>() >> random.random_range(0..64)
        }))),
        ColumnType::Oid => Arc::new(UInt32Array::from(values(random, rows, StdRng::random))),
        ColumnType::Float4 => Arc::new(Float32Array::from(values(random, rows, |random| {
            // Every NaN is read as one, so only numbers are tried.
            let value = f32::from_bits(random.random());
            if value.is_nan() { f32::INFINITY } else { value }
        }))),
        ColumnType::Float8 => Arc::new(Float64Array::from(values(random, rows, |random| {
            let value = f64::from_bits(random.random());
            if value.is_nan() { f64::NEG_INFINITY } else { value }
        }))),
        ColumnType::Numeric { precision, .. } => {
            let most = 10_i128.pow(precision.into());
            let numbers = values(random, rows, |random| random.random_range(1 - most..most));
            let array = Decimal128Array::from(numbers);
            Arc::new(array.with_data_type(column_type.arrow()))
        }
        ColumnType::Text => {
            Arc::new(StringArray::from(values(random, rows, |random| text(random, false))))
        }
        ColumnType::Char(_) => {
            Arc::new(StringArray::from(values(random, rows, |random| text(random, true))))
        }
        ColumnType::Bytea => {
            let values = values(random, rows, |random| random.random::<[u8; 5]>());
            Arc::new(BinaryArray::from_iter(values))
        }
        ColumnType::Uuid => {
            let values = values(random, rows, |random| random.random::<[u8; 16]>());
            let array =
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), 16);
            Arc::new(array.unwrap())
        }
        ColumnType::Date => Arc::new(Date32Array::from(values(random, rows, date))),
        ColumnType::Time => {
            Arc::new(Time64MicrosecondArray::from(values(random, rows, |random| {
                random.random_range(0..day)
            })))
        }
        ColumnType::Timestamp => {
            Arc::new(TimestampMicrosecondArray::from(values(random, rows, moment)))
        }
        ColumnType::TimestampTz => {
            let array = TimestampMicrosecondArray::from(values(random, rows, moment));
            Arc::new(array.with_timezone("UTC"))
        }
        other => panic!("no values of {other:?}"),
    }
}

fn write(options: &Options, columns: &[Column], batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = Writer::new(options, columns.to_vec(), Arc::new(IsoForms)).unwrap();
    let mut data = Vec::new();
    writer.head(&mut data);
    batches.iter().for_each(|batch| writer.batch(batch, &mut data).unwrap());
    writer.tail(&mut data);
    data
}

#[test]
fn what_is_written_is_read_again() {
    for seed in 0..300 {
        let random = &mut StdRng::seed_from_u64(seed);
        let count = random.random_range(1..20);
        let columns: Vec<Column> = (0..count)
            .map(|at| {
                let mut column =
                    Column::new(format!("c,{at}"), TYPES[random.random_range(0..TYPES.len())]);
                column.force_quote = random.random_bool(0.1);
                column
            })
            .collect();
        let rows = random.random_range(0..30);
        let arrays: Vec<ArrayRef> =
            columns.iter().map(|c| column(random, c.column_type, rows)).collect();
        let layout = Layout::new(&columns, &(0..count).collect::<Vec<_>>()).unwrap();
        let batch = layout.batch(arrays.clone(), rows, |_, _| Ok(None)).unwrap();
        for format in [Format::Text, Format::Csv, Format::Binary] {
            let mut options = Options::of_format(format);
            if format == Format::Csv {
                options.escape = if random.random() { b'"' } else { b'\\' };
                options.null = ["", "N", "0", "t", "-1"][random.random_range(0..5)].to_owned();
                options.delimiter = [b',', b';', b'0', b'-'][random.random_range(0..4)];
                if options.null.contains(char::from(options.delimiter)) {
                    options.delimiter = b',';
                }
            }
            if format != Format::Binary && random.random() {
                options.header = Header::Match;
            }
            let (left, right) = (batch.slice(0, rows / 2), batch.slice(rows / 2, rows - rows / 2));
            let data = write(&options, &columns, &[left, right]);
            let limits = Limits { block_bytes: random.random_range(1..500), ..Limits::default() };
            let cuts = Cuts { piece: random.random_range(1..99), limits, rows: usize::MAX };
            let again = read(&data, &options, &columns, Arc::new(IsoForms), cuts);
            let text = String::from_utf8_lossy(&data);
            let shown = format!("seed {seed}, {options:?}: {text:?}");
            let again = again.unwrap_or_else(|error| panic!("{error:?} {shown}"));
            assert_eq!(again, std::slice::from_ref(&arrays), "{shown}");
        }
    }
}

#[test]
fn what_is_written_is_what_postgresql_writes() {
    let columns = [
        Column::new("a", ColumnType::Int4),
        Column::new("b", ColumnType::Text),
        Column::new("c", ColumnType::TimestampTz),
        Column::new("d", ColumnType::Char(3)),
    ];
    let moments = TimestampMicrosecondArray::from(vec![Some(0), Some(i64::MAX), None]);
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![Some(-7), None, Some(0)])),
        Arc::new(StringArray::from(vec![Some("a\tb\\\n"), Some(""), Some("x \"y\"")])),
        Arc::new(moments.with_timezone("UTC")),
        Arc::new(StringArray::from(vec![Some("z"), Some("xyz"), None])),
    ];
    let layout = Layout::new(&columns, &[0, 1, 2, 3]).unwrap();
    let batch = layout.batch(arrays, 3, |_, _| Ok(None)).unwrap();
    let text = write(&Options::of_format(Format::Text), &columns, std::slice::from_ref(&batch));
    let want = "-7\ta\\tb\\\\\\n\t2000-01-01 00:00:00+00\tz  \n\
                \\N\t\tinfinity\txyz\n0\tx \"y\"\t\\N\t\\N\n";
    assert_eq!(String::from_utf8(text).unwrap(), want);
    let options = Options { header: Header::Skip, ..Options::of_format(Format::Csv) };
    let csv = write(&options, &columns, &[batch]);
    let want = "a,b,c,d\n-7,\"a\tb\\\n\",2000-01-01 00:00:00+00,z  \n\
                ,\"\",infinity,xyz\n0,\"x \"\"y\"\"\",,\n";
    assert_eq!(String::from_utf8(csv).unwrap(), want);
}
