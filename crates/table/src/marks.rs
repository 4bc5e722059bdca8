//! The table layer's coverage marks: see `engine::marks`.

base::marks! {
    /// See the file header.
    pub enum Mark {
        /// A batch of a read by scans ended since it had its bytes.
        BatchFull,
        /// It ended since enough was looked at.
        BatchOfSteps,
        /// It ended within a row.
        BatchEndsInRow,
        /// A step of a read gave its client nothing, not even the key it had reached.
        StepUntold,
        /// A batch of a task ended since it had its bytes, or enough was looked at.
        TaskBatchFull,
        /// A row was too much for a task.
        TaskRowTooMuch,
        /// A row was read again for a filter with conditions.
        RowReadAgain,
        /// Copies of one cell went into several batches.
        CopiesInBatches,
        /// Entries of one request were written in several engine batches.
        WriteInBatches,
        /// A write was converted on a thread.
        WriteOnThread,
        /// A read-modify-write read its row on a thread.
        LatestOnThread,
        /// A filter was narrowed to columns one by one.
        ColumnsReached,
        /// A filter had too many columns for that.
        ColumnsTooMany,
        /// A pattern was resolved into its texts.
        PatternExact,
        /// A pattern had to be matched by an automaton.
        PatternMatched,
    }
}
