//! The state of a local directory, and its file; see docs/format/directory.md.

use super::item;
use crate::directory::error::{Error, Result};
use crate::directory::{Change, Event, Item, LeaseId, Outcome, Revision, Write};
use base::checksum::crc32c;
use base::codec::{ByteReader, DecodeError, PutBytes};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

const MAGIC: &[u8; 8] = b"STELEDIR";
const VERSION: u8 = 1;
/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Removed keys that the file remembers for watches.
const GONE_MAX: usize = 256;

/// A key's value in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) value: Bytes,
    pub(super) revision: u64,
    /// Lease of the key; 0 for none.
    lease: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Lease {
    ttl_micros: u64,
    /// When it ends, microseconds since the Unix epoch.
    ends_micros: i64,
}

/// All that a directory keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::directory) struct State {
    /// Number of the last change.
    revision: u64,
    /// Removals at or before this revision are forgotten.
    compacted: u64,
    last_lease: u64,
    items: BTreeMap<String, Kept>,
    leases: BTreeMap<u64, Lease>,
    /// Latest removals, in order of revision.
    gone: VecDeque<(String, u64)>,
}

impl State {
    /// Returns a state that holds these items, for a copy.
    pub(in crate::directory) fn of(items: impl Iterator<Item = Item>, revision: Revision) -> Self {
        let items = items.map(|item| {
            let kept = Kept { value: item.value, revision: item.revision.0, lease: 0 };
            (item.key, kept)
        });
        Self {
            revision: revision.0,
            compacted: revision.0,
            items: items.collect(),
            ..Self::default()
        }
    }

    pub(in crate::directory) fn revision(&self) -> Revision {
        Revision(self.revision)
    }

    pub(in crate::directory) fn items(&self, prefix: &str) -> Vec<Item> {
        let from = self.items.range(prefix.to_owned()..);
        let below = from.take_while(|(key, _)| key.starts_with(prefix));
        below.map(|(key, kept)| item(key, kept)).collect()
    }

    pub(super) fn change(&mut self, change: Change) -> Result<Outcome> {
        for (key, expected) in &change.expected {
            let now = self.items.get(key).map_or(0, |kept| kept.revision);
            if now != expected.0 {
                return Ok(Outcome::Conflict);
            }
        }
        let leased = change.writes.iter().filter_map(|write| match write {
            Write::Put { lease, .. } => *lease,
            Write::Remove { .. } => None,
        });
        for lease in leased {
            if !self.leases.contains_key(&(lease.0 as u64)) {
                return Err(Error::LeaseLost);
            }
        }
        let next = self.revision + 1;
        for write in change.writes {
            match write {
                Write::Put { key, value, lease } => {
                    let lease = lease.map_or(0, |lease| lease.0 as u64);
                    self.items.insert(key, Kept { value, revision: next, lease });
                    self.revision = next;
                }
                Write::Remove { key } => self.remove(&key, next),
            }
        }
        Ok(Outcome::Done(Revision(self.revision)))
    }

    /// Removes a key as part of the change `revision`, if it is there.
    fn remove(&mut self, key: &str, revision: u64) {
        if self.items.remove(key).is_none() {
            return;
        }
        self.revision = revision;
        self.gone.push_back((key.to_owned(), revision));
        while self.gone.len() > GONE_MAX {
            if let Some((_, forgotten)) = self.gone.pop_front() {
                self.compacted = forgotten;
            }
        }
    }

    pub(super) fn events(&self, prefix: &str, after: Revision) -> Result<Vec<Event>> {
        if after.0 < self.compacted {
            return Err(Error::Compacted);
        }
        let changed = self.items(prefix).into_iter().filter(|item| item.revision > after);
        let gone = self.gone.iter().filter(|(key, at)| *at > after.0 && key.starts_with(prefix));
        let gone = gone.map(|(key, at)| Event::Gone { key: key.clone(), revision: Revision(*at) });
        let mut events: Vec<_> = changed.map(Event::Put).chain(gone).collect();
        events.sort_by_key(Event::revision);
        Ok(events)
    }

    pub(super) fn grant(&mut self, ttl: Duration, now_micros: i64) -> LeaseId {
        self.last_lease += 1;
        let ttl_micros = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
        let lease = Lease { ttl_micros, ends_micros: end(now_micros, ttl_micros) };
        self.leases.insert(self.last_lease, lease);
        LeaseId(self.last_lease as i64)
    }

