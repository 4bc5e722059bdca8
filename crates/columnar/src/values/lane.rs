//! Fixed-width values as integers with arithmetic that wraps around.

use super::Column;
use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};
use std::hash::Hash;

/// An integer of 2, 4, 8 or 16 bytes.
pub(crate) trait Lane: ArrowNativeType + Copy + Eq + Ord + Hash {
    /// Count of bytes in a value.
    const BYTES: usize = size_of::<Self>();
    /// Most bits of a packed number that is added to a value.
    const PACKED_BITS_MAX: u32 = if Self::BYTES < 8 { 8 * Self::BYTES as u32 } else { 64 };

    /// Returns this value less another one, modulo 2 to the number of its bits.
    fn minus(self, other: Self) -> Self;
    /// Returns this value and another one, modulo 2 to the number of its bits.
    fn plus(self, other: Self) -> Self;
    /// Returns the low bits of a number.
    fn of_number(number: u64) -> Self;
    /// Returns this value as an unsigned number, if it has at most 64 bits.
    fn number(self) -> Option<u64>;
    /// Returns the low 64 bits, the sign extended.
    fn low(self) -> u64;
    /// Appends the bytes of the value, little-endian.
    fn put(self, to: &mut Vec<u8>);
    /// Returns the value that some bytes are, little-endian; 0 if there are not [`Self::BYTES`] of them.
    fn get(bytes: &[u8]) -> Self;
    /// Returns values as a column of their width.
    fn column(values: ScalarBuffer<Self>) -> Column;
    /// Returns the values of a column of this width, else `None`.
    fn of_column(column: Column) -> Option<ScalarBuffer<Self>>;
}

macro_rules! lane {
    ($signed:ty, $unsigned:ty, $column:ident) => {
        impl Lane for $signed {
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn of_number(number: u64) -> Self {
                number as Self
            }
            fn number(self) -> Option<u64> {
                u64::try_from(self as $unsigned).ok()
            }
            fn low(self) -> u64 {
                self as u64
            }
            fn put(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
            fn get(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(0, Self::from_le_bytes)
            }
            fn column(values: ScalarBuffer<Self>) -> Column {
                Column::$column(values)
            }
            fn of_column(column: Column) -> Option<ScalarBuffer<Self>> {
                match column {
                    Column::$column(values) => Some(values),
                    _ => None,
                }
            }
        }
    };
}

lane!(i16, u16, Two);
lane!(i32, u32, Four);
lane!(i64, u64, Eight);
lane!(i128, u128, Sixteen);

/// Returns bytes as values: in place where they are aligned, else a copy. Bytes behind the last whole
/// value are left out.
pub(crate) fn aligned<T: ArrowNativeType>(bytes: Buffer) -> ScalarBuffer<T> {
    let whole = bytes.len() / size_of::<T>() * size_of::<T>();
    let bytes = bytes.slice_with_length(0, whole);
    if bytes.as_ptr().align_offset(align_of::<T>()) == 0 {
        ScalarBuffer::from(bytes)
    } else {
        ScalarBuffer::from(Buffer::from_slice_ref(&bytes[..]))
    }
}

/// Returns each value as often as `lengths` says. The lengths must be positive and make `count` together.
pub(crate) fn repeat<T: Copy>(values: &[T], lengths: &[i32], count: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(count);
    for (&value, &length) in values.iter().zip(lengths) {
        out.extend(std::iter::repeat_n(value, length as usize));
    }
    out
}
