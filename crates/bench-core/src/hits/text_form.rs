//! Rows as text: the text form of PostgreSQL's COPY, and CSV as COPY reads it.
//!
//! 1. A row is one line that ends in `\n`. In the text form no value has a bare tab or line feed.
//! 2. Text is always in quotes in CSV, since PostgreSQL reads an empty value without them as NULL.

use super::row::{Row, Value};

/// The text form of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// Values between tabs; tabs, line feeds and backslashes of text are escaped by a backslash.
    Tsv,
    /// Values between commas; text in double quotes, and a quote within it twice.
    Csv,
}

/// Appends `row` as a line.
pub(super) fn append_row(form: TextForm, row: &Row, out: &mut Vec<u8>) {
    let (separator, append_text): (u8, fn(&str, &mut Vec<u8>)) = match form {
        TextForm::Tsv => (b'\t', append_escaped),
        TextForm::Csv => (b',', append_quoted),
    };
    for (index, value) in row.values().enumerate() {
        if index > 0 {
            out.push(separator);
        }
        match value {
            Value::SmallInt(value) => append_integer(value.into(), out),
            Value::Integer(value) => append_integer(value.into(), out),
            Value::BigInt(value) => append_integer(value, out),
            Value::Date(days) => append_date(days.into(), out),
            Value::Timestamp(seconds) => append_timestamp(seconds, out),
            Value::Text(text) => append_text(text, out),
        }
    }
    out.push(b'\n');
}

fn append_escaped(text: &str, out: &mut Vec<u8>) {
    if !text.bytes().any(|byte| byte < b' ' || byte == b'\\') {
        return out.extend_from_slice(text.as_bytes());
    }
    for byte in text.bytes() {
        match byte {
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            byte => out.push(byte),
        }
    }
}

fn append_quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for (index, part) in text.split('"').enumerate() {
        if index > 0 {
            out.extend_from_slice(b"\"\"");
        }
        out.extend_from_slice(part.as_bytes());
    }
    out.push(b'"');
}

fn append_integer(value: i64, out: &mut Vec<u8>) {
    if (0..10).contains(&value) {
        return out.push(b'0' + value as u8);
    }
    if value < 0 {
        out.push(b'-');
    }
    append_digits(value.unsigned_abs(), out);
}

fn append_digits(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn append_timestamp(seconds: i64, out: &mut Vec<u8>) {
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    append_date(day, out);
    for (sign, part) in [(b' ', second / 3600), (b':', second / 60 % 60), (b':', second % 60)] {
        out.push(sign);
        append_two_digits(part, out);
    }
}

fn append_date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(days);
    append_two_digits(year / 100, out);
    append_two_digits(year % 100, out);
    out.push(b'-');
    append_two_digits(month, out);
    out.push(b'-');
    append_two_digits(day, out);
}

fn append_two_digits(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
}

/// Returns year, month and day of a number of days since 1970-01-01, by the algorithm
/// `civil_from_days` of Howard Hinnant (2013). Years begin in March there, so that the leap day is
/// the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(append: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        append(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_and_times_have_the_form_of_sql() {
        for value in [0, 9, 10, -1, 1_000, i64::MAX, i64::MIN] {
            assert_eq!(written(|out| append_integer(value, out)), value.to_string());
        }
        for (seconds, want) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_372_636_800, "2013-07-01 00:00:00"),
            (1_388_534_399, "2013-12-31 23:59:59"),
        ] {
            assert_eq!(written(|out| append_timestamp(seconds, out)), want);
        }
    }

    #[test]
    fn text_is_escaped_or_quoted() {
        for (text, tsv, csv) in [
            ("", "", r#""""#),
            ("слово, два", "слово, два", r#""слово, два""#),
            ("a\tb\\c\r\n", r"a\tb\\c\r\n", "\"a\tb\\c\r\n\""),
            (r#"say "da""#, r#"say "da""#, r#""say ""da""""#),
        ] {
            assert_eq!(written(|out| append_escaped(text, out)), tsv);
            assert_eq!(written(|out| append_quoted(text, out)), csv);
        }
    }
}
