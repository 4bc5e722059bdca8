//! Bytes of a record of the group log (docs/format/group_log.md). Decoding is pure, never panics,
//! and allocates nothing: entries stay in the bytes that they came in.

use super::entry::{EntryId, GroupEntry, GroupId, GroupWrite, HardState};
use base::codec::{ByteReader, DecodeError, PutBytes};
use std::fmt;

/// Terms, indexes and commits are below this, so that the next one never overflows.
pub(in crate::group_log) const NUMBER_END: u64 = 1 << 62;

/// Longest descriptor of a group, in bytes.
pub(in crate::group_log) const DESCRIPTOR_BYTES_MAX: usize = 1 << 20;

/// Tags of the parts, frozen. 0 stays invalid to catch zeroed pages.
mod tag {
    pub(in crate::group_log) const REPLICA: u8 = 1;
    pub(in crate::group_log) const HARD: u8 = 2;
    pub(in crate::group_log) const DESCRIPTOR: u8 = 3;
    pub(in crate::group_log) const START: u8 = 4;
    pub(in crate::group_log) const ENTRIES: u8 = 5;
    pub(in crate::group_log) const AGAIN: u8 = 6;
    pub(in crate::group_log) const AGAIN_END: u8 = 7;
    pub(in crate::group_log) const REMOVED: u8 = 8;
}

/// Role of the entries of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::group_log) enum Role {
    /// They are new, or replace others.
    New,
    /// They repeat entries of the group, and the next record goes on.
    Again,
    /// They are the last ones that are repeated.
    AgainEnd,
}

/// Fate of entries after a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::group_log) enum Rest {
    Stays,
    Goes,
}

/// The entries of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::group_log) struct Entries<'a> {
    pub(in crate::group_log) role: Role,
    pub(in crate::group_log) first: u64,
    pub(in crate::group_log) count: u64,
    /// The entries as they are encoded; checked.
    bytes: &'a [u8],
}

/// The parts of one decoded record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::group_log) struct Parts<'a> {
    pub(in crate::group_log) group: GroupId,
    /// The record is a whole state, of this replica.
    pub(in crate::group_log) replica: Option<u64>,
    pub(in crate::group_log) hard: Option<HardState>,
    pub(in crate::group_log) descriptor: Option<&'a [u8]>,
    pub(in crate::group_log) start: Option<(EntryId, Rest)>,
    pub(in crate::group_log) entries: Option<Entries<'a>>,
    /// The replica was removed; a later one has at least this id.
    pub(in crate::group_log) removed: Option<u64>,
}

/// Damage of a record, or a write that no record can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::group_log) enum CodecError {
    /// The bytes end early or are malformed.
    Decode(DecodeError),
    /// The parts cannot be; the text says why.
    Broken(&'static str),
}

impl From<DecodeError> for CodecError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => write!(f, "record of a group: {error}"),
            Self::Broken(what) => write!(f, "record of a group: {what}"),
        }
    }
}

/// One entry of [`Entries`], with its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::group_log) struct EntryAt<'a> {
    pub(in crate::group_log) index: u64,
    pub(in crate::group_log) entry: GroupEntry<'a>,
}

impl<'a> Entries<'a> {
    /// The entries in order of their indexes.
    pub(in crate::group_log) fn iter(&self) -> impl Iterator<Item = EntryAt<'a>> {
        let mut reader = ByteReader::new(self.bytes);
        let indexes = self.first..self.first + self.count;
        indexes.map_while(move |index| {
            let entry = decode_entry(&mut reader).ok()?;
            Some(EntryAt { index, entry })
        })
    }

    /// Index of the last entry.
    pub(in crate::group_log) fn last(&self) -> u64 {
        self.first + self.count - 1
    }
}

impl<'a> Parts<'a> {
    /// Decodes the payload of a record.
    pub(in crate::group_log) fn decode(payload: &'a [u8]) -> Result<Self, CodecError> {
        let mut reader = ByteReader::new(payload);
        let mut parts = Self { group: GroupId(reader.varint("group")?), ..Self::default() };
        let mut before = 0;
        while !reader.is_empty() {
            let tag = reader.u8("tag")?;
            if tag <= before {
                return Err(CodecError::Broken("parts that are out of order"));
            }
            before = tag;
            parts.decode_part(tag, &mut reader)?;
        }
        parts.check()?;
        Ok(parts)
    }

    fn decode_part(&mut self, tag: u8, reader: &mut ByteReader<'a>) -> Result<(), CodecError> {
        match tag {
            tag::REPLICA => self.replica = Some(reader.varint("replica")?),
            tag::HARD => {
                let (term, vote) = (reader.varint("term")?, reader.varint("vote")?);
                self.hard = Some(HardState { term, vote, commit: reader.varint("commit")? });
            }
            tag::DESCRIPTOR => self.descriptor = Some(reader.string("descriptor")?),
            tag::START => {
                let (index, term) = (reader.varint("index")?, reader.varint("term")?);
                let rest = match reader.u8("rest")? {
                    0 => Rest::Stays,
                    1 => Rest::Goes,
                    _ => return Err(CodecError::Broken("an unknown fate of entries")),
                };
                self.start = Some((EntryId { index, term }, rest));
            }
            tag::ENTRIES => self.decode_entries(Role::New, reader)?,
            tag::AGAIN => self.decode_entries(Role::Again, reader)?,
            tag::AGAIN_END => self.decode_entries(Role::AgainEnd, reader)?,
            tag::REMOVED => self.removed = Some(reader.varint("least replica")?),
            _ => return Err(CodecError::Broken("an unknown part")),
        }
        Ok(())
    }

