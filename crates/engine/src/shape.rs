//! The engine's internal constants that cut, bound or switch, as values of one struct: tests draw
//! each at random, down to 1 or 2, so that a hundred rows cross every border many times. Whoever
//! embeds the engine has the defaults; no answer depends on any of them, and no format does.
//!
//! Constants all the same are:
//! 1. *What formats freeze*: lengths of headers and trailers, tags, hashes, probes and lines of
//!    filters, strides of a block's directory and samples, buckets of a prefix index, and what
//!    decoders refuse (`DATA_BLOCK_BYTES_MAX`, `BLOCK_RAW_BYTES_MAX`, `PAYLOAD_BYTES_MAX`, counts of
//!    `ages`, the limits of `batch`).
//! 2. *What sizes an array, or is worked out when compiled*, on the path of resident reads: slots
//!    and levels of a memtable's tree, the first chunks of its arena and of its row index, bits of a
//!    place in the cache, shards of the cache's table and of its loads. Where a field bounds what is
//!    put into an array (`runs_looked_at`, `covers_max`, `multi_get_group`, `questions_max`), the
//!    array's length is the end of the field's range.
//! 3. *How far the processor fetches ahead* (`sstable/rows/row_prefetch.rs`,
//!    `sstable/block/view/mod.rs`): it decides nothing, and is asked for with every row.
//! 4. *Times* (retries, looks, delays), and rates that go with them: tests have a clock of their
//!    own.
//! 5. *How much is copied or looked at together* of a file that is read from its begin to its end
//!    (`files/mod.rs`, `log/framing/record_scan.rs`, `sstable/salvage/find_blocks.rs`,
//!    `log/written_len.rs`), what threads keep of their scratch memory, and what tools take
//!    (`check`, `dump`, `repair`).
//! 6. *What the arithmetic of levels is made of*: that there are three, that level 1 has two runs.

