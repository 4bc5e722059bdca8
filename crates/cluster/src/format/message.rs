//! Frames of messages from one node to another (docs/format/node_messages.md).

use super::FormatError;
use crate::group::{
    Body, Entry, EntryId, GroupId, Message, ReadContext, ReplicaId, Time, VoteKind,
};
use base::checksum::crc32c;
use base::codec::{ByteReader, PutBytes};
use bytes::Bytes;

/// Longest frame, in bytes. A message with one command of the greatest length fits.
pub const FRAME_BYTES_MAX: usize = 96 << 20;

const VERSION: u8 = 1;
/// Length of the checksum at the end of a frame.
const CRC_LEN: usize = size_of::<u32>();
/// Messages and entries of a frame together. They are longer in memory than in the frame, so the
/// length of the frame alone does not bound their memory well.
const ITEMS_MAX: usize = 1 << 20;

/// Kinds of messages, frozen. 0 stays invalid.
mod kind {
    pub(super) const APPEND: u8 = 1;
    pub(super) const APPENDED: u8 = 2;
    pub(super) const HEARTBEAT: u8 = 3;
    pub(super) const HEARTBEAT_ANSWER: u8 = 4;
    pub(super) const REQUEST_VOTE: u8 = 5;
    pub(super) const VOTE: u8 = 6;
    pub(super) const TIMEOUT_NOW: u8 = 7;
    pub(super) const SLEEP: u8 = 8;
    pub(super) const ASLEEP: u8 = 9;
    pub(super) const HELD: u8 = 10;
}

/// Kinds of elections, frozen. 0 stays invalid.
const TRIAL: u8 = 1;
const REAL: u8 = 2;
const TRANSFER: u8 = 3;

/// Returns frames with `messages` in their order. A frame ends after the message with which it reaches
/// `frame_bytes`.
///
/// # Panics
///
/// Panics at a message whose entries have a gap, which no driver gives out.
pub fn encode_frames(messages: &[Message], frame_bytes: usize) -> Vec<Bytes> {
    let mut frames = Vec::new();
    let mut frame = Vec::new();
    let mut items = 0;
    for message in messages {
        let more = items_of(message);
        if !frame.is_empty() && (frame.len() >= frame_bytes || items + more > ITEMS_MAX) {
            frames.push(seal(std::mem::take(&mut frame)));
            items = 0;
        }
        if frame.is_empty() {
            frame.push(VERSION);
        }
        items += more;
        encode(message, &mut frame);
    }
    if !frame.is_empty() {
        frames.push(seal(frame));
    }
    frames
}

/// Returns the messages of a frame.
///
/// # Errors
///
/// The frame is damaged, or of a version that this build does not know. The connection that it came
/// from is of no use.
pub fn decode_frame(frame: &[u8]) -> Result<Vec<Message>, FormatError> {
    if frame.len() > FRAME_BYTES_MAX {
        return Err(FormatError::Broken("a frame that is longer than frames are"));
    }
    match frame.first() {
        Some(&VERSION) | None => {}
        Some(&version) => return Err(FormatError::Version { format: "messages", version }),
    }
    let len = frame.len().saturating_sub(CRC_LEN);
    let (content, crc) = frame.split_at(len);
    if ByteReader::new(crc).u32("checksum of a frame")? != crc32c(&[content]) {
        return Err(FormatError::Broken("the checksum of a frame"));
    }
    let mut reader = ByteReader::new(content);
    reader.u8("version of a frame")?;
    let mut messages = Vec::new();
    let mut items = 0;
    while !reader.is_empty() {
        let message = decode(&mut reader, ITEMS_MAX - items)?;
        items += items_of(&message);
        messages.push(message);
        if items >= ITEMS_MAX && !reader.is_empty() {
            return Err(FormatError::Broken("more messages and entries than a frame has"));
        }
    }
    Ok(messages)
}

fn items_of(message: &Message) -> usize {
    match &message.body {
        Body::Append { entries, .. } => 1 + entries.len(),
        _ => 1,
    }
}

fn seal(mut frame: Vec<u8>) -> Bytes {
    let crc = crc32c(&[&frame]);
    frame.put_u32(crc);
    frame.into()
}

fn encode(message: &Message, out: &mut Vec<u8>) {
    out.put_varint(message.group.0);
    out.put_varint(message.from.0);
    out.put_varint(message.to.0);
    out.put_varint(message.term);
    match &message.body {
        Body::Append { previous, entries, commit, sent } => {
            out.push(kind::APPEND);
            put_id(out, *previous);
            out.put_varint(*commit);
            out.put_u64(sent.0);
            encode_entries(*previous, entries, out);
        }
        Body::Appended { index, commit, refused, heard } => {
            out.push(kind::APPENDED);
            out.put_varint(*index);
            out.put_varint(*commit);
            out.put_u64(heard.0);
            out.push(u8::from(refused.is_some()));
            if let Some(hint) = refused {
                put_id(out, *hint);
            }
        }
        Body::Heartbeat { commit, read, sent } => {
            out.push(kind::HEARTBEAT);
            encode_heartbeat(*commit, *read, *sent, out);
        }
        Body::HeartbeatAnswer { commit, read, heard } => {
            out.push(kind::HEARTBEAT_ANSWER);
            encode_heartbeat(*commit, *read, *heard, out);
        }
        Body::RequestVote { kind, last, commit } => {
            out.push(kind::REQUEST_VOTE);
            out.push(match kind {
                VoteKind::Trial => TRIAL,
                VoteKind::Real => REAL,
                VoteKind::Transfer => TRANSFER,
            });
            put_id(out, *last);
            put_id(out, *commit);
        }
        Body::Vote { trial, granted, commit } => {
            out.push(kind::VOTE);
            out.push(u8::from(*trial));
            out.push(u8::from(*granted));
            put_id(out, *commit);
        }
        Body::TimeoutNow => out.push(kind::TIMEOUT_NOW),
        Body::Sleep { index } => {
            out.push(kind::SLEEP);
            out.put_varint(*index);
        }
        Body::Asleep { index } => {
            out.push(kind::ASLEEP);
            out.put_varint(*index);
        }
        Body::Held { by_all, by_live } => {
            out.push(kind::HELD);
            out.put_varint(*by_all);
            out.put_varint(*by_live);
        }
    }
}

