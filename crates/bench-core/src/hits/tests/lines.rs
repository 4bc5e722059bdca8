//! Lines of text: the same bytes by any ranges, as many values as columns, and values that parse.

use super::super::{COLUMNS, ColumnType, Hits, Row, SORT_KEY, TextForm, Value, create_table};
use super::{at, number, text};
use std::ops::Range;

const ROWS: u64 = 3_000;

fn written(hits: &Hits, form: TextForm, range: Range<u64>) -> String {
    let mut out = Vec::new();
    hits.write(form, range, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// An output that takes nothing.
struct Full;

impl std::io::Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// FNV-1a of 64 bits, by Fowler, Noll and Vo.
fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[test]
fn rows_never_change() {
    let hits = Hits::new(1, 1_000);
    let hashes =
        [TextForm::Tsv, TextForm::Csv].map(|form| fnv(written(&hits, form, 0..100).as_bytes()));
    let known = [0x4a40_fecb_3e54_ccf8, 0xd218_0b3c_3555_0650];
    assert_eq!(hashes, known, "the first 100 rows: {hashes:#x?}");
}

#[test]
fn bytes_do_not_depend_on_ranges() {
    for (seed, form) in [(1, TextForm::Tsv), (99, TextForm::Csv)] {
        let hits = Hits::new(seed, ROWS);
        let whole = written(&hits, form, 0..ROWS);
        for cut in [1, 7, 1_000] {
            // From the last range to the first, so that nothing can follow from the row before.
            let starts: Vec<u64> = (0..ROWS).step_by(cut).collect();
            let end = |start: u64| ROWS.min(start + cut as u64);
            let ranges = starts.iter().rev().map(|start| *start..end(*start));
            let mut parts: Vec<String> = ranges.map(|range| written(&hits, form, range)).collect();
            parts.reverse();
            assert!(parts.concat() == whole, "seed {seed}, {form:?}, ranges of {cut} rows");
        }
        let again = written(&Hits::new(seed, ROWS), form, 500..600);
        let lines = whole.split_inclusive('\n').skip(500).take(100).collect::<String>();
        // Some titles have a line feed, which CSV does not escape.
        assert!(again == lines || form == TextForm::Csv, "seed {seed}, {form:?}");
        assert!(whole.contains(&again), "seed {seed}, {form:?}");
    }
}

#[test]
fn bytes_do_not_depend_on_threads() {
    // Three blocks, of which the last is not full.
    let hits = Hits::new(4, 9_000);
    let whole = written(&hits, TextForm::Tsv, 0..9_000);
    for threads in [0, 1, 2, 3, 5] {
        let mut out = Vec::new();
        hits.write_all(TextForm::Tsv, threads, &mut out).unwrap();
        assert!(out == whole.as_bytes(), "{threads} threads");
    }
    assert!(hits.write_all(TextForm::Tsv, 2, Full).is_err(), "the threads end at an error");
}

#[test]
fn seeds_and_only_times_depend_on_the_number_of_rows() {
    let (few, many) = (Hits::new(1, ROWS), Hits::new(1, 10 * ROWS));
    assert_ne!(
        written(&few, TextForm::Tsv, 0..9),
        written(&Hits::new(2, ROWS), TextForm::Tsv, 0..9)
    );
    let (mut left, mut right) = (Row::default(), Row::default());
    for row in (0..ROWS).step_by(100) {
        few.fill(row, &mut left);
        many.fill(row, &mut right);
        for (column, (left, right)) in COLUMNS.iter().zip(left.values().zip(right.values())) {
            let time = matches!(column.column_type, ColumnType::Date | ColumnType::Timestamp);
            assert!(time || left == right, "row {row}, {}: {left:?}, {right:?}", column.name);
        }
    }
}

#[test]
fn lines_have_105_values_that_parse_to_those_of_the_row() {
    assert_eq!(COLUMNS.len(), 105);
    let hits = Hits::new(3, ROWS);
    let mut row = Row::default();
    let mut escaped = 0;
    for number in 0..ROWS {
        hits.fill(number, &mut row);
        let line = written(&hits, TextForm::Tsv, number..number + 1);
        let values: Vec<&str> = line.strip_suffix('\n').unwrap().split('\t').collect();
        assert_eq!((values.len(), line.lines().count()), (105, 1), "{line}");
        escaped += usize::from(line.contains('\\'));
        for ((column, written), value) in COLUMNS.iter().zip(values).zip(row.values()) {
            check(column.column_type, &unescape(written), value)
                .unwrap_or_else(|| panic!("row {number}, {}: {written:?}", column.name));
        }
        let fields = csv_fields(&written(&hits, TextForm::Csv, number..number + 1));
        let unescaped: Vec<String> =
            line.trim_end_matches('\n').split('\t').map(unescape).collect();
        assert_eq!(fields, unescaped, "row {number} as CSV");
    }
    assert!(escaped > 5, "{escaped} lines with an escape");
}

/// Returns something if `written` is the form of `value`, and both have the type.
fn check(column_type: ColumnType, written: &str, value: Value<'_>) -> Option<()> {
    let same = match (column_type, value) {
        (ColumnType::SmallInt, Value::SmallInt(value)) => written.parse() == Ok(value),
        (ColumnType::Integer, Value::Integer(value)) => written.parse() == Ok(value),
        (ColumnType::BigInt, Value::BigInt(value)) => written.parse() == Ok(value),
        (ColumnType::Date, Value::Date(days)) => july(written)? == i64::from(days) * 86_400,
        (ColumnType::Timestamp, Value::Timestamp(seconds)) => july(written)? == seconds,
        (ColumnType::Char, Value::Text(text)) => written == text && text.chars().count() == 1,
        (ColumnType::VarChar, Value::Text(text)) => written == text && text.chars().count() <= 255,
        (ColumnType::Text, Value::Text(text)) => written == text && text.len() < 2_000,
        _ => false,
    };
    same.then_some(())
}

/// Returns the seconds since 1970 of a day or time of summer 2013.
fn july(written: &str) -> Option<i64> {
    if ![10, 19].contains(&written.len()) {
        return None;
    }
    let (date, time) = written.split_once(' ').unwrap_or((written, "00:00:00"));
    let numbers: Vec<i64> = date
        .split('-')
        .chain(time.split(':'))
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let [2013, month @ 6..=8, day @ 1..=31, hour @ 0..24, minute @ 0..60, second @ 0..60] =
        numbers[..]
    else {
        return None;
    };
    let days = 15_887 + [-30, 0, 31][usize::try_from(month - 6).ok()?] + day - 1;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

fn unescape(written: &str) -> String {
    let mut out = String::new();
    let mut chars = written.chars();
    while let Some(char) = chars.next() {
        out.push(match char {
            '\\' => match chars.next().expect("a sign after the backslash") {
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                other => other,
            },
            other => other,
        });
    }
    out
}

/// Reads a line of CSV. Numbers and times have no quotes, all text has them.
fn csv_fields(line: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut rest = line.strip_suffix('\n').unwrap();
    loop {
        let mut field = String::new();
        if let Some(mut quoted) = rest.strip_prefix('"') {
            loop {
                let (part, after) = quoted.split_once('"').expect("a quote at the end");
                field.push_str(part);
                let Some(more) = after.strip_prefix('"') else {
                    rest = after;
                    break;
                };
                field.push('"');
                quoted = more;
            }
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            assert!(end > 0, "an empty value without quotes would be NULL: {line}");
            field.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        fields.push(field);
        if rest.is_empty() {
            return fields;
        }
        rest = rest.strip_prefix(',').expect("a comma behind a value");
    }
}

#[test]
fn columns_that_follow_from_others_agree_with_them() {
    let hits = Hits::new(5, ROWS);
    let columns = ["EventTime", "EventDate", "URLHash", "RefererHash", "CounterID", "PageCharset"];
    let [time, date, url_hash, referer_hash, counter, charset] = columns.map(at);
    let (url, referer, title) = (at("URL"), at("Referer"), at("Title"));
    let mut last = 0;
    let mut hashes = std::collections::HashMap::new();
    let mut titles = std::collections::HashMap::new();
    let each = |row: &Row| {
        assert!(number(row, time) >= last, "rows come in the order of their times");
        last = number(row, time);
        assert_eq!(last.div_euclid(86_400), number(row, date));
        for (address, hash) in [(url, url_hash), (referer, referer_hash)] {
            let (address, hash) = (text(row, address).to_owned(), number(row, hash));
            assert_eq!(hash == 0, address.is_empty());
            assert_eq!(*hashes.entry(address.clone()).or_insert(hash), hash, "{address}");
        }
        // A page has one title.
        if let Some((page, _)) = text(row, url).split_once("?page=") {
            let title = text(row, title).to_owned();
            assert_eq!(*titles.entry(page.to_owned()).or_insert(title.clone()), title, "{page}");
        }
        let set = text(row, charset).to_owned();
        let key = number(row, counter).to_string();
        assert_eq!(*titles.entry(key).or_insert(set.clone()), set, "a site has one charset");
        Ok::<_, ()>(())
    };
    hits.visit(0..ROWS, each).unwrap();
    let different: std::collections::HashSet<_> = hashes.values().collect();
    assert_eq!(different.len(), hashes.len(), "different addresses have different hashes");
}

#[test]
fn the_statement_names_each_column_once() {
    let statement = create_table("public.hits");
    assert!(statement.starts_with("CREATE TABLE public.hits (\n    WatchID BIGINT NOT NULL,\n"));
    assert!(statement.ends_with("    CLID INTEGER NOT NULL\n);"), "{statement}");
    assert_eq!(statement.matches(" NOT NULL").count(), 105);
    assert!(
        statement.contains("    UserAgentMinor VARCHAR(255) NOT NULL,\n    CookieEnable SMALLINT")
    );
    let names: std::collections::HashSet<String> =
        COLUMNS.iter().map(|column| column.name.to_lowercase()).collect();
    assert_eq!(names.len(), 105);
    SORT_KEY.iter().for_each(|name| assert!(at(name) < 105));
}

#[test]
fn no_row_is_past_the_end() {
    let hits = Hits::new(1, 2);
    assert_eq!((hits.rows(), written(&hits, TextForm::Tsv, 2..2).len()), (2, 0));
    assert_eq!(written(&Hits::new(1, 0), TextForm::Csv, 0..0), "");
    let past = std::panic::catch_unwind(|| hits.fill(2, &mut Row::default()));
    assert!(past.is_err(), "row 2 of two rows");
}

#[test]
fn an_error_of_the_output_ends_the_rows() {
    let error = Hits::new(1, ROWS).write_tsv(0..ROWS, Full).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!(Hits::new(1, 1).write_csv(0..1, Full).is_err(), "also at the end");
}
