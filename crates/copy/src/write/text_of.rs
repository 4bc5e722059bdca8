//! Texts of values, as PostgreSQL 15 prints them in the ISO date style.
//!
//! Floating point differs where the shortest text lies half-way between two numbers, as `1e+23` does:
//! PostgreSQL prints a longer text between them, `9.999999999999999e+22`. Both texts are read as the same
//! number.

use crate::values::{DAY, HOUR, MINUTE, SECOND, civil_from_days, power_of_ten};

/// Appends the text of an integer.
pub(super) fn put_integer(value: i64, out: &mut Vec<u8>) {
    if let digit @ 0..10 = value {
        out.push(b'0' + digit as u8);
        return;
    }
    if value < 0 {
        out.push(b'-');
    }
    put_unsigned(value.unsigned_abs().into(), 1, out);
}

/// Appends a number with at least so many digits, up to 39.
fn put_unsigned(mut value: u128, digits_min: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 40];
    let mut at = digits.len();
    if let Ok(mut small) = u64::try_from(value) {
        while small > 0 {
            at -= 1;
            digits[at] = b'0' + (small % 10) as u8;
            small /= 10;
        }
    } else {
        while value > 0 {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
        }
    }
    out.extend_from_slice(&digits[at.min(digits.len() - digits_min)..]);
}

/// Appends a decimal number of a scale.
pub(super) fn put_decimal(number: i128, scale: i8, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    let magnitude = number.unsigned_abs();
    let places = u32::from(scale.unsigned_abs());
    if scale <= 0 {
        put_unsigned(magnitude, 1, out);
        if magnitude > 0 {
            out.extend(std::iter::repeat_n(b'0', places as usize));
        }
        return;
    }
    let one = power_of_ten(places).unsigned_abs();
    put_unsigned(magnitude / one, 1, out);
    out.push(b'.');
    put_unsigned(magnitude % one, places as usize, out);
}

/// Appends a number of 64 bits with the fewest digits that tell it.
pub(super) fn put_float8(value: f64, out: &mut Vec<u8>) {
    put_float(value, &format!("{value:e}"), 15, out);
}

/// Appends a number of 32 bits with the fewest digits that tell it.
pub(super) fn put_float4(value: f32, out: &mut Vec<u8>) {
    put_float(value.into(), &format!("{value:e}"), 6, out);
}