base::shape! {
    /// See the file header. All bytes are bytes, all counts counts; the range of each field is what
    /// [`Shape::check`] lets pass.
    pub struct Shape {
        // What options may be at least, and at most.

        /// Smallest `Options::memory_bytes_max`, in bytes.
        memory_bytes_min = 1 << 20, 1 << 10 => 1 << 40;
        /// Smallest `Options::memtable_bytes_max`, in bytes.
        memtable_bytes_min = 64 << 10, 1 => 4 << 30;
        /// Smallest `Options::log_segment_bytes`, in bytes.
        log_segment_bytes_min = 64 << 10, 256 => 1 << 30;
        /// Smallest `Options::sst_bytes_max`, in bytes.
        sst_bytes_min = 64 << 10, 1 => 4 << 30;
        /// Smallest `Options::l1_bytes_max`, in bytes.
        l1_bytes_min = 64 << 10, 1 => 1 << 40;
        /// Smallest number of files of `Options::open_files_max`.
        open_files_min = 16, 1 => 1 << 20;
        /// A data block ends at so many bytes, if `TreeOptions::block_bytes` is more.
        block_bytes_max = 64 << 10, 1 => 64 << 10;

        // SSTables as they are written.

        /// Cells of a data block, beyond which it is cut; the format has 16 bits for them.
        block_cells_max = u16::MAX as usize, 1 => u16::MAX as usize;
        /// A row is cut inside of a block that has this many percent of a block's bytes.
        block_overrun_percent = 150, 100 => 1_000;
        /// Values of at least so many bytes get a block of their own.
        large_value_bytes = 4 << 10, 64 => 1 << 20;
        /// Data blocks of an index partition, beyond which it is cut.
        partition_blocks_max = 256, 1 => 256;
        /// Bytes of a partition's filter at which the partition is cut, after a row.
        filter_bytes_cut = 64 << 10, 1 => 64 << 10;
        /// Families, and columns, of a row up to which their keys are in its own line of the filter.
        filter_line_keys_max = 8, 0 => 8;
        /// Families, and columns, of a row up to which a filter has keys of them at all.
        filter_row_keys_max = 4096, 1 => 4096;
        /// Blocks stored as they are between two that compression is tried on, at most, where it
        /// gains nothing.
        incompressible_skip_max = 15, 0 => 1 << 20;
        /// Bytes of the range tombstones of a file, beyond which it is cut: all of them are in memory
        /// as long as it is open, and a reader accepts `BLOCK_RAW_BYTES_MAX` of them.
        dropped_bytes_max = 64 << 20, 1 => 64 << 20;
        /// Bytes gathered before they are written to an SSTable's file.
        sst_write_bytes = 256 << 10, 1 => 1 << 30;

        // Point reads.

        /// Runs of a tree up to which a point read looks at them one by one; more are merged.
        runs_looked_at = 16, 0 => 16;
        /// Tombstones of a row that are kept in mind while it is decided in place; with more of them
        /// it is merged.
        covers_max = 8, 0 => 8;
        /// Bytes of a row's large values up to which they are brought in together; more are merged.
        large_bytes_in_block = 8 << 20, 0 => 1 << 40;
        /// Times a point read brings in what it misses before it is merged.
        fetches_max = 5, 1 => 64;
        /// Gets of a multi-get that wait for memory together.
        multi_get_group = 32, 1 => 32;
        /// Ranges of columns up to which a read of a row asks the filters for each.
        questions_max = 16, 0 => 16;
        /// Bytes of blocks that one call has in flight, but for the last block's.
        in_flight_bytes_max = 1 << 20, 1 => 1 << 40;
        /// Rows that a task looks at together, its own included, when it misses blocks.
        task_rows_ahead = 32, 1 => 1 << 20;
        /// Bytes of large values that a task brings in for rows to come.
        task_large_bytes_ahead = 4 << 20, 0 => 1 << 40;
        /// Units of work that a merge in a task may spend on what it skips.
        task_merge_work = 8 << 10, 1 => 1 << 30;

        // Scans.

        /// Bytes of the first window of a walk that reads ahead.
        window_bytes_min = 64 << 10, 1 => 1 << 30;
        /// Bytes up to which windows grow. At least `window_bytes_min`.
        window_bytes_max = 1 << 20, 1 => 1 << 30;
        /// Windows grow together by this part of the budget of memory at most.
        windows_budget_part = 16, 1 => 1 << 20;
        /// Reads that the device is given at once by a walk.
        window_queue_depth = 64, 1 => 4096;
        /// Rows of the shortest row span that a scan lends from one block.
        row_span_rows_min = 4, 1 => 1 << 20;
        /// Rows merged between two searches for row spans, at most, where they are in vain.
        row_span_rest_max = 31, 0 => 127;

        // Commits, the log, the manifest, memtables.

        /// Bytes of batches at which a group commit is cut.
        group_bytes_max = 4 << 20, 1 => 1 << 30;
        /// Bytes of memory for framing records that are kept between writes.
        frame_bytes_kept = 4 << 20, 0 => 1 << 30;
        /// Segments of the log kept to be used again.
        log_spares_max = 2, 0 => 1 << 20;
        /// Segments of the log beyond which the tree that keeps the oldest is flushed.
        log_segments_max = 16, 1 => 1 << 20;
        /// Bytes of states or of entries that the group log appends again in one write.
        group_part_bytes = 1 << 20, 1 => 64 << 20;
        /// Bytes beyond which a new manifest is begun, if that is more than half of what it would
        /// begin with.
        manifest_roll_bytes = 4 << 20, 1 => 1 << 40;
        /// Bytes of edits after which a snapshot goes on in another record. Edits of one install that
        /// are more begin a new manifest: they take effect together.
        manifest_record_bytes = 64 << 20, 1 => 512 << 20;
        /// Trees of a part of the manifest's map.
        tree_map_part_max = 256, 2 => 1 << 20;
        /// Cells of a memtable's row up to which they are walked one by one.
        row_cells_walked = 16, 2 => 1 << 20;

        // The cache, the budget, open files.

        /// Slabs of the cache's arena at least, down to slabs of `slab_bytes_min`.
        slabs_wanted = 128, 1 => 1 << 20;
        /// Bytes of the smallest slab; a power of two.
        slab_bytes_min = 64 << 10, 4 << 10 => 1 << 30;
        /// Bytes of the largest slab; a power of two, at least `slab_bytes_min`.
        slab_bytes_max = 2 << 20, 4 << 10 => 1 << 30;
        /// Slabs below which the cache keeps everything on the heap.
        slabs_min = 8, 1 => 1 << 20;
        /// Bytes of the smallest frame.
        frame_bytes_min = 1 << 10, 512 => 1 << 20;
        /// The cache changes its size by this part of its limit at least.
        cache_steps = 32, 1 => 1 << 20;
        /// Slabs given up without letting others at the free frames in between.
        slabs_at_once = 64, 1 => 1 << 20;
        /// Times a load tries to get a frame before its block is lent without being kept.
        frame_attempts = 8, 1 => 1 << 20;
        /// Free frames of a class that the hand works ahead for, at least.
        frames_ahead_min = 4, 1 => 1 << 20;
        /// And at most. At least `frames_ahead_min`.
        frames_ahead_max = 16, 1 => 1 << 20;
        /// And as part of the arena.
        frames_ahead_parts = 256, 1 => 1 << 20;
        /// Frames that wait for their grace period beyond which the hand stands still.
        limbo_max = 64, 1 => 1 << 20;
        /// Frames of other classes evicted in vain before a slab is cleared for the one wanted.
        elsewhere_max = 16, 0 => 1 << 20;
        /// A slab is cleared if no more than this part of its frames was used lately.
        cold_part = 2, 1 => 1 << 20;
        /// Frames that the hand passes at most to find one.
        hand_steps_max = if cfg!(miri) { 1 << 8 } else { 1 << 12 }, 1 => 1 << 20;
        /// Blocks forgotten without letting others at them in between.
        forgotten_at_once = 64, 1 => 1 << 20;
        /// Bytes of the heap's smallest shard.
        heap_shard_bytes_min = 4 << 20, 1 => 1 << 40;
        /// Shards of the heap.
        heap_shards_max = 16, 1 => 1 << 10;
        /// Files remembered that are gone, beyond which they are forgotten.
        gone_files_max = 64, 0 => 1 << 20;

        // Compactions, flushes, ingests, sorts.

        /// Compactions of one tree at a time.
        compactions_max = 2, 1 => 64;
        /// Bytes of a slice, in multiples of an SSTable's.
        slice_factor = 8, 1 => 1 << 20;
        /// Files are moved, not rewritten, from this part of an SSTable's size on.
        move_part = 8, 1 => 1 << 20;
        /// Bytes of the level below that an output may overlap, in multiples of an SSTable's.
        overlap_factor = 8, 1 => 1 << 20;
        /// Bytes of a subcompaction of a compaction at least, in hundredths of an SSTable's.
        subcompaction_percent = 100, 1 => 1 << 20;
        /// What goes up whole at once, in multiples of a full level 0.
        soon_factor = 4, 1 => 1 << 20;
        /// Part of the last level's size that the older run of level 1 takes.
        older_part = 6, 1 => 1 << 20;
        /// A run of level 1 that is so many times its size goes down before level 0 comes up.
        overdue_factor = 2, 1 => 1 << 20;
        /// Garbage of a file, in thousandths, from which on it is rewritten.
        garbage_from = 500, 1 => 1_000;
        /// Part of the entries, in eighths, that is still there after a compaction for garbage that
        /// was fruitless.
        fruitless_eighths = 7, 1 => 8;
        /// Bytes whose merging costs about what it costs a read to look at one run more.
        bytes_per_read = 1 << 10, 1 => 1 << 40;
        /// Filters asked since the last look, below which they are no evidence of what reads want.
        filters_asked_min = 1_000, 1 => 1 << 40;
        /// Bytes after which an output is charged, and the limiter of rates told.
        tell_bytes = 256 << 10, 1 => 1 << 40;
        /// Blocks that a compaction's outputs are warmed with side by side.
        warmed_blocks = 64, 1 => 4096;
        /// And their bytes, but for the last one's.
        warmed_bytes = 1 << 20, 1 => 1 << 40;
        /// Bytes after which a file to be ingested is charged again.
        ingest_charge_bytes = 256 << 10, 1 => 1 << 40;
        /// Smallest memory of a sort.
        sort_memory_bytes_min = 1 << 20, 1 => 1 << 40;
        /// Runs that a sort merges at once, each an open file.
        sort_fan_in_max = 256, 2 => 256;
        /// Bytes at which a frame of a sorted run ends.
        sort_frame_bytes = 256 << 10, 1 => 256 << 10;
        /// Bytes of a chunk of rows in memory that are to be sorted.
        sort_chunk_bytes = 1 << 20, 1 => 1 << 30;
    }
}

