//! Smallest and largest value of a page.
//!
//! 1. No value that is not NULL is below `min` or above `max`, in the order of PostgreSQL: NaN above
//!    everything, -0.0 equal to 0.0, text by its bytes.
//! 2. A bound of text has at most [`TEXT_BYTES_MAX`] bytes. One that was cut is still a bound, by
//!    invariant 1, but no value.

use crate::ColumnType;
use crate::values::{Lane, Prepared, Values};
use std::cmp::Ordering;

/// Longest bound of text, in bytes.
const TEXT_BYTES_MAX: usize = 32;

/// A value that bounds others or is compared with them.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// A value of Boolean (0 and 1), an integer, a decimal without its scale, a date or a time as stored.
    Integer(i128),
    /// A value of Float32 or Float64.
    Float(f64),
    /// A value of text, bytes or FixedSizeBinary(16).
    Bytes(Vec<u8>),
}

impl Bound {
    /// Compares two values, as PostgreSQL orders them; `None` if they are of different kinds.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(b)),
            (Self::Float(a), Self::Float(b)) => Some(float_key(*a).cmp(&float_key(*b))),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// Appends the value as a bound of a column.
    pub(super) fn put(&self, column_type: ColumnType, to: &mut Vec<u8>) {
        match (self, column_type) {
            (Self::Integer(value), _) => {
                to.extend_from_slice(&value.to_le_bytes()[..integer_bytes(column_type)]);
            }
            (Self::Float(value), ColumnType::Float32) => {
                to.extend_from_slice(&(*value as f32).to_le_bytes());
            }
            (Self::Float(value), _) => to.extend_from_slice(&value.to_le_bytes()),
            (Self::Bytes(bytes), _) => to.extend_from_slice(bytes),
        }
    }

    /// Returns a bound of a column from its bytes; `None` if they are too many or too few, or
    /// a NaN other than the one.
    pub(super) fn get(column_type: ColumnType, bytes: &[u8]) -> Option<Self> {
        match column_type {
            ColumnType::Boolean => match bytes {
                [bit @ (0 | 1)] => Some(Self::Integer((*bit).into())),
                _ => None,
            },
            ColumnType::Float32 => {
                let float = f32::from_le_bytes(bytes.try_into().ok()?);
                let one_nan = !float.is_nan() || float.to_bits() == f32::NAN.to_bits();
                one_nan.then_some(Self::Float(float.into()))
            }
            ColumnType::Float64 => {
                let float = f64::from_le_bytes(bytes.try_into().ok()?);
                let one_nan = !float.is_nan() || float.to_bits() == f64::NAN.to_bits();
                one_nan.then_some(Self::Float(float))
            }
            ColumnType::FixedBinary16 => (bytes.len() == 16).then(|| Self::Bytes(bytes.to_vec())),
            ColumnType::Utf8 | ColumnType::Binary => {
                (bytes.len() <= TEXT_BYTES_MAX).then(|| Self::Bytes(bytes.to_vec()))
            }
            _ => match integer_bytes(column_type) {
                2 => Some(i16::from_le_bytes(bytes.try_into().ok()?).into()),
                4 => Some(i32::from_le_bytes(bytes.try_into().ok()?).into()),
                8 => Some(i64::from_le_bytes(bytes.try_into().ok()?).into()),
                _ => Some(i128::from_le_bytes(bytes.try_into().ok()?)),
            }
            .map(Self::Integer),
        }
    }
}

fn integer_bytes(column_type: ColumnType) -> usize {
    use ColumnType::{Boolean, Date32, Decimal128, Int16, Int32};
    match column_type {
        Boolean => 1,
        Int16 => 2,
        Int32 | Date32 => 4,
        Decimal128 => 16,
        _ => 8,
    }
}

/// Bounds of the values of a page that are not NULL.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bounds {
    /// No value is below it; `None` if the page has no value.
    pub min: Option<Bound>,
    /// No value is above it; `None` if the page has no value, and if no short text is above all values.
    pub max: Option<Bound>,
    /// `min` is the beginning of the smallest value, which is longer.
    pub min_cut: bool,
    /// `max` is short text above the largest value, which is longer.
    pub max_cut: bool,
}

impl Bounds {
    fn exact(min: Bound, max: Bound) -> Self {
        Self { min: Some(min), max: Some(max), min_cut: false, max_cut: false }
    }
}

