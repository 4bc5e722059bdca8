//! How hard writers are held back: pure functions of what background work is behind with.
//!
//! Pressure is a number from 0 (none) to 1000 (writers stop). Each kind of debt has a range over
//! which its pressure grows from 0 to 1000 evenly, and the largest counts. From a pressure follows
//! the rate at which all writers of a tree together may go on: it halves ten times over the range.
//! So there is always a pressure at which writers bring as much as background work takes away; they
//! come to rest there, well before they would have to stop. Nothing need be known of how fast the
//! machine is.

use crate::compaction::pick::L1Target;
use crate::options::Options;

/// A pressure at which writers stop.
pub(crate) const STOP: u64 = 1000;
/// The rate at the least pressure, bytes a second.
const RATE_MAX: u64 = 256 << 20;
/// Times the rate halves between the least pressure and the greatest.
const HALVINGS: u64 = 10;
/// Level 1 has no debt up to so many times the size of its older run, and is as far behind as can be at so many
/// times.
const L1_FACTORS: [u64; 2] = [4, 16];

/// What background work of a tree is behind with, and what memory holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// Runs of level 0.
    pub(crate) l0_runs: u64,
    /// Memtables that wait for their flush: runs of level 0 to be.
    pub(crate) frozen: u64,
    /// Bytes of the memtable that takes writes.
    pub(crate) active_bytes: u64,
    /// Bytes of level 1, and of the last level.
    pub(crate) l1_bytes: u64,
    pub(crate) last_bytes: u64,
    /// Bytes of memtables of all trees until they are flushed, of those that may be; nothing while
    /// none is being flushed.
    pub(crate) memory: Option<Share>,
}

/// A part of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) of: u64,
    pub(crate) whole: u64,
}

/// Where `value` lies between `from` (0) and `to` (1000), which is larger.
fn between(value: u128, from: u64, to: u64) -> u64 {
    let (from, to) = (u128::from(from), u128::from(to.max(from + 1)));
    let part = value.clamp(from, to) - from;
    u64::try_from(part * u128::from(STOP) / (to - from)).unwrap_or(STOP)
}

fn thousandths(share: Share) -> u128 {
    u128::from(share.of) * 1000 / u128::from(share.whole.max(1))
}

/// How hard writers of the tree are to be held back.
pub(crate) fn pressure(backlog: &Backlog, options: &Options) -> u64 {
    let Backlog { l0_runs, frozen, active_bytes, l1_bytes, last_bytes, memory } = *backlog;
    let fill = Share { of: active_bytes, whole: options.memtable_bytes_max as u64 };
    let fill = thousandths(fill).min(1000);
    let runs = if l0_runs >= options.l0_runs_stall as u64 {
        STOP
    } else {
        // A run grows in memory before it is one, so that pressure does not jump. Below what stops
        // writers it stays below `STOP`.
        let from = (options.l0_runs_compact as u64 + 1).min(options.l0_runs_stall as u64 - 1);
        let runs = u128::from(l0_runs + frozen) * 1000 + fill;
        between(runs, from * 1000, options.l0_runs_stall as u64 * 1000).min(STOP - 1)
    };
    // However small level 1 is to be, it gets whole memtables at a time.
    let l1_bytes_max =
        L1Target::over(last_bytes, options).older.max(4 * options.memtable_bytes_max as u64);
    let [from, to] = L1_FACTORS.map(|factor| l1_bytes_max.saturating_mul(factor));
    let l1 = between(l1_bytes.into(), from, to).min(STOP - 1);
    // A second memtable fills while the first is flushed, and must not be full before that is done.
    let filling = if frozen > 0 { between(fill, 500, 1000) } else { 0 };
    let memory = memory.map_or(0, |memory| between(thousandths(memory), 750, 1000));
    runs.max(l1).max(filling).max(memory)
}

/// Returns the bytes that compactions of a tree are behind with: level 0 once it is to be compacted, and
/// level 1 above its target.
pub(crate) fn debt_bytes(backlog: &Backlog, l0_bytes: u64, options: &Options) -> u64 {
    let due = backlog.l0_runs >= options.l0_runs_compact as u64;
    let target = L1Target::over(backlog.last_bytes, options).older;
    let l0 = if due { l0_bytes } else { 0 };
    l0.saturating_add(backlog.l1_bytes.saturating_sub(target))
}

/// Bytes a second that writers may bring at `pressure`; `None` without pressure.
pub(crate) fn rate(pressure: u64) -> Option<u64> {
    let steps = pressure.min(STOP) * HALVINGS;
    let (whole, part) = (steps / STOP, steps % STOP);
    let above = RATE_MAX >> whole;
    (pressure > 0).then(|| above - above / 2 * part / STOP)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `testdata/pressure/*`: each line of the input is a backlog, and the result its pressure and
    /// the rate that follows. `REWRITE=1` writes the results anew.
    #[test]
    fn pressure_is_what_its_examples_show() {
        datadriven::walk("testdata/pressure", |file| {
            file.run(|case| {
                assert_eq!(case.directive, "pressure");
                let options = Options {
                    l0_runs_compact: case.take_arg("compact").unwrap(),
                    l0_runs_stall: case.take_arg("stall").unwrap(),
                    memtable_bytes_max: 64 << 20,
                    l1_bytes_max: 512 << 20,
                    ..Options::default()
                };
                let lines = case.input.lines().map(|line| {
                    let pressure = pressure(&parse(line), &options);
                    let rate = match rate(pressure) {
                        _ if pressure == STOP => "stop".to_owned(),
                        None => "free".to_owned(),
                        Some(rate) => format!("{} KiB/s", rate >> 10),
                    };
                    format!("{line}: {pressure} {rate}\n")
                });
                lines.collect::<String>()
            });
        });
    }

    #[test]
    fn debt_is_level_0_when_it_is_due_and_level_1_above_its_target() {
        let options = Options { l0_runs_compact: 4, l1_bytes_max: 100 << 20, ..Options::default() };
        let debt = |l0_runs, l1_bytes| {
            let backlog = Backlog { l0_runs, l1_bytes, ..Backlog::default() };
            debt_bytes(&backlog, 7, &options)
        };
        assert_eq!([debt(3, 0), debt(4, 100 << 20), debt(4, (100 << 20) + 1)], [0, 7, 8]);
        assert_eq!(debt(u64::MAX, u64::MAX), u64::MAX - (100 << 20) + 7);
    }

    fn parse(line: &str) -> Backlog {
        let mut backlog = Backlog::default();
        for word in line.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap();
            let value: u64 = value.parse().unwrap();
            match name {
                "l0" => backlog.l0_runs = value,
                "frozen" => backlog.frozen = value,
                "active_mib" => backlog.active_bytes = value << 20,
                "l1_mib" => backlog.l1_bytes = value << 20,
                "last_gib" => backlog.last_bytes = value << 30,
                "memory" => backlog.memory = Some(Share { of: value, whole: 100 }),
                other => panic!("no {other}"),
            }
        }
        backlog
    }

    #[test]
    fn the_rate_falls_with_pressure_and_never_jumps() {
        let rates: Vec<u64> = (1..=STOP).map(|pressure| rate(pressure).unwrap()).collect();
        assert!(rates.is_sorted_by(|before, after| before > after));
        assert!(rates.windows(2).all(|pair| pair[1] * 100 >= pair[0] * 99), "steps of a hundredth");
        assert_eq!((rate(0), rates[999]), (None, RATE_MAX >> HALVINGS));
    }
}
