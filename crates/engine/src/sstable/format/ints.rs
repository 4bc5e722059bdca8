//! Fixed-width little-endian integers in a block, and columns of them.
//!
//! A column of integers is a base and, per element, a difference of 0, 2, 4 or 8 bytes: width 0
//! says that all are equal to the base, so that the common case costs nothing.

use base::codec::PutBytes;
use std::ops::Range;

/// The integer at byte `at`. Panics out of bounds: callers checked the layout.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let (bytes, _) = bytes[at..].split_first_chunk().expect("checked with the layout");
    u16::from_le_bytes(*bytes)
}

/// The integer at byte `at`. Panics out of bounds: callers checked the layout.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let (bytes, _) = bytes[at..].split_first_chunk().expect("checked with the layout");
    u32::from_le_bytes(*bytes)
}

/// The integer at byte `at`. Panics out of bounds: callers checked the layout.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let (bytes, _) = bytes[at..].split_first_chunk().expect("checked with the layout");
    u64::from_le_bytes(*bytes)
}

/// The `index`-th integer of `width` bytes in the array that starts at `start`; 0 for width 0.
#[inline]
pub(crate) fn int_at(bytes: &[u8], start: usize, width: usize, index: usize) -> u64 {
    match width {
        0 => 0,
        2 => u64::from(u16_at(bytes, start + 2 * index)),
        4 => u64::from(u32_at(bytes, start + 4 * index)),
        _ => u64_at(bytes, start + 8 * index),
    }
}

/// Appends `value` in `width` bytes, which it must fit.
pub(crate) fn put_int(out: &mut Vec<u8>, width: usize, value: u64) {
    match width {
        0 => assert_eq!(value, 0, "width 0 holds zeroes"),
        2 => out.put_u16(u16::try_from(value).expect("the width was chosen for the largest")),
        4 => out.put_u32(u32::try_from(value).expect("the width was chosen for the largest")),
        _ => out.put_u64(value),
    }
}

/// Writes `values`, which fit `width`, one after the other from byte `at` on.
pub(crate) fn put_ints(
    bytes: &mut [u8],
    at: usize,
    width: usize,
    values: impl IntoIterator<Item = u64>,
) {
    fn put<const N: usize>(
        bytes: &mut [u8],
        values: impl IntoIterator<Item = u64>,
        of: impl Fn(u64) -> [u8; N],
    ) {
        let (places, _) = bytes.as_chunks_mut::<N>();
        places.iter_mut().zip(values).for_each(|(place, value)| *place = of(value));
    }
    match width {
        0 => {}
        2 => put(&mut bytes[at..], values, |value| (value as u16).to_le_bytes()),
        4 => put(&mut bytes[at..], values, |value| (value as u32).to_le_bytes()),
        _ => put(&mut bytes[at..], values, u64::to_le_bytes),
    }
}

/// Width of differences up to `max`: 0, 4 or 8.
pub(crate) fn width_for(max: u64) -> usize {
    match max {
        0 => 0,
        _ if max <= u64::from(u32::MAX) => 4,
        _ => 8,
    }
}

/// Width of offsets into a section of `len` bytes: 2 up to 65,535 bytes, else 4.
pub(crate) fn offset_width(len: usize) -> usize {
    if len <= usize::from(u16::MAX) { 2 } else { 4 }
}

/// `at` rounded up to a multiple of `alignment`, a power of two.
pub(crate) fn align(at: usize, alignment: usize) -> usize {
    (at + alignment - 1) & !(alignment - 1)
}

/// Appends zeroes up to length `at`.
pub(crate) fn pad_to(out: &mut Vec<u8>, at: usize) {
    assert!(out.len() <= at, "sections are written in the order of the layout");
    out.resize(at, 0);
}

/// The first index in `from..to` for which `less` is false, all before it being true.
pub(crate) fn partition(from: usize, to: usize, less: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut to) = (from, to);
    while from < to {
        let middle = from + (to - from) / 2;
        if less(middle) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}

/// The number of `u64`s in `column`, which ascend, that are less than `target`. Without branches
/// on what it finds, since a search of random keys mispredicts half of them.
#[inline]
pub(crate) fn lower_bound(column: &[u8], target: u64) -> usize {
    let (column, _) = column.as_chunks::<8>();
    column.partition_point(|value| u64::from_le_bytes(*value) < target)
}

