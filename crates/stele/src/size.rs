//! Byte sizes as people write them: `64MiB`, `1GiB`, `65536`.

use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// A number of bytes. Reads `N`, `N KiB`, `N MiB` or `N GiB` (the space is optional).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Written")]
pub(crate) struct ByteSize(pub(crate) u64);

/// The two ways a size stands in a configuration file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Text(String),
}

const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl TryFrom<Written> for ByteSize {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(bytes) => Ok(Self(bytes)),
            Written::Text(text) => text.parse(),
        }
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, shift) = UNITS
            .iter()
            .find_map(|(unit, shift)| text.strip_suffix(unit).map(|number| (number, *shift)))
            .unwrap_or((text, 0));
        let number: u64 = number.trim().parse().map_err(|_| {
            format!("invalid size {text:?}; use bytes, KiB, MiB or GiB, e.g. 64MiB")
        })?;
        number
            .checked_mul(1 << shift)
            .map(Self)
            .ok_or_else(|| format!("{text} is more bytes than can be counted"))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, shift)| self.0 != 0 && self.0.is_multiple_of(1 << shift));
        match unit {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_alike() {
        for (text, bytes) in [("64MiB", 64 << 20), ("1GiB", 1 << 30), ("1KiB", 1024), ("7", 7)] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
        assert_eq!("2 MiB".parse(), Ok(ByteSize(2 << 20)));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "MiB", "-1", "1.5GiB", "64MB", "99999999999GiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
