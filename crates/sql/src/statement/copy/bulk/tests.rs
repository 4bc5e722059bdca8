use super::columns::{of_parsed, of_rows, repeated, rounded, rows_of};
use super::forms::{SessionForms, column_type};
use crate::query::read_column;
use crate::values::time::Zone;
use crate::values::{Settings, encode_binary, parse_value, value_text};
use ::copy::{Format, Forms as _, Limits, Options, Parser, Splitter};
use datafusion::arrow::array::{Array as _, ArrayRef};
use relational::catalog::Column;
use relational::{DataType, Row, Value};
use std::sync::Arc;

fn settings() -> Settings {
    let zone = Zone::named("Europe/Berlin").unwrap();
    Settings { zone, ..Settings::default() }
}

fn column(name: &str, data_type: DataType) -> Column {
    Column {
        number: 1,
        name: name.to_owned(),
        data_type,
        precision: None,
        not_null: false,
        default: None,
        identity: None,
        generated: None,
        missing: Value::Null,
        comment: None,
    }
}

/// Returns the value of the only record of some data, or the code of its error.
fn read(format: Format, column: &Column, mut data: &[u8]) -> Result<Value, String> {
    let code = |problem: ::copy::Error| problem.state().as_str().to_owned();
    let options = Options::of_format(format);
    let field = ::copy::Column::new(&column.name, column_type(&column.data_type));
    let forms = Arc::new(SessionForms::new([column], &settings()));
    let mut splitter = Splitter::new(&options, 1, Limits::default()).map_err(code)?;
    let mut parser = Parser::new(&options, vec![field], forms).map_err(code)?;
    while let Some(mut block) = splitter.push(&mut data).map_err(code)? {
        parser.parse(&mut block, 10).map_err(code)?;
    }
    while let Some(mut block) = splitter.finish().map_err(code)? {
        parser.parse(&mut block, 10).map_err(code)?;
    }
    let mut arrays = parser.take().map_err(code)?;
    let array = of_parsed(arrays.remove(0), &column.data_type).unwrap();
    assert_eq!(array.len(), 1);
    Ok(read_column(&array, &column.data_type).unwrap().remove(0))
}

/// Returns binary data of COPY with one record of one value.
fn binary(value: &[u8]) -> Vec<u8> {
    let mut data = b"PGCOPY\n\xff\r\n\0".to_vec();
    data.extend_from_slice(&[0; 8]);
    data.extend_from_slice(&1_i16.to_be_bytes());
    data.extend_from_slice(&i32::try_from(value.len()).unwrap().to_be_bytes());
    data.extend_from_slice(value);
    data.extend_from_slice(&(-1_i16).to_be_bytes());
    data
}