    pub(super) fn keep_alive(&mut self, lease: LeaseId, now_micros: i64) -> Result<()> {
        let lease = self.leases.get_mut(&(lease.0 as u64)).ok_or(Error::LeaseLost)?;
        lease.ends_micros = end(now_micros, lease.ttl_micros);
        Ok(())
    }

    pub(super) fn revoke(&mut self, lease: LeaseId) {
        let lease = lease.0 as u64;
        if self.leases.remove(&lease).is_none() {
            return;
        }
        let next = self.revision + 1;
        let keys = self.items.iter().filter(|(_, kept)| kept.lease == lease);
        let keys: Vec<_> = keys.map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| self.remove(key, next));
    }

    /// Ends the leases whose time is over, with their keys. Returns whether there were any.
    pub(super) fn end_leases(&mut self, now_micros: i64) -> bool {
        let over = self.leases.iter().filter(|(_, lease)| lease.ends_micros <= now_micros);
        let over: Vec<_> = over.map(|(lease, _)| *lease).collect();
        over.iter().for_each(|lease| self.revoke(LeaseId(*lease as i64)));
        !over.is_empty()
    }

    /// Reads the file at `path`; `None` if it is missing.
    pub(in crate::directory) fn load(path: &Path) -> Result<Option<Self>> {
        let unusable = |error| Error::Unavailable(format!("{}: {error}", path.display()));
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(unusable)?,
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(unusable)?;
        Self::decode(&bytes).map(Some).map_err(|what| Error::damaged(path.display(), what))
    }

    /// Replaces the file at `path`, durably when this returns.
    pub(in crate::directory) fn save(&self, path: &Path) -> Result<()> {
        let write = || {
            let fresh = beside(path, ".new");
            let mut file = File::create(&fresh)?;
            file.write_all(&self.encode())?;
            file.sync_all()?;
            std::fs::rename(&fresh, path)?;
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
            File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
        };
        write().map_err(|error: std::io::Error| {
            let text = format!("{}: {error}", path.display());
            match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full(text),
                _ => Error::Unavailable(text),
            }
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(VERSION);
        out.put_varint(self.revision);
        out.put_varint(self.compacted);
        out.put_varint(self.last_lease);
        out.put_varint(self.leases.len() as u64);
        for (id, lease) in &self.leases {
            out.put_varint(*id);
            out.put_varint(lease.ttl_micros);
            out.put_i64(lease.ends_micros);
        }
        out.put_varint(self.items.len() as u64);
        for (key, kept) in &self.items {
            out.put_string(key.as_bytes());
            out.put_varint(kept.revision);
            out.put_varint(kept.lease);
            out.put_string(&kept.value);
        }
        out.put_varint(self.gone.len() as u64);
        for (key, revision) in &self.gone {
            out.put_string(key.as_bytes());
            out.put_varint(*revision);
        }
        let crc = crc32c(&[&out]);
        out.put_u32(crc);
        out
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Self, String> {
        let Some((checked, crc)) = bytes.split_last_chunk::<4>() else {
            return Err("the file is too short".to_owned());
        };
        let mut reader = ByteReader::new(checked);
        if reader.bytes(MAGIC.len(), "magic").ok() != Some(MAGIC) {
            return Err("not a directory of a cluster: its magic is another".to_owned());
        }
        match reader.u8("version") {
            Ok(VERSION) => {}
            Ok(version) => {
                return Err(format!(
                    "version {version}, but this Stele reads versions up to {VERSION}; \
                     use a newer Stele"
                ));
            }
            Err(error) => return Err(error.to_string()),
        }
        if u32::from_le_bytes(*crc) != crc32c(&[checked]) {
            return Err("the checksum does not match".to_owned());
        }
        Self::decode_body(reader).map_err(|error| error.to_string())
    }

    fn decode_body(mut reader: ByteReader<'_>) -> std::result::Result<Self, DecodeError> {
        let mut state = Self {
            revision: reader.varint("revision")?,
            compacted: reader.varint("compacted revision")?,
            last_lease: reader.varint("last lease")?,
            ..Self::default()
        };
        for _ in 0..reader.varint("leases")? {
            let id = reader.varint("lease")?;
            let ttl_micros = reader.varint("ttl")?;
            let lease = Lease { ttl_micros, ends_micros: reader.i64("end of the lease")? };
            state.leases.insert(id, lease);
        }
        for _ in 0..reader.varint("items")? {
            let key = text(&mut reader)?;
            let (revision, lease) = (reader.varint("revision")?, reader.varint("lease")?);
            let value = Bytes::copy_from_slice(reader.string("value")?);
            state.items.insert(key, Kept { value, revision, lease });
        }
        for _ in 0..reader.varint("removed keys")? {
            let key = text(&mut reader)?;
            state.gone.push_back((key, reader.varint("revision")?));
        }
        reader.finish()?;
        Ok(state)
    }
}

fn text(reader: &mut ByteReader<'_>) -> std::result::Result<String, DecodeError> {
    let bytes = reader.string("key")?;
    // A key that is not UTF-8 was written by no version.
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| DecodeError::Truncated("key"))
}

