//! The group log as its user holds it: opens, appends, syncs, reads back. `reclaim.rs` frees
//! segments.
//!
//! Thread-safety: one lock for the writer, held over its I/O; one for the index of the groups, never
//! held over I/O. So reads and questions never wait for a sync. Lock order: reclaiming, writer,
//! index, segments.

use super::entry_index::{Extent, Place};
use super::groups::{Check, Groups};
use super::record::codec::{self, Parts};
use super::record::entry::{EntryId, GroupId, GroupState, GroupWrite, OwnedGroupEntry};
use super::replay;
use super::segment_set::{GROUP_LOG_FILES, Segment, SegmentSet};
use crate::error::{Error, Result};
use crate::locks::{GroupLogIndex, GroupLogReclaiming, GroupLogWriter};
use crate::log::framing::record::RECORD_HEADER_LEN;
use crate::log::framing::segment_writer::{Appended, SegmentWriter};
use crate::log::{LogRecord, LogSizes, RecordKind, SegmentNumber};
use crate::marks::GroupLogMark;
use crate::options::Options;
use base::env::{Env, FileSystem};
use base::sync::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The log of all replication groups of a node. See the room's header.
pub struct GroupLog {
    fs: Arc<dyn FileSystem>,
    /// Segments beyond which groups are asked to let go of the oldest.
    segments_max: usize,
    /// Bytes to which segments are preallocated.
    pub(super) segment_bytes: u64,
    /// Bytes of entries that are appended again in one record.
    pub(super) part_bytes: usize,
    /// Held over the I/O of freeing segments, which happens in order.
    pub(super) reclaiming: Mutex<(), GroupLogReclaiming>,
    /// The tail of the log. Every change of groups holds it, but for a truncation.
    writer: Mutex<SegmentWriter, GroupLogWriter>,
    /// [`Self::synced_end`]; only grows, and guards nothing.
    synced_end: AtomicU64,
    /// [`GroupLogSize::appended`]; only grows, and guards nothing.
    appended: AtomicU64,
    /// All groups, as the records so far made them.
    groups: Mutex<Groups, GroupLogIndex>,
    pub(super) segments: Arc<SegmentSet>,
}

/// Size of a group log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLogSize {
    /// Segments that exist now.
    pub segments: usize,
    /// Groups, both living and removed.
    pub groups: usize,
    /// Records with entries that the index in memory knows, at some 40 bytes each.
    pub records: usize,
    /// Bytes that rounds appended since the log was opened.
    pub appended: u64,
}

/// One record to be written: its parts, and the payload that they were decoded from.
pub(super) struct Encoded<'a> {
    pub(super) parts: Parts<'a>,
    pub(super) payload: &'a [u8],
}

impl GroupLog {
    /// Opens the log in `dir`, which is created if it is missing, and reads all of it. The parent of
    /// `dir` should exist. The size of
    /// segments is `Options::log_segment_bytes`. The caller holds the lock of the data
    /// directory: two open logs of one folder damage each other.
    ///
    /// `Corruption` names file and place of damage. A torn tail is no damage, and is cut off.
    pub fn open(env: &Env, dir: &Path, options: &Options) -> Result<Self> {
        options.validate()?;
        let fs = Arc::clone(&env.fs);
        make_dir(&*fs, dir)?;
        let found = replay::read(&fs, dir)?;
        let sizes = LogSizes::of(options);
        let end = found.end.last.as_ref().map_or(0, |(segment, tail, _)| end_of(*segment, *tail));
        let segments = Arc::new(SegmentSet::new(Arc::clone(&fs), dir, &found.segments, sizes));
        let list = Arc::<SegmentSet>::clone(&segments);
        let writer =
            SegmentWriter::open(Arc::clone(&fs), dir, &GROUP_LOG_FILES, sizes, &found.end, list)?;
        let log = Self {
            fs,
            segments_max: options.shape.log_segments_max,
            segment_bytes: sizes.segment_bytes,
            part_bytes: options.shape.group_part_bytes,
            reclaiming: Mutex::new(()),
            writer: Mutex::new(writer),
            synced_end: AtomicU64::new(end),
            appended: AtomicU64::new(0),
            groups: Mutex::new(found.groups),
            segments,
        };
        log.keep_room_at_start()?;
        Ok(log)
    }

    /// Every group, living or removed, with its state.
    pub fn groups(&self) -> Vec<(GroupId, GroupState)> {
        self.groups.lock().states().collect()
    }

    /// The state of one group; `None` if the log does not know it.
    pub fn state(&self, group: GroupId) -> Option<GroupState> {
        self.groups.lock().state(group)
    }

    /// Term of the entry at `index`, or of the start of the log of `group`; `None` for an entry that
    /// the log does not have. Never touches the disk.
    pub fn term(&self, group: GroupId, index: u64) -> Option<u64> {
        self.groups.lock().alive(group)?.index.term(index)
    }

