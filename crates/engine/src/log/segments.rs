//! Segment files by name and number, what each still holds for which tree, and their recycling.
//!
//! 1. A segment is needed while some tree has a batch in it above that tree's flushed position. A
//!    flushed position is always the end of a batch, so comparing it with the *first* sequence
//!    number of the last batch is exact.
//! 2. Segments are retired oldest first, each retirement durable before the next, and the newest
//!    known segment never.
//! 3. A retired segment becomes a spare (`.spare`, at most `Shape::log_spares_max`) or is removed.
//! 4. While anybody reads segments ([`LogSegments::pin`]) none is retired. Nobody waits for that:
//!    what is to be retired meanwhile stays, for the next call.
//!
//! Shared by the writer (which notes what it appends and takes spares) and by whoever flushes.

use super::LogPosition;
use crate::cell::TreeId;
use crate::error::{Error, Result};
use crate::locks::{LogRetiring, LogSegmentList};
use crate::log::record::LogRecord;
use crate::marks::Mark;
use base::env::fs::FileSystem;
use base::sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of a segment; from 1 upwards, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SegmentNumber(pub u64);

impl SegmentNumber {
    /// Larger than any that is given; far more than will ever be used, and the next one never
    /// overflows.
    pub(crate) const END: u64 = 1 << 56;

    /// The segment after this one.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Path of the segment in the log directory `dir`.
    pub fn path(self, dir: &Path) -> PathBuf {
        dir.join(format!("{:010}.log", self.0))
    }

    fn spare_path(self, dir: &Path) -> PathBuf {
        dir.join(format!("{:010}.spare", self.0))
    }
}

/// The names of one log directory that mean something to the log.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Ascending.
    pub(crate) segments: Vec<SegmentNumber>,
    pub(crate) spares: Vec<SegmentNumber>,
}

/// Numbers a segment may have.
const NUMBERS: std::ops::Range<u64> = 1..SegmentNumber::END;

/// Lists `dir`; other names are left alone. A directory that does not exist is empty.
pub(crate) fn list(fs: &dyn FileSystem, dir: &Path) -> Result<Listing> {
    let names = match fs.list(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Error::io("list", dir, &error)),
    };
    let mut listing = Listing::default();
    for name in &names {
        let Some((digits, suffix)) = name.to_str().and_then(|name| name.rsplit_once('.')) else {
            continue;
        };
        let number = digits.parse().ok().filter(|n| NUMBERS.contains(n));
        let Some(number) = number.filter(|n| format!("{n:010}") == digits) else { continue };
        match suffix {
            "log" => listing.segments.push(SegmentNumber(number)),
            "spare" => listing.spares.push(SegmentNumber(number)),
            _ => {}
        }
    }
    listing.segments.sort();
    listing.spares.sort();
    Ok(listing)
}

/// Returns whether `dir` has no segment of a log.
pub(crate) fn is_empty(fs: &dyn FileSystem, dir: &Path) -> Result<bool> {
    Ok(list(fs, dir)?.segments.is_empty())
}

/// For each segment the trees that have batches in it, each with the first sequence number of
/// its last batch there. Trees that need the segment no more may be left out.
pub(crate) type Contents = BTreeMap<SegmentNumber, BTreeMap<TreeId, LogPosition>>;

#[derive(Debug, Default)]
struct State {
    contents: Contents,
    spares: Vec<SegmentNumber>,
    /// Number of readers of segments (rule 4).
    pins: usize,
}

/// Contents of the segments of the log, and the segments that can be removed. See the file header.
pub(crate) struct LogSegments {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    /// Spares that are kept.
    spares_max: usize,
    /// Covers all of its fields; never held over I/O.
    state: Mutex<State, LogSegmentList>,
    /// Held over the I/O of a retirement on purpose: it keeps retirements in order. Taken before
    /// `state`.
    retiring: Mutex<(), LogRetiring>,
}

/// No segment is retired as long as this lives.
pub(crate) struct SegmentsPinned {
    segments: Arc<LogSegments>,
}

impl Drop for SegmentsPinned {
    fn drop(&mut self) {
        self.segments.state.lock().pins -= 1;
    }
}

