//! Examples: `testdata/*`. `REWRITE=1` writes the results again.
//!
//! Input is data of COPY. `→` stands for a tab, `␍` for a carriage return, `␀` for a zero byte, `<ff>`
//! for a byte, and `∎` at the end says that the last line has no line end. Binary lines: `signature`,
//! `row n`, `null`, `text x`, `bytes 0a0b` (a field), `raw 0a0b` or `end`.
//!
//! Arguments: `columns=(name-type, …)` with `n-numeric.5.2`, `v-varchar.3`; `delimiter`, `quote` and
//! `escape` by name, `null`, `header`, `force_null` and so on, `record` as the longest record.
//! Each example is read in one piece, and cut at every place, with the same result.

use crate::reading::{Cuts, read, rows};
use copy::{Column, ColumnType, Format, Forms, Header, IsoForms, Limits, Options, Result, Scalar};
use datadriven::TestCase;
use std::sync::Arc;

/// Forms of a session an hour east of UTC, and of a type whose texts are kept with a mark.
struct ExampleForms;

impl Forms for ExampleForms {
    fn fixed_offset(&self) -> Option<i32> {
        Some(3_600)
    }

    fn read_text(&self, column: &Column, text: &str) -> Result<Scalar> {
        match (column.column_type, text) {
            (ColumnType::Other, _) => Ok(Scalar::Bytes(format!("[{text}]").into_bytes())),
            (ColumnType::Date | ColumnType::Timestamp, "epoch") => Ok(Scalar::Int(-10_957)),
            (ColumnType::Numeric { .. }, "inf") => Ok(Scalar::Text("no number".to_owned())),
            _ => IsoForms.read_text(column, text),
        }
    }

    fn read_binary(&self, _column: &Column, bytes: &[u8]) -> Result<Scalar> {
        Ok(Scalar::Bytes([bytes, b"!"].concat()))
    }

    fn write_text(&self, _column: &Column, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(bytes);
        Ok(())
    }

    fn write_binary(&self, _column: &Column, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(bytes);
        Ok(())
    }

    fn offset_at(&self, _moment: i64) -> i32 {
        3_600
    }
}

#[test]
fn data_gives_what_its_examples_show() {
    datadriven::walk("testdata", |file| {
        file.run(|case| {
            let format = match case.directive.as_str() {
                "text" => Format::Text,
                "csv" => Format::Csv,
                "binary" => Format::Binary,
                other => panic!("unknown directive {other}"),
            };
            let options = options(case, format);
            let columns = columns(case);
            let record_bytes_max = case.try_take_arg("record").unwrap().unwrap_or(1 << 30);
            case.expect_empty().unwrap();
            let data = match format {
                Format::Binary => binary(&case.input),
                _ => lines(&case.input),
            };
            let whole = show(&data, &options, &columns, Cuts::none(), record_bytes_max);
            for size in 1..=data.len().max(1) {
                for rows in [1, 2, usize::MAX] {
                    let block_bytes = if rows == 2 { 1 << 20 } else { size };
                    let limits = Limits { block_bytes, record_bytes_max };
                    let cuts = Cuts { piece: size, limits, rows };
                    let got = show(&data, &options, &columns, cuts, record_bytes_max);
                    assert_eq!(got, whole, "{cuts:?} of {:?}", case.input);
                }
            }
            whole
        });
    });
}

/// Returns rows, or the error.
fn show(
    data: &[u8],
    options: &Options,
    columns: &[Column],
    mut cuts: Cuts,
    record_bytes_max: usize,
) -> String {
    cuts.limits.record_bytes_max = record_bytes_max;
    match read(data, options, columns, Arc::new(ExampleForms), cuts) {
        Ok(batches) => {
            let rows = rows(&batches);
            let show = |cell: Option<String>| cell.map_or("NULL".to_owned(), |c| format!("{c:?}"));
            let lines = rows.into_iter().map(|row| {
                let cells: Vec<String> = row.into_iter().map(show).collect();
                cells.join(" ") + "\n"
            });
            let lines: String = lines.collect();
            if lines.is_empty() { "nothing\n".to_owned() } else { lines }
        }
        Err(error) => {
            let mut text = format!("{:?}: {}\n", error.state(), visible(error.message()));
            text += &error.detail().map_or(String::new(), |detail| format!("detail: {detail}\n"));
            text += &error.hint().map_or(String::new(), |hint| format!("hint: {hint}\n"));
            text + &error.context("t").map_or(String::new(), |context| visible(&context) + "\n")
        }
    }
}

/// Shows control characters as the input does, a newline as `␊` and a form feed as `␌`.
fn visible(text: &str) -> String {
    text.replace('\t', "→")
        .replace('\r', "␍")
        .replace('\0', "␀")
        .replace('\n', "␊")
        .replace('\x0c', "␌")
}

fn byte(name: Option<String>, default: u8) -> u8 {
    name.map_or(default, |name| match name.as_str() {
        "pipe" => b'|',
        "semicolon" => b';',
        "single" => b'\'',
        "double" => b'"',
        "backslash" => b'\\',
        "newline" => b'\n',
        other => other.as_bytes()[0],
    })
}

