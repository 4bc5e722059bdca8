//! Dates and times in ISO form: `2013-07-15`, `12:34:56.789`, and both with a blank or a `T` between.

use super::civil::{DAY, HOUR, MINUTE, SECOND, days_of};
use super::integer::{digit_count, digits_value};
use super::word;

/// Digits must be where the dashes of `YYYY-MM-` or the colons of `hh:mm:ss` are not.
const DATE_SHAPE: u64 = u64::from_le_bytes(*b"0000-00-");
const CLOCK_SHAPE: u64 = u64::from_le_bytes(*b"00:00:00");
/// Length of a date in the form `YYYY-MM-DD`.
const DATE_BYTES: usize = 10;
const DATE_MARKS: u64 = 0xff00_00ff_0000_0000;
const CLOCK_MARKS: u64 = 0x0000_ff00_00ff_0000;

/// Returns the bytes as digits if they have a shape: marks become zero.
#[inline(always)]
fn shaped(bytes: &[u8], at: usize, shape: u64, marks: u64) -> Option<[u8; 8]> {
    let digits = word(bytes, at)? ^ shape;
    let above_nine = ((digits & 0x7f7f_7f7f_7f7f_7f7f) + 0x7676_7676_7676_7676) | digits;
    let is_shaped = (above_nine & 0x8080_8080_8080_8080) | (digits & marks) == 0;
    is_shaped.then(|| digits.to_le_bytes())
}

#[inline(always)]
fn pair(tens: u8, ones: u8) -> u32 {
    u32::from(tens) * 10 + u32::from(ones)
}

/// Reads a date of the years 1 to 9999. Returns its days since 2000-01-01 and the place behind it.
#[inline(always)]
pub(crate) fn leading_date(bytes: &[u8], at: usize) -> Option<(i32, usize)> {
    let d = shaped(bytes, at, DATE_SHAPE, DATE_MARKS)?;
    let &[tens, ones] = bytes.get(at + 8..)?.first_chunk()?;
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    if tens > 9 || ones > 9 {
        return None;
    }
    let year = pair(d[0], d[1]) * 100 + pair(d[2], d[3]);
    Some((days_of(year, pair(d[5], d[6]), pair(tens, ones))?, at + DATE_BYTES))
}

/// Reads a time of day below 24:00, with at most six digits behind the point. Returns its microseconds
/// and the place behind it.
#[inline(always)]
pub(crate) fn leading_time(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let d = shaped(bytes, at, CLOCK_SHAPE, CLOCK_MARKS)?;
    let (hours, minutes, seconds) = (pair(d[0], d[1]), pair(d[3], d[4]), pair(d[6], d[7]));
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let micros =
        i64::from(hours) * HOUR + i64::from(minutes) * MINUTE + i64::from(seconds) * SECOND;
    if bytes.get(at + 8) != Some(&b'.') {
        return Some((micros, at + 8));
    }
    let digits = word(bytes, at + 9)?;
    let count = digit_count(digits);
    if !(1..=6).contains(&count) {
        return None;
    }
    const POWERS: [i64; 7] = [0, 100_000, 10_000, 1_000, 100, 10, 1];
    Some((micros + digits_value(digits, count) as i64 * POWERS[count], at + 9 + count))
}

/// Reads a date, or a date and a time. Returns microseconds since 2000-01-01 and the place behind them.
#[inline(always)]
pub(crate) fn leading_timestamp(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let (days, end) = leading_date(bytes, at)?;
    let midnight = i64::from(days) * DAY;
    if !matches!(bytes.get(end), Some(b' ' | b'T')) {
        return Some((midnight, end));
    }
    let (micros, end) = leading_time(bytes, end + 1)?;
    Some((midnight + micros, end))
}

