//! Segment files by name and number, what each still holds for which tree, and their recycling.
//!
//! 1. A segment is needed while some tree has a batch in it above that tree's flushed position. A
//!    flushed position is always the end of a batch, so comparing it with the *first* sequence
//!    number of the last batch is exact.
//! 2. Segments are retired oldest first, each retirement durable before the next, and the newest
//!    known segment never.
//! 3. A retired segment that has batches of a tree whose changes are kept is renamed to `.changes`
//!    and stays for its readers, until the longest retention of such a tree is over. Any other
//!    becomes a spare (`.spare`, at most `Shape::log_spares_max`) or is removed.
//! 4. While anybody copies segments ([`LogSegments::pin`]) none is retired. Nobody waits for that:
//!    what is to be retired meanwhile stays, for the next call.
//! 5. Readers of changes follow segments without a pin ([`LogSegments::reach`]). Bytes below `tail`
//!    of the newest segment never change; bytes of another segment do only after it has left the list.
//!
//! Shared by the writer (which notes what it appends and takes spares) and by whoever flushes.

use super::LogPosition;
use super::framing::record::{FILE_HEADER_LEN, LOG, LogRecord, RECORD_HEADER_LEN};
use super::framing::segment_files::{self, COMMIT_LOG, SegmentNumber};
use super::framing::segment_reader::{Place, SegmentReader};
use super::framing::segment_writer::SegmentList;
use super::tree_batches;
use crate::cell::{SequenceNumber, TreeId};
use crate::error::{Error, Result};
use crate::locks::{LogRetiring, LogSegmentList};
use crate::marks::Mark;
use base::env::fs::FileSystem;
use base::sync::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Ending of the name of a segment that the log has retired and readers of changes still want.
const KEPT: &str = "changes";

impl SegmentNumber {
    /// Path of the segment once the log has retired it and readers of changes still want it.
    pub(crate) fn kept_path(self, dir: &Path) -> PathBuf {
        segment_files::numbered(dir, self, KEPT)
    }

    fn spare_path(self, dir: &Path) -> PathBuf {
        COMMIT_LOG.spare_path(dir, self)
    }
}

/// Lists the live segments in `dir`, ascending.
pub(crate) fn list(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<SegmentNumber>> {
    let [segments] = segment_files::list(fs, dir, [COMMIT_LOG.segment])?;
    Ok(segments)
}

/// Lists the retired segments in `dir` that are kept for readers of changes, ascending.
pub(crate) fn list_kept(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<SegmentNumber>> {
    let [kept] = segment_files::list(fs, dir, [KEPT])?;
    Ok(kept)
}

/// Opens the kept segment `segment` of the log in `dir`, which must end with a seal.
pub(crate) fn open_kept(
    fs: &dyn FileSystem,
    dir: &Path,
    segment: SegmentNumber,
) -> Result<SegmentReader> {
    SegmentReader::open(fs, &segment.kept_path(dir), &LOG, segment, Place::Inner)
}

/// Opens the segment of a commit log at `path` alone; see [`SegmentReader::open_path`].
pub(crate) fn open_alone(fs: &dyn FileSystem, path: &Path) -> Result<SegmentReader> {
    SegmentReader::open_path(fs, path, &LOG)
}

/// Returns whether `dir` has no segment of a log.
pub(crate) fn is_empty(fs: &dyn FileSystem, dir: &Path) -> Result<bool> {
    Ok(list(fs, dir)?.is_empty())
}

/// For each segment the trees that have batches in it, each with the first sequence number of
/// its last batch there. Trees that need the segment no more may be left out.
pub(crate) type Contents = BTreeMap<SegmentNumber, BTreeMap<TreeId, LogPosition>>;

/// The first batch of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstBatch {
    /// Number of its first mutation.
    pub(crate) sequence: SequenceNumber,
    /// Its commit time, in microseconds; that of no later batch is lower.
    pub(crate) commit_time: u64,
}

/// The first batch of each segment that has any.
pub(crate) type FirstBatches = BTreeMap<SegmentNumber, FirstBatch>;

/// Parts of a log that was read to its end.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) contents: Contents,
    /// The first batches of the segments of `contents`.
    pub(crate) firsts: FirstBatches,
    pub(crate) spares: Vec<SegmentNumber>,
    /// Retired segments that are kept for readers of changes.
    pub(crate) kept: Vec<SegmentNumber>,
    /// End of the records of the newest segment.
    pub(crate) tail: u64,
}

/// Part of a segment that a reader of changes may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It is the newest, and written up to here.
    Tail(u64),
    /// It is sealed: up to its seal.
    Whole,
    /// It has left the log, without a batch that a reader of changes wants.
    Gone,
    /// It was kept, and its time is over.
    GivenUp,
}