impl LogSegments {
    pub(crate) fn new(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        contents: Contents,
        spares: Vec<SegmentNumber>,
        spares_max: usize,
    ) -> Self {
        let state = Mutex::new(State { contents, spares, pins: 0 });
        Self { fs, dir: dir.to_owned(), spares_max, state, retiring: Mutex::new(()) }
    }

    /// The first segment that must be kept: one that some tree needs, or the newest. `flushed`
    /// tells up to where a tree is in SSTables, durably; `None` for a tree that was dropped. `None`
    /// if there is no segment.
    ///
    /// A tree that needs a segment no more never does again, but for what is noted later, and is
    /// forgotten: over all calls each batch of [`Self::note`] costs one question at most, and each
    /// call one more.
    pub(crate) fn first_needed(
        &self,
        flushed: impl Fn(TreeId) -> Option<LogPosition>,
    ) -> Option<SegmentNumber> {
        let mut state = self.state.lock();
        let first = state.contents.iter_mut().find_map(|(segment, trees)| {
            while let Some(tree) = trees.first_entry() {
                if needs(*tree.key(), *tree.get(), &flushed) {
                    return Some(*segment);
                }
                tree.remove();
            }
            None
        });
        first.or_else(|| state.contents.last_key_value().map(|(segment, _)| *segment))
    }

    /// Retires every segment before `first`, oldest first, but never the newest, and none while
    /// segments are pinned; returns how many. Touches the disk. After an error the segments not yet
    /// retired are kept and the call can be repeated.
    pub(crate) fn retire(&self, first: SegmentNumber) -> Result<usize> {
        let _turn = self.retiring.lock();
        let mut retired = 0;
        loop {
            let (oldest, spare) = {
                let state = self.state.lock();
                let oldest = state.contents.keys().next().filter(|oldest| **oldest < first);
                let may_go = state.contents.len() > 1 && state.pins == 0;
                let Some(oldest) = oldest.copied().filter(|_| may_go) else {
                    return Ok(retired);
                };
                (oldest, state.spares.len() < self.spares_max)
            };
            self.remove(oldest, spare)?;
            let mut state = self.state.lock();
            state.contents.remove(&oldest);
            if spare {
                state.spares.push(oldest);
            }
            retired += 1;
        }
    }

    /// Keeps all segments that a retirement has not begun to remove: those from the first one on
    /// that a manifest asked after this call says is needed.
    pub(crate) fn pin(self: &Arc<Self>) -> SegmentsPinned {
        self.state.lock().pins += 1;
        SegmentsPinned { segments: Arc::clone(self) }
    }

    fn remove(&self, segment: SegmentNumber, spare: bool) -> Result<()> {
        let path = segment.path(&self.dir);
        let done = if spare {
            self.fs.rename(&path, &segment.spare_path(&self.dir))
        } else {
            Mark::SegmentRemoved.hit();
            self.fs.remove_file(&path)
        };
        match done {
            Ok(()) => {}
            // An earlier call got this far and then failed to sync the directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("retire", &path, &error)),
        }
        self.fs.sync_dir(&self.dir).map_err(|error| Error::io("sync", &self.dir, &error))
    }

    /// The segments that exist, ascending.
    pub(crate) fn numbers(&self) -> Vec<SegmentNumber> {
        self.state.lock().contents.keys().copied().collect()
    }

    /// The tree to flush if that can make the log shorter: one that needs the oldest segment of all
    /// that trees need, if these and the ones after are more than `segments_max`. Older segments,
    /// which are there because they are pinned, do not count.
    pub(crate) fn tree_to_flush(
        &self,
        segments_max: usize,
        flushed: impl Fn(TreeId) -> Option<LogPosition>,
    ) -> Option<TreeId> {
        let state = self.state.lock();
        let segments = state.contents.len();
        // The first `segments_max` from the end are no reason to look.
        let older = state.contents.values().take(segments.saturating_sub(segments_max));
        older.flatten().find_map(|(tree, last)| needs(*tree, *last, &flushed).then_some(*tree))
    }

