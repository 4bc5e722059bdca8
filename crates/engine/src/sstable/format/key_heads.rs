//! Sorted keys as u64 heads and tails, the form in which data blocks keep rows and index
//! partitions keep the first rows of blocks.
//!
//! All keys share a prefix, kept once; what follows it is a key's suffix. Its **head** is the
//! first 8 bytes of the suffix, big-endian, padded with zeroes, so that comparing heads compares
//! keys, except that equal heads leave the rest open. The **tail** is what decides then: the
//! bytes of the suffix from the ninth on. Where some suffix is shorter than 8 bytes (`ab` and
//! `ab\0` have one head), every tail of the block is preceded by a mark, the number of head bytes
//! that the suffix really has (0..=8); comparing (head, mark, tail) then compares keys again.

use super::damage::{Damage, ensure};
use std::cmp::Ordering;

/// Bytes of a suffix that its head holds.
pub(crate) const HEAD_LEN: usize = 8;

/// Whether tails begin with a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TailForm {
    /// Every suffix has 8 bytes or more; a tail is the rest of it.
    Plain,
    /// A tail is the mark, then the rest of the suffix.
    Marked,
}

/// Length of the longest common prefix.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// What follows `prefix` in `key`; `None` if it does not begin so. Prefixes are mostly short, and
/// then a call to compare them costs more than the comparison.
#[inline]
pub(crate) fn suffix_of<'a>(key: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    if prefix.len() > HEAD_LEN {
        return key.strip_prefix(prefix);
    }
    let (start, suffix) = key.split_at_checked(prefix.len())?;
    start.iter().zip(prefix).all(|(a, b)| a == b).then_some(suffix)
}

/// The number of `heads`, which ascend, that are less than `head`. Without branches on what it
/// finds (the library's own search has none), since a search of random keys mispredicts half of
/// them.
#[inline]
pub(crate) fn heads_below(heads: &[u64], head: u64) -> usize {
    heads.partition_point(|one| *one < head)
}

/// The head of `suffix`.
#[inline]
pub(crate) fn head_of(suffix: &[u8]) -> u64 {
    if let Some((head, _)) = suffix.split_first_chunk::<HEAD_LEN>() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; HEAD_LEN];
    head[..suffix.len()].copy_from_slice(suffix);
    u64::from_be_bytes(head)
}

/// Appends the tail of `suffix`.
pub(crate) fn put_tail(out: &mut Vec<u8>, form: TailForm, suffix: &[u8]) {
    let head_len = suffix.len().min(HEAD_LEN);
    match form {
        TailForm::Plain => assert_eq!(head_len, HEAD_LEN, "a short suffix needs marks"),
        TailForm::Marked => out.push(head_len as u8),
    }
    out.extend_from_slice(&suffix[head_len..]);
}

/// Appends the suffix of a checked head and tail.
#[inline]
pub(crate) fn put_suffix(out: &mut Vec<u8>, form: TailForm, head: u64, tail: &[u8]) {
    if form == TailForm::Plain {
        // The common form, in two writes of known length and place.
        out.extend_from_slice(&head.to_be_bytes());
        out.extend_from_slice(tail);
        return;
    }
    let (head_len, rest) = split_tail(form, tail);
    out.extend_from_slice(&head.to_be_bytes()[..usize::from(head_len)]);
    out.extend_from_slice(rest);
}

/// Length of the suffix of a checked tail.
pub(crate) fn suffix_len(form: TailForm, tail: &[u8]) -> usize {
    let (head_len, rest) = split_tail(form, tail);
    usize::from(head_len) + rest.len()
}

/// A key being searched for, split at the prefix as the keys of a block are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) head: u64,
    head_len: u8,
    rest: &'a [u8],
}

