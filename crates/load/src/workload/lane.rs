//! Workers that do the same mix of operations, and the keys of one of several processes.

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lane {
    /// Name in progress and reports.
    pub(crate) name: &'static str,
    pub(crate) workers: usize,
    /// Operations of all workers together, after which the lane ends.
    pub(crate) limit: Option<u64>,
}

/// One of several processes that share a run. Process `index` has every key whose number leaves that
/// remainder when divided by `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) index: u64,
    /// Number of processes, at least 1.
    pub(crate) of: u64,
}

impl Share {
    /// The share of a process that runs alone.
    pub(crate) const WHOLE: Self = Self { index: 0, of: 1 };

    /// Returns the number of this process's key `local` among the keys of all processes.
    pub(crate) fn global(self, local: u64) -> u64 {
        local.saturating_mul(self.of).saturating_add(self.index)
    }

    /// Returns the number that key `global` has in this process, if it has it.
    pub(crate) fn local(self, global: u64) -> Option<u64> {
        (global % self.of == self.index).then_some(global / self.of)
    }

    /// Returns how many of the first `total` keys this process has.
    pub(crate) fn part(self, total: u64) -> u64 {
        total.saturating_sub(self.index).div_ceil(self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_share_all_keys_and_no_key_twice() {
        for (of, total) in [(1, 10), (3, 10), (3, 9), (7, 3)] {
            let mut seen = vec![];
            for index in 0..of {
                let share = Share { index, of };
                for local in 0..share.part(total) {
                    let global = share.global(local);
                    assert_eq!(share.local(global), Some(local));
                    seen.push(global);
                }
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..total).collect::<Vec<_>>());
        }
        assert_eq!(Share { index: 1, of: 3 }.local(3), None);
    }
}
