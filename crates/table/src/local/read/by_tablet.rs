//! Rows and bytes of a read over several tablets, counted in the tablets that they are of.

use crate::meter::{TableMeter, Volume};
use crate::row::ReadStats;
use engine::TreeId;
use std::sync::Arc;

/// Counts what a read yields in its tablets, one after the other.
pub(super) struct ByTablet {
    meter: Arc<TableMeter>,
    /// The tablet that the read has reached.
    tree: Option<TreeId>,
    /// Counts of the read that its tablets have.
    counted: ReadStats,
}

impl ByTablet {
    /// A read of the table of `meter` that has yielded nothing.
    pub(super) fn new(meter: Arc<TableMeter>) -> Self {
        Self { meter, tree: None, counted: ReadStats::default() }
    }

    /// Goes on to the tablet of `tree`. `stats` are the counts of the read so far.
    pub(super) fn turn_to(&mut self, tree: TreeId, stats: ReadStats) {
        if self.tree != Some(tree) {
            self.count(stats);
            self.tree = Some(tree);
        }
    }

    /// Counts what the read has yielded since the last call. `stats` are its counts so far.
    pub(super) fn count(&mut self, stats: ReadStats) {
        let Some(tree) = self.tree else { return };
        let before = std::mem::replace(&mut self.counted, stats);
        let rows_read = stats.rows_returned.saturating_sub(before.rows_returned);
        let read_bytes = stats.bytes_returned.saturating_sub(before.bytes_returned);
        let volume = Volume { rows_read, read_bytes, ..Volume::default() };
        self.meter.tablets().look().add(tree, volume);
    }
}
