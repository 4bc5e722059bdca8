//! Catalog of a destination: its store, its complete backups and its unfinished backups.

use crate::destination::{Destination, Put, malformed};
use crate::error::{Error, Result};
use crate::frame::{self, Begun, Kind};
use crate::names::{self, BackupId};
use crate::record::{RECORD_BYTES_MAX, Record};
use engine::StoreId;

/// Longest small object that is no record.
pub(crate) const SMALL_BYTES_MAX: u64 = 64 << 10;

/// A backup that has a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    pub id: BackupId,
    /// The record of the backup.
    pub record: Record,
}

/// A backup that is being made, or was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnderWay {
    pub id: BackupId,
    /// When and where it was begun; `None` if the intent does not read.
    pub begun: Option<Begun>,
}

/// All that a destination holds, oldest first.
#[derive(Debug)]
pub struct Catalog {
    /// The store of the backups; `None` if the destination never had a backup.
    pub store: Option<StoreId>,
    /// Backups; an error in place of a record that does not read.
    pub backups: Vec<(BackupId, Result<Record>)>,
    /// Unfinished backups.
    pub under_way: Vec<UnderWay>,
}

/// Lists what the destination holds.
pub async fn list(destination: &Destination) -> Result<Catalog> {
    let store = store(destination).await?;
    let mut backups = Vec::new();
    for id in ids(destination, names::RECORDS).await? {
        let read = match record(destination, &id).await {
            Ok(Some(record)) => Ok(record),
            // Removed since it was listed.
            Ok(None) => continue,
            Err(error @ Error::Damaged { .. }) => Err(error),
            Err(error) => return Err(error),
        };
        backups.push((id, read));
    }
    Ok(Catalog { store, backups, under_way: under_way(destination).await? })
}

impl Catalog {
    /// All backups but `keep`, the newest. `Refused` if one of them holds more than every one that
    /// would stay: then it cannot be told which are the newest.
    pub fn all_but(&self, keep: usize) -> Result<Vec<BackupId>> {
        let (old, kept) = self.backups.split_at(self.backups.len().saturating_sub(keep));
        let furthest = |among: &[(BackupId, Result<Record>)]| {
            let read = among.iter().filter_map(|(id, record)| Some((id, record.as_ref().ok()?)));
            let held = read.map(|(id, record)| (record.point.sequence, id.clone()));
            held.max()
        };
        if let (Some(old), Some(kept)) = (furthest(old), furthest(kept))
            && old.0 > kept.0
        {
            return Err(unclear("to delete", &kept, &old));
        }
        Ok(old.iter().map(|(id, _)| id.clone()).collect())
    }
}

/// Why it cannot be told which backup is the newest: `later` was begun after `other`, and holds less.
fn unclear(what: &str, later: &(u64, BackupId), other: &(u64, BackupId)) -> Error {
    Error::Refused(format!(
        "backup {} has the later id but ends at sequence number {}, while {} ends at {}: a clock \
         was wrong, or the store was restored from an older backup. Pass the id of the backup \
         {what}; `stele backup list` shows all ids",
        later.1, later.0, other.1, other.0
    ))
}

/// The backup `id`, or the newest. `Refused` if there is none, and if it cannot be told which is the
/// newest, as one that was begun before it holds more. `Damaged` if its record does not read: of the
/// newest, with what to do.
pub async fn find(destination: &Destination, id: Option<&BackupId>) -> Result<Backup> {
    let Some(id) = id else { return newest(destination).await };
    match record(destination, id).await? {
        Some(record) => Ok(Backup { id: id.clone(), record }),
        None => Err(Error::Refused(format!(
            "{destination} has no backup {id}; `stele backup list` shows all ids"
        ))),
    }
}

async fn newest(destination: &Destination) -> Result<Backup> {
    let Some(newest) = last(destination).await.map_err(with_another_to_name)? else {
        return Err(Error::Refused(format!("{destination} has no backup")));
    };
    let held = (newest.record.point.sequence, newest.id.clone());
    for id in ids(destination, names::RECORDS).await? {
        // One that does not read is not the one to restore, and says nothing of the others.
        let read = match record(destination, &id).await {
            Err(Error::Damaged { .. }) => None,
            read => read?,
        };
        let other = read.map(|record| (record.point.sequence, id));
        if let Some(other) = other.filter(|other| other.0 > held.0) {
            return Err(unclear("to restore (--backup)", &held, &other));
        }
    }
    Ok(newest)
}

