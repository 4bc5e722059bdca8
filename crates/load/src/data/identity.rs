//! The identity of a data set: the prefix of its row keys, from which its values follow.

use crate::Error;
use bench_core::{SplitMix64, mix};

/// Longest accepted name of a data set.
const NAME_LEN_MAX: usize = 64;

/// A data set. Runs with equal identities write and read the same rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    prefix: String,
    seed: u64,
}

impl Identity {
    /// Returns the data set of a seed. Its prefix looks like a random UUID (RFC 9562, version 4).
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut random = SplitMix64(seed ^ 0x6c6f_6164_2075_7569);
        let high = random.next_u64() & !0xf000 | 0x4000;
        let low = random.next_u64() & !(0b11 << 62) | 0b10 << 62;
        let text = format!("{high:016x}{low:016x}");
        let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]];
        Self::of(parts.join("-"))
    }

    /// Returns the data set with the name `uuid`: a UUID, or any other short plain name.
    pub(crate) fn named(uuid: &str) -> Result<Self, Error> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if uuid.is_empty() || uuid.len() > NAME_LEN_MAX || !uuid.chars().all(plain) {
            return Err(Error::Setting(format!(
                "--uuid must be 1 to {NAME_LEN_MAX} letters, digits, '-', '_' or '.', not {uuid:?}"
            )));
        }
        Ok(Self::of(uuid.to_owned()))
    }

    fn of(prefix: String) -> Self {
        let mut seed = prefix.len() as u64;
        for byte in prefix.bytes() {
            seed = mix(seed.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte));
        }
        Self { prefix, seed }
    }

    /// Returns the text that all row keys of the data set begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the number that all values of the data set are made from.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_names_the_same_data() {
        let one = Identity::of_seed(1);
        assert_eq!(one, Identity::of_seed(1));
        assert_ne!(one.seed(), Identity::of_seed(2).seed());
        let form: String = one.prefix().chars().map(|c| if c == '-' { '-' } else { 'x' }).collect();
        assert_eq!(form, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
        assert_eq!(one.prefix().as_bytes()[14], b'4');
        assert!(b"89ab".contains(&one.prefix().as_bytes()[19]));
        assert_eq!(Identity::named(one.prefix()).unwrap(), one);
    }

    #[test]
    fn names_that_would_confuse_row_keys_are_refused() {
        for name in ["", "a b", "a:b", "a/b", "<b>", &"x".repeat(65)] {
            assert!(Identity::named(name).is_err(), "{name:?}");
        }
    }
}
