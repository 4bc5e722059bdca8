//! A bound on what waits to be written to a table.
//!
//! A write counts from before it waits for its rows until its commit has ended. Tables do not share
//! what they may have: a table whose writes stand still refuses more of them, and no other table does.
//! A write counts with half of the bound at most. So a larger one gets in beside others, and two of them
//! wait at most.

use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The writes of one table that wait.
#[derive(Debug)]
pub(super) struct Admission {
    bytes_max: usize,
    /// Bytes that wait. Relaxed: stands by itself.
    bytes: AtomicUsize,
}

/// The share of one write, until dropped.
#[derive(Debug)]
pub(super) struct Admitted {
    admission: Arc<Admission>,
    bytes: usize,
}

impl Admission {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: AtomicUsize::new(0) }
    }

    /// Returns the part of what may wait that waits.
    pub(super) fn waiting_part(&self) -> f64 {
        self.bytes.load(Ordering::Relaxed) as f64 / self.bytes_max.max(1) as f64
    }

    /// Admits a write of `bytes`. `Busy` if too much waits; a refused write counts at no time.
    pub(super) fn admit(self: &Arc<Self>, bytes: usize) -> Result<Admitted> {
        let bytes = bytes.clamp(1, (self.bytes_max / 2).max(1));
        let fits = |before: usize| {
            let after = before.saturating_add(bytes);
            (before == 0 || after <= self.bytes_max).then_some(after)
        };
        match self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(Admitted { admission: Arc::clone(self), bytes }),
            Err(before) => Err(Error::Busy(format!(
                "{before} bytes wait to be written to the table, and at most {} may; try again later",
                self.bytes_max
            ))),
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.admission.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_write_gets_in_beside_small_ones_and_a_refused_one_counts_at_no_time() {
        let admission = Arc::new(Admission::new(100));
        let small = admission.admit(10).unwrap();
        let large = admission.admit(1_000).unwrap();
        assert!(matches!(admission.admit(1_000), Err(Error::Busy(_))));
        assert_eq!(admission.waiting_part(), 0.6);
        drop((small, large));
        let alone = Arc::new(Admission::new(0));
        let first = alone.admit(1_000).unwrap();
        assert!(matches!(alone.admit(1), Err(Error::Busy(_))));
        drop(first);
        alone.admit(1_000).unwrap();
    }

    #[test]
    fn a_write_is_refused_where_too_much_waits() {
        let admission = Arc::new(Admission::new(100));
        let first = [admission.admit(40).unwrap(), admission.admit(20).unwrap()];
        let Err(error) = admission.admit(41) else { panic!("it is refused") };
        let text = "60 bytes wait to be written to the table, and at most 100 may; try again later";
        assert_eq!(error, Error::Busy(text.to_owned()));
        assert_eq!(admission.waiting_part(), 0.6);
        let second = admission.admit(40).unwrap();
        drop((first, second));
        assert_eq!(admission.bytes.load(Ordering::Relaxed), 0, "a refused write leaves nothing");
    }
}