/// Columns shorter than this are searched by halving alone.
const GUESSED_LEN_MIN: usize = 32;

/// The same, tried first where `target` would be if the integers were spread evenly, which takes
/// few lines of memory where halving takes one for each step.
#[inline]
pub(crate) fn guessed_lower_bound(column: &[u8], target: u64) -> usize {
    let len = column.len() / 8;
    if len < GUESSED_LEN_MIN {
        return lower_bound(column, target);
    }
    let at = |index: usize| u64_at(column, 8 * index);
    let Range { start: mut from, end: mut to } = guess(column, target);
    let mut step = spread(len);
    while from > 0 && at(from - 1) >= target {
        (to, step) = (from, 2 * step);
        from = from.saturating_sub(step);
    }
    while to < len && at(to) < target {
        (from, step) = (to + 1, 2 * step);
        to = (to + step).min(len);
    }
    from + lower_bound(&column[8 * from..8 * to], target)
}

/// Where in `column`, which ascends and is not empty, `target` probably lies if the integers are
/// spread evenly.
#[inline]
pub(crate) fn guess(column: &[u8], target: u64) -> Range<usize> {
    let len = column.len() / 8;
    let (first, last) = (u64_at(column, 0), u64_at(column, 8 * (len - 1)));
    let (guess, around) = (scale(fraction(first, last, target), len), spread(len));
    guess.saturating_sub(around)..(guess + around).min(len)
}

/// Where `target` lies on the way from `from` to `to`, in parts of 2^32.
#[inline]
pub(crate) fn fraction(from: u64, to: u64, target: u64) -> u32 {
    let (way, gone) = (to.saturating_sub(from), target.saturating_sub(from));
    if gone >= way {
        return u32::MAX;
    }
    let shift = 32u32.saturating_sub(way.leading_zeros());
    let (way, gone) = (way >> shift, gone >> shift);
    u32::try_from((gone << 32) / way).unwrap_or(u32::MAX)
}

/// The part `fraction` of `len`.
#[inline]
pub(crate) fn scale(fraction: u32, len: usize) -> usize {
    ((u64::from(fraction) * len as u64) >> 32) as usize
}

/// How far from its even place one of `len` random values usually is, at most: 1.5 standard
/// deviations of the middle one, or a little more.
#[inline]
pub(crate) fn spread(len: usize) -> usize {
    let bits = usize::BITS - len.leading_zeros();
    (3 << (bits / 2)) / 4 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_guess_leads_where_halving_does(
            mut values in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..100], 0..300),
            targets in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..100], 20),
        ) {
            values.sort_unstable();
            let column: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            for target in targets.into_iter().chain(values.iter().copied().take(50)) {
                let less = values.partition_point(|value| *value < target);
                prop_assert_eq!(guessed_lower_bound(&column, target), less);
            }
        }

        #[test]
        fn a_fraction_is_of_the_way(from: u64, way: u64, gone: u64) {
            let to = from.saturating_add(way);
            let target = from.saturating_add(gone);
            let parts = fraction(from, to, target);
            if target >= to {
                prop_assert_eq!(parts, u32::MAX);
            } else {
                let exact = (target - from) as f64 / (to - from) as f64;
                prop_assert!((f64::from(parts) / 2f64.powi(32) - exact).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn integers_read_back_at_every_width() {
        for (width, values) in [(2, [0, 7, 65_535]), (4, [0, 7, 1 << 31]), (8, [0, 7, 1 << 63])] {
            let mut out = vec![9; 3];
            for value in values {
                put_int(&mut out, width, value);
            }
            for (index, value) in values.into_iter().enumerate() {
                assert_eq!(int_at(&out, 3, width, index), value);
            }
            let mut again = vec![9; out.len()];
            put_ints(&mut again, 3, width, values);
            assert_eq!(again, out);
        }
    }

    #[test]
    fn lower_bound_counts_what_is_less() {
        for len in 0..20u64 {
            let values: Vec<u64> = (0..len).map(|at| at / 2 * 10).collect();
            let column: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            for target in 0..110 {
                let less = values.iter().filter(|value| **value < target).count();
                assert_eq!(lower_bound(&column, target), less);
            }
        }
    }

    #[test]
    fn partition_finds_the_border() {
        for border in 0..10 {
            assert_eq!(partition(0, 10, |index| index < border), border);
        }
    }
}
