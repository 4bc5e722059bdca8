//! The locks of the engine: their order, and what may be done while one is held.
//!
//! A thread that holds a lock takes only those below it. It does no I/O and does not wait, but for
//! what is listed here with a reason: whoever wants the lock waits for that, too. Tests keep both
//! (`base::sync`), and the histories of `sim` that everything listed is really done.

base::lock_order! {
    pub static LOCKS;

    /// The turn to free segments of the group log.
    GroupLogReclaiming {
        Open: "states that are written again may need the next segment, which may be a spare",
        Write: "states are written again before the segments that held them go",
        Sync: "each step is on disk before the next; only those who free segments wait",
        Name: "segments are removed or renamed oldest first",
    }
    /// The tail of the group log.
    GroupLogWriter {
        Open: "the next segment may be a spare, whose size is looked at; repeated entries are read",
        Read: "entries of a group that cannot apply them are read, to be appended again",
        Write: "one round is appended after the other",
        Sync: "a round is acknowledged when it is on disk",
        Name: "the next segment is created or a spare renamed",
    }
    /// The index of the groups of a group log.
    GroupLogIndex {}
    /// The segments of the group log.
    GroupLogSegmentList {}
    /// The turn to retire segments of the log. Outermost of an engine: nobody retires any while others
    /// wait.
    LogRetiring {
        Name: "segments are removed or renamed oldest first",
        Sync: "each retirement is on disk before the next; only those who retire wait",
    }
    /// `Commits::log`: appending, syncing, closing.
    CommitLog {
        Open: "the next segment may be a spare, whose size is looked at; an ingest opens what it flushed",
        Read: "an ingest reads the footer of what it flushed",
        Write: "one leader appends for all who wait; an ingest flushes rows that are also in files",
        Sync: "nobody is acknowledged, and no later group is on disk, before this one is",
        Name: "the next segment is created or a spare renamed; an ingest creates what it flushes",
    }
    /// `Commits::applying`: a group on its way to the memtables, freezing.
    CommitApplying {
        Open: "an ingest opens what it flushed",
        Read: "an ingest reads the footer of what it flushed",
        Write: "an ingest flushes rows that are also in files: commits must not add to them meanwhile",
        Sync: "the number of an ingest is published when its edit is on disk, and none before it",
        Name: "an ingest creates the file that it flushes",
    }
    /// `Commits::queue`.
    CommitQueue {}
    /// The outcome of a batch that is being committed.
    CommitOutcome {}
    /// The list of threads that lead commits for tasks.
    CommitThreadList {}
    /// `TreeState::installing`: a change of files, from the manifest to the view. An ingest takes those of
    /// several trees, and their `TreeWork`, in order of id.
    TreeInstalling several {
        Open: "a new manifest begins with a look at which there are",
        Write: "views come in the order of versions: the edit, then the view; no reader takes it",
        Sync: "as for writes",
        Name: "a new manifest takes the place of one that is long",
    }
    /// `Shared::trees`.
    Trees {}
    /// The turn to change the manifest.
    ManifestTurn {
        Open: "a new manifest begins with a look at which there are",
        Write: "one edit after the other; only those who change the manifest wait",
        Sync: "a state is published when its edit is on disk, and none before it",
        Name: "a new manifest takes the place of one that is long",
    }
    /// The log's list of segments; under the manifest's turn, to say where the log begins.
    LogSegmentList {}
    /// The state of the manifest that counts.
    ManifestPublished {}
    /// `TreeState::work`.
    TreeWork several {}
    /// `TreeState::view`, while it is replaced.
    TreeView {}
    /// `TreeState::rules`.
    TreeRules {}
    /// What the last look at a tree saw.
    TreeLull {}
    /// What a tree learned from its reads.
    TreeLearned {}
    /// The writer of a memtable.
    MemtableWriter {}
    /// The indexes over the range tombstones of a memtable.
    MemtableDropped {}
    /// Compactions that run.
    RunningCompactions {}
    /// The subcompactions of a merge.
    SubcompactionState {}
    /// Files that wait to be deleted.
    ObsoleteFiles {}
    /// The slot of a file that is being opened, then that of the file that is closed for it.
    OpenFile several {
        Open: "a file is opened once for all who read it at the same time",
    }
    /// The files that are open.
    OpenFileRing {}
    /// Blocks on their way for reads that hold no thread.
    Flying {}
    /// Who waits for such a block.
    AsyncLoadStage {}
    /// The size of the block cache, while it changes.
    CacheSize {}
    /// The frames of the block cache.
    CacheSpace {}
    /// Where blocks lie in frames, in shards.
    CacheTable {}
    /// Blocks on the heap, in shards.
    CacheHeap {}
    /// The loads in progress, in shards.
    CacheLoads {}
    /// What came of a load.
    CacheLoad {}
    /// The rate of background work.
    IoRateState {}
    /// How long reads waited.
    ReadWaitWindow {}
    /// When the next writer may go on.
    WriterPace {}
    /// Bytes on huge pages at the last count.
    HugePageCount {}
    /// What waiters wait on.
    ProgressState {}
    /// The data directory's lock.
    DirectoryLock {}
    /// Tasks that wait for a commit.
    CommitWaiters {}
    /// `Snapshots::held`, under which a view may be replaced.
    HeldSnapshots {}
    /// The views that snapshots of one number keep.
    KeptViews {}
}