    /// Removes spares beyond those that are kept, as a crash may leave them.
    pub(crate) fn trim_spares(&self) -> Result<()> {
        while let Some(path) = self.surplus_spare() {
            self.fs.remove_file(&path).map_err(|error| Error::io("remove", &path, &error))?;
        }
        Ok(())
    }

    fn surplus_spare(&self) -> Option<PathBuf> {
        let mut state = self.state.lock();
        let surplus = state.spares.len() > self.spares_max;
        if surplus { state.spares.pop().map(|spare| spare.spare_path(&self.dir)) } else { None }
    }

    /// A new segment exists.
    pub(crate) fn add(&self, segment: SegmentNumber) {
        self.state.lock().contents.entry(segment).or_default();
    }

    /// `records` were appended to `segment`.
    pub(crate) fn note(&self, segment: SegmentNumber, records: &[LogRecord<'_>]) {
        let mut state = self.state.lock();
        let trees = state.contents.entry(segment).or_default();
        for record in records {
            trees.insert(record.tree, LogPosition(record.first.0));
        }
    }

    /// A spare file, for the caller to rename.
    pub(crate) fn take_spare(&self) -> Option<PathBuf> {
        self.state.lock().spares.pop().map(|spare| spare.spare_path(&self.dir))
    }
}

fn needs(
    tree: TreeId,
    last: LogPosition,
    flushed: &impl Fn(TreeId) -> Option<LogPosition>,
) -> bool {
    flushed(tree).is_some_and(|flushed| flushed < last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::{Rng, SimEnv};
    use std::cell::Cell;

    /// Data of trees in segments, and their flushed positions: `None` for dropped trees.
    #[derive(Default)]
    struct Plain {
        contents: Contents,
        flushed: BTreeMap<TreeId, Option<LogPosition>>,
    }

    impl Plain {
        fn flushed(&self, tree: TreeId) -> Option<LogPosition> {
            self.flushed.get(&tree).copied().unwrap_or(Some(LogPosition(0)))
        }

        fn first_needed(&self) -> Option<SegmentNumber> {
            let needed = |trees: &BTreeMap<TreeId, LogPosition>| {
                trees.iter().any(|(tree, last)| self.flushed(*tree).is_some_and(|at| at < *last))
            };
            let first = self.contents.iter().find(|(_, trees)| needed(trees));
            first.or_else(|| self.contents.last_key_value()).map(|(segment, _)| *segment)
        }
    }

    #[test]
    fn what_is_needed_is_what_all_trees_together_need_and_is_asked_of_each_once() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let machine = SimEnv::new(seed);
            let segments = LogSegments::new(
                machine.env().fs,
                Path::new("/log"),
                Contents::new(),
                Vec::new(),
                2,
            );
            let mut plain = Plain::default();
            let (questions, mut calls, mut notes) = (Cell::new(0u64), 0, 0);
            let trees = 1 + rng.below(30);
            for at in 1..2000 {
                let tree = TreeId(rng.below(trees) as u32);
                let newest = plain.contents.keys().next_back().copied().unwrap_or_default();
                match rng.below(100) {
                    0..4 => {
                        segments.add(newest.next());
                        plain.contents.entry(newest.next()).or_default();
                    }
                    4..14 => {
                        let position = plain.flushed(tree).map(|_| LogPosition(at));
                        plain.flushed.insert(tree, position);
                    }
                    14 => drop(plain.flushed.insert(tree, None)),
                    15..40 => {
                        calls += 1;
                        let asked = |tree| {
                            questions.set(questions.get() + 1);
                            plain.flushed(tree)
                        };
                        assert_eq!(
                            segments.first_needed(asked),
                            plain.first_needed(),
                            "{seed} {at}"
                        );
                    }
                    _ if newest > SegmentNumber(0) => {
                        notes += 1;
                        let (first, commit_time) = (crate::cell::SequenceNumber(at), 0);
                        let (payload, payload_crc) = (&[][..], 0);
                        let record = LogRecord { tree, first, commit_time, payload, payload_crc };
                        segments.note(newest, &[record]);
                        plain.contents.entry(newest).or_default().insert(tree, LogPosition(at));
                    }
                    _ => {}
                }
            }
            assert!(notes > 500 && questions.get() <= notes + calls, "{seed}: {questions:?}");
        }
    }
}
