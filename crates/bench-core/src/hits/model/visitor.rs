//! Visitors: browser, place and person. All of a visitor is a function of its rank, where rank 0
//! comes most often. All seeds share the visitors.

use super::draw::{Shares, between, chance, generator, ranked};
use crate::random::mix;

/// Number of visitors who exist; a table of 1,000,000 rows shows 227,000 of them.
pub(super) const VISITORS: u64 = 30_000_000;

/// The visitor whom query 19 looks for. Rank 1 has about 0.08 % of the visits.
pub(super) const KNOWN_USER: (u64, i64) = (1, 435_090_932_899_640_449);

const KIND: u64 = 0x7669_7369_746f_7231;

const REGIONS: Shares<i32> = Shares::new(&[
    (1_830, 229),
    (669, 2),
    (426, 208),
    (332, 169),
    (184, 32),
    (179, 34),
    (176, 184),
    (154, 42),
    (152, 107),
    (144, 51),
    (5_754, 0),
]);

/// Regions that are not in [`REGIONS`].
const OTHER_REGIONS: u64 = 6_000;

/// Width and height of screens.
const SCREENS: Shares<(i16, i16)> = Shares::new(&[
    (2_450, (1366, 768)),
    (1_900, (1920, 1080)),
    (1_300, (1280, 1024)),
    (950, (1600, 900)),
    (800, (1680, 1050)),
    (700, (1440, 900)),
    (650, (1024, 768)),
    (450, (1280, 800)),
    (300, (1920, 1200)),
    (200, (2560, 1440)),
    (100, (1152, 864)),
    (200, (1638, 1658)),
]);

/// Code and version of browsers.
const AGENTS: Shares<(i16, i16)> = Shares::new(&[
    (2_900, (7, 28)),
    (2_100, (3, 22)),
    (1_500, (2, 10)),
    (1_200, (5, 27)),
    (900, (4, 12)),
    (700, (82, 21)),
    (400, (50, 6)),
    (300, (11, 5)),
]);

/// Operating systems with a share each.
const SYSTEMS: Shares<i16> =
    Shares::new(&[(4_900, 44), (2_500, 2), (1_100, 35), (700, 56), (500, 42), (300, 8)]);

/// Phone code and model. The empty model is of computers.
const PHONES: Shares<(i16, &str)> = Shares::new(&[
    (9_382, (0, "")),
    (500, (1, "iPad")),
    (40, (1, "iPhone")),
    (20, (26, "A500")),
    (14, (10, "N8-00")),
    (10, (5, "ONE TOUCH 6030A")),
    (10, (6, "GT-P7300B")),
    (8, (6, "GT-I9500")),
    (8, (7, "3110000")),
    (8, (14, "eagle75")),
]);

/// Time zones in minutes east of Greenwich.
const ZONES: Shares<i16> = Shares::new(&[
    (6_000, 240),
    (1_500, 180),
    (900, 360),
    (500, 420),
    (400, 120),
    (300, 600),
    (400, 0),
]);

/// Language and country of browsers.
const LANGUAGES: Shares<(&str, &str)> = Shares::new(&[
    (8_300, ("ru", "RU")),
    (700, ("uk", "UA")),
    (500, ("en", "US")),
    (300, ("kk", "KZ")),
    (200, ("tr", "TR")),
]);

/// A visitor of sites, with a browser and a place.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) user_id: i64,
    pub(crate) flash_id: i64,
    pub(crate) ip: i32,
    pub(crate) network: i32,
    pub(crate) region: i32,
    pub(crate) system: i16,
    pub(crate) agent: (i16, i16),
    pub(crate) agent_minor: u64,
    pub(crate) screen: (i16, i16),
    pub(crate) screen_depth: i16,
    pub(crate) java: i16,
    pub(crate) flash: Option<(i16, i16)>,
    pub(crate) net: (i16, i16),
    pub(crate) silverlight: bool,
    pub(crate) phone: (i16, &'static str),
    pub(crate) language: (&'static str, &'static str),
    pub(crate) zone_minutes: i16,
    /// Seconds by which the visitor's clock is wrong.
    pub(crate) clock_error: i64,
    /// Age group, sex, income and interests; zeros if unknown.
    pub(crate) person: [i16; 4],
}

impl Visitor {
    /// Returns the visitor of a rank below [`VISITORS`].
    pub(crate) fn of(rank: u64) -> Self {
        let mut random = generator(KIND, rank);
        let random = &mut random;
        let phone = PHONES.draw(random);
        let mobile = phone.0 != 0;
        let clock_error = if chance(random, 1_500) {
            i64::from(between(random, -7_200, 7_200))
        } else {
            i64::from(between(random, -60, 60))
        };
        Self {
            user_id: user_id(rank),
            flash_id: if chance(random, 5_000) { positive(random.next_u64()) } else { 0 },
            // Visitors behind one address: an address has about two of them.
            // Query 35 subtracts up to 3 from it.
            ip: (mix((rank / 2) ^ KIND) as i32).max(i32::MIN + 3),
            network: ranked(random, 4_000_000) as i32,
            region: region(REGIONS.draw(random), random),
            system: if mobile { between(random, 100, 120) } else { SYSTEMS.draw(random) },
            agent: AGENTS.draw(random),
            agent_minor: random.below(12),
            screen: if mobile { (1024, 768) } else { SCREENS.draw(random) },
            screen_depth: if chance(random, 2_500) { 37 } else { 23 },
            java: i16::from(chance(random, 6_200)),
            flash: (!mobile && chance(random, 8_500)).then(|| (11, between(random, 1, 8))),
            net: if chance(random, 3_000) { (between(random, 2, 4), 0) } else { (0, 0) },
            silverlight: chance(random, 2_000),
            phone,
            language: LANGUAGES.draw(random),
            zone_minutes: ZONES.draw(random),
            clock_error,
            person: person(random),
        }
    }
}

/// Returns an identifier that no other rank has, up to chance.
fn user_id(rank: u64) -> i64 {
    if rank == KNOWN_USER.0 {
        return KNOWN_USER.1;
    }
    positive(mix(rank ^ KIND.rotate_left(32)))
}

/// Returns the upper 63 bits, as a number that is not negative.
pub(crate) fn positive(bits: u64) -> i64 {
    (bits >> 1).cast_signed()
}

fn region(drawn: i32, random: &mut crate::random::SplitMix64) -> i32 {
    if drawn == 0 { 300 + ranked(random, OTHER_REGIONS) as i32 } else { drawn }
}

fn person(random: &mut crate::random::SplitMix64) -> [i16; 4] {
    if chance(random, 4_500) {
        return [0; 4];
    }
    let age = [16, 22, 31, 39, 50, 55][random.below(6) as usize];
    [age, between(random, 1, 2), between(random, 1, 4), between(random, 0, 16_383)]
}