/// Reads a timestamp and an offset: `Z`, `+hh`, `+hh:mm`, or none if the session's zone has a fixed one. A
/// date alone is followed by no `-hh`, which would look like more of the date.
#[inline(always)]
pub(crate) fn leading_timestamptz(
    bytes: &[u8],
    at: usize,
    fixed_offset: Option<i32>,
) -> Option<(i64, usize)> {
    let (local, end) = leading_timestamp(bytes, at)?;
    let has_time = end > at + DATE_BYTES;
    let (offset, end) = match bytes.get(end)? {
        b'-' if !has_time => return None,
        b'Z' => (0, end + 1),
        sign @ (b'+' | b'-') => {
            let (seconds, end) = offset(bytes, end + 1)?;
            (if *sign == b'-' { -seconds } else { seconds }, end)
        }
        _ => (i64::from(fixed_offset?), end),
    };
    Some((local - offset * SECOND, end))
}

/// Reads `hh` or `hh:mm` up to 15:59. Returns seconds and the place behind it.
fn offset(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let two = |at: usize| {
        let &[tens, ones] = bytes.get(at..)?.first_chunk()?;
        let is_number = tens.is_ascii_digit() && ones.is_ascii_digit();
        is_number.then(|| i64::from(pair(tens - b'0', ones - b'0')))
    };
    let hours = two(at).filter(|hours| *hours < 16)?;
    if bytes.get(at + 2) != Some(&b':') {
        return Some((hours * 3_600, at + 2));
    }
    let minutes = two(at + 3).filter(|minutes| *minutes < 60)?;
    Some((hours * 3_600 + minutes * 60, at + 5))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole<T>(text: &str, leading: impl Fn(&[u8], usize) -> Option<(T, usize)>) -> Option<T> {
        let bytes = [b"..", text.as_bytes(), b"\t", &[0; 32]].concat();
        leading(&bytes, 2).filter(|(_, end)| *end == text.len() + 2).map(|(value, _)| value)
    }

    #[test]
    fn iso_forms_are_read() {
        assert_eq!(whole("2000-01-02", leading_date), Some(1));
        assert_eq!(whole("0001-01-01", leading_date), Some(-730_119));
        assert_eq!(whole("00:00:01.5", leading_time), Some(1_500_000));
        assert_eq!(whole("23:59:59.999999", leading_time), Some(DAY - 1));
        assert_eq!(whole("2000-01-01", leading_timestamp), Some(0));
        assert_eq!(whole("2000-01-01T00:00:00.000001", leading_timestamp), Some(1));
        let zoned = |text| whole(text, |bytes, at| leading_timestamptz(bytes, at, Some(3_600)));
        assert_eq!(zoned("2000-01-01 01:00:00"), Some(0));
        assert_eq!(zoned("2000-01-01 00:00:00Z"), Some(0));
        assert_eq!(zoned("2000-01-01 05:30:00+05:30"), Some(0));
        assert_eq!(zoned("1999-12-31 16:00:00-08"), Some(0));
    }

    #[test]
    fn other_forms_are_left() {
        let dates =
            ["2000-1-1", "2000-02-30", "0000-01-01", "20000101", "2000/01/01", "Jan 1 2000", ""];
        for text in dates {
            assert_eq!(whole(text, leading_date), None, "{text}");
        }
        for text in ["24:00:00", "1:00:00", "10:60:00", "10:00:60", "10:00:00.1234567", "10:00"] {
            assert_eq!(whole(text, leading_time), None, "{text}");
        }
        for text in ["2000-01-01 ", "2000-01-01 10:00", "2000-01-01 10:00:00 BC", "infinity"] {
            assert_eq!(whole(text, leading_timestamp), None, "{text}");
        }
        let zoned = |text| whole(text, |bytes, at| leading_timestamptz(bytes, at, None));
        for text in ["2000-01-01 01:00:00", "2000-01-01 01:00:00+0530", "2000-01-01 00:00:00 UTC"] {
            assert_eq!(zoned(text), None, "{text}");
        }
        assert_eq!(zoned("2000-01-01+05"), Some(-5 * HOUR));
        for text in ["2000-01-01-05", "2000-01-01-05:30"] {
            assert_eq!(zoned(text), None, "{text}");
        }
    }
}