/// Returns the bounds of values, one of which at least is not NULL.
pub(crate) fn bounds_of(prepared: &Prepared<'_>) -> Bounds {
    let float = matches!(prepared.column_type, ColumnType::Float32 | ColumnType::Float64);
    // A fixed-width NULL has the value of another row: it changes no bound.
    match &prepared.values {
        Values::Bits(bits) => {
            let ones = bits.count_set_bits();
            let (min, max) = (i128::from(ones == bits.len()), i128::from(ones > 0));
            Bounds::exact(Bound::Integer(min), Bound::Integer(max))
        }
        Values::Four(bits) if float => {
            floats(bits.iter().map(|bits| f32::from_bits(bits.cast_unsigned()).into()))
        }
        Values::Eight(bits) if float => {
            floats(bits.iter().map(|bits| f64::from_bits(bits.cast_unsigned())))
        }
        Values::Two(lanes) => integers(lanes),
        Values::Four(lanes) => integers(lanes),
        Values::Eight(lanes) => integers(lanes),
        Values::Sixteen(lanes) if prepared.column_type == ColumnType::FixedBinary16 => {
            let (min, max) = span(lanes.iter().map(|lane| lane.cast_unsigned().swap_bytes()));
            let bytes = |value: u128| Bound::Bytes(value.to_be_bytes().to_vec());
            Bounds::exact(bytes(min), bytes(max))
        }
        Values::Sixteen(lanes) => integers(lanes),
        Values::Text(texts) => match &prepared.nulls {
            None => text(texts.iter().copied()),
            Some(nulls) => text(nulls.valid_indices().map(|row| texts[row])),
        },
    }
}

/// Returns the smallest and the largest of some values; the default if there are no values.
fn span<T: Ord + Copy + Default>(mut values: impl Iterator<Item = T>) -> (T, T) {
    let first = values.next().unwrap_or_default();
    values.fold((first, first), |(min, max), value| (min.min(value), max.max(value)))
}

fn integers<T: Lane + Into<i128>>(lanes: &[T]) -> Bounds {
    let (min, max) = span(lanes.iter().copied());
    Bounds::exact(Bound::Integer(min.into()), Bound::Integer(max.into()))
}

fn floats(values: impl Iterator<Item = f64>) -> Bounds {
    let (min, max) = span(values.map(float_key));
    Bounds::exact(Bound::Float(float_of_key(min)), Bound::Float(float_of_key(max)))
}

/// Returns an integer in the order of floats, the same for equal ones.
fn float_key(value: f64) -> i64 {
    if value.is_nan() {
        return i64::MAX;
    }
    // -0.0 + 0.0 is 0.0.
    let bits = (value + 0.0).to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

fn float_of_key(key: i64) -> f64 {
    match key {
        i64::MAX => f64::NAN,
        key => {
            let bits = key ^ ((key >> 63).cast_unsigned() >> 1).cast_signed();
            f64::from_bits(bits.cast_unsigned())
        }
    }
}

fn text<'a>(values: impl Iterator<Item = &'a [u8]>) -> Bounds {
    let (min, max) = span(values);
    let (max, max_cut) = match max.get(..TEXT_BYTES_MAX) {
        Some(head) if max.len() > TEXT_BYTES_MAX => (raised(head), true),
        _ => (Some(max.to_vec()), false),
    };
    let short = min.len().min(TEXT_BYTES_MAX);
    Bounds {
        min: Some(Bound::Bytes(min[..short].to_vec())),
        max_cut: max_cut && max.is_some(),
        max: max.map(Bound::Bytes),
        min_cut: short < min.len(),
    }
}

/// Returns the shortest text above every text that begins with this one; `None` if no text is.
fn raised(head: &[u8]) -> Option<Vec<u8>> {
    let last = head.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut raised = head[..=last].to_vec();
    raised[last] += 1;
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_ordered_as_postgresql_does() {
        let ascending = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -f64::MIN_POSITIVE / 2.0,
            0.0,
            f64::MIN_POSITIVE / 2.0,
            2.0,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        for pair in ascending.windows(2) {
            let (a, b) = (Bound::Float(pair[0]), Bound::Float(pair[1]));
            assert_eq!(a.compare(&b), Some(Ordering::Less), "{pair:?}");
            assert_eq!(b.compare(&a), Some(Ordering::Greater), "{pair:?}");
        }
        for value in ascending {
            let again = Bound::Float(float_of_key(float_key(value)));
            assert_eq!(again.compare(&Bound::Float(value)), Some(Ordering::Equal), "{value}");
        }
        let zeros = Bound::Float(-0.0).compare(&Bound::Float(0.0));
        assert_eq!(zeros, Some(Ordering::Equal));
        assert_eq!(Bound::Float(-f64::NAN).compare(&Bound::Float(f64::NAN)), Some(Ordering::Equal));
    }

    #[test]
    fn bounds_of_long_text_still_bound_it() {
        let long = |byte: u8| vec![byte; 40];
        for (case, value, max) in [
            ("short", b"abc".to_vec(), Some(b"abc".to_vec())),
            ("as long as a bound", vec![7; 32], Some(vec![7; 32])),
            ("longer", long(b'a'), Some([vec![b'a'; 31], vec![b'b']].concat())),
            ("highest", long(255), None),
            ("highest at the end", [vec![1], long(255)].concat(), Some(vec![2])),
        ] {
            let bounds = text([&value[..]].into_iter());
            assert_eq!(bounds.max, max.map(Bound::Bytes), "{case}");
            assert_eq!(bounds.max_cut, value.len() > 32 && bounds.max.is_some(), "{case}");
            assert_eq!(bounds.min_cut, value.len() > 32, "{case}");
            let value = Bound::Bytes(value);
            assert_ne!(bounds.min.unwrap().compare(&value), Some(Ordering::Greater), "{case}");
            assert!(bounds.max.is_none_or(|max| max.compare(&value) != Some(Ordering::Less)));
        }
    }
}
