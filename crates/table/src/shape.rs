//! Internal constants of the table layer that cut, bound or switch, as values of one struct: see
//! `engine::shape`. No answer depends on them.
//!
//! Constants all the same are what the API promises (`limits`), the memory of a compiled pattern,
//! how many ids of trees are taken at once, and what the schema's records freeze.

base::shape! {
    /// See the file header. All bytes are bytes, all counts counts.
    pub struct Shape {
        /// Bytes of a batch of a read, roughly: the last cell may go beyond it.
        batch_bytes = 256 << 10, 1 => 1 << 30;
        /// Units of work of one step of a read, so that a read without results still reports where it
        /// is and can be cancelled: rows and cells looked at or skipped, blocks loaded. At least 2: a
        /// row and a cell of it.
        batch_steps = 32 << 10, 2 => 1 << 30;
        /// Microseconds that the first step of a read may have on a core.
        first_step_micros = 1_000, 1 => 1 << 40;
        /// Microseconds that the second step of a read may have on a core.
        second_step_micros = 10_000, 1 => 1 << 40;
        /// Cells that a task looks at for one batch.
        task_steps = 1 << 10, 1 => 1 << 30;
        /// Bytes of their values: with `task_steps` some 100 µs of work.
        task_bytes = 256 << 10, 0 => 1 << 30;
        /// Bytes of a row that are kept for a filter with conditions, which needs it several times. A
        /// larger row is read several times.
        held_bytes = 256 << 10, 0 => 1 << 30;
        /// Most copies of a cell that a filter makes in a task.
        task_copies = 16, 1 => 1 << 20;
        /// Large filters that may be compiled at a time.
        filters_max = 2, 1 => 1 << 10;
        /// Reads that may block at a time. More would only queue at the disk.
        reads_max = 64, 1 => 1 << 16;
        /// Long reads that may block at a time, where the machine has fewer cores.
        long_reads_min = 2, 1 => 1 << 16;
        /// Schema changes, syncs, and parts of writes that are not for a task, that may block at a time.
        writes_max = 256, 1 => 1 << 16;
        /// Bytes of a write up to which its task converts it: some 100 µs of work.
        task_write_bytes = 256 << 10, 0 => 1 << 30;
        /// Bytes of writes of one table that may wait to be committed. A single write may be larger.
        waiting_bytes_max = 64 << 20, 0 => 1 << 40;
        /// Bytes of mutations that go into one engine batch.
        write_batch_bytes = 8 << 20, 1 => 1 << 28;
        /// Rows of it that leave a time to the server: their stripes of times are held together, while
        /// they are given times and the batch takes its place in the order of commits.
        timed_rows_max = 4 << 10, 1 => 1 << 20;
        /// Loads that may be made ready to be installed at a time. More would only queue at the disk.
        loads_max = 4, 1 => 1 << 10;
        /// Batches of a read that wait for its client.
        batches_ahead = 2, 1 => 1 << 10;
        /// Stripes of row locks: enough that two rows seldom meet.
        lock_stripes = 1_024, 1 => 1 << 20;
        /// Stripes of row locks of each tablet of a cluster.
        tablet_lock_stripes = 256, 1 => 1 << 20;
        /// Most columns that a filter is narrowed to one by one.
        columns_max = 256, 0 => 1 << 20;
        /// Most texts that a pattern is resolved into.
        exact_texts_max = 64, 1 => 1 << 10;
        /// Bytes of the longest of them.
        exact_text_bytes_max = 4 << 10, 1 => 1 << 16;
        /// Into about how many parts row samples cut a table.
        sample_parts = 128, 1 => 1 << 20;
        /// Bytes of the smallest part between two row samples.
        sample_bytes_min = 1 << 20, 1 => 1 << 30;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_within_all_ranges() {
        assert_eq!(Shape::default().check(), Ok(()));
    }
}
