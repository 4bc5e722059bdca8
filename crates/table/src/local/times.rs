//! The server's times: those of cells whose writer leaves the time to the server.
//!
//! 1. The times of a row ascend in the order in which its writes commit, by a unit of its table's
//!    granularity at least, whatever the clock does. A time is drawn under the lock of the row's stripe, which is held
//!    until the write has its place in the order of commits; so it is not held over a sync.
//! 2. A time is the clock's, unless the row was given that one or a later one before. Then it is the
//!    one after the latest; a row that gets more than a write a unit runs ahead of the clock.
//!    A read-modify-write does not drive its row ahead: it gets the latest time of the row again, if
//!    the clock has none after it, and its cell then replaces the one of which it was made.
//! 3. No row runs ahead by more than [`AHEAD_MAX`] of the latest the clock ever showed, in this process
//!    or one before: the engine keeps that, too. At that limit its writes get one time, and the one that
//!    commits last is the one that is kept. But for invariant 4: each process may begin a millisecond
//!    beyond that.
//! 4. A time is above every time given before the engine was opened: the commit times of the log
//!    are not below the times of their cells, and the engine keeps the newest of them. So no write
//!    replaces a version that a process before acknowledged, other than a read-modify-write the one of
//!    which it was made.
//!    In a cluster the same holds of a node that begins to lead a tablet, for the times that other nodes
//!    gave to its rows ([`crate::Term::floor`]).
//! 5. A row is driven ahead by its own writes alone, loads of it included.
//! 6. What a row of a load gets, no other write of the row gets later: a load is installed after writes
//!    that committed since the row was added, and would hide them. At the limit of invariant 3 that does
//!    not hold: there the limit wins, or loads would drive the row on without end, and the load, which
//!    commits last, is kept.
//!
//! Rows share slots by their hash: what is said of a row holds of all rows of its slot together.

use crate::limits::Granularity;
use base::env::Clock;
use engine::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Locks. Enough that two writes seldom wait for each other.
const STRIPES: usize = 1_024;
/// Slots of a stripe. Enough that a server that writes a million rows a second gives few of them
/// a time that is not the clock's: 16 rows a second share a slot.
const SLOTS: usize = 64;
/// How far the times of a row may run ahead of the clock: ten minutes. A row that is written twice a
/// unit is there after as long. Further ahead, readers that ask for what is older than now
/// would miss its cells for longer, and so they would those of every row after a restart.
const AHEAD_MAX: i64 = engine::TIMES_AHEAD_MICROS_MAX;

/// Times given to the rows of one stripe: the latest time of each slot, in microseconds.
type Stripe = [i64; SLOTS];

/// Gives the server's times.
pub(super) struct RowTimes {
    clock: Arc<dyn Clock>,
    stripes: Vec<Mutex<Stripe>>,
    /// The least time that is given, to whatever row: those below may have been by a process before.
    first: i64,
    /// The latest that the clock ever showed.
    shown: AtomicI64,
}

/// Place of a row's times: its stripe and its slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    stripe: usize,
    slot: usize,
}

impl Place {
    /// The place of `row`.
    pub(super) fn of(row: &[u8]) -> Self {
        let hash = base::checksum::xxh3(row) as usize % (STRIPES * SLOTS);
        Self { stripe: hash % STRIPES, slot: hash / STRIPES }
    }
}

/// Stripes held by one who draws times, until dropped.
pub(super) struct Drawing<'a> {
    times: &'a RowTimes,
    held: Held<'a>,
    granularity: Granularity,
    now: i64,
    /// The least time that is given.
    first: i64,
}

/// Stripes that are held, ascending.
type Held<'a> = Vec<(usize, MutexGuard<'a, Stripe>)>;

impl RowTimes {
    /// Times above `before`, the newest that was ever given, in microseconds; 0 if none was. `shown` is
    /// the latest that is known of what the clock showed until then.
    pub(super) fn after(before: u64, shown: u64, clock: Arc<dyn Clock>) -> Self {
        let first = first_after(before);
        let (before, shown) = (micros(before), micros(shown));
        let stripes = (0..STRIPES).map(|_| Mutex::new([i64::MIN; SLOTS])).collect();
        // Whatever is not known of it, nobody ran further ahead.
        let shown = AtomicI64::new(shown.max(before - AHEAD_MAX));
        Self { clock, stripes, first, shown }
    }

