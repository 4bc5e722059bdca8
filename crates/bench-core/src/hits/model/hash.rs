//! The hash of an address, which is a function of its text. Two addresses of counter 62 have the values
//! that queries 40 and 41 look for.

use super::site::{FRONT, HOME, Site};
use super::visit::KNOWN_COUNTER;
use super::words::Vocabulary;
use crate::random::mix;

/// The hash of the home page of counter 62, which query 40 looks for among the referers.
pub(super) const HOME_HASH: i64 = 3_594_120_000_172_545_465;

/// The hash of the front page of counter 62, which query 41 looks for.
pub(super) const FRONT_HASH: i64 = 2_868_770_270_353_813_622;

/// Addresses whose hashes are given.
#[derive(Debug)]
pub(super) struct Hashes {
    known: [(String, i64); 2],
}

impl Hashes {
    pub(super) fn new(words: &Vocabulary) -> Self {
        let known = [(HOME, HOME_HASH), (FRONT, FRONT_HASH)].map(|(page, hash)| {
            let mut url = String::new();
            Site::of(KNOWN_COUNTER).append_url(words, page, &mut url);
            (url, hash)
        });
        Self { known }
    }

    /// Returns the hash of an address; 0 for the empty one.
    pub(super) fn of(&self, url: &str) -> i64 {
        if url.is_empty() {
            return 0;
        }
        let known = self.known.iter().find(|(known, _)| known == url);
        known.map_or_else(|| hash(url.as_bytes()), |(_, hash)| *hash)
    }
}

fn hash(bytes: &[u8]) -> i64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mut state = bytes.len() as u64;
    for word in words.iter().chain([&last]) {
        state = mix(state ^ u64::from_le_bytes(*word));
    }
    state.cast_signed()
}
