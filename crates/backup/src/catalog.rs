//! What a destination holds: whose backups, which are whole, which are being made.

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
    /// Its id.
    pub id: BackupId,
    /// What it holds.
    pub record: Record,
}

/// A backup that is being made, or was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnderWay {
    /// Its id.
    pub id: BackupId,
    /// When and where it was begun; `None` if the intent does not read.
    pub begun: Option<Begun>,
}

/// All that a destination holds, oldest first.
#[derive(Debug)]
pub struct Catalog {
    /// Whose backups these are; `None` if there was never one.
    pub store: Option<StoreId>,
    /// Backups; an error in place of a record that does not read.
    pub backups: Vec<(BackupId, Result<Record>)>,
    /// Those that are none yet.
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

/// The backup `id`, or the newest.
pub async fn find(destination: &Destination, id: Option<&BackupId>) -> Result<Backup> {
    let newest = match id {
        Some(id) => Some(id.clone()),
        None => ids(destination, names::RECORDS).await?.pop(),
    };
    let Some(id) = newest else {
        return Err(Error::Refused(format!("{destination} has no backup")));
    };
    match record(destination, &id).await? {
        Some(record) => Ok(Backup { id, record }),
        None => Err(Error::Refused(format!(
            "{destination} has no backup {id}; `stele backup list` shows which it has"
        ))),
    }
}

/// Which store the destination belongs to.
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
        if destination.put_if_absent(names::STORE, bytes).await? == Put::Written {
            return Ok(());
        }
        found = store(destination).await?;
    }
    if found == Some(store_id) {
        return Ok(());
    }
    let owner = found.map_or("another".to_owned(), |owner| owner.to_string());
    Err(Error::Refused(format!(
        "{destination} has the backups of the store {owner}, this is {store_id}: choose another \
         destination"
    )))
}

/// The record of `id`, if there is one.
pub(crate) async fn record(destination: &Destination, id: &BackupId) -> Result<Option<Record>> {
    let name = names::of_backup(names::RECORDS, id);
    let read = destination.get(&name, RECORD_BYTES_MAX).await?;
    read.map(|bytes| Record::decode(&bytes)).transpose().map_err(malformed(&name))
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
