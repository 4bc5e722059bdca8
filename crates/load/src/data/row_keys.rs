//! Row keys and qualifiers as functions of numbers, and the numbers back from them.

use bench_core::mix;
use std::fmt::Write;

/// Form of the row keys of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKeys {
    /// `PREFIX:NUMBER`, as the published key-value tool writes them.
    Numbered,
    /// `PREFIX:` and 20 digits, so that rows sort by number.
    Ordered,
    /// `PREFIX:user` and 20 digits of a hash, so that neighbours in number lie far apart.
    Hashed,
}

impl RowKeys {
    /// Returns the row key of key `number`.
    pub(crate) fn row(self, prefix: &str, number: u64) -> Vec<u8> {
        let mut row = String::with_capacity(prefix.len() + 26);
        row.push_str(prefix);
        let written = match self {
            Self::Numbered => write!(row, ":{number}"),
            Self::Ordered => write!(row, ":{number:020}"),
            Self::Hashed => write!(row, ":user{:020}", mix(number)),
        };
        written.expect("a string takes all text");
        row.into_bytes()
    }

    /// Returns a row key that was never written and sorts directly behind that of key `number`.
    pub(crate) fn absent(self, prefix: &str, number: u64) -> Vec<u8> {
        let mut row = self.row(prefix, number);
        row.push(b'!');
        row
    }

    /// Returns the number of the key that `row` is the row key of.
    pub(crate) fn number(self, prefix: &str, row: &[u8]) -> Option<u64> {
        let rest = row.strip_prefix(prefix.as_bytes())?.strip_prefix(b":")?;
        let digits = match self {
            Self::Hashed => rest.strip_prefix(b"user")?,
            Self::Numbered | Self::Ordered => rest,
        };
        let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let number = if self == Self::Hashed { unmix(number) } else { number };
        (self.row(prefix, number) == row).then_some(number)
    }
}

/// Returns the qualifier of column `index`.
pub(crate) fn column(index: u64) -> Vec<u8> {
    format!("c{index:05}").into_bytes()
}

/// Returns the index of the column with this qualifier.
pub(crate) fn column_of(qualifier: &[u8]) -> Option<u64> {
    let index = std::str::from_utf8(qualifier.strip_prefix(b"c")?).ok()?.parse().ok()?;
    (column(index) == qualifier).then_some(index)
}

/// Returns the number that [`mix`] gives `z` for.
fn unmix(mut z: u64) -> u64 {
    z ^= z >> 31 ^ z >> 62;
    z = z.wrapping_mul(const { inverse(0x94d0_49bb_1331_11eb) });
    z ^= z >> 27 ^ z >> 54;
    z = z.wrapping_mul(const { inverse(0xbf58_476d_1ce4_e5b9) });
    z ^ z >> 30 ^ z >> 60
}

/// Returns the inverse of an odd number modulo 2^64, by Newton's iteration.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_key_comes_back_from_its_row() {
        for keys in [RowKeys::Numbered, RowKeys::Ordered, RowKeys::Hashed] {
            for number in [0, 1, 9, 10, 12_345, u64::from(u32::MAX) + 7, u64::MAX] {
                let row = keys.row("p", number);
                assert_eq!(keys.number("p", &row), Some(number), "{keys:?} {number}");
                assert_eq!(keys.number("p", &keys.absent("p", number)), None);
                assert_eq!(keys.number("q", &row), None);
            }
        }
        assert_eq!(RowKeys::Numbered.row("u", 7), b"u:7");
        assert!(RowKeys::Ordered.row("u", 9) < RowKeys::Ordered.row("u", 10));
        for row in ["p:", "p:01", "p:x", "p:+1", "p", "", "p:user1", "p:99999999999999999999"] {
            assert_eq!(RowKeys::Numbered.number("p", row.as_bytes()), None, "{row}");
        }
        assert_eq!(RowKeys::Numbered.number("p", b"p:\xff"), None);
    }

    #[test]
    fn the_index_of_a_column_comes_back_from_its_qualifier() {
        for index in [0, 9, 99_999, 100_000] {
            assert_eq!(column_of(&column(index)), Some(index));
        }
        for qualifier in ["", "c", "c1", "d00001", "c00001x", "c+0001"] {
            assert_eq!(column_of(qualifier.as_bytes()), None, "{qualifier}");
        }
    }
}
