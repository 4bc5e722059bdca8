//! The world that the rows tell of: visitors come to sites by visits, and each row is a hit of a visit.
//!
//! 1. The things of the world are functions of a number: visitors and phrases of their rank, sites of
//!    their counter, pages of their site, words of their place in the vocabulary. No seed is in them.
//! 2. The seed decides which things meet: the visits, and the hits of rows.
//! 3. Row `r` is a function of the seed and `r`. Its time is a function of `r` and the number of rows.

mod clock;
mod draw;
mod hash;
mod hit;
mod phrase;
mod site;
mod visit;
mod visitor;
mod words;

pub(super) use draw::{between, chance};
pub(super) use hit::Hit;
pub(super) use phrase::append_phrase;
pub(super) use visit::Source;
pub(super) use visitor::positive;

use crate::random::{SplitMix64, mix};
use visit::Visit;
use words::Vocabulary;

const KIND_ROW: u64 = 0x726f_7730_3030_3031;

/// The world, and the seed that decides which of its things meet.
#[derive(Debug)]
pub(super) struct Model {
    seed: u64,
    rows: u64,
    pub(super) words: Vocabulary,
    hashes: hash::Hashes,
}

impl Model {
    pub(super) fn new(seed: u64, rows: u64) -> Self {
        let words = Vocabulary::new();
        let hashes = hash::Hashes::new(&words);
        Self { seed, rows, words, hashes }
    }

    /// Returns the hit of a row.
    pub(super) fn hit(&self, row: u64) -> Hit {
        let (visit, random) = self.visit(row);
        Hit::of(visit, random)
    }

    /// Returns the visit of a row, and the generator that draws the rest of the row.
    pub(super) fn visit(&self, row: u64) -> (Visit, SplitMix64) {
        let mut random = draw::generator(mix(self.seed ^ KIND_ROW), row);
        let visit = Visit::of_row(self.seed, row, &mut random);
        (visit, random)
    }

    /// Returns the time of a row in seconds since 1970-01-01 00:00:00.
    pub(super) fn event_time(&self, row: u64) -> i64 {
        clock::event_time(row, self.rows)
    }

    /// Returns the hash of an address.
    pub(super) fn url_hash(&self, url: &str) -> i64 {
        self.hashes.of(url)
    }
}
