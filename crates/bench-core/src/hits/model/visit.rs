//! Visits: one visitor, one site, one way to it. The rows of a visit lie near each other among rows
//! of other visits.
//!
//! Half of the rows belong to visits of [`LONG`] rows on average, the other half to visits of
//! [`SHORT`] rows. A row joins one of the visits that are open at its place, so the visit is a function
//! of seed and row alone.

use super::draw::{Shares, chance, generator, ranked};
use super::visitor::VISITORS;
use crate::random::{SplitMix64, mix};

/// Mean number of rows of a long visit.
const LONG: u64 = 20;

/// Mean number of rows of a short visit.
const SHORT: u64 = 2;

/// Rows over which the rows of a visit are spread.
const SPREAD: u64 = 2_000;

/// The counter that queries 36 to 42 look for.
pub(super) const KNOWN_COUNTER: u32 = 62;

const KIND: u64 = 0x7669_7369_7430_0001;

/// Counters with a share of their own; 0 stands for all others.
const COUNTERS: Shares<u32> = Shares::new(&[(2_000, 3_922), (800, KNOWN_COUNTER), (7_200, 0)]);

/// Number of counters without a share of their own, and their least number.
const OTHER_COUNTERS: (u64, u32) = (6_500, 100);

/// The way by which a visitor comes to a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The visitor typed the address or has a bookmark.
    Direct,
    /// A link of another site.
    Link,
    /// The result page of a search engine.
    Search,
    /// An advertisement on another site.
    Ad,
    /// A page that the visitor had saved.
    Saved,
    /// A link of a social network.
    Social,
}

const SOURCES: Shares<Source> = Shares::new(&[
    (3_300, Source::Search),
    (2_900, Source::Direct),
    (3_062, Source::Link),
    (158, Source::Ad),
    (80, Source::Saved),
    (500, Source::Social),
]);

/// Search engine by its code; 3 is Google.
const ENGINES: Shares<i16> =
    Shares::new(&[(5_600, 2), (3_200, 3), (700, 4), (300, 13), (150, 30), (50, 51)]);

const ADVERTISERS: Shares<i16> = Shares::new(&[
    (6_417, 2),
    (1_795, 27),
    (724, 13),
    (618, 45),
    (154, 44),
    (109, 3),
    (84, 62),
    (56, 52),
    (15, 50),
    (13, 28),
    (15, 53),
]);

/// A visit of a visitor to a site.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    /// Rank of the visitor who comes.
    pub(crate) visitor: u64,
    pub(crate) counter: u32,
    pub(crate) source: Source,
    /// Code of the search engine, if the visitor came from one.
    pub(crate) engine: i16,
    /// Code of the advertiser, if the visitor came from an advertisement.
    pub(crate) advertiser: i16,
    /// Rank of the phrase that the visitor searched for.
    pub(crate) phrase: u64,
    /// The counter of the site with the link that the visitor followed.
    pub(crate) from_counter: u32,
    /// Bits of the visit for what is the same in all its rows.
    pub(crate) bits: u64,
}

impl Visit {
    /// Draws the visit of a row.
    pub(super) fn of_row(seed: u64, row: u64, random: &mut SplitMix64) -> Self {
        let long = chance(random, 5_000);
        let mean = if long { LONG } else { SHORT };
        // Each kind has half of the rows, so its visits advance by one every `2 * mean` rows.
        let number = row / (2 * mean) + random.below(SPREAD / (2 * mean));
        Self::of(seed, 2 * number + u64::from(long))
    }

    fn of(seed: u64, number: u64) -> Self {
        let mut random = generator(mix(seed ^ KIND), number);
        let random = &mut random;
        let source = SOURCES.draw(random);
        Self {
            visitor: ranked(random, VISITORS),
            counter: counter(COUNTERS.draw(random), random),
            source,
            engine: if source == Source::Search { ENGINES.draw(random) } else { 0 },
            advertiser: if source == Source::Ad { ADVERTISERS.draw(random) } else { 0 },
            phrase: ranked(random, super::phrase::PHRASES),
            from_counter: counter(0, random),
            bits: random.next_u64(),
        }
    }
}

fn counter(drawn: u32, random: &mut SplitMix64) -> u32 {
    if drawn == 0 {
        return OTHER_COUNTERS.1 + 37 * ranked(random, OTHER_COUNTERS.0) as u32;
    }
    drawn
}
