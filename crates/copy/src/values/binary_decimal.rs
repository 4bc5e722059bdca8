//! The binary form of decimal numbers: count of groups i16, weight i16, sign u16, scale u16, then groups
//! of four digits as u16. The first group counts 10,000 to the power of the weight.

use super::decimal::{fit_decimal, power_of_ten};
use crate::error::{Error, Result, State};

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const MINUS_INFINITY: u16 = 0xf000;
/// Number of digits in a group.
const GROUP_DIGITS: i64 = 4;
const GROUP: u16 = 10_000;
/// Greatest scale that the form has.
const SCALE_MAX: u16 = 0x3fff;

fn wrong(message: &str) -> Error {
    Error::new(State::INVALID_BINARY_REPRESENTATION, message)
}

/// Returns a number rounded to a scale half away from zero. Digits beyond the scale that the sender names
/// are dropped before, as PostgreSQL does. 22P03 for a wrong form, 22003 for numbers with
/// more digits than the precision, NaN and the infinities.
pub(crate) fn binary_decimal(bytes: &[u8], precision: u8, scale: i8) -> Result<i128> {
    let short = || Error::new(State::PROTOCOL_VIOLATION, "insufficient data left in message");
    let (head, groups) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
    let field = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (count, weight, sign) = (field(0), field(2) as i16, field(4));
    let (groups, rest) = groups.split_at_checked(usize::from(count) * 2).ok_or_else(short)?;
    if !rest.is_empty() {
        return Err(wrong("incorrect binary data format"));
    }
    match sign {
        0 | NEGATIVE => {}
        NAN | INFINITY | MINUS_INFINITY => {
            let message = "a column of 128-bit decimals holds neither NaN nor infinities";
            return Err(Error::new(State::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        _ => return Err(wrong("invalid sign in external \"numeric\" value")),
    }
    if field(6) > SCALE_MAX {
        return Err(wrong("invalid scale in external \"numeric\" value"));
    }
    let (groups, _) = groups.as_chunks::<2>();
    let number = scaled(groups, weight, field(6), precision, scale)?;
    fit_decimal(if sign == NEGATIVE { -number } else { number }, precision, scale)
}

/// Returns the digits of the groups down to `scale`, rounded by the next one. Digits beyond `given_scale`
/// count as zeros.
fn scaled(
    groups: &[[u8; 2]],
    weight: i16,
    given_scale: u16,
    precision: u8,
    scale: i8,
) -> Result<i128> {
    let too_large = || fit_decimal(i128::MAX, precision, scale);
    // Digits down to the scale, counted from the first digit of the first group.
    let whole = (i64::from(weight) + 1) * GROUP_DIGITS;
    let (kept, given) = (whole + i64::from(scale), whole + i64::from(given_scale));
    let mut number: i128 = 0;
    let mut is_up = false;
    for (at, group) in groups.iter().enumerate() {
        let group = u16::from_be_bytes(*group);
        if group >= GROUP {
            return Err(wrong("invalid digit in external \"numeric\" value"));
        }
        for (digit, power) in [1_000, 100, 10, 1].into_iter().enumerate() {
            let place = at as i64 * GROUP_DIGITS + digit as i64;
            let digit_value = if place < given { group / power % 10 } else { 0 };
            match place.cmp(&kept) {
                std::cmp::Ordering::Less if number >= power_of_ten(37) => return too_large(),
                std::cmp::Ordering::Less => number = number * 10 + i128::from(digit_value),
                std::cmp::Ordering::Equal => is_up = digit_value >= 5,
                std::cmp::Ordering::Greater => {}
            }
        }
    }
    let missing = kept - groups.len() as i64 * GROUP_DIGITS;
    if missing > 0 && number != 0 {
        if missing > 38 || number >= power_of_ten(38 - missing as u32) {
            return too_large();
        }
        number *= power_of_ten(missing as u32);
    }
    Ok(number + i128::from(is_up))
}

/// Appends the binary form of a number of a scale.
pub(crate) fn encode_decimal(number: i128, scale: i8, out: &mut Vec<u8>) {
    let places = i64::from(scale).max(0);
    // Groups begin at the point: the lowest group is filled up with zeros.
    let fill = match scale {
        0.. => (GROUP_DIGITS - places % GROUP_DIGITS) % GROUP_DIGITS,
        _ => i64::from(-scale) % GROUP_DIGITS,
    };
    let mut weight = match scale {
        0.. => -(places + fill) / GROUP_DIGITS,
        _ => (i64::from(-scale) - fill) / GROUP_DIGITS,
    };
    let mut groups: Vec<u16> = Vec::new();
    let mut rest = number.unsigned_abs();
    // The lowest group takes fewer digits, so that multiplying never overflows.
    let lowest = 10_u128.pow((GROUP_DIGITS - fill) as u32);
    groups.push((rest % lowest) as u16 * 10_u16.pow(fill as u32));
    rest /= lowest;
    while rest > 0 {
        groups.push((rest % u128::from(GROUP)) as u16);
        rest /= u128::from(GROUP);
        weight += 1;
    }
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..zeros);
    if groups.is_empty() {
        weight = 0;
    }
    out.extend_from_slice(&(groups.len() as u16).to_be_bytes());
    out.extend_from_slice(&(weight as i16).to_be_bytes());
    out.extend_from_slice(&(if number < 0 { NEGATIVE } else { 0 }).to_be_bytes());
    out.extend_from_slice(&(places as u16).to_be_bytes());
    for group in groups.iter().rev() {
        out.extend_from_slice(&group.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::parse_decimal;

    #[test]
    fn binary_and_text_agree() {
        let texts =
            ["0", "1", "-1", "0.01", "12345678.9", "10000", "9999.99", "-0.05", "1000000", "0.1"];
        for scale in [-3, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8] {
            for text in texts {
                let number = parse_decimal(text, 38, scale).unwrap().unwrap();
                let mut bytes = Vec::new();
                encode_decimal(number, scale, &mut bytes);
                let again = binary_decimal(&bytes, 38, scale);
                assert_eq!(again, Ok(number), "{text} of scale {scale}: {bytes:?}");
            }
        }
        for number in [10_i128.pow(38) - 1, -(10_i128.pow(38) - 1), 10_i128.pow(37)] {
            for scale in [-38, -7, 0, 1, 5, 37, 38] {
                let mut bytes = Vec::new();
                encode_decimal(number, scale, &mut bytes);
                assert_eq!(binary_decimal(&bytes, 38, scale), Ok(number), "{number} {scale}");
            }
        }
    }

    #[test]
    fn known_bytes() {
        let mut bytes = Vec::new();
        encode_decimal(-1_234_567, 2, &mut bytes);
        // -12345.67: groups 1, 2345, 6700.
        assert_eq!(bytes, [0, 3, 0, 1, 0x40, 0, 0, 2, 0, 1, 0x09, 0x29, 0x1a, 0x2c]);
        assert_eq!(binary_decimal(&bytes, 6, 1), Ok(-123_457));
        assert_eq!(binary_decimal(&bytes, 5, 0), Ok(-12_346));
        assert_eq!(
            binary_decimal(&bytes, 4, 0).map_err(|error| error.state()),
            Err(State::NUMERIC_VALUE_OUT_OF_RANGE)
        );
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let mut state = 1_u32;
        for _ in 0..50_000 {
            let bytes: Vec<u8> = (0..14)
                .map(|at| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let byte = (state >> 24) as u8;
                    if at % 2 == 0 { byte & 0x83 } else { byte }
                })
                .collect();
            let bytes = &bytes[..8 + 2 * (usize::from(bytes[1]) % 4)];
            for (precision, scale) in [(38, 38), (38, -38), (5, 2), (38, 0)] {
                let _ = binary_decimal(bytes, precision, scale);
            }
        }
    }
}
