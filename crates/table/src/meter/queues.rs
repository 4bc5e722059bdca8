//! The queues in which calls of a store wait for a place, and how long they wait.

use base::histogram::{Buckets, Histogram};
use std::time::Duration;

/// A queue for places among the blocking calls of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// First steps of reads of ranges, and of rows that are not in memory.
    ShortReads,
    /// Second steps of such reads.
    MiddlingReads,
    /// All later steps of such reads.
    LongReads,
    /// Compilations of filters with large patterns.
    Filters,
    /// Schema changes, and the parts of writes that are not for a task.
    Writes,
    /// Bulk loads that are made ready.
    Loads,
    /// Reads of the changes of tables.
    ChangeReads,
}

const QUEUES: usize = Queue::ALL.len();

impl Queue {
    /// All queues, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::ShortReads,
        Self::MiddlingReads,
        Self::LongReads,
        Self::Filters,
        Self::Writes,
        Self::Loads,
        Self::ChangeReads,
    ];

    /// Returns the name of the queue in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::ShortReads => "short_reads",
            Self::MiddlingReads => "middling_reads",
            Self::LongReads => "long_reads",
            Self::Filters => "filters",
            Self::Writes => "writes",
            Self::Loads => "loads",
            Self::ChangeReads => "change_reads",
        }
    }
}

/// The waits in each queue.
#[derive(Debug)]
pub(super) struct QueueWaits([Histogram; QUEUES]);

impl Default for QueueWaits {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Histogram::of_durations()))
    }
}

impl QueueWaits {
    /// Counts a wait, which is of no time where a place was free.
    pub(super) fn record(&self, queue: Queue, waited: Duration) {
        self.0[queue as usize].record_time(waited);
    }

    /// Returns the waits in microseconds, by queue.
    pub(super) fn read(&self) -> impl Iterator<Item = (Queue, Buckets)> + '_ {
        Queue::ALL.into_iter().map(|queue| (queue, self.0[queue as usize].read()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_have_the_numbers_of_their_places() {
        assert!(Queue::ALL.iter().enumerate().all(|(at, queue)| *queue as usize == at));
    }
}