    /// Returns the whole millisecond that the clock shows.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp(whole(self.look(), Granularity::Millis))
    }

    /// Begins to draw times of `granularity` for rows at `places`, in any order. Another drawing for one
    /// of them waits. The times are above `floor`, in microseconds: the newest that other nodes gave to rows
    /// of the tablet; 0 if none did.
    pub(super) fn draw_above(
        &self,
        floor: u64,
        granularity: Granularity,
        places: impl IntoIterator<Item = Place>,
    ) -> Drawing<'_> {
        let held = self.hold(places);
        let first = self.first.max(first_after(floor));
        Drawing { times: self, held, granularity, now: whole(self.look(), granularity), first }
    }

    fn hold(&self, places: impl IntoIterator<Item = Place>) -> Held<'_> {
        let mut stripes: Vec<usize> = places.into_iter().map(|place| place.stripe).collect();
        // Everybody takes stripes in this order, so that nobody waits in a circle.
        stripes.sort_unstable();
        stripes.dedup();
        stripes.into_iter().map(|stripe| (stripe, self.stripes[stripe].lock())).collect()
    }

    /// The time of a row of a load that began at `begun`: that, or the next of the row at `place` if it
    /// was given that or a later one. Up to the limit, the row gets no other like it (invariant 6).
    pub(super) fn draw_loaded(
        &self,
        granularity: Granularity,
        place: Place,
        begun: Timestamp,
    ) -> Timestamp {
        let held = self.hold([place]);
        let (now, first) = (begun.0, self.first);
        let mut drawing = Drawing { times: self, held, granularity, now, first };
        let time = drawing.next(place);
        drawing.next(place);
        time
    }

    /// Returns what the clock shows, and notes it.
    fn look(&self) -> i64 {
        let now = self.clock.now_micros();
        if now > self.shown.load(Ordering::Acquire) {
            self.shown.fetch_max(now, Ordering::AcqRel);
        }
        now
    }

    /// The time that follows `before`, where the clock shows `now`.
    fn next(&self, before: i64, now: i64, granularity: Granularity) -> i64 {
        let shown = self.shown.load(Ordering::Acquire);
        let most = whole(shown.saturating_add(AHEAD_MAX), granularity);
        now.max(above(before, granularity).min(most)).max(not_below(before, granularity))
    }
}

impl Drawing<'_> {
    /// The next time of the row at `place`, one of those that were named.
    pub(super) fn next(&mut self, place: Place) -> Timestamp {
        let before = *self.slot(place);
        self.give(place, self.times.next(before, self.now, self.granularity))
    }

    /// The time of a write of the row at `place`, one of those that were named, that reads what it
    /// replaces: not below any that the row was given.
    pub(super) fn current(&mut self, place: Place) -> Timestamp {
        let before = *self.slot(place);
        self.give(place, not_below(before, self.granularity).max(self.now))
    }

    fn slot(&mut self, place: Place) -> &mut i64 {
        let held = self.held.binary_search_by_key(&place.stripe, |(stripe, _)| *stripe);
        &mut self.held[held.expect("the stripe is held")].1[place.slot]
    }

    fn give(&mut self, place: Place, time: i64) -> Timestamp {
        let time = time.max(self.first);
        *self.slot(place) = time;
        Timestamp(time)
    }
}