    /// Appends a round of writes, at most one of each group, as one write to the file. They are
    /// durable after [`Self::sync`], and seen by reads at once.
    ///
    /// `InvalidArgument` names a write that breaks the rules of `docs/format/group_log.md`; nothing
    /// was written then. After `NoSpace` nothing was written either, and the call can be repeated.
    /// After any other error the log refuses writes until it is opened again.
    pub fn append(&self, round: &[GroupWrite<'_>]) -> Result<()> {
        let payloads: Vec<Vec<u8>> = round.iter().map(codec::encode_write).collect();
        let mut encoded = Vec::with_capacity(round.len());
        let mut seen = BTreeSet::new();
        for (write, payload) in round.iter().zip(&payloads) {
            let group = write.group();
            let parts = Parts::decode(payload).map_err(|error| refused(group, error))?;
            if !seen.insert(group) {
                return Err(refused(group, "two writes in one round"));
            }
            encoded.push(Encoded { parts, payload });
        }
        let records: Vec<LogRecord<'_>> = encoded.iter().map(Encoded::record).collect();
        let mut writer = self.writer.lock();
        writer.check_writable()?;
        {
            let groups = self.groups.lock();
            for Encoded { parts, .. } in &encoded {
                let checked = groups.check(parts, Check::Write);
                checked.map_err(|what| refused(parts.group, what))?;
            }
        }
        self.keep_room_for_states(&writer, &encoded)?;
        self.write(&encoded, || writer.append(&records))?;
        let bytes: usize = payloads.iter().map(|payload| RECORD_HEADER_LEN + payload.len()).sum();
        self.appended.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Applies records whose parts were checked, after `append` has written them.
    pub(super) fn write(
        &self,
        encoded: &[Encoded<'_>],
        append: impl FnOnce() -> Result<Appended>,
    ) -> Result<()> {
        if encoded.is_empty() {
            return Ok(());
        }
        let appended = append()?;
        let mut groups = self.groups.lock();
        let (segment, mut offset) = (appended.segment, appended.offset);
        for Encoded { parts, payload } in encoded {
            let payload_len = payload.len() as u32;
            groups.apply(parts, Place { segment, offset, payload_len });
            offset += (RECORD_HEADER_LEN + payload.len()) as u64;
        }
        debug_assert_eq!(offset, appended.tail);
        Ok(())
    }

    /// Makes everything appended durable, of all groups, with at most one sync of a file. After an
    /// error the log refuses writes until it is opened again.
    pub fn sync(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        writer.sync()?;
        if let Some((segment, tail)) = writer.position() {
            self.synced_end.fetch_max(end_of(segment, tail), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns a number that grows with all that became durable, over all starts. A log that was opened
    /// and has a smaller one than its node ever had lacks something: it is an older copy.
    pub fn synced_end(&self) -> u64 {
        self.synced_end.load(Ordering::Relaxed)
    }

    /// Ends the log cleanly. Every later write is refused with `Closed`.
    pub fn close(&self) -> Result<()> {
        self.writer.lock().close().map(|_| ())
    }

    /// Reads entries of `group` in `indexes` from the disk, in order: as many from the first on as have
    /// `bytes_max` bytes of payload, but at least one. `None` if the log does not have the first one,
    /// or never had. Safe beside appends and the recycling of segments.
    pub fn entries(
        &self,
        group: GroupId,
        indexes: Range<u64>,
        bytes_max: usize,
    ) -> Result<Option<Vec<OwnedGroupEntry>>> {
        let Some(found) = self.locate(group, &indexes, bytes_max) else { return Ok(None) };
        let mut entries = Vec::new();
        let mut bytes = 0;
        for (extent, segment) in found {
            let payload = segment.read(&*self.fs, extent.place)?;
            let damaged =
                |what: &dyn std::fmt::Display| segment.corruption(extent.place.offset, what);
            let parts = Parts::decode(&payload).map_err(|error| damaged(&error))?;
            let Some(held) = parts.entries.filter(|_| parts.group == group) else {
                return Err(damaged(&"a record that is not the one in the index"));
            };
            let wanted = extent.first.max(indexes.start)..=extent.last.min(indexes.end - 1);
            for at in held.iter().filter(|at| wanted.contains(&at.index)) {
                bytes += at.entry.payload.len();
                if bytes > bytes_max && !entries.is_empty() {
                    GroupLogMark::ReadCut.hit();
                    return Ok(Some(entries));
                }
                let (term, kind) = (at.entry.term, at.entry.kind);
                let payload = at.entry.payload.to_vec();
                entries.push(OwnedGroupEntry { index: at.index, term, kind, payload });
            }
        }
        Ok(Some(entries))
    }

    /// Finds the records that hold the entries, and keeps their segments from being recycled.
    pub(super) fn locate(
        &self,
        group: GroupId,
        indexes: &Range<u64>,
        bytes_max: usize,
    ) -> Option<Vec<(Extent, Arc<Segment>)>> {
        let groups = self.groups.lock();
        let index = &groups.alive(group)?.index;
        let has = index.start().index < indexes.start && indexes.start <= index.last().index;
        if !has || indexes.is_empty() {
            return None;
        }
        let mut found = Vec::new();
        let mut bytes = 0;
        for extent in index.from(indexes.start) {
            if extent.first >= indexes.end || bytes > bytes_max {
                break;
            }
            // Bytes of the first record may belong to entries before those wanted.
            if !found.is_empty() {
                bytes += extent.place.payload_len as usize;
            }
            found.push((extent, self.segments.get(extent.place.segment)?));
        }
        Some(found)
    }

    /// Forgets the entries of `group` up to the one at `index`, which its state machine holds
    /// durably: its segment can be freed. Not noted in the log: after a crash the group may begin
    /// earlier again. Does nothing while [`Self::append_again`] runs for the group.
    ///
    /// `InvalidArgument` for an entry that is not committed, or a group without a replica here.
    pub fn truncate(&self, group: GroupId, index: u64) -> Result<()> {
        let mut groups = self.groups.lock();
        let Some(alive) = groups.alive_mut(group) else {
            return Err(refused(group, "the group has no replica here"));
        };
        if index <= alive.index.start().index {
            return Ok(());
        }
        if index > alive.commit() {
            return Err(refused(group, "a truncation of entries that are not committed"));
        }
        let Some(term) = alive.index.term(index) else {
            return Err(refused(group, "a truncation of entries that are not in the log"));
        };
        alive.truncate(EntryId { index, term });
        Ok(())
    }

    /// The groups whose entries keep the oldest segments, if there are more than
    /// `Shape::log_segments_max`: flush their trees and truncate them, or call
    /// [`Self::append_again`] for groups that cannot be flushed.
    pub fn groups_to_flush(&self) -> Vec<GroupId> {
        let count = self.segments.count();
        let (Some((oldest, newest)), true) = (self.segments.ends(), count > self.segments_max)
        else {
            return Vec::new();
        };
        let surplus = (count - self.segments_max) as u64;
        let limit = newest.min(crate::log::SegmentNumber(oldest.0 + surplus));
        self.groups.lock().with_entries_before(limit)
    }

    /// Returns the number of segments from the oldest one with an entry of `group` to the newest; 0 if the group
    /// has no entries.
    pub fn kept_segments(&self, group: GroupId) -> usize {
        let Some((_, newest)) = self.segments.ends() else { return 0 };
        let groups = self.groups.lock();
        let oldest = groups.alive(group).and_then(|alive| alive.index.oldest_segment());
        oldest.map_or(0, |oldest| newest.0.saturating_sub(oldest.0) as usize + 1)
    }

    /// The size of the log.
    pub fn size(&self) -> GroupLogSize {
        let (groups, records) = self.groups.lock().counts();
        let appended = self.appended.load(Ordering::Relaxed);
        GroupLogSize { segments: self.segments.count(), groups, records, appended }
    }

    /// Returns the bytes of the records that hold the entries of `group`: what [`Self::append_again`]
    /// writes, about.
    pub fn kept_bytes(&self, group: GroupId) -> u64 {
        self.groups.lock().alive(group).map_or(0, |alive| alive.index.bytes().0)
    }

    /// Returns the bytes of the segments beyond which groups are to let go of the oldest.
    pub fn turn_bytes(&self) -> u64 {
        self.segments_max as u64 * self.segment_bytes
    }

    pub(super) fn lock_writer(&self) -> MutexGuard<'_, SegmentWriter, GroupLogWriter> {
        self.writer.lock()
    }

    pub(super) fn lock_groups(&self) -> MutexGuard<'_, Groups, GroupLogIndex> {
        self.groups.lock()
    }
}

impl<'a> Encoded<'a> {
    /// Returns a record whose payload this room made.
    pub(super) fn own(payload: &'a [u8]) -> Self {
        let parts = Parts::decode(payload).expect("a record that was encoded here");
        Self { parts, payload }
    }
}

impl Encoded<'_> {
    /// The record of the log, with the checksum of its payload.
    pub(super) fn record(&self) -> LogRecord<'_> {
        LogRecord::of_kind(RecordKind::Group, self.payload)
    }
}

/// The end of a log as one number. Segments have at most 2^30 bytes and a record more.
fn end_of(segment: SegmentNumber, tail: u64) -> u64 {
    segment.0.saturating_mul(1 << 32).saturating_add(tail.min(u64::from(u32::MAX)))
}

fn refused(group: GroupId, what: impl std::fmt::Display) -> Error {
    Error::InvalidArgument(format!("write of group {} to the group log: {what}", group.0))
}

/// Creates `dir` and makes its name durable; that its parent lasts is up to the caller.
fn make_dir(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    fs.create_dir_all(dir).map_err(|error| Error::io("create", dir, &error))?;
    match dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => fs.sync_dir(parent).map_err(|error| Error::io("sync", parent, &error)),
        None => Ok(()),
    }
}
