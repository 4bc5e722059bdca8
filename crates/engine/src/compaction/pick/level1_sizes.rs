//! How large the runs of level 1 may be: what they cost to keep, against what they save.
//!
//! What goes up at once (`F`) is merged into the younger run of level 1 as a whole; from there it goes
//! in slices to the older run, and in slices to the last level. With the younger run as large as `A`,
//! the older as large as `B` and the last level as large as `D`, a byte is so rewritten about
//! `A / F + 2B / 3A + 2D / 3B` times: a slice is picked where it meets least below, about two thirds of
//! what it would meet on average. The sum is least where all three are alike, which makes them the
//! third root of `4D / 9F`. With one run in place of two they would grow with the second root.

use crate::manifest::state::version::LEVELS;
use crate::manifest::{Run, TreeVersion};
use crate::options::Options;

/// Bytes that the runs of level 1 may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct L1Target {
    /// The younger one, if there are two.
    pub younger: u64,
    /// The older one, or the only one.
    pub older: u64,
    /// A younger run that has more goes down before level 0 comes up.
    overdue: u64,
}

impl L1Target {
    /// What they are over a last level of `last_bytes` bytes.
    pub fn over(last_bytes: u64, options: &Options) -> Self {
        let up = (options.memtable_bytes_max as u64).saturating_mul(options.l0_runs_compact as u64);
        let step = third_root(u128::from(last_bytes) * 4 / (u128::from(up.max(1)) * 9)).max(1);
        // So much of the disk goes for rows that newer ones hide.
        let most = last_bytes / options.shape.older_part as u64;
        let older = (last_bytes / step / 3).saturating_mul(2).min(most);
        let older = options.l1_bytes_max.max(older);
        let younger = (u128::from(up) * u128::from(older) * 2 / 3).isqrt();
        let younger = u64::try_from(younger).unwrap_or(u64::MAX);
        let overdue = younger.saturating_mul(options.shape.overdue_factor as u64);
        Self { younger, older, overdue }
    }

    /// What they are in `version`.
    pub(super) fn of(version: &TreeVersion, options: &Options) -> Self {
        let last_bytes = version.levels[LEVELS - 1].iter().map(Run::bytes).sum();
        Self::over(last_bytes, options)
    }

    /// Both together.
    pub fn sum(&self) -> u64 {
        self.younger.saturating_add(self.older)
    }

    /// Returns whether `run`, the younger one, must become smaller before more comes to it.
    pub(super) fn is_overdue(&self, run: &Run) -> bool {
        run.bytes() > self.overdue
    }
}

/// The largest number whose third power is at most `of`, which is below 2^96.
fn third_root(of: u128) -> u64 {
    let (mut low, mut high) = (0u64, 1 << 32);
    while high - low > 1 {
        let mid = (low + high) / 2;
        if u128::from(mid).pow(3) <= of { low = mid } else { high = mid }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn third_roots_are_rounded_down() {
        for (of, root) in [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (1 << 60, 1 << 20)] {
            assert_eq!(third_root(of), root, "{of}");
        }
    }
}
