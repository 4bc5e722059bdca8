//! Bytes in an answer: base64url of the first of them, with their number.
//!
//! Invariant: an answer has at most as many bytes as its [`Allowance`] began with, and one key and one
//! qualifier beyond them.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Serialize;

/// Bytes of keys and values that an answer may still have.
#[derive(Debug)]
pub(in super::super) struct Allowance(usize);

/// Some bytes, shown in part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct Shown {
    /// The first bytes, as base64url without padding.
    pub(in super::super) data: String,
    pub(in super::super) bytes: usize,
}

impl Allowance {
    pub(in super::super) fn of(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Returns whether no more bytes fit.
    pub(in super::super) fn is_spent(&self) -> bool {
        self.0 == 0
    }

    /// Shows the first `most` bytes, as far as the answer has room, of `all` bytes.
    pub(in super::super) fn show(&mut self, bytes: &[u8], all: usize, most: usize) -> Shown {
        let first = &bytes[..bytes.len().min(most).min(self.0)];
        self.0 -= first.len();
        Shown { data: BASE64_URL_SAFE_NO_PAD.encode(first), bytes: all }
    }

    /// Shows all bytes of a key or qualifier, which is short, also where the answer has no room left.
    pub(in super::super) fn whole(&mut self, bytes: &[u8]) -> Shown {
        self.take(bytes.len());
        Shown { data: BASE64_URL_SAFE_NO_PAD.encode(bytes), bytes: bytes.len() }
    }

    /// Shows the beginning of a text, at most `most` bytes and as far as the answer has room, with a mark
    /// if there is more.
    #[cfg(feature = "sql")]
    pub(in super::super) fn text(&mut self, text: &str, most: usize) -> String {
        let most = most.min(self.0);
        self.take(text.len().min(most));
        if text.len() <= most {
            return text.to_owned();
        }
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        format!("{} …", &text[..end])
    }

    /// Takes `bytes` of the room for something beside keys and values.
    pub(in super::super) fn take(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_cut_by_their_own_bound_and_by_that_of_the_answer() {
        let mut left = Allowance::of(5);
        assert_eq!(left.show(b"\xff\xfe\xfd", 3, 2), Shown { data: "__4".into(), bytes: 3 });
        assert_eq!(left.show(b"abcd", 9, 8), Shown { data: "YWJj".into(), bytes: 9 });
        assert!(left.is_spent());
        assert_eq!(left.show(b"x", 1, 8), Shown { data: String::new(), bytes: 1 });
        left.take(1);
        assert_eq!(left.whole(b"abc"), Shown { data: "YWJj".into(), bytes: 3 });
    }

    #[cfg(feature = "sql")]
    #[test]
    fn texts_are_cut_between_characters_and_take_of_the_room() {
        let mut left = Allowance::of(100);
        assert_eq!(left.text("abc", 3), "abc");
        assert_eq!(left.text("abcd", 3), "abc …");
        assert_eq!(left.text("aéé", 4), "aé …");
        let mut left = Allowance::of(5);
        assert_eq!([left.text("abc", 9), left.text("def", 9)], ["abc", "de …"]);
        assert!(left.is_spent());
        assert_eq!([left.text("g", 9), left.text("", 9)], [" …", ""]);
    }
}