impl Shape {
    /// Checks every range, and what fields owe each other.
    pub fn validate(&self) -> Result<(), String> {
        self.check()?;
        let ordered = |less, more, names: &str| {
            if less <= more { Ok(()) } else { Err(format!("shape {names} are out of order")) }
        };
        ordered(self.window_bytes_min, self.window_bytes_max, "window_bytes_min and _max")?;
        ordered(self.slab_bytes_min, self.slab_bytes_max, "slab_bytes_min and _max")?;
        ordered(self.frames_ahead_min, self.frames_ahead_max, "frames_ahead_min and _max")?;
        let powers = [self.slab_bytes_min, self.slab_bytes_max].map(usize::is_power_of_two);
        if powers == [true; 2] {
            Ok(())
        } else {
            Err("shape slab_bytes are no powers of two".into())
        }
    }
}

impl Shape {
    /// The valid shape of `seed`: as [`Shape::any`], and what bounds options does not.
    pub fn drawn(seed: u64, percent: u64) -> Self {
        let any = Self::any(seed, percent);
        let power = |value: usize| 1 << value.ilog2();
        let slab_bytes_min = power(any.slab_bytes_min);
        // What makes merges of most point reads hides what is wrong with them: it is seldom small.
        let points = if seed.is_multiple_of(4) { any } else { Self::DEFAULT };
        Self {
            runs_looked_at: points.runs_looked_at,
            fetches_max: points.fetches_max,
            frame_attempts: points.frame_attempts,
            hand_steps_max: points.hand_steps_max,
            memory_bytes_min: 1 << 10,
            memtable_bytes_min: 1,
            log_segment_bytes_min: 256,
            sst_bytes_min: 1,
            l1_bytes_min: 1,
            sort_memory_bytes_min: 1,
            slab_bytes_min,
            slab_bytes_max: power(any.slab_bytes_max).max(slab_bytes_min),
            window_bytes_max: any.window_bytes_max.max(any.window_bytes_min),
            frames_ahead_max: any.frames_ahead_max.max(any.frames_ahead_min),
            ..any
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_within_all_ranges_and_so_is_each_end() {
        assert_eq!(Shape::default().validate(), Ok(()));
        for field in Shape::FIELDS {
            for value in [*field.range.start(), *field.range.end()] {
                let mut shape = Shape::DEFAULT;
                (field.set)(&mut shape, value);
                assert_eq!((field.get)(&shape), value, "{}", field.name);
                assert_eq!(shape.check(), Ok(()));
            }
            let mut shape = Shape::DEFAULT;
            (field.set)(&mut shape, field.range.end() + 1);
            let error = shape.validate().unwrap_err();
            assert!(error.contains(field.name), "{error}");
        }
    }

    #[test]
    fn fields_that_owe_each_other_something_are_checked_together() {
        for shape in [
            Shape { window_bytes_max: 1, ..Shape::DEFAULT },
            Shape { slab_bytes_min: 8 << 20, ..Shape::DEFAULT },
            Shape { slab_bytes_min: 5000, ..Shape::DEFAULT },
            Shape { frames_ahead_min: 17, ..Shape::DEFAULT },
        ] {
            assert!(shape.check().is_ok() && shape.validate().is_err(), "{shape:?}");
        }
    }
}
