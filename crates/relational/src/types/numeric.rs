//! Decimal numbers of any size, with PostgreSQL's rules.
//!
//! 1. A finite number is `digits / 10^scale` with a scale of 0..=16,383, which is the number of digits
//!    after the point that its text shows. Equal numbers may have different scales.
//! 2. At most 131,072 digits are before the point. An operation that would have more fails with 22003.
//! 3. Sums and products are exact; a quotient has at least 16 significant digits. Rounding is half away
//!    from zero.

use crate::error::{Error, Result};
use crate::state::SqlState;
use bigdecimal::num_bigint::{BigInt, Sign};
use bigdecimal::{BigDecimal, Signed, ToPrimitive, Zero};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// Most digits after the point.
pub(super) const SCALE_MAX: i64 = 16_383;
/// Most digits before the point.
pub(super) const WHOLE_DIGITS_MAX: i64 = 131_072;
/// Most digits after the point of a quotient.
const QUOTIENT_SCALE_MAX: i64 = 1_000;
/// Least significant digits of a quotient.
const QUOTIENT_DIGITS_MIN: i64 = 16;

/// A decimal number of any size, an infinity or NaN. NaN equals NaN and is above all.
#[derive(Debug, Clone)]
pub enum Numeric {
    /// Negative infinity, below all numbers.
    NegativeInfinity,
    /// A finite number, made by [`Numeric::new`].
    Finite(BigDecimal),
    /// Positive infinity, above all numbers.
    Infinity,
    /// Not a number, above infinity.
    NaN,
}

impl Numeric {
    /// Returns `digits / 10^scale`. 22003 if it has too many digits.
    pub fn new(digits: BigInt, scale: i64) -> Result<Self> {
        let (digits, scale) = match scale {
            // A scale below zero only stands for zeros before the point.
            scale if scale < -WHOLE_DIGITS_MAX => return Err(overflow()),
            scale if scale < 0 => (digits * power_of_ten((-scale) as u32), 0),
            scale if scale > SCALE_MAX => (shift_right(&digits, scale - SCALE_MAX), SCALE_MAX),
            scale => (digits, scale),
        };
        // Four bits hold at least one digit, so most numbers need no exact count.
        let digits_max = WHOLE_DIGITS_MAX + scale;
        if digits.bits() as i64 > digits_max * 3 && digit_count(&digits) > digits_max {
            return Err(overflow());
        }
        Ok(Self::Finite(BigDecimal::new(digits, scale)))
    }

    /// Returns the number of digits that its text shows after the point.
    pub fn scale(&self) -> i64 {
        self.finite().map_or(0, |number| number.as_bigint_and_scale().1)
    }

    /// Returns the finite number, and nothing for NaN and the infinities.
    pub fn finite(&self) -> Option<&BigDecimal> {
        match self {
            Self::Finite(number) => Some(number),
            _ => None,
        }
    }

    /// Returns digits and scale of a finite number.
    pub fn parts(&self) -> Option<(BigInt, i64)> {
        self.finite().map(BigDecimal::as_bigint_and_exponent)
    }

    /// Returns true for NaN only.
    pub fn is_nan(&self) -> bool {
        matches!(self, Self::NaN)
    }

    /// Returns true for zero of any scale.
    pub fn is_zero(&self) -> bool {
        self.finite().is_some_and(Zero::is_zero)
    }

    /// Returns true for numbers below zero, and for negative infinity.
    pub fn is_negative(&self) -> bool {
        match self {
            Self::NegativeInfinity => true,
            Self::Finite(number) => number.is_negative(),
            _ => false,
        }
    }

    /// Returns the bytes beside the value that its digits take, about.
    pub(super) fn memory_bytes(&self) -> usize {
        self.finite().map_or(0, |number| number.as_bigint_and_scale().0.bits() as usize / 8 + 8)
    }

    /// Returns the sum. 22003 if it has too many digits.
    pub fn add(&self, other: &Self) -> Result<Self> {
        let (Self::Finite(left), Self::Finite(right)) = (self, other) else {
            return Ok(match (self, other) {
                (Self::NaN, _) | (_, Self::NaN) => Self::NaN,
                (Self::Infinity, Self::NegativeInfinity)
                | (Self::NegativeInfinity, Self::Infinity) => Self::NaN,
                (Self::Finite(_), infinity) | (infinity, _) => infinity.clone(),
            });
        };
        let (left, right, scale) = aligned(left, right);
        Self::new(left + right, scale)
    }

    /// Returns the difference. 22003 if it has too many digits.
    pub fn subtract(&self, other: &Self) -> Result<Self> {
        self.add(&other.negate())
    }

    /// Returns the number with the other sign.
    pub fn negate(&self) -> Self {
        match self {
            Self::NegativeInfinity => Self::Infinity,
            Self::Infinity => Self::NegativeInfinity,
            Self::Finite(number) => Self::Finite(-number),
            Self::NaN => Self::NaN,
        }
    }

    /// Returns the number without its sign.
    pub fn abs(&self) -> Self {
        if self.is_negative() { self.negate() } else { self.clone() }
    }