impl<'a> Target<'a> {
    /// `key` against keys that share `prefix`; without that prefix, how it compares to them all.
    #[inline]
    pub(crate) fn against(key: &'a [u8], prefix: &[u8]) -> Result<Self, Ordering> {
        let Some(suffix) = suffix_of(key, prefix) else { return Err(key.cmp(prefix)) };
        let head_len = suffix.len().min(HEAD_LEN);
        Ok(Self { head: head_of(suffix), head_len: head_len as u8, rest: &suffix[head_len..] })
    }

    /// Compares a checked key with the target.
    pub(crate) fn cmp_key(&self, form: TailForm, head: u64, tail: &[u8]) -> Ordering {
        head.cmp(&self.head).then_with(|| {
            let (head_len, rest) = split_tail(form, tail);
            head_len.cmp(&self.head_len).then_with(|| rest.cmp(self.rest))
        })
    }
}

/// The head length and the rest of the suffix in a checked tail.
fn split_tail(form: TailForm, tail: &[u8]) -> (u8, &[u8]) {
    match form {
        TailForm::Plain => (HEAD_LEN as u8, tail),
        TailForm::Marked => {
            let (&head_len, rest) = tail.split_first().expect("marked tails are never empty");
            (head_len, rest)
        }
    }
}

/// Checks that a head and its tail are the form of one key; `at` is where the tail lies.
pub(crate) fn check_key(form: TailForm, head: u64, tail: &[u8], at: usize) -> Result<(), Damage> {
    if form == TailForm::Plain {
        return Ok(());
    }
    let Some((&head_len, rest)) = tail.split_first() else {
        return Err(Damage::new(at, "a row tail without its mark"));
    };
    ensure(usize::from(head_len) <= HEAD_LEN, at, "a row tail's mark is over 8")?;
    ensure(usize::from(head_len) == HEAD_LEN || rest.is_empty(), at, "a short row with a tail")?;
    let beyond = head.to_be_bytes();
    let zero = beyond[usize::from(head_len)..].iter().all(|byte| *byte == 0);
    ensure(zero, at, "a short row whose head is not padded with zeroes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..12)
    }

    #[test]
    fn heads_below_counts_what_is_less() {
        for len in 0..20u64 {
            let heads: Vec<u64> = (0..len).map(|at| at / 2 * 10).collect();
            for head in 0..110 {
                let less = heads.iter().filter(|one| **one < head).count();
                assert_eq!(heads_below(&heads, head), less);
            }
        }
    }

    proptest! {
        #[test]
        fn a_suffix_is_what_follows_the_prefix(
            key in proptest::collection::vec(0u8..2, 0..14),
            prefix in proptest::collection::vec(0u8..2, 0..12),
        ) {
            prop_assert_eq!(suffix_of(&key, &prefix), key.strip_prefix(&*prefix));
        }

        #[test]
        fn heads_and_tails_compare_as_keys_do(a in key(), b in key()) {
            let target = Target::against(&b, &[]).unwrap();
            let mut tail = Vec::new();
            put_tail(&mut tail, TailForm::Marked, &a);
            check_key(TailForm::Marked, head_of(&a), &tail, 0).unwrap();
            prop_assert_eq!(target.cmp_key(TailForm::Marked, head_of(&a), &tail), a.cmp(&b));
            if a.len() >= HEAD_LEN {
                let tail = &a[HEAD_LEN..];
                prop_assert_eq!(target.cmp_key(TailForm::Plain, head_of(&a), tail), a.cmp(&b));
            }
            let mut again = Vec::new();
            put_suffix(&mut again, TailForm::Marked, head_of(&a), &tail);
            prop_assert_eq!(again, a);
        }

        #[test]
        fn a_key_outside_the_prefix_compares_as_its_keys_do(
            key in key(),
            prefix in key(),
            suffix in key(),
        ) {
            if let Err(order) = Target::against(&key, &prefix) {
                let other = [prefix, suffix].concat();
                prop_assert_eq!(key.cmp(&other), order);
            }
        }
    }
}
