//! Decimal numbers as text.

use super::Numeric;
use super::numeric::{SCALE_MAX, WHOLE_DIGITS_MAX};
use crate::error::{Error, Result};
use crate::state::SqlState;
use bigdecimal::num_bigint::{BigInt, Sign};
use std::fmt;
use std::str::FromStr;

/// Plain digits with as many after the point as the scale says, never an exponent.
impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((digits, scale)) = self.parts() else {
            return f.write_str(match self {
                Self::NegativeInfinity => "-Infinity",
                Self::Infinity => "Infinity",
                _ => "NaN",
            });
        };
        if digits.sign() == Sign::Minus {
            f.write_str("-")?;
        }
        let text = digits.magnitude().to_string();
        let scale = scale.max(0) as usize;
        if scale == 0 {
            return f.write_str(&text);
        }
        if text.len() > scale {
            let (whole, fraction) = text.split_at(text.len() - scale);
            return write!(f, "{whole}.{fraction}");
        }
        write!(f, "0.{text:0>scale$}")
    }
}

/// Reads digits with a sign, a point and an exponent, or one of the names of NaN and the infinities;
/// blanks around them are left out. 22P02 if the text is no number, 22003 if it has too many digits.
impl FromStr for Numeric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let trimmed = text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
        let refused = || {
            let message = format!("invalid input syntax for type numeric: \"{text}\"");
            Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        };
        match trimmed.to_ascii_lowercase().as_str() {
            "nan" => return Ok(Self::NaN),
            "infinity" | "+infinity" | "inf" | "+inf" => return Ok(Self::Infinity),
            "-infinity" | "-inf" => return Ok(Self::NegativeInfinity),
            _ => {}
        }
        let (negative, unsigned) = match trimmed.as_bytes().first() {
            Some(b'-') => (true, &trimmed[1..]),
            Some(b'+') => (false, &trimmed[1..]),
            _ => (false, trimmed),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent).ok_or_else(refused)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
            return Err(refused());
        }
        from_digits(negative, whole, fraction, exponent)
    }
}

/// Returns the exponent, bounded to what any number can have; nothing if the text is no integer.
fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let exponent = text.strip_prefix('+').unwrap_or(text).parse().unwrap_or(i64::MAX / 4);
    let bound = i64::from(i32::MAX);
    Some(if text.starts_with('-') { exponent.max(-bound).min(0) } else { exponent.min(bound) })
}

fn from_digits(negative: bool, whole: &str, fraction: &str, exponent: i64) -> Result<Numeric> {
    let overflow =
        || Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format");
    // The bound on digits is kept before they are multiplied out.
    let significant = whole.trim_start_matches('0').len() as i64;
    if significant + exponent > WHOLE_DIGITS_MAX && !is_zero(whole, fraction) {
        return Err(overflow());
    }
    let scale = fraction.len() as i64 - exponent;
    if scale > SCALE_MAX + WHOLE_DIGITS_MAX {
        return match is_zero(whole, fraction) || exponent < 0 {
            true => Numeric::new(BigInt::from(0), SCALE_MAX),
            false => Err(overflow()),
        };
    }
    if is_zero(whole, fraction) {
        return Numeric::new(BigInt::from(0), scale.clamp(0, SCALE_MAX));
    }
    if (whole.len() + fraction.len()) as i64 > 2 * (SCALE_MAX + WHOLE_DIGITS_MAX) {
        return Err(overflow());
    }
    let digits = BigInt::parse_bytes(format!("{whole}{fraction}").as_bytes(), 10);
    let digits = digits.ok_or_else(overflow)?;
    Numeric::new(if negative { -digits } else { digits }, scale)
}

fn is_zero(whole: &str, fraction: &str) -> bool {
    whole.bytes().chain(fraction.bytes()).all(|byte| byte == b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Numeric {
        text.parse().unwrap()
    }

    #[test]
    fn text_keeps_its_scale() {
        for (text, want) in [
            ("1.50", "1.50"),
            ("-0.001", "-0.001"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1e3", "1000"),
            ("1.5e-3", "0.0015"),
            ("  +7 ", "7"),
            ("NaN", "NaN"),
            ("-inf", "-Infinity"),
            ("0.00", "0.00"),
            ("1e-16383", &format!("0.{}1", "0".repeat(16_382))),
        ] {
            assert_eq!(number(text).to_string(), want, "{text}");
        }
        for text in ["", "-", "1.2.3", "1e", "abc", "0x10", "1 2", "--1", "1e+-2"] {
            let error = text.parse::<Numeric>().unwrap_err();
            assert_eq!(error.state, SqlState::INVALID_TEXT_REPRESENTATION, "{text}");
        }
        for text in ["1e131072", "1e999999999999999999999"] {
            let error = text.parse::<Numeric>().unwrap_err();
            assert_eq!(error.state, SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "{text}");
        }
    }

    #[test]
    fn arithmetic_has_the_scales_of_postgresql() {
        for (left, right, want) in [
            ("1", "3", "0.33333333333333333333"),
            ("10", "4", "2.5000000000000000"),
            ("1.0", "3.00", "0.33333333333333333333"),
            ("100000", "7", "14285.714285714286"),
            ("2", "1", "2.0000000000000000"),
            ("1", "1000000", "0.000001000000000000000000"),
            ("-7", "2", "-3.5000000000000000"),
        ] {
            assert_eq!(
                number(left).divide(&number(right)).unwrap().to_string(),
                want,
                "{left}/{right}"
            );
        }
        assert_eq!(number("1.10").add(&number("2.2")).unwrap().to_string(), "3.30");
        assert_eq!(number("1.10").multiply(&number("2.2")).unwrap().to_string(), "2.420");
        assert_eq!(number("-7.5").remainder(&number("2")).unwrap().to_string(), "-1.5");
        assert_eq!(number("2.5").round(0).unwrap().to_string(), "3");
        assert_eq!(number("-2.5").round(0).unwrap().to_string(), "-3");
        assert_eq!(number("1250").round(-2).unwrap().to_string(), "1300");
        assert_eq!(number("-2.59").truncate(1).unwrap().to_string(), "-2.5");
        assert_eq!(number("-2.5").ceil().unwrap().to_string(), "-2");
        assert_eq!(number("-2.5").floor().unwrap().to_string(), "-3");
        let zero = number("1").divide(&number("0.0")).unwrap_err();
        assert_eq!(zero.state, SqlState::DIVISION_BY_ZERO);
    }

    #[test]
    fn equal_numbers_of_other_scales_are_equal() {
        use std::collections::HashSet;
        let set: HashSet<_> = ["1", "1.0", "1.00", "NaN"].map(number).into();
        assert_eq!(set.len(), 2);
        let mut sorted = ["NaN", "Infinity", "1", "-Infinity", "-2.5", "0"].map(number);
        sorted.sort();
        let texts = sorted.map(|number| number.to_string());
        assert_eq!(texts, ["-Infinity", "-2.5", "0", "1", "Infinity", "NaN"]);
    }

    #[test]
    fn a_field_holds_what_fits_its_precision() {
        assert_eq!(number("123.456").fit(5, 2).unwrap().to_string(), "123.46");
        assert_eq!(
            number("0.5").fit(3, 5).unwrap_err().state,
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE
        );
        let error = number("999.999").fit(5, 2).unwrap_err();
        assert!(error.detail.as_deref().unwrap().contains("less than 10^3"), "{error:?}");
        assert_eq!(number("12345").fit(3, -2).unwrap().to_string(), "12300");
    }
}