/// Says what to do about the damaged record of the newest backup.
fn with_another_to_name(error: Error) -> Error {
    match error {
        Error::Damaged { object, offset, what } => {
            let advice = "the record of the newest backup is unreadable; choose another backup with \
                 --backup (`stele backup list` shows all ids, `stele backup verify` finds intact \
                 ones)";
            Error::damaged(object, offset, format_args!("{what}; {advice}"))
        }
        error => error,
    }
}

/// The backup of the last id.
pub(crate) async fn last(destination: &Destination) -> Result<Option<Backup>> {
    for id in ids(destination, names::RECORDS).await?.into_iter().rev() {
        if let Some(record) = record(destination, &id).await? {
            return Ok(Some(Backup { id, record }));
        }
    }
    Ok(None)
}

/// An id for a backup that is begun now, after those of all that the destination has: `micros` since
/// 1970 unless the clock is behind one of them. `random` tells it from others of that moment.
pub async fn next_id(destination: &Destination, micros: i64, random: u32) -> Result<BackupId> {
    let mut after = i64::MIN;
    for what in [names::RECORDS, names::UNDER_WAY] {
        let last = ids(destination, what).await?.pop();
        after = after.max(last.map_or(i64::MIN, |id| id.micros().saturating_add(1)));
    }
    Ok(BackupId::new(micros.max(after), random))
}

/// Returns the store that the destination belongs to.
pub(crate) async fn store(destination: &Destination) -> Result<Option<StoreId>> {
    let read = destination.get(names::STORE, SMALL_BYTES_MAX).await?;
    let store = read.map(|bytes| frame::decode_store(&bytes)).transpose();
    store.map_err(malformed(names::STORE))
}

/// Makes the destination that of `store`, unless it is another's.
pub(crate) async fn claim(destination: &Destination, store_id: StoreId) -> Result<()> {
    let mut found = store(destination).await?;
    if found.is_none() {
        let bytes = frame::encode_store(store_id).into();
        if destination.put_if_absent(names::STORE, bytes).await? != Put::Present {
            return Ok(());
        }
        found = store(destination).await?;
    }
    if found == Some(store_id) {
        return Ok(());
    }
    let owner = found.map_or("another".to_owned(), |owner| owner.to_string());
    Err(Error::Refused(format!(
        "{destination} holds the backups of store {owner}, but this is store {store_id}; choose \
         another destination"
    )))
}

/// State of the place of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// The record: the backup is made.
    Made(Box<Record>),
    /// It was given up, and never will be.
    GivenUp,
}

/// Returns the state of the backup `id`; `None` if it has no record yet.
pub(crate) async fn state(destination: &Destination, id: &BackupId) -> Result<Option<State>> {
    let name = names::of_backup(names::RECORDS, id);
    let Some(bytes) = destination.get(&name, RECORD_BYTES_MAX).await? else { return Ok(None) };
    let state = match frame::is_of(Kind::GivenUp, &bytes) {
        true => Begun::decode(Kind::GivenUp, &bytes).map(|_| State::GivenUp),
        false => Record::decode(&bytes).map(|record| State::Made(Box::new(record))),
    };
    state.map(Some).map_err(malformed(&name))
}

/// The record of `id`, if there is one.
pub(crate) async fn record(destination: &Destination, id: &BackupId) -> Result<Option<Record>> {
    Ok(match state(destination, id).await? {
        Some(State::Made(record)) => Some(*record),
        Some(State::GivenUp) | None => None,
    })
}

/// Returns whether somebody gave the backup `id` up before it was made. It cannot be made any more.
pub async fn is_given_up(destination: &Destination, id: &BackupId) -> Result<bool> {
    Ok(state(destination, id).await? == Some(State::GivenUp))
}

/// The ids below `what`, ascending. Names that are none are not ours.
pub(crate) async fn ids(destination: &Destination, what: &str) -> Result<Vec<BackupId>> {
    let names = destination.list(what).await?;
    let mut ids: Vec<BackupId> = names.keys().filter_map(|name| name.parse().ok()).collect();
    ids.sort();
    Ok(ids)
}

/// Intents of backups without a record.
pub(crate) async fn under_way(destination: &Destination) -> Result<Vec<UnderWay>> {
    // Records are listed after the intents: an intent goes when its record is there.
    let intents = ids(destination, names::UNDER_WAY).await?;
    let records = ids(destination, names::RECORDS).await?;
    let mut found = Vec::new();
    for id in intents.into_iter().filter(|id| records.binary_search(id).is_err()) {
        let name = names::of_backup(names::UNDER_WAY, &id);
        if let Some(bytes) = destination.get(&name, SMALL_BYTES_MAX).await? {
            found.push(UnderWay { id, begun: Begun::decode(Kind::Intent, &bytes).ok() });
        }
    }
    Ok(found)
}
