//! Removes backups, and then what no backup needs any more (docs/format/backup.md, "Removing").

use crate::catalog::{self, State};
use crate::destination::{Destination, Put};
use crate::error::{Error, Result};
use crate::frame::{Begun, Kind};
use crate::names::{self, BackupId};
use crate::record::Record;
use std::collections::BTreeSet;

/// Objects deleted between two looks at whether the removal still counts.
const BATCH: usize = 100;

/// Result of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Backups removed, and unfinished ones given up.
    pub backups: Vec<BackupId>,
    /// Objects deleted.
    pub objects: u64,
    pub bytes: u64,
    /// Backups that were being made: nothing but records was deleted because of them.
    pub under_way: Vec<BackupId>,
}

/// Removes the backups `ids`, finished or not, then every object that no backup needs. Nobody sees a
/// backup without one of its objects. If a backup is being made, which may count on any object, they
/// are left for the next removal. Without `ids`, only what is left over is deleted.
///
/// `removal` names this removal, `begun` tells others of it. `Refused` if there is no backup of an
/// id; `Damaged` if a record that stays does not read: what it needs cannot be told.
pub async fn remove(
    destination: &Destination,
    ids: &[BackupId],
    removal: &BackupId,
    begun: &Begun,
) -> Result<Removed> {
    if catalog::store(destination).await?.is_none() {
        return Err(Error::Refused(format!("{destination} has no backups")));
    }
    remove_records(destination, ids, begun).await?;
    // Also those that went when another removal was interrupted: none may come back without its objects.
    destination.sync_dirs(&[names::of_backup(names::RECORDS, removal)])?;
    let own = names::of_backup(names::REMOVALS, removal);
    destination.put(&own, begun.encode(Kind::Removal).into()).await?;
    let mut removed = Removed { backups: ids.to_vec(), ..Removed::default() };
    let under_way = catalog::under_way(destination).await?;
    if !under_way.is_empty() {
        destination.delete(vec![own]).await?;
        removed.under_way = under_way.into_iter().map(|backup| backup.id).collect();
        return Ok(removed);
    }
    let others = catalog::ids(destination, names::REMOVALS).await?;
    let freed = free(destination, &own, &mut removed).await;
    if freed.is_err() {
        // What was not deleted is for the next one.
        let _ = destination.delete(vec![own]).await;
        return freed.map(|()| removed);
    }
    let done = others.iter().map(|id| names::of_backup(names::REMOVALS, id)).chain([own]);
    destination.delete(done.collect()).await?;
    Ok(removed)
}

/// Gives up the unfinished backup `id`, which nobody makes: the caller holds what it is made of. It
/// stands in nobody's way any more. What it sent stays for the next one, or for the next removal.
pub async fn give_up(destination: &Destination, id: &BackupId) -> Result<()> {
    destination.delete(vec![names::of_backup(names::UNDER_WAY, id)]).await
}

/// Sees to it that the backup `id`, which somebody may be making, is not made; gives whether it was
/// made before. Its record cannot be written where this is.
async fn prevent(destination: &Destination, id: &BackupId, begun: &Begun) -> Result<Made> {
    let name = names::of_backup(names::RECORDS, id);
    let bytes = begun.encode(Kind::GivenUp).into();
    match destination.put_if_absent(&name, bytes).await? {
        Put::Written | Put::WrittenOver => Ok(Made::No),
        Put::Present => made(destination, id).await,
    }
}

/// Returns whether what stands in the place of the record of `id` is one, damaged or not.
async fn made(destination: &Destination, id: &BackupId) -> Result<Made> {
    match catalog::state(destination, id).await {
        Ok(Some(State::GivenUp)) => Ok(Made::No),
        Ok(_) | Err(Error::Damaged { .. }) => Ok(Made::Yes),
        Err(error) => Err(error),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    No,
    Yes,
}

async fn remove_records(destination: &Destination, ids: &[BackupId], begun: &Begun) -> Result<()> {
    let records = catalog::ids(destination, names::RECORDS).await?;
    let intents = catalog::ids(destination, names::UNDER_WAY).await?;
    if let Some(unknown) = ids.iter().find(|id| !records.contains(id) && !intents.contains(id)) {
        return Err(Error::Refused(format!(
            "{destination} has no backup {unknown}; nothing was removed; `stele backup list` \
             shows all ids"
        )));
    }
    let mut going = Vec::new();
    for id in ids {
        let made = match records.contains(id) {
            true => made(destination, id).await?,
            false => prevent(destination, id, begun).await?,
        };
        if made == Made::Yes {
            going.push(names::of_backup(names::RECORDS, id));
        }
    }
    // A record that goes while its intent stays would be a backup under way.
    let given_up = ids.iter().filter(|id| intents.contains(id));
    let given_up = given_up.map(|id| names::of_backup(names::UNDER_WAY, id)).collect();
    destination.delete(given_up).await?;
    destination.delete(going).await?;
    // Intents that are left beside a record mean nothing.
    let left = intents.iter().filter(|id| records.contains(id) && !ids.contains(id));
    let left = left.map(|id| names::of_backup(names::UNDER_WAY, id)).collect();
    destination.delete(left).await
}

/// Deletes what no record needs.
async fn free(destination: &Destination, own: &str, removed: &mut Removed) -> Result<()> {
    let mut needed: BTreeSet<String> = BTreeSet::new();
    for id in catalog::ids(destination, names::RECORDS).await? {
        let Some(record) = catalog::record(destination, &id).await? else { continue };
        needed.extend(objects(&id, &record));
    }
    let mut unneeded = Vec::new();
    for prefix in [names::SSTS, names::BACKUPS] {
        for (name, bytes) in destination.list(prefix).await? {
            let name = format!("{prefix}/{name}");
            if !needed.contains(&name) && is_ours(&name) {
                unneeded.push((name, bytes));
            }
        }
    }
    // An intent would have been seen: nobody sends anything now.
    destination.remove_unfinished();
    for batch in unneeded.chunks(BATCH) {
        if !destination.exists(own).await? {
            let text = "another deletion completed this one".to_owned();
            return Err(Error::Refused(text));
        }
        destination.delete(batch.iter().map(|(name, _)| name.clone()).collect()).await?;
        removed.objects += batch.len() as u64;
        removed.bytes += batch.iter().map(|(_, bytes)| bytes).sum::<u64>();
    }
    Ok(())
}

fn objects(id: &BackupId, record: &Record) -> Vec<String> {
    record.files.iter().map(|file| names::object(id, file.file, file.place)).collect()
}

/// Returns whether a backup may have written an object of this name. Others are left alone.
fn is_ours(name: &str) -> bool {
    let hex = |text: &str| {
        text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    match name.split_once('/') {
        Some((names::SSTS, object)) => {
            hex(object.strip_prefix('c').filter(|o| o.len() == 32).unwrap_or(object))
        }
        Some((names::BACKUPS, object)) => {
            object.split_once('/').is_some_and(|(id, _)| id.parse::<BackupId>().is_ok())
        }
        _ => false,
    }
}