fn encode_entries(previous: EntryId, entries: &[Entry], out: &mut Vec<u8>) {
    out.put_varint(entries.len() as u64);
    for (index, entry) in (previous.index + 1..).zip(entries) {
        assert_eq!(entry.id.index, index, "entries of a message follow each other");
        out.put_varint(entry.id.term);
        out.put_string(&entry.command);
    }
}

fn encode_heartbeat(commit: u64, read: Option<ReadContext>, time: Time, out: &mut Vec<u8>) {
    out.put_varint(commit);
    out.put_u64(time.0);
    out.push(u8::from(read.is_some()));
    if let Some(read) = read {
        out.put_u64(read.start);
        out.put_varint(read.number);
    }
}

fn put_id(out: &mut Vec<u8>, id: EntryId) {
    out.put_varint(id.term);
    out.put_varint(id.index);
}

fn decode(reader: &mut ByteReader<'_>, items_max: usize) -> Result<Message, FormatError> {
    let group = GroupId(reader.varint("group of a message")?);
    let from = ReplicaId(reader.varint("sender of a message")?);
    let to = ReplicaId(reader.varint("receiver of a message")?);
    let term = reader.varint("term of a message")?;
    let body = decode_body(reader, items_max)?;
    Ok(Message { group, from, to, term, body })
}

fn decode_body(reader: &mut ByteReader<'_>, items_max: usize) -> Result<Body, FormatError> {
    Ok(match reader.u8("kind of a message")? {
        kind::APPEND => {
            let previous = id(reader)?;
            let commit = reader.varint("commit")?;
            let sent = Time(reader.u64("time")?);
            let entries = decode_entries(previous, reader, items_max)?;
            Body::Append { previous, entries, commit, sent }
        }
        kind::APPENDED => {
            let (index, commit) = (reader.varint("index")?, reader.varint("commit")?);
            let heard = Time(reader.u64("time")?);
            let refused = if flag(reader)? { Some(id(reader)?) } else { None };
            Body::Appended { index, commit, refused, heard }
        }
        kind::HEARTBEAT => {
            let (commit, read, sent) = decode_heartbeat(reader)?;
            Body::Heartbeat { commit, read, sent }
        }
        kind::HEARTBEAT_ANSWER => {
            let (commit, read, heard) = decode_heartbeat(reader)?;
            Body::HeartbeatAnswer { commit, read, heard }
        }
        kind::REQUEST_VOTE => {
            let kind = match reader.u8("kind of an election")? {
                TRIAL => VoteKind::Trial,
                REAL => VoteKind::Real,
                TRANSFER => VoteKind::Transfer,
                kind => return Err(FormatError::Kind { of: "election", kind }),
            };
            Body::RequestVote { kind, last: id(reader)?, commit: id(reader)? }
        }
        kind::VOTE => {
            Body::Vote { trial: flag(reader)?, granted: flag(reader)?, commit: id(reader)? }
        }
        kind::TIMEOUT_NOW => Body::TimeoutNow,
        kind::SLEEP => Body::Sleep { index: reader.varint("index")? },
        kind::ASLEEP => Body::Asleep { index: reader.varint("index")? },
        kind::HELD => {
            Body::Held { by_all: reader.varint("index")?, by_live: reader.varint("index")? }
        }
        kind => return Err(FormatError::Kind { of: "message", kind }),
    })
}

fn decode_entries(
    previous: EntryId,
    reader: &mut ByteReader<'_>,
    items_max: usize,
) -> Result<Vec<Entry>, FormatError> {
    let count = reader.varint("count of entries")?;
    let end = previous.index.checked_add(count).filter(|end| *end < u64::MAX);
    if end.is_none() || count > items_max as u64 {
        return Err(FormatError::Broken("more entries than a message has"));
    }
    let mut entries = Vec::new();
    for number in 1..=count {
        let id =
            EntryId { term: reader.varint("term of an entry")?, index: previous.index + number };
        let command = Bytes::copy_from_slice(reader.string("command of an entry")?);
        entries.push(Entry { id, command });
    }
    Ok(entries)
}

fn decode_heartbeat(
    reader: &mut ByteReader<'_>,
) -> Result<(u64, Option<ReadContext>, Time), FormatError> {
    let commit = reader.varint("commit")?;
    let time = Time(reader.u64("time")?);
    let read = match flag(reader)? {
        true => {
            let start = reader.u64("start of a read")?;
            Some(ReadContext { start, number: reader.varint("number of a read")? })
        }
        false => None,
    };
    Ok((commit, read, time))
}

fn id(reader: &mut ByteReader<'_>) -> Result<EntryId, FormatError> {
    Ok(EntryId { term: reader.varint("term")?, index: reader.varint("index")? })
}

fn flag(reader: &mut ByteReader<'_>) -> Result<bool, FormatError> {
    match reader.u8("flag")? {
        0 => Ok(false),
        1 => Ok(true),
        kind => Err(FormatError::Kind { of: "flag", kind }),
    }
}