fn end(now_micros: i64, ttl_micros: u64) -> i64 {
    now_micros.saturating_add(i64::try_from(ttl_micros).unwrap_or(i64::MAX))
}

/// Returns the path with `end` behind its name.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(end);
    name.into()
}

/// Feeds untrusted bytes to the decoder, whose checksum is made to match.
pub(in crate::directory) fn fuzz(body: &[u8]) {
    let mut bytes = [MAGIC, &[VERSION][..], body].concat();
    let crc = crc32c(&[&bytes]);
    bytes.put_u32(crc);
    let _ = State::decode(&bytes);
    let _ = State::decode(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str, lease: Option<LeaseId>) -> Change {
        let value = Bytes::copy_from_slice(value.as_bytes());
        Change::default().write(Write::Put { key: key.to_owned(), value, lease })
    }

    fn state() -> State {
        let mut state = State::default();
        state.change(put("a", "1", None)).unwrap();
        let lease = state.grant(Duration::from_secs(1), 0);
        state.change(put("b", "2", Some(lease))).unwrap();
        state.change(put("c", "3", None)).unwrap();
        let remove = Change::default().write(Write::Remove { key: "c".to_owned() });
        state.change(remove).unwrap();
        state
    }

    #[test]
    fn the_file_reads_back_and_any_damage_is_found() {
        let bytes = state().encode();
        assert_eq!(State::decode(&bytes), Ok(state()));
        for at in 0..bytes.len() {
            assert!(State::decode(&bytes[..at]).is_err(), "cut at {at}");
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(State::decode(&flipped).is_err(), "flipped at {at}");
        }
        let newer = [MAGIC, &[9][..], &[0; 8]].concat();
        assert!(State::decode(&newer).unwrap_err().contains("use a newer Stele"));
    }

    #[test]
    fn a_watch_from_before_the_oldest_kept_removal_must_read_first() {
        let mut state = state();
        assert_eq!(state.events("", Revision(0)).unwrap().len(), 3);
        for round in 0..=GONE_MAX {
            state.change(put(&round.to_string(), "", None)).unwrap();
            let remove = Change::default().write(Write::Remove { key: round.to_string() });
            state.change(remove).unwrap();
        }
        assert_eq!(state.events("", Revision(0)), Err(Error::Compacted));
        assert_eq!(state.gone.len(), GONE_MAX);
        let now = state.revision();
        assert_eq!(state.events("", now), Ok(Vec::new()));
    }

    #[test]
    fn a_lease_ends_with_its_keys_unless_it_is_kept_alive() {
        let mut state = state();
        state.keep_alive(LeaseId(1), 500_000).unwrap();
        state.end_leases(1_400_000);
        assert_eq!(state.items("b").len(), 1);
        let before = state.revision();
        state.end_leases(1_500_000);
        assert_eq!(state.items("b"), []);
        let events = state.events("", before).unwrap();
        assert_eq!(events, [Event::Gone { key: "b".into(), revision: Revision(before.0 + 1) }]);
        assert_eq!(state.keep_alive(LeaseId(1), 0), Err(Error::LeaseLost));
        assert_eq!(state.change(put("d", "", Some(LeaseId(1)))), Err(Error::LeaseLost));
    }
}