fn options(case: &mut TestCase, format: Format) -> Options {
    let mut options = Options::of_format(format);
    options.delimiter = byte(case.try_take_arg("delimiter").unwrap(), options.delimiter);
    options.quote = byte(case.try_take_arg("quote").unwrap(), options.quote);
    options.escape = byte(case.try_take_arg("escape").unwrap(), options.quote);
    if let Some(null) = case.try_take_arg::<String>("null").unwrap() {
        options.null = if null == "empty" { String::new() } else { null };
    }
    options.header = match case.try_take_arg::<String>("header").unwrap().as_deref() {
        None => Header::None,
        Some("match") => Header::Match,
        Some(_) => Header::Skip,
    };
    options
}

fn columns(case: &mut TestCase) -> Vec<Column> {
    let specs: Vec<String> = case.try_take_args("columns").unwrap().unwrap_or_default();
    let mut columns: Vec<Column> = specs.iter().map(|spec| column(spec)).collect();
    let null: Vec<String> = case.try_take_args("force_null").unwrap().unwrap_or_default();
    let not_null: Vec<String> = case.try_take_args("force_not_null").unwrap().unwrap_or_default();
    for column in &mut columns {
        column.force_null = null.contains(&column.name);
        column.force_not_null = not_null.contains(&column.name);
    }
    columns
}

fn column(spec: &str) -> Column {
    let (name, type_name) = spec.split_once('-').unwrap();
    let mut parts = type_name.split('.');
    let kind = parts.next().unwrap();
    let mut number = || parts.next().unwrap().parse::<u32>().unwrap();
    let column_type = match kind {
        "bool" => ColumnType::Bool,
        "int2" => ColumnType::Int2,
        "int4" => ColumnType::Int4,
        "int8" => ColumnType::Int8,
        "oid" => ColumnType::Oid,
        "float4" => ColumnType::Float4,
        "float8" => ColumnType::Float8,
        "numeric" => ColumnType::Numeric { precision: number() as u8, scale: number() as i8 },
        "text" => ColumnType::Text,
        "varchar" => ColumnType::Varchar(number()),
        "char" => ColumnType::Char(number()),
        "bytea" => ColumnType::Bytea,
        "uuid" => ColumnType::Uuid,
        "date" => ColumnType::Date,
        "time" => ColumnType::Time,
        "timestamp" => ColumnType::Timestamp,
        "timestamptz" => ColumnType::TimestampTz,
        "other" => ColumnType::Other,
        unknown => panic!("unknown type {unknown}"),
    };
    Column::new(name, column_type)
}

/// Returns the data that an input shows.
fn lines(input: &str) -> Vec<u8> {
    let mut data = Vec::new();
    let mut rest = input;
    while let Some(symbol) = rest.chars().next() {
        let len = match rest.as_bytes() {
            [b'<', high, low, b'>', ..] => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap() as u8;
                data.push(digit(high) << 4 | digit(low));
                4
            }
            _ => {
                match symbol {
                    '→' => data.push(b'\t'),
                    '␍' => data.push(b'\r'),
                    '␀' => data.push(0),
                    '∎' => return data,
                    other => data.extend_from_slice(other.to_string().as_bytes()),
                }
                symbol.len_utf8()
            }
        };
        rest = &rest[len..];
    }
    data
}

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b' ').collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Returns the binary data that an input describes.
fn binary(input: &str) -> Vec<u8> {
    let mut data = Vec::new();
    let field = |data: &mut Vec<u8>, bytes: &[u8]| {
        data.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
        data.extend_from_slice(bytes);
    };
    for line in input.lines() {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "signature" => {
                data.extend_from_slice(b"PGCOPY\n\xff\r\n\0");
                data.extend_from_slice(&[0; 8]);
            }
            "row" => data.extend_from_slice(&rest.parse::<i16>().unwrap().to_be_bytes()),
            "null" => data.extend_from_slice(&(-1_i32).to_be_bytes()),
            "text" => field(&mut data, rest.as_bytes()),
            "bytes" => field(&mut data, &hex(rest)),
            "raw" => data.extend_from_slice(&hex(rest)),
            "end" => data.extend_from_slice(&[0xff, 0xff]),
            unknown => panic!("unknown line {unknown}"),
        }
    }
    data
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let text = || Options::of_format(Format::Text);
    let csv = || Options::of_format(Format::Csv);
    for (options, state) in [
        (Options { delimiter: b'\n', ..text() }, "22023"),
        (Options { delimiter: b'a', ..text() }, "22023"),
        (Options { delimiter: b'\\', ..text() }, "22023"),
        (Options { delimiter: 0xe9, ..text() }, "0A000"),
        (Options { null: "a\tb".to_owned(), ..text() }, "0A000"),
        (Options { null: "a,b".to_owned(), ..csv() }, "0A000"),
        (Options { null: "a\nb".to_owned(), ..csv() }, "22023"),
        (Options { quote: b',', ..csv() }, "22023"),
        (Options { null: "\"".to_owned(), ..csv() }, "0A000"),
        (Options { escape: b'\r', ..csv() }, "22023"),
        (Options { header: Header::Skip, ..Options::of_format(Format::Binary) }, "0A000"),
    ] {
        let error = options.check().unwrap_err();
        assert_eq!(error.state().as_str(), state, "{options:?}");
    }
    assert_eq!(Options { delimiter: b'a', ..csv() }.check(), Ok(()));
}