fn cases() -> Vec<(DataType, &'static str)> {
    vec![
        (DataType::Bool, "yes"),
        (DataType::Int2, "-7"),
        (DataType::Int4, " 42 "),
        (DataType::Int8, "9223372036854775807"),
        (DataType::Oid, "4294967295"),
        (DataType::Float4, "1.5"),
        (DataType::Float8, "NaN"),
        (DataType::Numeric(None), "-123.4500"),
        (DataType::Numeric(None), "NaN"),
        (DataType::Numeric(Some((5, 2))), "1.005"),
        (DataType::Numeric(Some((3, 1))), "1234"),
        (DataType::Text, "zwei "),
        (DataType::Varchar(None), "drei "),
        (DataType::Varchar(Some(3)), "abc  "),
        (DataType::Varchar(Some(3)), "abcd"),
        (DataType::Char(5), "ab "),
        (DataType::Char(1), "ab"),
        (DataType::Name, "a_name"),
        (DataType::Bytea, "\\x00ff"),
        (DataType::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        (DataType::Date, "2024-02-29"),
        (DataType::Date, "1/2/2003"),
        (DataType::Date, "infinity"),
        (DataType::Date, "no date"),
        (DataType::Time, "12:34:56.789"),
        (DataType::Timestamp, "2000-01-01 00:00:01"),
        (DataType::Timestamp, "-infinity"),
        (DataType::TimestampTz, "2024-07-01 12:00:00"),
        (DataType::TimestampTz, "2024-01-01 12:00:00+05:30"),
        (DataType::Interval, "1 mon 30 days -00:00:01"),
        (DataType::Interval, "no interval"),
        (DataType::Json, "{\"a\": 1}"),
        (DataType::Json, "{"),
        (DataType::Jsonb, "{\"b\": 1, \"a\": []}"),
    ]
}

#[test]
fn values_are_those_of_a_table_of_rows() {
    for (data_type, text) in cases() {
        let want = parse_value(text, &data_type, &settings());
        let data = format!("{}\n", text.replace('\\', "\\\\"));
        let column = column("a", data_type.clone());
        let got = read(Format::Text, &column, data.as_bytes());
        let want = match want {
            Ok(want) => want,
            Err(error) => {
                assert_eq!(got, Err(error.state.code().to_owned()), "{data_type} {text:?}");
                continue;
            }
        };
        let shown = |value: &Value| value_text(value, &settings());
        let got = got.unwrap_or_else(|code| panic!("{data_type} {text:?}: {code}"));
        assert_eq!(shown(&got), shown(&want), "{data_type} {text:?}");
        let mut bytes = Vec::new();
        encode_binary(&want, &data_type, &settings(), &mut bytes);
        let got = read(Format::Binary, &column, &binary(&bytes)).unwrap();
        assert_eq!(shown(&got), shown(&want), "{data_type} {text:?} in binary form");
    }
}

#[test]
fn bytes_of_values_that_are_longer_than_their_text_are_counted() {
    let column = column("a", DataType::Jsonb);
    let forms = SessionForms::new([&column], &settings());
    let field = ::copy::Column::new("a", column_type(&DataType::Jsonb));
    forms.read_text(&field, "1e999").unwrap();
    assert_eq!(forms.take_made(), 1_000);
    assert_eq!(forms.take_made(), 0);
    assert_eq!(forms.again().take_made(), 0);
}

#[test]
fn null_is_read_for_every_type() {
    for (data_type, _) in cases() {
        let column = column("a", data_type);
        assert_eq!(read(Format::Text, &column, b"\\N\n"), Ok(Value::Null));
    }
}

#[test]
fn columns_come_back_as_rows() {
    let columns = [column("a", DataType::Int4), column("b", DataType::Jsonb)];
    let rows: Vec<Row> = vec![
        vec![Value::Int4(1), Value::Null],
        vec![Value::Null, Value::Jsonb("{}".into())],
        vec![Value::Int4(3), Value::Jsonb("[1]".into())],
    ];
    let arrays = of_rows(&rows, &columns).unwrap();
    assert_eq!(rows_of(&arrays, &columns).unwrap(), rows);
    let arrays: Vec<ArrayRef> = vec![
        repeated(&Value::Int4(7), &DataType::Int4, 2).unwrap(),
        repeated(&Value::Null, &DataType::Jsonb, 2).unwrap(),
    ];
    let row = vec![Value::Int4(7), Value::Null];
    assert_eq!(rows_of(&arrays, &columns).unwrap(), [row.clone(), row]);
}

#[test]
fn moments_are_rounded_and_infinities_stay() {
    for data_type in [DataType::Timestamp, DataType::TimestampTz] {
        let column = column("a", data_type.clone());
        let value = |micros| match data_type {
            DataType::Timestamp => Value::Timestamp(micros),
            _ => Value::TimestampTz(micros),
        };
        let rows: Vec<Row> =
            [1_500_000, -1_499_999, i64::MAX, i64::MIN].map(|m| vec![value(m)]).into();
        let array = of_rows(&rows, std::slice::from_ref(&column)).unwrap().remove(0);
        let rounded = rounded(Arc::clone(&array), 0);
        assert_eq!(rounded.data_type(), array.data_type());
        let want = [2_000_000, -1_000_000, i64::MAX, i64::MIN].map(value);
        assert_eq!(read_column(&rounded, &data_type).unwrap(), want);
    }
    let times = of_rows(&[vec![Value::Time(1_234_567)]], &[column("a", DataType::Time)]).unwrap();
    let array = rounded(Arc::clone(&times[0]), 3);
    assert_eq!(read_column(&array, &DataType::Time).unwrap(), [Value::Time(1_235_000)]);
}
