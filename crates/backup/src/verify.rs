//! Reads backups whole, changes nothing, and goes on after each finding.

use crate::catalog;
use crate::create::PARALLEL;
use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::fetch::Incoming;
use crate::meter::Meter;
use crate::names::{self, BackupId};
use crate::record::Record;
use futures::StreamExt;
use std::collections::BTreeMap;

/// Something wrong with a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub object: String,
    /// Offset of the damage in the object, in bytes.
    pub offset: u64,
    /// Description of the damage.
    pub what: String,
    /// Backups that need it.
    pub backups: Vec<BackupId>,
}

/// Findings of a verification, and the amount of data it read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Damage that was found; empty if the backups are intact.
    pub findings: Vec<Finding>,
    /// Backups looked at.
    pub backups: u64,
    /// Objects read.
    pub objects: u64,
    /// Bytes of files read.
    pub bytes: u64,
}

/// Reads the backup `id`, or all, every byte of every file once.
pub async fn verify(
    destination: &Destination,
    id: Option<&BackupId>,
    meter: &Meter,
) -> Result<Verified> {
    let mut verified = Verified::default();
    let mut objects: BTreeMap<String, (Incoming, Vec<BackupId>)> = BTreeMap::new();
    for (id, record) in chosen(destination, id).await? {
        verified.backups += 1;
        match record {
            Ok(record) => {
                for file in record.files {
                    let incoming = Incoming::new(&id, file);
                    let entry = objects.entry(incoming.object.clone());
                    entry.or_insert_with(|| (incoming, Vec::new())).1.push(id.clone());
                }
            }
            Err(error) => note(&mut verified, error, vec![id])?,
        }
    }
    meter.expect(objects.values().map(|(incoming, _)| incoming.file.bytes).sum());
    let reads = objects.into_values().map(|(incoming, backups)| async move {
        let read = read(destination, &incoming, meter).await;
        (incoming, backups, read)
    });
    let mut reads = std::pin::pin!(futures::stream::iter(reads).buffer_unordered(PARALLEL));
    while let Some((incoming, backups, read)) = reads.next().await {
        match read {
            Ok(()) => {
                verified.objects += 1;
                verified.bytes += incoming.file.bytes;
            }
            Err(error) => note(&mut verified, error, backups)?,
        }
    }
    verified.findings.sort_by(|a, b| (&a.object, a.offset).cmp(&(&b.object, b.offset)));
    Ok(verified)
}

async fn chosen(
    destination: &Destination,
    id: Option<&BackupId>,
) -> Result<Vec<(BackupId, Result<Record>)>> {
    let Some(id) = id else { return Ok(catalog::list(destination).await?.backups) };
    match catalog::find(destination, Some(id)).await {
        Ok(backup) => Ok(vec![(backup.id, Ok(backup.record))]),
        Err(error @ Error::Damaged { .. }) => Ok(vec![(id.clone(), Err(error))]),
        Err(error) => Err(error),
    }
}

async fn read(destination: &Destination, incoming: &Incoming, meter: &Meter) -> Result<()> {
    let trailer = incoming.trailer(destination).await?;
    let mut chunks = incoming.read(destination, &trailer, 0, meter);
    while chunks.next().await?.is_some() {}
    Ok(())
}

/// Notes damage; what is none is given back.
fn note(verified: &mut Verified, error: Error, backups: Vec<BackupId>) -> Result<()> {
    let Error::Damaged { object, offset, what } = error else { return Err(error) };
    verified.findings.push(Finding { object, offset, what, backups });
    Ok(())
}

/// The name of the record of `id`.
pub(crate) fn record_name(id: &BackupId) -> String {
    names::of_backup(names::RECORDS, id)
}