fn micros(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

/// The first time of all granularities after `before`, the newest that was given; 0 if none was.
fn first_after(before: u64) -> i64 {
    if before == 0 { 0 } else { above(micros(before), Granularity::Millis) }
}

/// The first time of `granularity` after `time`; at the end of time, the last one.
fn above(time: i64, granularity: Granularity) -> i64 {
    let whole = whole(time, granularity);
    whole.checked_add(granularity.micros()).unwrap_or(whole)
}

/// The first time of `granularity` that is not before `time`; another table's row may have left one
/// between two.
fn not_below(time: i64, granularity: Granularity) -> i64 {
    if whole(time, granularity) == time { time } else { above(time, granularity) }
}

/// The last time of `granularity` that is not after `micros`; at the beginning of time, one before 0.
fn whole(micros: i64, granularity: Granularity) -> i64 {
    granularity.truncate(Timestamp(micros)).0.max(-granularity.micros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Granularity::{Micros, Millis};
    use crate::limits::TIMESTAMP_MICROS_STEP;
    use std::time::Duration;

    #[derive(Default)]
    struct HandClock(AtomicI64);

    impl Clock for HandClock {
        fn now_micros(&self) -> i64 {
            self.0.load(Ordering::SeqCst)
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
    }

    impl RowTimes {
        fn draw(
            &self,
            granularity: Granularity,
            places: impl IntoIterator<Item = Place>,
        ) -> Drawing<'_> {
            self.draw_above(0, granularity, places)
        }
    }

    /// Times of a new store, and the clock, which shows `micros`.
    fn times(before: u64, micros: i64) -> (RowTimes, Arc<HandClock>) {
        let clock = Arc::new(HandClock(AtomicI64::new(micros)));
        (RowTimes::after(before, before, clock.clone()), clock)
    }

    fn next(times: &RowTimes, row: &[u8]) -> i64 {
        let place = Place::of(row);
        times.draw(Millis, [place]).next(place).0
    }

    #[test]
    fn times_of_a_row_ascend_whatever_the_clock_does() {
        let (times, clock) = times(0, 5_000_500);
        let mut last = next(&times, b"row");
        assert_eq!(last, 5_000_000);
        let hour = 3_600_000_000;
        for shows in [5_000_999, 5_001_000, 9_000_000, 8_000_000 - hour, -hour, i64::MIN, hour] {
            clock.0.store(shows, Ordering::SeqCst);
            let time = next(&times, b"row");
            assert!(time > last && time % 1000 == 0, "{time} after {last}, clock {shows}");
            last = time;
        }
        assert_eq!(last, hour, "and are the clock's where they can be");
    }

    #[test]
    fn times_are_above_those_of_leaders_before() {
        let (times, _) = times(0, 5_000_000);
        let place = Place::of(b"row");
        assert_eq!(times.draw_above(9_000_500, Millis, [place]).next(place).0, 9_001_000);
        assert_eq!(times.draw_above(9_000_500, Millis, [place]).current(place).0, 9_001_000);
        assert_eq!(next(&times, b"row"), 9_002_000, "the row goes on from there");
        let place = Place::of(b"other");
        assert_eq!(times.draw_above(4_000_500, Micros, [place]).next(place).0, 5_000_000);
        assert!(times.draw_above(u64::MAX, Millis, [place]).next(place).0 > 0);
    }

    #[test]
    fn times_of_microseconds_ascend_by_one_and_share_slots_with_milliseconds() {
        let (times, clock) = times(0, 5_000_500);
        let place = Place::of(b"row");
        let micros = || times.draw(Micros, [place]).next(place).0;
        assert_eq!([micros(), micros()], [5_000_500, 5_000_501]);
        assert_eq!(
            times.draw(Millis, [place]).current(place).0,
            5_001_000,
            "of whole milliseconds"
        );
        assert_eq!([micros(), next(&times, b"row"), micros()], [5_001_001, 5_002_000, 5_002_001]);
        assert_eq!(next(&times, b"row"), 5_003_000);
        clock.0.store(0, Ordering::SeqCst);
        assert_eq!(micros(), 5_003_001, "the clock went back");
        let (times, _) = self::times(5_003_001, 0);
        assert!(times.draw(Micros, [place]).next(place).0 > 5_003_001, "after a restart");
    }

    #[test]
    fn a_write_that_reads_keeps_the_time_until_the_clock_has_another() {
        let (times, clock) = times(0, 3_000);
        let place = Place::of(b"row");
        let current = || times.draw(Millis, [place]).current(place).0;
        assert_eq!([current(), current(), next(&times, b"row")], [3_000, 3_000, 4_000]);
        assert_eq!([current(), next(&times, b"row"), current()], [4_000, 5_000, 5_000]);
        clock.0.store(9_000, Ordering::SeqCst);
        assert_eq!([current(), next(&times, b"row")], [9_000, 10_000]);
        clock.0.store(0, Ordering::SeqCst);
        assert_eq!(current(), 10_000);
    }

    #[test]
    fn a_row_does_not_drive_another_one_ahead() {
        let (times, _) = times(0, 7_000);
        let far = (0..1_000).map(|_| next(&times, b"hot")).max();
        assert_eq!(far, Some(7_000 + 999_000));
        let cold = (0..100).map(|row| format!("cold{row}"));
        let cold = cold.filter(|row| Place::of(row.as_bytes()) != Place::of(b"hot"));
        assert!(cold.map(|row| next(&times, row.as_bytes())).min() == Some(7_000));
    }

    #[test]
    fn a_row_runs_ahead_of_the_clock_up_to_a_limit_and_never_back() {
        let (times, clock) = times(0, 1_000_000);
        let limit = 1_000_000 + AHEAD_MAX;
        for _ in 0..AHEAD_MAX / TIMESTAMP_MICROS_STEP {
            next(&times, b"row");
        }
        assert_eq!(next(&times, b"row"), limit);
        assert_eq!(next(&times, b"row"), limit);
        clock.0.store(500_000, Ordering::SeqCst);
        assert_eq!(next(&times, b"row"), limit, "the clock went back");
        clock.0.store(1_002_000, Ordering::SeqCst);
        assert_eq!(next(&times, b"row"), limit + 1_000);
    }

    #[test]
    fn a_loaded_row_lies_between_its_writes_before_and_after_and_drives_no_other_ahead() {
        let (times, clock) = times(0, 1_000_000);
        let begun = times.now();
        assert_eq!(begun.0, 1_000_000);
        let before = (0..9).map(|_| next(&times, b"row")).max().unwrap();
        clock.0.store(2_000_000, Ordering::SeqCst);
        let loaded = |row: &[u8]| times.draw_loaded(Millis, Place::of(row), begun).0;
        assert_eq!(loaded(b"row"), before + 1_000);
        assert_eq!(loaded(b"other"), 1_000_000, "it is a write of when the load began");
        clock.0.store(0, Ordering::SeqCst);
        let current = |row: &[u8]| {
            let place = Place::of(row);
            times.draw(Millis, [place]).current(place).0
        };
        assert_eq!(current(b"row"), before + 2_000, "what reads does not see the load yet");
        assert_eq!(current(b"other"), 1_001_000);
        assert_eq!(next(&times, b"row"), before + 3_000);
        assert_eq!(next(&times, b"other"), 1_002_000);
    }

    #[test]
    fn loads_do_not_drive_a_row_beyond_the_limit() {
        let (times, _) = times(0, 1_000_000);
        let (begun, limit) = (times.now(), 1_000_000 + AHEAD_MAX);
        for _ in 0..AHEAD_MAX / TIMESTAMP_MICROS_STEP {
            next(&times, b"row");
        }
        for _ in 0..3 {
            assert_eq!(times.draw_loaded(Millis, Place::of(b"row"), begun).0, limit);
        }
        assert_eq!(next(&times, b"row"), limit);
    }

    #[test]
    fn what_one_process_ran_ahead_the_next_runs_a_step_further_at_most() {
        let clock = Arc::new(HandClock(AtomicI64::new(1_000_000)));
        let limit = 1_000_000 + AHEAD_MAX;
        for shown in [1_000_000, 999_000, 0] {
            // What a process left that had come to the limit, with a version there.
            let times = RowTimes::after(limit as u64, shown, clock.clone());
            let first = times.draw(Millis, [Place::of(b"read")]).current(Place::of(b"read")).0;
            assert_eq!(first, limit + 1_000, "shown {shown}: not that of the version");
            for _ in 0..3 {
                assert_eq!(next(&times, b"row"), limit + 1_000, "shown {shown}");
            }
        }
        // One that the clock itself had come to.
        let times = RowTimes::after(limit as u64, limit as u64, clock);
        assert_eq!(next(&times, b"row"), limit + 1_000);
    }

    #[test]
    fn no_time_is_given_that_another_process_gave() {
        let (times, _) = times(9_000_500, 1_000_000);
        assert_eq!(next(&times, b"row"), 9_001_000);
        assert_eq!(next(&times, b"row"), 9_002_000);
        let (times, _) = self::times(u64::MAX, 0);
        assert!(next(&times, b"row") > 0, "the end of time is survived");
    }
}