#[derive(Debug, Default)]
struct State {
    contents: Contents,
    /// The first batches of live segments and of kept ones.
    firsts: FirstBatches,
    spares: Vec<SegmentNumber>,
    /// End of the records of the newest segment.
    tail: u64,
    /// Trees whose changes are kept, and for how many microseconds.
    followed: BTreeMap<TreeId, u64>,
    /// Live segments with batches of such trees.
    wanted: BTreeSet<SegmentNumber>,
    /// Retired segments that are kept, and the bytes of their records as far as they are known.
    kept: BTreeMap<SegmentNumber, u64>,
    /// Bytes of the records of live segments that are sealed.
    sealed: BTreeMap<SegmentNumber, u64>,
    /// The newest kept segment that was removed since the log was opened.
    given_up: SegmentNumber,
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
        found: Found,
        spares_max: usize,
    ) -> Self {
        let Found { contents, firsts, spares, kept, tail } = found;
        let kept = kept.into_iter().map(|segment| (segment, 0)).collect();
        let state = State { contents, firsts, spares, kept, tail, ..State::default() };
        let state = Mutex::new(state);
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
            let (oldest, fate) = {
                let state = self.state.lock();
                let oldest = state.contents.keys().next().filter(|oldest| **oldest < first);
                let may_go = state.contents.len() > 1 && state.pins == 0;
                let Some(oldest) = oldest.copied().filter(|_| may_go) else {
                    return Ok(retired);
                };
                let fate = match state.spares.len() < self.spares_max {
                    _ if state.wanted.contains(&oldest) => Fate::Kept,
                    true => Fate::Spare,
                    false => Fate::Removed,
                };
                (oldest, fate)
            };
            self.remove(oldest, fate)?;
            self.state.lock().retired(oldest, fate);
            retired += 1;
        }
    }

    /// Removes kept segments, oldest first, whose batches were all committed longer before `now`
    /// than any tree wants its changes kept; all of them if no tree does. Returns how many. Touches
    /// the disk.
    pub(crate) fn give_up(&self, now: u64) -> Result<usize> {
        if self.state.lock().first_to_give_up(now).is_none() {
            return Ok(0);
        }
        let _turn = self.retiring.lock();
        let mut removed = 0;
        loop {
            let Some(oldest) = self.state.lock().first_to_give_up(now) else {
                return Ok(removed);
            };
            let path = oldest.kept_path(&self.dir);
            match self.fs.remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("remove", &path, &error)),
            }
            let mut state = self.state.lock();
            state.kept.remove(&oldest);
            state.firsts.remove(&oldest);
            state.given_up = oldest;
            removed += 1;
        }
    }

    /// Keeps the changes of `trees`, each for so many microseconds: what is noted from now on, and
    /// what segments hold that no flush has looked at since the log was opened.
    pub(crate) fn follow(&self, trees: &[(TreeId, u64)]) {
        let mut state = self.state.lock();
        let State { contents, wanted, followed, .. } = &mut *state;
        followed.extend(trees.iter().copied());
        let holds = |held: &BTreeMap<TreeId, LogPosition>| {
            trees.iter().any(|(tree, _)| held.contains_key(tree))
        };
        let holding = contents.iter().filter(|(_, held)| holds(held));
        wanted.extend(holding.map(|(segment, _)| *segment));
    }

    /// Keeps the changes of `tree` no longer.
    pub(crate) fn unfollow(&self, tree: TreeId) {
        let mut state = self.state.lock();
        state.followed.remove(&tree);
        if state.followed.is_empty() {
            state.wanted.clear();
        }
    }

    /// Tells the first batch of a kept segment, which was read.
    pub(crate) fn note_first(&self, segment: SegmentNumber, first: FirstBatch, bytes: u64) {
        let mut state = self.state.lock();
        state.firsts.insert(segment, first);
        if let Some(known) = state.kept.get_mut(&segment) {
            *known = bytes;
        }
    }

    /// Returns the kept segments in ascending order.
    pub(crate) fn kept(&self) -> Vec<SegmentNumber> {
        self.state.lock().kept.keys().copied().collect()
    }

    /// Number of kept segments, and the bytes of their records.
    pub(crate) fn kept_size(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.kept.len() as u64, state.kept.values().sum())
    }

    /// Returns the part of `segment` that may be read.
    pub(crate) fn reach(&self, segment: SegmentNumber) -> Reach {
        let state = self.state.lock();
        if state.contents.last_key_value().is_some_and(|(newest, _)| *newest == segment) {
            return Reach::Tail(state.tail);
        }
        match state.contents.contains_key(&segment) || state.kept.contains_key(&segment) {
            true => Reach::Whole,
            false if segment <= state.given_up => Reach::GivenUp,
            false => Reach::Gone,
        }
    }

    /// Returns whether a kept segment after `segment` was removed.
    pub(crate) fn has_given_up_after(&self, segment: SegmentNumber) -> bool {
        self.state.lock().given_up > segment
    }

    /// The first segment after `segment`, live or kept, and its path as it is now.
    pub(crate) fn next_after(&self, segment: SegmentNumber) -> Option<(SegmentNumber, PathBuf)> {
        let state = self.state.lock();
        let after = (Bound::Excluded(segment), Bound::Unbounded);
        let kept = state.kept.range(after).next().map(|(next, _)| *next);
        let live = state.contents.range(after).next().map(|(next, _)| *next);
        match (kept, live) {
            (Some(kept), live) if live.is_none_or(|live| kept < live) => {
                Some((kept, kept.kept_path(&self.dir)))
            }
            (_, live) => live.map(|live| (live, live.path(&self.dir))),
        }
    }

    /// Waits until no segment is being renamed.
    pub(crate) fn wait_for_names(&self) {
        drop(self.retiring.lock());
    }

    /// Returns the number after which a reader begins that wants all from the first batch on that
    /// `is_before` refuses. It then reads the newest segment that begins before that batch, or the
    /// oldest one of all. A kept segment above the number that is removed later was to be read.
    pub(crate) fn seek(&self, is_before: impl Fn(&FirstBatch) -> bool) -> SegmentNumber {
        let state = self.state.lock();
        let found = state.firsts.iter().rev().find(|(_, first)| is_before(first));
        found.map_or(state.given_up, |(segment, _)| SegmentNumber(segment.0.saturating_sub(1)))
    }

    /// Keeps all segments that a retirement has not begun to remove: those from the first one on
    /// that a manifest asked after this call says is needed.
    pub(crate) fn pin(self: &Arc<Self>) -> SegmentsPinned {
        self.state.lock().pins += 1;
        SegmentsPinned { segments: Arc::clone(self) }
    }

    fn remove(&self, segment: SegmentNumber, fate: Fate) -> Result<()> {
        let path = segment.path(&self.dir);
        let done = match fate {
            Fate::Spare => self.fs.rename(&path, &segment.spare_path(&self.dir)),
            Fate::Kept => self.fs.rename(&path, &segment.kept_path(&self.dir)),
            Fate::Removed => {
                Mark::SegmentRemoved.hit();
                self.fs.remove_file(&path)
            }
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

    /// `records` were appended to `segment`, the newest, whose records now end at `tail`.
    pub(crate) fn note(&self, segment: SegmentNumber, records: &[LogRecord<'_>], tail: u64) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let trees = state.contents.entry(segment).or_default();
        let mut is_wanted = false;
        for record in records {
            let noted = tree_batches::for_each(record, |batch| {
                trees.insert(batch.tree, LogPosition(batch.first.0));
                is_wanted |= state.followed.contains_key(&batch.tree);
            });
            debug_assert!(noted.is_ok(), "what was appended decodes");
        }
        if let Some(LogRecord { first: sequence, commit_time, .. }) = records.first() {
            let first = FirstBatch { sequence: *sequence, commit_time: *commit_time };
            state.firsts.entry(segment).or_insert(first);
        }
        if is_wanted {
            state.wanted.insert(segment);
        }
        state.tail = tail;
    }
}

impl SegmentList for LogSegments {
    fn take_spare(&self) -> Option<PathBuf> {
        self.state.lock().spares.pop().map(|spare| spare.spare_path(&self.dir))
    }

    fn has_spare(&self) -> bool {
        !self.state.lock().spares.is_empty()
    }

    fn add(&self, segment: SegmentNumber) {
        let mut state = self.state.lock();
        if let Some(before) = state.contents.keys().next_back().copied() {
            let bytes = state.tail + RECORD_HEADER_LEN as u64;
            state.sealed.insert(before, bytes);
        }
        state.contents.entry(segment).or_default();
        state.tail = FILE_HEADER_LEN;
    }
}

/// Fate of a retired segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is kept for readers of changes.
    Kept,
    /// It waits to be used again.
    Spare,
    Removed,
}

impl State {
    /// Takes note of a segment that left the log.
    fn retired(&mut self, segment: SegmentNumber, fate: Fate) {
        self.contents.remove(&segment);
        self.wanted.remove(&segment);
        let bytes = self.sealed.remove(&segment).unwrap_or(0);
        match fate {
            Fate::Kept => drop(self.kept.insert(segment, bytes)),
            Fate::Spare => self.spares.push(segment),
            Fate::Removed => {}
        }
        if fate != Fate::Kept {
            self.firsts.remove(&segment);
        }
    }

    /// The oldest kept segment, if no reader may want any of it at `now`. Batches before the first one
    /// of the next segment are older than that.
    fn first_to_give_up(&self, now: u64) -> Option<SegmentNumber> {
        let oldest = *self.kept.keys().next()?;
        let Some(retention) = self.followed.values().max() else { return Some(oldest) };
        let next = self.firsts.range((Bound::Excluded(oldest), Bound::Unbounded)).next();
        next.is_some_and(|(_, next)| next.commit_time.saturating_add(*retention) < now)
            .then_some(oldest)
    }
}

fn needs(
    tree: TreeId,
    last: LogPosition,
    flushed: &impl Fn(TreeId) -> Option<LogPosition>,
) -> bool {
    flushed(tree).is_some_and(|flushed| flushed < last)
}