/// Appends digits in plain form if the exponent lies in `-4..digits_max`, else with an exponent.
fn put_float(value: f64, scientific: &str, digits_max: i32, out: &mut Vec<u8>) {
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
        return;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if value.is_infinite() {
        out.extend_from_slice(b"Infinity");
        return;
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = || mantissa.bytes().filter(u8::is_ascii_digit);
    if !(-4..digits_max).contains(&exponent) {
        out.extend(mantissa.bytes().filter(|byte| *byte != b'-'));
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        put_unsigned(exponent.unsigned_abs().into(), 2, out);
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        out.extend(digits());
    } else {
        let whole = exponent as usize + 1;
        let zeros = whole.saturating_sub(digits().count());
        out.extend(digits().take(whole));
        out.extend(std::iter::repeat_n(b'0', zeros));
        if digits().count() > whole {
            out.push(b'.');
            out.extend(digits().skip(whole));
        }
    }
}

/// Appends a date of days since 2000-01-01.
pub(super) fn put_date(days: i32, out: &mut Vec<u8>) {
    match days {
        i32::MIN => out.extend_from_slice(b"-infinity"),
        i32::MAX => out.extend_from_slice(b"infinity"),
        days => {
            let is_before_christ = put_civil(days.into(), out);
            put_era(is_before_christ, out);
        }
    }
}

/// Appends year, month and day. Returns whether the year is before the first.
fn put_civil(days: i64, out: &mut Vec<u8>) -> bool {
    let (year, month, day) = civil_from_days(days);
    let is_before_christ = year <= 0;
    let shown = if is_before_christ { 1 - year } else { year };
    put_unsigned(shown.unsigned_abs().into(), 4, out);
    out.push(b'-');
    put_unsigned(month.into(), 2, out);
    out.push(b'-');
    put_unsigned(day.into(), 2, out);
    is_before_christ
}

fn put_era(is_before_christ: bool, out: &mut Vec<u8>) {
    if is_before_christ {
        out.extend_from_slice(b" BC");
    }
}

/// Appends a time of day in microseconds.
pub(super) fn put_time(micros: i64, out: &mut Vec<u8>) {
    let parts = [micros / HOUR, micros / MINUTE % 60, micros / SECOND % 60];
    for (number, part) in parts.into_iter().enumerate() {
        if number > 0 {
            out.push(b':');
        }
        put_unsigned(part.unsigned_abs().into(), 2, out);
    }
    let fraction = micros % SECOND;
    if fraction != 0 {
        out.push(b'.');
        put_unsigned(fraction.unsigned_abs().into(), 6, out);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// Appends a moment of microseconds since 2000-01-01, with an offset in seconds if it has one.
pub(super) fn put_moment(micros: i64, offset: Option<i32>, out: &mut Vec<u8>) {
    match micros {
        i64::MIN => return out.extend_from_slice(b"-infinity"),
        i64::MAX => return out.extend_from_slice(b"infinity"),
        _ => {}
    }
    let local = micros.saturating_add(i64::from(offset.unwrap_or(0)) * SECOND);
    let is_before_christ = put_civil(local.div_euclid(DAY), out);
    out.push(b' ');
    put_time(local.rem_euclid(DAY), out);
    if let Some(offset) = offset {
        put_offset(offset, out);
    }
    put_era(is_before_christ, out);
}

/// Appends an offset as `+hh`, `+hh:mm` or `+hh:mm:ss`.
fn put_offset(offset: i32, out: &mut Vec<u8>) {
    out.push(if offset < 0 { b'-' } else { b'+' });
    let seconds = offset.unsigned_abs();
    put_unsigned((seconds / 3_600).into(), 2, out);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    if minutes != 0 || seconds != 0 {
        out.push(b':');
        put_unsigned(minutes.into(), 2, out);
    }
    if seconds != 0 {
        out.push(b':');
        put_unsigned(seconds.into(), 2, out);
    }
}

fn put_hex(byte: u8, out: &mut Vec<u8>) {
    let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
    out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
}

/// Appends bytes in the form `\x0a1b`.
pub(super) fn put_bytea(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\x");
    bytes.iter().for_each(|byte| put_hex(*byte, out));
}

/// Appends a UUID with hyphens.
pub(super) fn put_uuid(bytes: &[u8], out: &mut Vec<u8>) {
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        put_hex(*byte, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(put: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        put(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_printed_as_postgresql_prints_them() {
        for (value, want) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (-123_456.789, "-123456.789"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (0.000_1, "0.0001"),
            (0.000_01, "1e-05"),
            (1.5e300, "1.5e+300"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(|out| put_float8(value, out)), want);
        }
        // PostgreSQL prints another text of the same number, since this one lies half-way to the next.
        assert_eq!(text(|out| put_float8(1e23, out)), "1e+23");
        assert_eq!("9.999999999999999e+22".parse(), Ok(1e23));
        assert_eq!(text(|out| put_float4(1e6, out)), "1e+06");
        assert_eq!(text(|out| put_integer(i64::MIN, out)), i64::MIN.to_string());
        for (number, scale, want) in
            [(-5, 2, "-0.05"), (0, 2, "0.00"), (12, -2, "1200"), (0, -2, "0"), (7, 0, "7")]
        {
            assert_eq!(text(|out| put_decimal(number, scale, out)), want);
        }
    }

    #[test]
    fn moments_are_printed_as_postgresql_prints_them() {
        assert_eq!(text(|out| put_date(-730_120, out)), "0001-12-31 BC");
        assert_eq!(text(|out| put_date(i32::MAX, out)), "infinity");
        assert_eq!(text(|out| put_time(DAY, out)), "24:00:00");
        assert_eq!(text(|out| put_moment(-1, None, out)), "1999-12-31 23:59:59.999999");
        assert_eq!(text(|out| put_moment(500_000, Some(0), out)), "2000-01-01 00:00:00.5+00");
        let offset = Some(-19_800 - 30);
        assert_eq!(text(|out| put_moment(0, offset, out)), "1999-12-31 18:29:30-05:30:30");
    }
}
