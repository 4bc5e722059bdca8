//! Places of reads among the blocking calls, shared fairly.
//!
//! A read takes a place for one step, and queues again for the next. Its first step is of the class of
//! short reads, all later ones of the class of long reads, which is as large as the machine has cores.
//!
//! Invariants:
//! 1. A read that is answered by one step never waits for a long read, and shares the cores with no
//!    more of them than there are cores.
//! 2. Within a class the first to ask is served first, so long reads take turns, step by step.
//! 3. A read that is given up while it queues takes no place.

use super::{Filled, Reader};
use crate::error::Result;
use crate::local::Pool;
use crate::row_output::RowOutput;
use crate::shape::Shape;

/// Classes of places of blocking reads.
#[derive(Clone)]
pub(in crate::local) struct ReadPlaces {
    short: Pool,
    long: Pool,
}

impl ReadPlaces {
    /// The places of a store of this shape on a machine with so many `cores`.
    pub(in crate::local) fn new(shape: &Shape, cores: usize) -> Self {
        let long = cores.max(shape.long_reads_min).min(shape.reads_max);
        Self { short: Pool::new(shape.reads_max), long: Pool::new(long) }
    }

    /// Runs a call that is no read of rows, as a short read.
    pub(in crate::local) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.short.run(call).await
    }

    /// Returns the next batch of a read: in this task if it can be, else on a blocking thread.
    pub(in crate::local) async fn fill<S: RowOutput>(
        &self,
        mut reader: Reader,
        mut output: S,
    ) -> Result<(Reader, S, Filled<S::Batch>)> {
        if reader.is_for_task() {
            let filled = reader.fill_rows(&mut output).await?;
            if filled.done || filled.batch.is_some() || reader.is_for_task() {
                return Ok((reader, output, filled));
            }
        }
        let places = if reader.is_long() { &self.long } else { &self.short };
        places
            .run(move || {
                let filled = reader.fill(&mut output)?;
                Ok((reader, output, filled))
            })
            .await
    }
}

#[cfg(test)]
impl ReadPlaces {
    /// Returns the places of long reads, for tests that take them.
    pub(in crate::local) fn long_places(&self) -> std::sync::Arc<tokio::sync::Semaphore> {
        std::sync::Arc::clone(&self.long.places)
    }
}
