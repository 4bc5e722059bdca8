//! For which questions the filters of a tree's next files hold keys, where that is left to the
//! reads: as fine as they ask, and no finer.
//!
//! A flush, compaction or ingest looks at what was asked of filters since the last look and builds
//! its files accordingly. Files of different granularity stand side by side, since each says its
//! own, and no answer depends on it: what a filter has no key for, it answers by a coarser key.
//!
//! Keys are added as soon as a good part of the reads wants them, and left out when hardly any
//! did for several looks: a missing key costs reads of disk, a needless one only memory.

use crate::locks::TreeLearned;
use crate::options::FilterGranularity;
use crate::sstable::Asked;
use crate::sstable::FilterCounters;
use base::sync::Mutex;

/// Keys are added from this share of the questions on that need them.
const ADDED_FROM_PERCENT: u64 = 10;
/// They are left out below this share.
const LEFT_OUT_BELOW_PERCENT: u64 = 2;

/// How often filters were asked, by what for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Questions {
    rows: u64,
    families: u64,
    columns: u64,
}

impl Questions {
    fn counted(counters: &FilterCounters) -> Self {
        let probed = |asked| counters.read(asked).probed;
        let (rows, families) = (probed(Asked::Row), probed(Asked::Family));
        Self { rows, families, columns: probed(Asked::Column) }
    }

    /// Those for which `granularity` is needed at least.
    fn needing(&self, granularity: FilterGranularity) -> u64 {
        match granularity {
            FilterGranularity::Row => self.rows + self.families + self.columns,
            FilterGranularity::Family => self.families + self.columns,
            FilterGranularity::Column => self.columns,
        }
    }

    fn total(&self) -> u64 {
        self.needing(FilterGranularity::Row)
    }

    fn each(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            rows: of(self.rows, other.rows),
            families: of(self.families, other.families),
            columns: of(self.columns, other.columns),
        }
    }
}

/// The granularity after `current` when `recent` was asked.
fn choose(current: FilterGranularity, recent: &Questions) -> FilterGranularity {
    let finest = |percent| {
        [FilterGranularity::Column, FilterGranularity::Family]
            .into_iter()
            .find(|finer| recent.needing(*finer) * 100 >= recent.total() * percent)
            .unwrap_or(FilterGranularity::Row)
    };
    // The first is never finer than the second: its share is larger.
    current.clamp(finest(ADDED_FROM_PERCENT), finest(LEFT_OUT_BELOW_PERCENT))
}

/// What a tree has learned from its reads. See the file header.
pub(crate) struct Learned(Mutex<Lesson, TreeLearned>);

struct Lesson {
    choice: FilterGranularity,
    /// Filters asked since the last look, below which it is no evidence.
    asked_min: u64,
    /// Questions counted at the last look that was evidence.
    seen: Questions,
    /// Those before it, each time worth half.
    recent: Questions,
}

impl Learned {
    /// Begins with the granularity of the tree's newest file, or as fine as can be: of a tree
    /// without files it is not known what reads will ask, and a key too many costs less.
    pub(crate) fn beginning_with(newest: Option<FilterGranularity>, asked_min: u64) -> Self {
        let choice = newest.unwrap_or(FilterGranularity::Column);
        let (seen, recent) = (Questions::default(), Questions::default());
        Self(Mutex::new(Lesson { choice, asked_min, seen, recent }))
    }

    /// Looks at what was asked by now, and chooses.
    pub(crate) fn look(&self, counters: &FilterCounters) -> FilterGranularity {
        self.0.lock().look(Questions::counted(counters))
    }

    /// What was chosen at the last look.
    pub(crate) fn choice(&self) -> FilterGranularity {
        self.0.lock().choice
    }
}

impl Lesson {
    fn look(&mut self, counted: Questions) -> FilterGranularity {
        let new = counted.each(&self.seen, u64::saturating_sub);
        if new.total() >= self.asked_min {
            self.seen = counted;
            self.recent = self.recent.each(&new, |before, new| before / 2 + new);
            self.choice = choose(self.choice, &self.recent);
        }
        self.choice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED_MIN: u64 = 1_000;
    use FilterGranularity::{Column, Family, Row};

    #[test]
    fn the_choice_is_as_fine_as_a_good_part_of_the_questions() {
        for (case, current, [rows, families, columns], want) in [
            ("nothing asked", Column, [0, 0, 0], Column),
            ("rows only", Column, [9_000, 0, 0], Row),
            ("rows only, and no finer keys yet", Row, [9_000, 0, 0], Row),
            ("columns only", Row, [0, 0, 9_000], Column),
            ("families only, keys too fine", Column, [0, 9_000, 0], Family),
            ("families only, keys too coarse", Row, [0, 9_000, 0], Family),
            ("a tenth wants columns", Row, [9_000, 0, 1_000], Column),
            ("less wants columns, without keys", Row, [9_100, 0, 900], Row),
            ("less wants columns, with keys", Column, [9_100, 0, 900], Column),
            ("a fiftieth still wants columns", Column, [9_800, 0, 200], Column),
            ("hardly any wants columns", Column, [9_900, 0, 100], Row),
            ("hardly any wants columns, some families", Column, [9_000, 900, 100], Family),
            ("columns need what families need", Row, [9_000, 500, 500], Family),
        ] {
            let recent = Questions { rows, families, columns };
            assert_eq!(choose(current, &recent), want, "{case}");
        }
    }

    #[test]
    fn keys_come_at_the_first_look_and_go_after_several() {
        let mut lesson = Lesson {
            choice: Column,
            asked_min: ASKED_MIN,
            seen: Questions::default(),
            recent: Questions::default(),
        };
        let mut counted = Questions::default();
        let mut ask = |rows, columns| {
            counted.rows += rows;
            counted.columns += columns;
            lesson.look(counted)
        };
        assert_eq!(ask(ASKED_MIN - 1, 0), Column, "too few to tell");
        assert_eq!(ask(1, 0), Row, "together they tell");
        assert_eq!(ask(0, ASKED_MIN - 1), Row);
        assert_eq!(ask(0, 1), Column);
        let looks = (1..).find(|_| ask(ASKED_MIN, 0) == Row);
        assert_eq!(looks, Some(5));
    }
}