    /// Returns -1, 0 or 1 by the sign, and nothing for NaN.
    pub fn signum(&self) -> Option<i32> {
        match self {
            Self::NaN => None,
            _ if self.is_zero() => Some(0),
            _ if self.is_negative() => Some(-1),
            _ => Some(1),
        }
    }

    /// Returns the product. 22003 if it has too many digits.
    pub fn multiply(&self, other: &Self) -> Result<Self> {
        let (Self::Finite(left), Self::Finite(right)) = (self, other) else {
            return Ok(self.times_infinity(other));
        };
        let (left, left_scale) = left.as_bigint_and_exponent();
        let (right, right_scale) = right.as_bigint_and_exponent();
        Self::new(left * right, left_scale + right_scale)
    }

    /// Returns a product of which one factor is not finite.
    fn times_infinity(&self, other: &Self) -> Self {
        match (self.signum(), other.signum()) {
            (None, _) | (_, None) | (Some(0), _) | (_, Some(0)) => Self::NaN,
            (Some(left), Some(right)) if left == right => Self::Infinity,
            _ => Self::NegativeInfinity,
        }
    }

    /// Returns the quotient, with the scale that PostgreSQL gives it. 22012 if the divisor is zero, and
    /// 22003 if the quotient has too many digits.
    pub fn divide(&self, other: &Self) -> Result<Self> {
        if self.is_nan() || other.is_nan() {
            return Ok(Self::NaN);
        }
        if other.is_zero() {
            return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        let (Self::Finite(left), Self::Finite(right)) = (self, other) else {
            return Ok(match (self, other) {
                (Self::Finite(_), _) => Self::Finite(BigDecimal::zero()),
                (_, Self::Finite(_)) => self.times_infinity(other),
                _ => Self::NaN,
            });
        };
        let scale = quotient_scale(left, right);
        let (left, left_scale) = left.as_bigint_and_exponent();
        let (right, right_scale) = right.as_bigint_and_exponent();
        // left / 10^a / (right / 10^b) = q / 10^scale with q = left * 10^(scale + b - a) / right.
        let shift = scale + right_scale - left_scale;
        let quotient = match shift {
            0.. => divide_rounded(&(left * power_of_ten(shift as u32)), &right),
            _ => divide_rounded(&left, &(right * power_of_ten((-shift) as u32))),
        };
        Self::new(quotient, scale)
    }

    /// Returns the remainder of the division without fraction, with the sign of the dividend. 22012 if
    /// the divisor is zero.
    pub fn remainder(&self, other: &Self) -> Result<Self> {
        if self.is_nan() || other.is_nan() {
            return Ok(Self::NaN);
        }
        if other.is_zero() {
            return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        let (Self::Finite(left), Self::Finite(right)) = (self, other) else {
            return Ok(match self {
                Self::Finite(_) => self.clone(),
                _ => Self::NaN,
            });
        };
        let (left, right, scale) = aligned(left, right);
        Self::new(left % right, scale)
    }

    /// Returns the number rounded to `scale` digits after the point, half away from zero. A scale below
    /// zero rounds before the point.
    pub fn round(&self, scale: i64) -> Result<Self> {
        self.cut(scale, shift_right)
    }

    /// Returns the number without its digits after the first `scale`. A scale below zero cuts before
    /// the point.
    pub fn truncate(&self, scale: i64) -> Result<Self> {
        self.cut(scale, |digits, count| digits / power_of_ten(count as u32))
    }

    fn cut(&self, scale: i64, shift: impl Fn(&BigInt, i64) -> BigInt) -> Result<Self> {
        let Some((digits, from)) = self.parts() else { return Ok(self.clone()) };
        let scale = scale.clamp(-WHOLE_DIGITS_MAX, SCALE_MAX);
        if scale >= from {
            return Self::new(digits * power_of_ten((scale - from) as u32), scale);
        }
        let shifted = shift(&digits, from - scale);
        Self::new(shifted, scale)
    }

    /// Returns the smallest whole number that is not below.
    pub fn ceil(&self) -> Result<Self> {
        let whole = self.truncate(0)?;
        if whole < *self { whole.add(&Self::from(1)) } else { Ok(whole) }
    }

    /// Returns the largest whole number that is not above.
    pub fn floor(&self) -> Result<Self> {
        let whole = self.truncate(0)?;
        if whole > *self { whole.subtract(&Self::from(1)) } else { Ok(whole) }
    }

    /// Returns the number as a column of this precision and scale keeps it. 22003 if it is too large.
    pub fn fit(&self, precision: u16, scale: i16) -> Result<Self> {
        let Self::Finite(_) = self else {
            if self.is_nan() {
                return Ok(Self::NaN);
            }
            let what = "A field with precision {p}, scale {s} cannot hold an infinite value.";
            let what = what.replace("{p}", &precision.to_string());
            return Err(overflow_of_field(what.replace("{s}", &scale.to_string())));
        };
        let rounded = self.round(scale.into())?;
        let (digits, have) = rounded.parts().unwrap_or_default();
        let whole_digits = i64::from(precision) - i64::from(scale);
        if !digits.is_zero() && digit_count(&digits) - have > whole_digits {
            let below = match whole_digits {
                0 => "1".to_owned(),
                digits => format!("10^{digits}"),
            };
            return Err(overflow_of_field(format!(
                "A field with precision {precision}, scale {scale} must round to an absolute value \
                 less than {below}."
            )));
        }
        Ok(rounded)
    }

    /// Returns the number as an integer, rounded. 22003 if it does not fit.
    pub fn to_i64(&self) -> Result<i64> {
        let out_of_range =
            || Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range");
        match self {
            Self::Finite(_) => {
                let (digits, _) = self.round(0)?.parts().unwrap_or_default();
                digits.to_i64().ok_or_else(out_of_range)
            }
            Self::NaN => Err(Error::unsupported("cannot convert NaN to bigint")),
            _ => Err(Error::unsupported("cannot convert infinity to bigint")),
        }
    }

    /// Returns the nearest floating-point number.
    pub fn to_f64(&self) -> f64 {
        match self {
            Self::NegativeInfinity => f64::NEG_INFINITY,
            Self::Infinity => f64::INFINITY,
            Self::NaN => f64::NAN,
            // The text is exact, and the parser of the standard library rounds right.
            Self::Finite(_) => self.to_string().parse().unwrap_or(f64::NAN),
        }
    }
}

fn overflow() -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

fn overflow_of_field(detail: String) -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(detail)
}

pub(super) fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

/// Returns the number of decimal digits; one for zero.
pub(super) fn digit_count(digits: &BigInt) -> i64 {
    if let Some(small) = digits.magnitude().to_u64() {
        return i64::from(small.checked_ilog10().unwrap_or(0)) + 1;
    }
    digits.magnitude().to_string().len() as i64
}

/// Returns `digits` without the last `count` of them, rounded half away from zero.
fn shift_right(digits: &BigInt, count: i64) -> BigInt {
    // A number with fewer digits than that rounds to zero.
    if count > digits.bits() as i64 + 1 {
        return BigInt::zero();
    }
    divide_rounded(digits, &power_of_ten(count as u32))
}

/// Returns the quotient rounded half away from zero. The divisor is not zero.
fn divide_rounded(left: &BigInt, right: &BigInt) -> BigInt {
    let (quotient, rest) = (left / right, left % right);
    if rest.magnitude() * 2u8 < *right.magnitude() {
        return quotient;
    }
    match left.sign() == right.sign() {
        true => quotient + 1,
        false => quotient - 1,
    }
}

/// Returns the digits of two numbers at their larger scale, and that scale.
fn aligned(left: &BigDecimal, right: &BigDecimal) -> (BigInt, BigInt, i64) {
    let (left, left_scale) = left.as_bigint_and_exponent();
    let (right, right_scale) = right.as_bigint_and_exponent();
    let scale = left_scale.max(right_scale);
    let raise = |digits: BigInt, from: i64| match scale - from {
        0 => digits,
        more => digits * power_of_ten(more as u32),
    };
    (raise(left, left_scale), raise(right, right_scale), scale)
}

/// Returns the scale of a quotient: PostgreSQL counts in groups of four digits.
fn quotient_scale(left: &BigDecimal, right: &BigDecimal) -> i64 {
    let (left_weight, left_first) = first_group(left);
    let (right_weight, right_first) = first_group(right);
    let weight = left_weight - right_weight - i64::from(left_first <= right_first);
    let scale = QUOTIENT_DIGITS_MIN - weight * 4;
    let shown = left.as_bigint_and_scale().1.max(right.as_bigint_and_scale().1);
    scale.max(shown).clamp(0, QUOTIENT_SCALE_MAX)
}

/// Returns the first group of four digits of a number and its place: the group is worth
/// `group * 10,000^place`.
fn first_group(number: &BigDecimal) -> (i64, u32) {
    let (digits, scale) = number.as_bigint_and_exponent();
    if digits.sign() == Sign::NoSign {
        return (0, 0);
    }
    let digits_count = digit_count(&digits);
    let exponent = digits_count - scale - 1;
    let place = exponent.div_euclid(4);
    // Digits of the first group: as many as stand above 10^(4 * place).
    let wanted = exponent - place * 4 + 1;
    let group = match digits_count - wanted {
        0.. => digits.magnitude() / power_of_ten((digits_count - wanted) as u32).magnitude(),
        _ => digits.magnitude() * power_of_ten((wanted - digits_count) as u32).magnitude(),
    };
    (place, group.to_u32().unwrap_or(0))
}

impl From<i64> for Numeric {
    fn from(number: i64) -> Self {
        Self::Finite(BigDecimal::from(number))
    }
}

impl Ord for Numeric {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |number: &Self| match number {
            Self::NegativeInfinity => 0,
            Self::Finite(_) => 1,
            Self::Infinity => 2,
            Self::NaN => 3,
        };
        match (self, other) {
            (Self::Finite(left), Self::Finite(right)) => left.cmp(right),
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::NegativeInfinity => 0u8.hash(state),
            Self::Finite(number) => (1u8, number.normalized()).hash(state),
            Self::Infinity => 2u8.hash(state),
            Self::NaN => 3u8.hash(state),
        }
    }
}
