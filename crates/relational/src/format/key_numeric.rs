//! Order-preserving bytes of decimal numbers.
//!
//! A class orders infinities, signs, zero and NaN. A number has its decimal exponent and its digits
//! without zeros at either end, two in a byte; both are inverted below zero. The scale is not kept.

use super::key_bytes::{KeyReader, damaged, put_integer};
use crate::error::Result;
use crate::types::Numeric;
use bigdecimal::num_bigint::{BigInt, Sign};

const NEGATIVE_INFINITY: u8 = 1;
const NEGATIVE: u8 = 2;
const ZERO: u8 = 3;
const POSITIVE: u8 = 4;
const INFINITY: u8 = 5;
const NAN: u8 = 6;

/// Appends a decimal number in its order.
pub(super) fn put_numeric(out: &mut Vec<u8>, number: &Numeric) {
    let Some((digits, scale)) = number.parts() else {
        return out.push(match number {
            Numeric::NegativeInfinity => NEGATIVE_INFINITY,
            Numeric::Infinity => INFINITY,
            _ => NAN,
        });
    };
    if digits.sign() == Sign::NoSign {
        return out.push(ZERO);
    }
    let negative = digits.sign() == Sign::Minus;
    out.push(if negative { NEGATIVE } else { POSITIVE });
    let begin = out.len();
    let text = digits.magnitude().to_string();
    put_integer(out, text.len() as i64 - scale);
    let text = text.trim_end_matches('0').as_bytes();
    for pair in text.chunks(2) {
        let low = pair.get(1).map_or(0, |digit| digit - b'0');
        out.push((pair[0] - b'0') * 10 + low + 1);
    }
    out.push(0);
    if negative {
        out[begin..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Reads a decimal number, whose scale is as small as its digits allow.
pub(super) fn numeric(reader: &mut KeyReader<'_>, descending: bool) -> Result<Numeric> {
    let negative = match reader.byte()? {
        NEGATIVE_INFINITY => return Ok(Numeric::NegativeInfinity),
        INFINITY => return Ok(Numeric::Infinity),
        NAN => return Ok(Numeric::NaN),
        ZERO => return Ok(Numeric::from(0)),
        NEGATIVE => true,
        POSITIVE => false,
        _ => return Err(damaged("the class of a decimal number")),
    };
    reader.set_descending(descending != negative);
    let exponent = reader.integer()?;
    let mut digits = String::new();
    loop {
        match reader.byte()? {
            0 => break,
            pair @ 1..=100 => {
                digits.push(char::from(b'0' + (pair - 1) / 10));
                digits.push(char::from(b'0' + (pair - 1) % 10));
            }
            _ => return Err(damaged("a pair of digits")),
        }
    }
    reader.set_descending(descending);
    let digits = digits.trim_end_matches('0');
    let scale = (digits.len() as i64).checked_sub(exponent);
    let scale = scale.ok_or_else(|| damaged("the exponent of a decimal number"))?;
    let number = BigInt::parse_bytes(digits.as_bytes(), 10);
    let number = number.ok_or_else(|| damaged("a decimal number without digits"))?;
    if scale > 1 << 20 {
        return Err(damaged("the exponent of a decimal number"));
    }
    Numeric::new(if negative { -number } else { number }, scale)
        .map_err(|_| damaged("a decimal number with too many digits"))
}
