//! Makes a backup of a checkpoint, or goes on with one (docs/format/backup.md, "Making a backup").

use crate::catalog::{self, State};
use crate::destination::{Destination, Put};
use crate::error::{Error, Result};
use crate::fetch::read_trailer;
use crate::frame::{Begun, Kind};
use crate::meter::Meter;
use crate::names::{self, BackupId, Place};
use crate::object::{FILE_BYTES_MAX, object_len};
use crate::record::{BackupFile, FILES_MAX, Record, kind_byte};
use crate::send::{Outgoing, content_hash, send};
use base::env::{Clock, FileSystem};
use engine::StoreId;
use engine::checkpoint::{ContentFile, Contents, DirFile};
use futures::{StreamExt, TryStreamExt};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// Files that are on their way at the same time.
pub(crate) const PARALLEL: usize = 4;

/// A checkpoint to back up. Nobody changes it meanwhile.
pub struct Source {
    /// File system of the checkpoint.
    pub fs: Arc<dyn FileSystem>,
    /// Its directory.
    pub dir: PathBuf,
    /// Contents of the checkpoint.
    pub contents: Contents,
    /// When it was made, in microseconds since 1970.
    pub taken_micros: i64,
    /// Description of the place where it was made, shown for an unfinished backup.
    pub place: String,
}

/// Result of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    pub id: BackupId,
    /// The record of the backup.
    pub record: Record,
    /// Files sent by this call.
    pub sent_files: u64,
    /// Files that were there already.
    pub kept_files: u64,
}

/// Makes the backup `id` of `source`, durable and visible when this returns. After an error it is not
/// visible; the same call with the same checkpoint sends only what is missing.
///
/// `Refused` if the destination is another store's, or objects are being removed from it.
pub async fn create(
    destination: &Destination,
    source: &Source,
    id: &BackupId,
    clock: &dyn Clock,
    meter: &Meter,
) -> Result<Created> {
    let store = check(source)?;
    catalog::claim(destination, store).await?;
    let intent = names::of_backup(names::UNDER_WAY, id);
    match catalog::state(destination, id).await? {
        Some(State::Made(record)) => {
            // It was finished, and only its intent was left.
            destination.sync_dirs(&[names::of_backup(names::RECORDS, id)])?;
            destination.delete(vec![intent]).await?;
            let kept_files = record.files.len() as u64;
            return Ok(Created { id: id.clone(), record: *record, sent_files: 0, kept_files });
        }
        Some(State::GivenUp) => return Err(given_up(id)),
        None => {}
    }
    let begun = Begun { micros: source.taken_micros, place: source.place.clone() };
    destination.put(&intent, begun.encode(Kind::Intent).into()).await?;
    refuse_beside_removal(destination, &intent).await?;
    let there = There::list(destination, id).await?;
    let sent: Vec<(BackupFile, u64)> = {
        let total: u64 = source.contents.files.iter().map(|file| file.bytes).sum();
        meter.expect(total);
        let files = source.contents.files.iter().copied().map(|file| {
            let bring = Bring { destination, source, id, there: &there, meter };
            async move { bring.bring(&file).await }
        });
        futures::stream::iter(files).buffered(PARALLEL).try_collect().await?
    };
    let record = Record {
        store,
        taken_micros: source.taken_micros,
        finished_micros: clock.now_micros(),
        point: source.contents.point,
        sent_bytes: sent.iter().map(|(_, bytes)| bytes).sum(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        files: sent.iter().map(|(file, _)| *file).collect(),
    };
    let there = all_there(destination, id, &record).await;
    if matches!(there, Err(Error::Damaged { .. })) && !destination.exists(&intent).await? {
        return Err(given_up(id));
    }
    there?;
    publish(destination, id, &record, &intent).await?;
    let sent_files = sent.iter().filter(|(_, bytes)| *bytes > 0).count() as u64;
    let kept_files = sent.len() as u64 - sent_files;
    Ok(Created { id: id.clone(), record, sent_files, kept_files })
}

/// Refuses, before anything is written, a checkpoint that no record can hold.
fn check(source: &Source) -> Result<StoreId> {
    let Contents { store, files, .. } = &source.contents;
    let too_long = files.iter().find(|file| file.bytes > FILE_BYTES_MAX);
    if let Some(file) = too_long {
        let path = file.file.path(&source.dir);
        let (path, bytes) = (path.display(), file.bytes);
        let text = format!("{path} has {bytes} bytes, over the limit of {FILE_BYTES_MAX}");
        return Err(Error::Refused(text));
    }
    if files.len() > FILES_MAX {
        let text = format!("{} files, over the limit of {FILES_MAX}", files.len());
        return Err(Error::Refused(text));
    }
    store.ok_or_else(|| Error::Refused("the checkpoint has no store id".to_owned()))
}

async fn refuse_beside_removal(destination: &Destination, intent: &str) -> Result<()> {
    let removals = catalog::ids(destination, names::REMOVALS).await?;
    let Some(removal) = removals.first() else { return Ok(()) };
    destination.delete(vec![intent.to_owned()]).await?;
    Err(Error::Refused(format!(
        "deletion {removal} is removing objects from {destination}; wait until it completes, or \
         if it was interrupted, run `stele backup delete` without an id to finish it"
    )))
}

/// Objects that the destination already has.
struct There {
    /// SSTables, with the lengths of their objects.
    ssts: BTreeMap<String, u64>,
    /// Objects of an earlier try at the same backup.
    own: BTreeMap<String, u64>,
    /// The sums that the newest record has of SSTables.
    sums: HashMap<Place, (u64, u64)>,
}

impl There {
    async fn list(destination: &Destination, id: &BackupId) -> Result<Self> {
        let newest = catalog::last(destination).await;
        // Without a record that reads, trailers say the same.
        let files = newest.ok().flatten().map(|backup| backup.record.files).unwrap_or_default();
        let ssts = files.into_iter().filter(|file| file.place != Place::Own);
        Ok(Self {
            sums: ssts.map(|file| (file.place, (file.bytes, file.sum))).collect(),
            ssts: destination.list(names::SSTS).await?,
            own: destination.list(&names::of_backup(names::BACKUPS, id)).await?,
        })
    }

    /// Length of the object `name`, if it is there.
    fn length(&self, name: &str) -> Option<u64> {
        let last = name.rsplit('/').next().unwrap_or_default();
        let among = if name.starts_with(names::SSTS) { &self.ssts } else { &self.own };
        among.get(last).copied()
    }
}

/// State for sending one file to the destination.
struct Bring<'a> {
    destination: &'a Destination,
    source: &'a Source,
    id: &'a BackupId,
    there: &'a There,
    meter: &'a Meter,
}

