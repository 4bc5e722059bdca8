//! Reads a group log from its first record to its end: for an open, for a check, for a dump. Never
//! writes.

use super::entry_index::Place;
use super::groups::{Check, Groups};
use super::record::codec::{Parts, Rest, Role};
use super::segment_set::GROUP_LOG_FILES;
use crate::error::{Error, Result};
use crate::log::framing::chain_reader::{ChainEnd, ChainReader};
use crate::log::framing::record::GROUP_LOG;
use crate::log::framing::segment_reader::SegmentReader;
use crate::log::log_salvage::{LogGap, LogSalvage, Salvaged};
use crate::log::{LogItem, RecordKind, SegmentNumber};
use base::env::FileSystem;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A log that was read.
pub(super) struct Replayed {
    pub(super) groups: Groups,
    pub(super) segments: Vec<SegmentNumber>,
    pub(super) end: ChainEnd,
}

/// Reads the log in `dir`, which may be missing. `Corruption` names file and place.
pub(super) fn read(fs: &Arc<dyn FileSystem>, dir: &Path) -> Result<Replayed> {
    let mut chain = ChainReader::open(Arc::clone(fs), dir, &GROUP_LOG_FILES)?;
    let segments = chain.segments().to_vec();
    let mut groups = Groups::default();
    while let Some((segment, offset, header)) = chain.advance()? {
        let payload = chain.record(offset, &header)?.payload;
        let place = Place { segment, offset, payload_len: header.payload_len };
        replay(&mut groups, payload, place).map_err(|what| {
            let path = GROUP_LOG_FILES.path(dir, segment);
            Error::corruption(&path, offset, what)
        })?;
    }
    let end = chain.finish()?;
    if let (Err((group, what)), Some(first)) = (groups.check_replayed(), segments.first()) {
        let path = GROUP_LOG_FILES.path(dir, *first);
        return Err(Error::corruption(&path, 0, format_args!("group {}: {what}", group.0)));
    }
    Ok(Replayed { groups, segments, end })
}

/// Applies one record that was read; the error tells the damage.
fn replay(groups: &mut Groups, payload: &[u8], place: Place) -> Result<(), String> {
    let parts = Parts::decode(payload).map_err(|error| error.to_string())?;
    let checked = groups.check(&parts, Check::Replay);
    checked.map_err(|what| format!("group {}: {what}", parts.group.0))?;
    groups.apply(&parts, place);
    Ok(())
}

/// Damage of a group log: the file, where in it, and what.
pub(crate) type Damage = (PathBuf, u64, String);

/// Reads the log in `dir`, past damage, which `found` is told. Returns the number of records that
/// verify.
pub(crate) fn verify(
    fs: &Arc<dyn FileSystem>,
    dir: &Path,
    found: &mut dyn FnMut(Damage),
) -> Result<u64> {
    let mut log = LogSalvage::open(Arc::clone(fs), dir, &GROUP_LOG_FILES)?;
    let first = log.first_segment();
    let (mut records, mut groups) = (0, Some(Groups::default()));
    while let Some(item) = log.next()? {
        match item {
            Salvaged::Record(LogItem { segment, offset, record, .. }) => {
                records += 1;
                let payload_len = record.payload.len() as u32;
                let place = Place { segment, offset, payload_len };
                // After a gap nothing is known of groups, and a record is checked alone.
                let checked = match &mut groups {
                    Some(groups) => replay(groups, record.payload, place),
                    None => Parts::decode(record.payload).map(drop).map_err(|e| e.to_string()),
                };
                if let Err(what) = checked {
                    found((GROUP_LOG_FILES.path(dir, segment), offset, what));
                    groups = None;
                }
            }
            Salvaged::Gap(LogGap { path, offset, what }) => {
                found((path, offset, what));
                groups = None;
            }
        }
    }
    if let (Some(Err((group, what))), Some(first)) =
        (groups.map(|groups| groups.check_replayed()), first)
    {
        let what = format!("group {}: {what}", group.0);
        found((GROUP_LOG_FILES.path(dir, first), 0, what));
    }
    Ok(records)
}

/// Writes the segment at `path` to `out` as text, up to the first damage, which is the error.
/// `show` gives the text of an entry's payload, or nothing to leave entries out.
pub(crate) fn dump(
    fs: &dyn FileSystem,
    path: &Path,
    show: &dyn Fn(&[u8]) -> Option<String>,
    out: &mut dyn Write,
) -> Result<()> {
    let written = |result: io::Result<()>| {
        result.map_err(|error| Error::io("write", Path::new("the output"), &error))
    };
    let mut reader = SegmentReader::open_path(fs, path, &GROUP_LOG)?;
    while let Some(item) = reader.next()? {
        let (offset, synced) = (item.offset, item.synced_to);
        if item.kind != RecordKind::Group {
            written(writeln!(out, "{offset}: {:?}, synced to {synced}", item.kind))?;
            continue;
        }
        let parts = Parts::decode(item.record.payload);
        let parts = parts.map_err(|error| Error::corruption(path, offset, error))?;
        written(writeln!(out, "{offset}: {}, synced to {synced}", Shown(&parts)))?;
        for at in parts.entries.iter().flat_map(|entries| entries.iter()) {
            let Some(payload) = show(at.entry.payload) else { break };
            let (term, kind) = (at.entry.term, at.entry.kind);
            let line = format!("  entry {} of term {term}, kind {kind}: {payload}", at.index);
            written(writeln!(out, "{line}"))?;
        }
    }
    written(writeln!(out, "{}: end", reader.end()))
}

/// A record as one line of text.
struct Shown<'a, 'b>(&'a Parts<'b>);

impl fmt::Display for Shown<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.0;
        write!(f, "group {}", parts.group.0)?;
        if let Some(replica) = parts.replica {
            write!(f, ", whole state of replica {replica}")?;
        }
        if let Some(hard) = parts.hard {
            write!(f, ", term {}, vote {}, commit {}", hard.term, hard.vote, hard.commit)?;
        }
        if let Some(descriptor) = parts.descriptor {
            write!(f, ", descriptor {}", descriptor.escape_ascii())?;
        }
        if let Some((start, rest)) = parts.start {
            let rest = if rest == Rest::Goes { " with nothing kept" } else { "" };
            write!(f, ", starts after {} of term {}{rest}", start.index, start.term)?;
        }
        if let Some(entries) = parts.entries {
            let role = match entries.role {
                Role::New => "entries",
                Role::Again => "entries again, to be continued,",
                Role::AgainEnd => "entries again",
            };
            write!(f, ", {role} {} to {}", entries.first, entries.last())?;
        }
        match parts.removed {
            Some(least) => write!(f, ", removed; a later replica has at least the id {least}"),
            None => Ok(()),
        }
    }
}
