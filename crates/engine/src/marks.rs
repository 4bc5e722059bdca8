//! The engine's coverage marks: a branch at each border that [`crate::shape`] sets, and at others
//! that no answer may depend on. Hits are counted in builds with debug assertions only. The suite of
//! small histories (`crates/sim/tests/histories`) fails when one was not hit.

base::marks! {
    /// See the file header.
    pub enum Mark {
        // SSTables as they are written.

        /// A data block ended after a row since it had its bytes, or its cells.
        BlockFull,
        /// And since it would have more than enough with the key of the next row.
        BlockOverfull,
        /// A data block ended since it had its cells.
        BlockCellsFull,
        /// A row was cut inside, and goes on in the next block.
        RowGoesOn,
        /// And in the next partition.
        RowGoesOnInNextPartition,
        /// A partition ended since it had its blocks.
        PartitionFullOfBlocks,
        /// A partition ended since its filter had its bytes.
        PartitionFullOfFilter,
        /// A value got a block of its own.
        LargeValueApart,
        /// A row's keys went to lines of their own in the filter.
        FilterRowWide,
        /// A row had so many keys that the filter has none of them.
        FilterRowWider,
        /// A block was stored as it is without trying to compress it.
        CompressionSkipped,
        /// Part of a file was written before it was finished.
        SstWrittenInParts,

        // Point reads.

        /// A read was merged for there were too many runs.
        RunsTooMany,
        /// A file was not searched since what was found is newer than all it has.
        FileOlder,
        /// A get was decided in place.
        GetInBlock,
        /// A row was decided in place.
        RowInBlock,
        /// A row had more tombstones than are kept in mind.
        CoversTooMany,
        /// A row had more bytes of large values than are brought in together.
        LargeValuesTooMany,
        /// A read had brought in blocks as often as it may, and was merged.
        FetchesSpent,
        /// A multi-get had more than one group.
        GetsInGroups,
        /// A row read had more ranges of columns than filters are asked for.
        QuestionsTooMany,
        /// A task looked at rows to come.
        TaskLookedAhead,
        /// A task had to leave a row to a thread.
        TaskWaits,
        /// A task left a row to a thread since its merge would take long.
        TaskMergeTooLong,
        /// Blocks had to wait until others had been read.
        InFlightFull,

        // Scans.

        /// Rows were lent as a row span of a block.
        RowSpanLent,
        /// A row span would have been too short.
        RowSpanTooShort,
        /// A walk began to read ahead.
        ReadAhead,
        /// Its window grew.
        WindowGrew,
        /// Its window might not grow: all windows together had all they may.
        WindowHeldBack,

        /// A step of a scan ended between two rows since its budget was spent.
        StepSpentBetweenRows,
        /// A step ended within a row.
        StepSpentInRow,
        /// A step ended within the operands of a cell.
        StepSpentInOperands,

        // The log, the manifest, memtables.

        /// A segment of the log was full.
        SegmentFull,
        /// A segment of the log was used again.
        SegmentReused,
        /// A segment of the log was removed, for there were spares enough.
        SegmentRemoved,
        /// A tree was flushed since the log was too long.
        LogTooLong,
        /// A new manifest was begun.
        ManifestRolled,
        /// A part of the manifest's map of trees was divided.
        TreeMapDivided,
        /// A memtable's row got a tree of its cells.
        RowGotTree,
        /// A search in a memtable's row gave up walking.
        RowSearched,

        // The cache and open files.

        /// A cache was so small that it keeps everything on the heap.
        CacheOnHeap,
        /// A cache has an arena.
        CacheInSlabs,
        /// The hand evicted blocks of the arena.
        FramesEvicted,
        /// A slab was cleared for another class.
        SlabCleared,
        /// A slab was cut anew.
        SlabRecut,
        /// A block was lent without being kept, as no frame came free.
        FrameNotFound,
        /// Blocks of the heap were evicted.
        HeapEvicted,
        /// The cache became smaller.
        CacheShrank,
        /// A file was closed for another.
        FileClosed,
        /// A closed file was opened again.
        FileReopened,

        // Flushes, compactions, ingests, sorts.

        /// A flush waited for a place for its run.
        FlushHeld,
        /// An output ended since it had its bytes.
        OutputFull,
        /// An output ended since it overlapped too much of the level below.
        OutputOverlaps,
        /// Files were moved as they are.
        FilesMoved,
        /// A compaction was divided.
        CompactionDivided,
        /// An ingest had more than one file.
        IngestInFiles,
        /// A sort wrote a run to a file.
        SortSpilled,
        /// A sort merged its runs in more than one pass.
        SortInPasses,
        /// A sort kept all its rows in memory.
        SortInMemory,
    }
}

base::marks! {
    /// The marks of the group log, which its own random histories must reach.
    pub enum GroupLogMark {
        /// States of idle groups were written again, to free segments.
        StateCarried,
        /// Entries of a group were appended again in one record.
        AgainInOneRecord,
        /// Entries of a group were appended again in several records.
        AgainInParts,
        /// A replay met a gap before entries, whose segments were freed.
        ReplayedOverGap,
        /// A replay met records of a group before its first whole state.
        ReplayedBeforeState,
        /// A suffix of entries was replaced.
        SuffixReplaced,
        /// A read ended within a record, for it had its bytes.
        ReadCut,
        /// A segment was removed, for there were spares enough.
        SegmentRemoved,
        /// A segment stayed, for a reader held it.
        SegmentRead,
        /// A replica began after an earlier one was removed.
        ReplicaFollowed,
        /// A truncation was passed over, for the entries were being appended again.
        TruncationSkipped,
    }
}