impl Bring<'_> {
    /// Sees to it that the object of `content` is there; gives what the record says of it, and the
    /// bytes sent.
    async fn bring(&self, content: &ContentFile) -> Result<(BackupFile, u64)> {
        let ContentFile { file, bytes, identity } = *content;
        let outgoing = Outgoing {
            fs: Arc::clone(&self.source.fs),
            path: file.path(&self.source.dir),
            bytes,
            kind: kind_byte(file),
        };
        let place = match (file, identity) {
            (DirFile::Sst(_), Some(identity)) => Place::Identity(identity),
            (DirFile::Sst(_), None) => Place::Content(content_hash(&outgoing).await?),
            _ => Place::Own,
        };
        let name = names::object(self.id, file, place);
        if let Some(sum) = self.sum_there(&name, place, &outgoing).await? {
            self.meter.skip(bytes);
            return Ok((BackupFile { file, bytes, sum, place }, 0));
        }
        let sum = send(self.destination, &name, &outgoing, self.meter).await?;
        Ok((BackupFile { file, bytes, sum, place }, object_len(bytes)))
    }

    /// The sum of the object `name` if it is there and holds a file of that length and kind.
    async fn sum_there(&self, name: &str, place: Place, file: &Outgoing) -> Result<Option<u64>> {
        if self.there.length(name) != Some(object_len(file.bytes)) {
            return Ok(None);
        }
        if let Some((bytes, sum)) = self.there.sums.get(&place)
            && *bytes == file.bytes
        {
            return Ok(Some(*sum));
        }
        match read_trailer(self.destination, name, file.bytes).await {
            Ok(trailer) => Ok((trailer.kind == file.kind).then(|| trailer.sum())),
            // What is damaged is sent again.
            Err(Error::Damaged { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Compares what the record names with what is listed, now that nothing more is to come. It stays so
/// when this returns.
async fn all_there(destination: &Destination, id: &BackupId, record: &Record) -> Result<()> {
    let own = destination.list(&names::of_backup(names::BACKUPS, id)).await?;
    let ssts = destination.list(names::SSTS).await?;
    let there = There { ssts, own, sums: HashMap::new() };
    let mut names = vec![names::STORE.to_owned()];
    for file in &record.files {
        let name = names::object(id, file.file, file.place);
        match there.length(&name) {
            Some(length) if length == object_len(file.bytes) => names.push(name),
            Some(length) => {
                let what = format!(
                    "{} bytes were written, but the object store reports another length",
                    object_len(file.bytes)
                );
                return Err(Error::damaged(name, length, what));
            }
            None => return Err(Error::damaged(name, 0, "it was written but is missing")),
        }
    }
    // A try that was interrupted may have written some of them.
    destination.sync_dirs(&names)
}

fn given_up(id: &BackupId) -> Error {
    Error::Refused(format!(
        "another command abandoned backup {id} before it completed; start a new backup"
    ))
}

/// Writes the record. Whoever gives the backup up writes to the same name: only one of the two does.
async fn publish(
    destination: &Destination,
    id: &BackupId,
    record: &Record,
    intent: &str,
) -> Result<()> {
    if !destination.exists(intent).await? {
        return Err(given_up(id));
    }
    let name = names::of_backup(names::RECORDS, id);
    let put = destination.put_if_absent(&name, record.encode().into()).await?;
    if put == Put::Present {
        destination.sync_dirs(std::slice::from_ref(&name))?;
        // A try whose answer was lost may have written it.
        match catalog::state(destination, id).await? {
            Some(State::Made(found)) if *found == *record => {}
            Some(State::GivenUp) => return Err(given_up(id)),
            _ => {
                let text = format!("another command created backup {id} at the same time");
                return Err(Error::Refused(text));
            }
        }
    }
    if put == Put::WrittenOver && !destination.exists(intent).await? {
        still_there(destination, id, record, &name).await?;
    }
    // The record counts. An intent that is left beside it means nothing, and the next removal or
    // backup of this id takes it away.
    let _ = destination.delete(vec![intent.to_owned()]).await;
    Ok(())
}

/// Looks again at the objects of a backup whose intent is gone: taken away beside its record, which means
/// nothing, or before it, by who gave it up. Then objects are missing, and the record goes.
async fn still_there(
    destination: &Destination,
    id: &BackupId,
    record: &Record,
    name: &str,
) -> Result<()> {
    match all_there(destination, id, record).await {
        Err(Error::Damaged { .. }) => {
            destination.delete(vec![name.to_owned()]).await?;
            Err(given_up(id))
        }
        there => there,
    }
}
