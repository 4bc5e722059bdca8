//! The identity of a data set: the prefix of its row keys, from which its values follow.
//!
//! Invariants:
//! 1. Every prefix ends with the tag of its form, and `:` follows it in row keys. So no run meets the rows
//!    of another workload or of another shape, whatever its name or seed.
//! 2. The prefix of a data set is also a name of it, for a later run with the same form.

use crate::Error;
use bench_core::{SplitMix64, mix};

/// Longest accepted name of a data set.
const NAME_LEN_MAX: usize = 64;

/// A data set. Runs with equal identities write and read the same rows.
///
/// Its `form` is a text of all that decides the content of its rows besides name and seed: the workload,
/// columns, bytes of a value and the like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    prefix: String,
    seed: u64,
}

impl Identity {
    /// Returns the data set of a seed. Its prefix looks like a random UUID (RFC 9562, version 4).
    pub(crate) fn of_seed(seed: u64, form: &str) -> Self {
        let mut random = SplitMix64(seed ^ 0x6c6f_6164_2075_7569);
        let high = random.next_u64() & !0xf000 | 0x4000;
        let low = (random.next_u64() & !(0b11 << 62) | 0b10 << 62) >> 32;
        let text = format!("{high:016x}{low:08x}{}", tag(form));
        let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]];
        Self::of(parts.join("-"))
    }

    /// Returns the data set with the name `uuid`: a UUID, or any other short plain name. Its prefix is
    /// the name and the tag of the form, unless the name ends with it.
    pub(crate) fn named(uuid: &str, form: &str) -> Result<Self, Error> {
        let tag = tag(form);
        let tagged = uuid.ends_with(&tag);
        let len_max = NAME_LEN_MAX + if tagged { 1 + tag.len() } else { 0 };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if uuid.is_empty() || uuid.len() > len_max || !uuid.chars().all(plain) {
            return Err(Error::Setting(format!(
                "--uuid must be 1 to {NAME_LEN_MAX} letters, digits, '-', '_' or '.', not {uuid:?}"
            )));
        }
        Ok(Self::of(if tagged { uuid.to_owned() } else { format!("{uuid}-{tag}") }))
    }

    fn of(prefix: String) -> Self {
        let seed = hash(&prefix);
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

/// Returns eight digits made from a form.
fn tag(form: &str) -> String {
    format!("{:08x}", hash(form) >> 32)
}

fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte| mix(hash.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte));
    text.bytes().fold(text.len() as u64, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_names_the_same_data() {
        let one = Identity::of_seed(1, "scans");
        assert_eq!(one, Identity::of_seed(1, "scans"));
        assert_ne!(one.seed(), Identity::of_seed(2, "scans").seed());
        let form: String = one.prefix().chars().map(|c| if c == '-' { '-' } else { 'x' }).collect();
        assert_eq!(form, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
        assert_eq!(one.prefix().as_bytes()[14], b'4');
        assert!(b"89ab".contains(&one.prefix().as_bytes()[19]));
        assert_eq!(Identity::named(one.prefix(), "scans").unwrap(), one);
    }

    #[test]
    fn data_of_another_form_has_other_rows_and_values() {
        let named = |name: &str, form| Identity::named(name, form).unwrap();
        assert_eq!(named("mine", "scans 256"), named("mine", "scans 256"));
        let mine = named("mine", "scans 256");
        assert!(mine.prefix().starts_with("mine-"));
        assert_eq!(named(mine.prefix(), "scans 256"), mine);
        let long = "x".repeat(NAME_LEN_MAX);
        let long = named(&long, "scans 256");
        assert_eq!(named(long.prefix(), "scans 256"), long);
        for (one, two) in [
            (named("mine", "scans 256"), named("mine", "scans 255")),
            (named("mine", "scans 256"), named("mine", "hot-keys 256")),
            (mine.clone(), named(mine.prefix(), "scans 255")),
            (Identity::of_seed(1, "scans 256"), Identity::of_seed(1, "scans 255")),
        ] {
            assert_ne!(one.seed(), two.seed());
            let (one, two) = (format!("{}:", one.prefix()), format!("{}:", two.prefix()));
            assert!(!one.starts_with(&two) && !two.starts_with(&one), "{one} {two}");
        }
    }

    #[test]
    fn names_that_would_confuse_row_keys_are_refused() {
        for name in ["", "a b", "a:b", "a/b", "<b>", &"x".repeat(65)] {
            assert!(Identity::named(name, "scans").is_err(), "{name:?}");
        }
    }
}