    fn decode_entries(
        &mut self,
        role: Role,
        reader: &mut ByteReader<'a>,
    ) -> Result<(), CodecError> {
        let (first, count) = (reader.varint("first index")?, reader.varint("count")?);
        let bytes = reader.rest();
        let mut term = 0;
        // A count that is too great ends at the end of the bytes.
        for _ in 0..count {
            let entry = decode_entry(reader)?;
            if entry.term < term || entry.term >= NUMBER_END {
                return Err(CodecError::Broken("a term of an entry"));
            }
            term = entry.term;
        }
        let bytes = &bytes[..bytes.len() - reader.rest().len()];
        if self.entries.replace(Entries { role, first, count, bytes }).is_some() {
            return Err(CodecError::Broken("entries of two roles"));
        }
        Ok(())
    }

    /// Checks the numbers, and which parts stand together.
    fn check(&self) -> Result<(), CodecError> {
        let Self { group: _, replica, hard, descriptor, start, entries, removed } = self;
        let state = [hard.is_some(), descriptor.is_some(), start.is_some()];
        let role = entries.map(|entries| entries.role);
        let alone = replica.is_none() && state == [false; 3];
        let fits = match removed {
            Some(_) => alone && entries.is_none(),
            None if role == Some(Role::Again) => alone,
            None if role == Some(Role::AgainEnd) && replica.is_none() => false,
            None if replica.is_some() => state == [true; 3],
            None => state != [false; 3] || entries.is_some(),
        };
        if !fits {
            return Err(CodecError::Broken("parts that do not stand together"));
        }
        if descriptor.is_some_and(|bytes| bytes.len() > DESCRIPTOR_BYTES_MAX) {
            return Err(CodecError::Broken("a descriptor of more than 1 MiB"));
        }
        let hard = hard.unwrap_or_default();
        let start = start.map_or(EntryId::default(), |(start, _)| start);
        let numbers = [hard.term, hard.commit, start.index, start.term];
        let in_range = entries.is_none_or(|entries| {
            let (first, count) = (entries.first, entries.count);
            first > 0 && count > 0 && first < NUMBER_END && count <= NUMBER_END - first
        });
        if !in_range || numbers.iter().any(|number| *number >= NUMBER_END) {
            return Err(CodecError::Broken("a number that no group reaches"));
        }
        Ok(())
    }

    /// Appends the parts but for entries, of which a whole state has none here.
    pub(in crate::group_log) fn encode_state(&self, out: &mut Vec<u8>) {
        out.put_varint(self.group.0);
        if let Some(replica) = self.replica {
            out.push(tag::REPLICA);
            out.put_varint(replica);
        }
        if let Some(HardState { term, vote, commit }) = self.hard {
            out.push(tag::HARD);
            [term, vote, commit].iter().for_each(|number| out.put_varint(*number));
        }
        if let Some(descriptor) = self.descriptor {
            out.push(tag::DESCRIPTOR);
            out.put_string(descriptor);
        }
        if let Some((EntryId { index, term }, rest)) = self.start {
            out.push(tag::START);
            [index, term].iter().for_each(|number| out.put_varint(*number));
            out.push(u8::from(rest == Rest::Goes));
        }
        if let Some(least) = self.removed {
            out.push(tag::REMOVED);
            out.put_varint(least);
        }
    }
}

fn decode_entry<'a>(reader: &mut ByteReader<'a>) -> Result<GroupEntry<'a>, DecodeError> {
    let (term, kind) = (reader.varint("term of an entry")?, reader.u8("kind of an entry")?);
    Ok(GroupEntry { term, kind, payload: reader.string("payload of an entry")? })
}

/// Appends a part of entries.
pub(in crate::group_log) fn encode_entries<'a>(
    out: &mut Vec<u8>,
    role: Role,
    first: u64,
    entries: impl ExactSizeIterator<Item = GroupEntry<'a>>,
) {
    out.push(match role {
        Role::New => tag::ENTRIES,
        Role::Again => tag::AGAIN,
        Role::AgainEnd => tag::AGAIN_END,
    });
    out.put_varint(first);
    out.put_varint(entries.len() as u64);
    for GroupEntry { term, kind, payload } in entries {
        out.put_varint(term);
        out.push(kind);
        out.put_string(payload);
    }
}

/// Returns the payload of the record of `write`. That it decodes is for the caller to check: the
/// numbers may be out of range.
pub(in crate::group_log) fn encode_write(write: &GroupWrite<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    match *write {
        GroupWrite::Create { group, replica, hard, descriptor, start } => {
            let (replica, hard) = (Some(replica), Some(hard));
            let (descriptor, start) = (Some(descriptor), Some((start, Rest::Goes)));
            let parts = Parts { group, replica, hard, descriptor, start, ..Parts::default() };
            parts.encode_state(&mut out);
        }
        GroupWrite::Append { group, hard, descriptor, snapshot, first, entries } => {
            let start = snapshot.map(|start| (start, Rest::Goes));
            Parts { group, hard, descriptor, start, ..Parts::default() }.encode_state(&mut out);
            let len = entries.iter().map(|entry| entry.payload.len() + ENTRY_BYTES).sum();
            out.reserve(len);
            if !entries.is_empty() {
                encode_entries(&mut out, Role::New, first, entries.iter().copied());
            }
        }
        GroupWrite::Remove { group, least_replica } => {
            let removed = Some(least_replica);
            Parts { group, removed, ..Parts::default() }.encode_state(&mut out);
        }
    }
    out
}

/// Bytes of an entry beside its payload, as a rule.
const ENTRY_BYTES: usize = 16;
