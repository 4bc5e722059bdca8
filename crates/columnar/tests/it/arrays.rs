//! Columns of every type and of several shapes, from a seed.

use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array,
    Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, StringArray, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use columnar::ColumnType;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// The way in which the values of a column follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// Values of any bits at all.
    Random,
    /// Values from a small range.
    Small,
    /// Ascending by small steps, wrapping around at the end of the type.
    Ascending,
    /// Several runs of equal values.
    Runs,
    /// The same value in each row.
    Constant,
    /// Smallest and largest values of the type.
    Extremes,
}

pub(crate) const SHAPES: [Shape; 6] =
    [Shape::Random, Shape::Small, Shape::Ascending, Shape::Runs, Shape::Constant, Shape::Extremes];

/// Returns the bits of values of a shape.
fn numbers(shape: Shape, rows: usize, random: &mut StdRng) -> Vec<i128> {
    let mut last: i128 = random.random();
    let mut next = |row: usize| match shape {
        Shape::Random => random.random(),
        Shape::Small => random.random_range(-3..20),
        Shape::Ascending => {
            last = last.wrapping_add(random.random_range(0..9));
            last
        }
        Shape::Runs => {
            if random.random_bool(0.05) {
                last = random.random_range(0..1_000);
            }
            last
        }
        Shape::Constant => last,
        // Integers of 128, 64, 32 and 16 bits.
        Shape::Extremes => [
            i128::MIN,
            i128::MAX,
            i64::MIN.into(),
            i64::MAX.into(),
            i32::MIN.into(),
            i32::MAX.into(),
            i16::MIN.into(),
            i16::MAX.into(),
        ][(row + random.random_range(0..2)) % 8],
    };
    (0..rows).map(&mut next).collect()
}

fn float(bits: i128, shape: Shape) -> f64 {
    match shape {
        Shape::Extremes => {
            let special = [f64::NAN, -f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY];
            special.get(bits.rem_euclid(7) as usize).copied().unwrap_or(f64::MIN)
        }
        Shape::Random => f64::from_bits(bits as u64),
        _ => bits as i32 as f64 / 8.0,
    }
}

fn text(bits: i128, shape: Shape) -> String {
    match shape {
        Shape::Random => "aé€😀z".chars().cycle().take(bits.rem_euclid(40) as usize).collect(),
        Shape::Extremes => "x".repeat(bits.rem_euclid(3) as usize * 200),
        _ => format!("https://example.org/{}?q={bits}", bits.rem_euclid(7)),
    }
}

/// Returns a column, and the same as it should be decoded. About one in `1 / nulls` values is NULL.
pub(crate) fn column(
    column_type: ColumnType,
    shape: Shape,
    nulls: f64,
    rows: usize,
    seed: u64,
) -> (ArrayRef, ArrayRef) {
    let mut random = StdRng::seed_from_u64(seed);
    let values: Vec<Option<i128>> = numbers(shape, rows, &mut random)
        .into_iter()
        .map(|value| (!random.random_bool(nulls)).then_some(value))
        .collect();
    macro_rules! of {
        ($array:ty, $value:expr) => {
            Arc::new(values.iter().map(|value| value.map($value)).collect::<$array>()) as ArrayRef
        };
    }
    let array = match column_type {
        ColumnType::Boolean => of!(BooleanArray, |v| v & 1 == 1),
        ColumnType::Int16 => of!(Int16Array, |v| v as i16),
        ColumnType::Int32 => of!(Int32Array, |v| v as i32),
        ColumnType::Int64 => of!(Int64Array, |v| v as i64),
        ColumnType::Float32 => of!(Float32Array, |v| float(v, shape) as f32),
        ColumnType::Float64 => of!(Float64Array, |v| float(v, shape)),
        ColumnType::Decimal128 => {
            let decimals: Decimal128Array = values.iter().copied().collect();
            Arc::new(decimals.with_precision_and_scale(38, 4).unwrap())
        }
        ColumnType::Date32 => of!(Date32Array, |v| v as i32),
        ColumnType::Timestamp => {
            let times: TimestampMicrosecondArray =
                values.iter().map(|value| value.map(|v| v as i64)).collect();
            Arc::new(times.with_timezone("+02:00"))
        }
        ColumnType::Time64 => of!(Time64MicrosecondArray, |v| v as i64),
        ColumnType::FixedBinary16 => {
            let mut builder = FixedSizeBinaryBuilder::new(16);
            for value in &values {
                match value {
                    Some(value) => builder.append_value(value.to_be_bytes()).unwrap(),
                    None => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        ColumnType::Utf8 => {
            let decoded = of!(StringViewArray, |v| text(v, shape));
            let array = of!(StringArray, |v| text(v, shape));
            return (if seed.is_multiple_of(2) { array } else { decoded.clone() }, decoded);
        }
        ColumnType::Binary => {
            let bytes = |v: i128| {
                let mut bytes = text(v, shape).into_bytes();
                bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(3));
                bytes
            };
            let decoded = of!(BinaryViewArray, bytes);
            let array = of!(BinaryArray, bytes);
            return (if seed.is_multiple_of(2) { array } else { decoded.clone() }, decoded);
        }
    };
    assert_eq!(array.len(), rows);
    (array.clone(), array)
}
