//! Random values in random spellings are read as what they are.

use crate::reading::{Cuts, read, rows};
use copy::{Column, ColumnType, Format, IsoForms, Limits, Options};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// Returns a value of a column as it is spelled, and as it is shown once it is read.
fn random_value(random: &mut StdRng, column_type: ColumnType) -> (String, String) {
    match column_type {
        ColumnType::Int2 => same(random.random::<i16>() >> random.random_range(0..16)),
        ColumnType::Int4 => same(random.random::<i32>() >> random.random_range(0..32)),
        ColumnType::Int8 => same(random.random::<i64>() >> random.random_range(0..64)),
        ColumnType::Float8 => same(random.random_range(-1_000..1_000) as f64 / 8.0),
        ColumnType::Bool => same(random.random::<bool>()),
        ColumnType::Numeric { scale, .. } => {
            let number = random.random::<i32>();
            let sign = if number < 0 { "-" } else { "" };
            let size = number.unsigned_abs();
            let text = format!("{sign}{}.{:02}", size / 100, size % 100);
            (text, format!("{number}/10^{scale}"))
        }
        ColumnType::Date => {
            let day = random.random_range(1..=28);
            (format!("2000-01-{day:02}"), (day - 1).to_string())
        }
        ColumnType::Timestamp => {
            let (seconds, micros) = (random.random_range(0..60), random.random_range(0..1_000_000));
            let text = format!("2000-01-01 00:00:{seconds:02}.{micros:06}");
            (text, (seconds * 1_000_000 + micros).to_string())
        }
        _ => {
            let letters: Vec<char> = "ab ,;\t\"\\'\n\réЖ€x1N.".chars().collect();
            let len = random.random_range(0..12);
            let text = (0..len).map(|_| letters[random.random_range(0..letters.len())]).collect();
            same::<String>(text)
        }
    }
}

fn same<T: ToString>(value: T) -> (String, String) {
    (value.to_string(), value.to_string())
}

/// Spells a value for text: some bytes are escaped that need not be. A character is escaped as a whole,
/// since the data is UTF-8 before escapes are read.
fn escape(random: &mut StdRng, value: &str, out: &mut Vec<u8>) {
    for symbol in value.chars() {
        if !symbol.is_ascii() {
            let is_escaped = random.random_bool(0.2);
            symbol.to_string().bytes().for_each(|byte| match is_escaped {
                true => out.extend_from_slice(format!("\\{byte:o}").as_bytes()),
                false => out.push(byte),
            });
            continue;
        }
        let byte = symbol as u8;
        let letter = b"\x08\x0c\n\r\t\x0b".iter().position(|special| *special == byte);
        let must = letter.is_some() || byte == b'\\';
        match random.random_range(0..if must { 4 } else { 40 }) {
            0 => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            1 => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            // A letter or a digit behind a backslash would mean something else.
            2 if !byte.is_ascii_alphanumeric() && byte != b'.' => {
                out.extend_from_slice(&[b'\\', byte])
            }
            _ if must => {
                let letter = letter.map_or(b'\\', |at| b"bfnrtv"[at]);
                out.extend_from_slice(&[b'\\', letter]);
            }
            _ => out.push(byte),
        }
    }
}

/// Spells a value for CSV: parts of it are quoted that need not be.
fn quote(random: &mut StdRng, value: &str, out: &mut Vec<u8>) {
    let is_special = |symbol| matches!(symbol, ',' | '"' | '\n' | '\r');
    let mut is_inside = value.is_empty() || value.starts_with("\\.") || random.random();
    if is_inside {
        out.push(b'"');
    }
    for symbol in value.chars() {
        let stays = random.random_bool(if is_inside { 0.95 } else { 0.02 });
        if is_inside != (is_special(symbol) || stays) {
            is_inside = !is_inside;
            out.push(b'"');
        }
        if symbol == '"' {
            out.push(b'"');
        }
        out.extend_from_slice(symbol.to_string().as_bytes());
    }
    if is_inside {
        out.push(b'"');
    }
}

#[test]
fn spellings_do_not_change_values() {
    let types = [
        ColumnType::Int2,
        ColumnType::Text,
        ColumnType::Int4,
        ColumnType::Int8,
        ColumnType::Numeric { precision: 12, scale: 2 },
        ColumnType::Date,
        ColumnType::Float8,
        ColumnType::Bool,
        ColumnType::Timestamp,
    ];
    for seed in 0..600 {
        let random = &mut StdRng::seed_from_u64(seed);
        let format = if random.random() { Format::Text } else { Format::Csv };
        let options = Options::of_format(format);
        let count = random.random_range(1..=12);
        let columns: Vec<Column> = (0..count)
            .map(|at| Column::new(format!("c{at}"), types[random.random_range(0..types.len())]))
            .collect();
        let line_end: &[u8] = [&b"\n"[..], b"\r\n", b"\r"][random.random_range(0..3)];
        let (mut data, mut want) = (Vec::new(), Vec::new());
        for _ in 0..random.random_range(1..40) {
            let mut row = Vec::new();
            for (number, column) in columns.iter().enumerate() {
                if number > 0 {
                    data.push(options.delimiter);
                }
                if random.random_bool(0.1) {
                    data.extend_from_slice(options.null.as_bytes());
                    row.push(None);
                    continue;
                }
                let (text, value) = random_value(random, column.column_type);
                match format {
                    Format::Csv => quote(random, &text, &mut data),
                    _ => escape(random, &text, &mut data),
                }
                row.push(Some(value));
            }
            data.extend_from_slice(line_end);
            want.push(row);
        }
        // Without its line end, a last record needs a byte.
        let rest = data.len() - line_end.len();
        if random.random() && rest > 0 && !data[..rest].ends_with(line_end) {
            data.truncate(rest);
        }
        let limits = Limits { block_bytes: random.random_range(1..300), ..Limits::default() };
        let cuts = Cuts { piece: random.random_range(1..90), limits, rows: usize::MAX };
        for cuts in [Cuts::none(), cuts, Cuts { rows: random.random_range(1..9), ..cuts }] {
            let got = read(&data, &options, &columns, Arc::new(IsoForms), cuts);
            let text = String::from_utf8_lossy(&data);
            let got = got.unwrap_or_else(|error| panic!("seed {seed}: {error:?} of {text:?}"));
            assert_eq!(rows(&got), want, "seed {seed}: {cuts:?} of {text:?}");
        }
    }
}
