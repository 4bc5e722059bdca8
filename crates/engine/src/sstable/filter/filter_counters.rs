//! Counters of filter checks by kind of question, and of the sources of scans.

use crate::counters::perf_context::PerfCount;
use crate::sstable::{Asked, FilterQuery};
use base::striped::Striped;

/// Filter counts of one granularity since the engine was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FilterUse {
    /// Filters asked.
    pub probed: u64,
    /// Checks that avoided reading a file.
    pub useful: u64,
    /// The times the answer was maybe and the file did not have it.
    pub false_positives: u64,
}

/// Counts by granularity: of each the filters that let a file pass, the filters that avoided reading a
/// file, and the filters that let a file pass in vain.
#[derive(Default)]
pub(crate) struct FilterCounters(Striped<{ FILTER_COUNTS + 1 }>);

/// Number of counts: three for each kind of question, in the order of [`Asked`].
pub(crate) const FILTER_COUNTS: usize = 12;
/// Where sources of scans are counted.
const SCANNED: usize = FILTER_COUNTS;
/// Asking a filter costs a read about such a part of what a scan's seek in a run does.
const FILTERS_PER_SEEK: u64 = 32;

impl FilterCounters {
    fn add(&self, asked: Asked, what: usize, count: usize) {
        self.0.add(asked as usize * 3 + what, count as u64);
    }

    /// Counts filters asked, and those that kept a file from being read.
    #[inline]
    pub(crate) fn probed(&self, queries: &[FilterQuery<'_>], probed: usize, useful: usize) {
        let first = asked(queries) as usize * 3;
        self.0.add_all([(first, (probed - useful) as u64), (first + 1, useful as u64)]);
    }

    /// Counts the sources that a scan looks at.
    pub(crate) fn scanned(&self, sources: usize) {
        self.0.add(SCANNED, sources as u64);
    }

    /// What reads did on account of there being several runs, in seeks of a scan.
    pub(crate) fn seeks(&self) -> u64 {
        let asked: u64 = Asked::ALL.into_iter().map(|asked| self.read(asked).probed).sum();
        self.0.read(SCANNED) + asked / FILTERS_PER_SEEK
    }

    /// Counts a file whose filter said maybe of a prefix that none of its rows has.
    pub(crate) fn wrong_of_prefix(&self) {
        self.add(Asked::Prefix, 2, 1);
    }

    /// Counts a file that was read since its filter said maybe.
    #[inline]
    pub(crate) fn judge(&self, queries: &[FilterQuery<'_>], found: bool) {
        if !found {
            self.add(asked(queries), 2, 1);
        }
    }

    /// Returns all counts but that of scans.
    pub(crate) fn counts(&self) -> [u64; FILTER_COUNTS] {
        let all = self.0.read_all();
        std::array::from_fn(|at| all[at])
    }

    /// The counts of one granularity.
    pub(crate) fn read(&self, asked: Asked) -> FilterUse {
        let sum = |what: usize| self.0.read(asked as usize * 3 + what);
        let useful = sum(1);
        FilterUse { probed: sum(0) + useful, useful, false_positives: sum(2) }
    }
}

/// Returns how a perf context counts files that filters excluded.
pub(crate) fn filtered(queries: &[FilterQuery<'_>]) -> PerfCount {
    match asked(queries) {
        Asked::Row => PerfCount::FilteredByRow,
        Asked::Family => PerfCount::FilteredByFamily,
        Asked::Column => PerfCount::FilteredByColumn,
        Asked::Prefix => PerfCount::FilteredByPrefix,
    }
}

/// Returns the kind of question of a read; nearly all of its questions are of one kind.
fn asked(queries: &[FilterQuery<'_>]) -> Asked {
    queries.first().map_or(Asked::Row, FilterQuery::asked)
}
