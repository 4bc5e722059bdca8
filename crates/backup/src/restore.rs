//! Restores a backup into a new directory.
//!
//! 1. All happens in a directory beside the wanted one, `NAME.restoring`, which becomes it by one
//!    rename at the end. So the wanted name never stands for part of a backup. A name that cannot be
//!    given in that way is refused before anything is brought.
//! 2. `CURRENT` is written when every file is on disk: no open takes the directory for a whole one
//!    before.
//! 3. Interrupted, the same call goes on: of each file it keeps the chunks that are right.
//! 4. Work on threads that wait for the disk holds the lock of the directory until it ends, also when
//!    nobody waits for it any more: a later restore never meets a write of this one. After an error
//!    all that was begun is waited for.
//! 5. Every chunk is checked before it is written. At the end the directory is read as a backup would
//!    read it, and must hold the point of the record.

use crate::catalog::Backup;
use crate::create::PARALLEL;
use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::fetch::Incoming;
use crate::meter::Meter;
use crate::names::BackupId;
use crate::object::{CHUNK_BYTES, Trailer};
use crate::send::blocking;
use base::checksum::xxh3;
use base::env::FileSystem;
use base::env::fs::WriteFile;
use engine::checkpoint::{Contents, contents, make_current, note_copies, sync_names_above};
use futures::StreamExt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names the backup that a directory is being filled with.
const RESTORING: &str = "RESTORING";
/// Longest such file that is read.
const RESTORING_BYTES_MAX: u64 = 256;
/// The lock file of a data directory: nobody may open the one that is being filled.
const LOCK: &str = "LOCK";

/// Restores `backup` into `into`, which does not exist or is empty. Durable when it returns, and
/// then a data directory that opens. `last` is called on the whole directory before it gets its name;
/// an error of it is given back, and the call can be made again.
///
/// `Refused` if `into` holds anything, there is too little space, another restore is at work there,
/// or what is left of an interrupted one is of another backup.
pub async fn restore(
    destination: &Destination,
    backup: &Backup,
    fs: &Arc<dyn FileSystem>,
    into: &Path,
    meter: &Meter,
    last: impl FnOnce(&Path) -> Result<()> + Send + 'static,
) -> Result<Contents> {
    let target = Target::new(Arc::clone(fs), into)?;
    let (prepared, id, bytes) = (target.clone(), backup.id.to_string(), backup.record.bytes());
    let lock: Lock = blocking(move || prepared.prepare(&id, bytes)).await?.into();
    let stopped = AtomicBool::new(false);
    meter.expect(bytes);
    let files = backup.record.files.iter().map(|file| {
        let (target, incoming) = (&target, Incoming::new(&backup.id, *file));
        let bring = Bring { destination, target, incoming, lock: &lock, stopped: &stopped, meter };
        async move {
            let brought = bring.bring().await;
            if brought.is_err() {
                bring.stopped.store(true, Ordering::Relaxed);
            }
            brought
        }
    });
    let brought: Vec<Result<()>> =
        futures::stream::iter(files).buffer_unordered(PARALLEL).collect().await;
    brought.into_iter().collect::<Result<()>>()?;
    let backup = backup.clone();
    blocking(move || target.finish(&backup, last, lock)).await
}

/// The directory to restore to, and the one beside it.
#[derive(Clone)]
struct Target {
    fs: Arc<dyn FileSystem>,
    into: PathBuf,
    partial: PathBuf,
}

type Lock = Arc<dyn Send + Sync>;

fn failed(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |error| engine::Error::io(op, &path, &error).into()
}

impl Target {
    fn new(fs: Arc<dyn FileSystem>, into: &Path) -> Result<Self> {
        let Some(name) = into.file_name() else {
            let text = format!("{} does not end in a name; pass a new directory", into.display());
            return Err(Error::Refused(text));
        };
        let mut partial = name.to_owned();
        partial.push(".restoring");
        let partial = into.with_file_name(partial);
        Ok(Self { fs, into: into.to_owned(), partial })
    }

    fn refuse_unless_empty(&self) -> Result<()> {
        if !self.fs.exists(&self.into).map_err(failed("open", &self.into))? {
            return Ok(());
        }
        let names = self.fs.list(&self.into).map_err(failed("list", &self.into))?;
        if names.is_empty() {
            return Ok(());
        }
        let text = format!("{} is not empty; restore to a new directory", self.into.display());
        Err(Error::Refused(text))
    }

    /// Refuses an empty directory that no other can take the place of, as one that a file system is
    /// mounted on: another empty one takes it now, as the whole one will at the end.
    fn refuse_unless_replaceable(&self) -> Result<()> {
        let (fs, into) = (&*self.fs, self.into.as_path());
        if !fs.exists(into).map_err(failed("open", into))? {
            return Ok(());
        }
        let number = fs.unique().map_err(failed("look at", into))?;
        let mut empty = self.partial.clone().into_os_string();
        empty.push(format!("-{number:032x}"));
        let empty = PathBuf::from(empty);
        fs.create_dir_all(&empty).map_err(failed("create", &empty))?;
        let Err(error) = fs.rename(&empty, into) else { return Ok(()) };
        let _ = fs.remove_dir(&empty);
        Err(Error::Refused(format!(
            "{} cannot be replaced by the restored directory ({error}); if a file system is \
             mounted there, restore to a new directory below it",
            into.display()
        )))
    }

    /// Makes the directory beside, or takes the one that an interrupted restore left.
    fn prepare(&self, id: &str, bytes: u64) -> Result<Box<dyn Send + Sync>> {
        self.refuse_unless_empty()?;
        self.refuse_unless_replaceable()?;
        let (fs, partial) = (&*self.fs, self.partial.as_path());
        let new = !fs.exists(partial).map_err(failed("open", partial))?;
        if new {
            fs.create_dir_all(partial).map_err(failed("create", partial))?;
        }
        let lock = fs.lock(&partial.join(LOCK)).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::Refused(format!(
                "{} is in use, probably by another restore",
                partial.display()
            )),
            _ => failed("lock", partial)(error),
        })?;
        match self.restoring()? {
            Some(found) if found == id => return Ok(lock),
            Some(found) => {
                return Err(Error::Refused(format!(
                    "{} is left over from an interrupted restore of backup {found}; finish that \
                     restore, or remove the directory",
                    partial.display()
                )));
            }
            None => {}
        }
        let names = fs.list(partial).map_err(failed("list", partial))?;
        if names.iter().any(|name| name.as_os_str() != LOCK && name.as_os_str() != RESTORING) {
            let text = format!("{} already exists; remove it", partial.display());
            return Err(Error::Refused(text));
        }
        let free = fs.free_bytes(partial).map_err(failed("look at", partial))?;
        if free < bytes {
            let text = format!(
                "{} has {free} bytes free, but the backup needs {bytes}",
                partial.display()
            );
            return Err(Error::Refused(text));
        }
        self.note(id)?;
        Ok(lock)
    }

    /// The id of the backup that the directory beside is being filled with.
    fn restoring(&self) -> Result<Option<String>> {
        let path = self.partial.join(RESTORING);
        if !self.fs.exists(&path).map_err(failed("open", &path))? {
            return Ok(None);
        }
        let file = self.fs.open_read(&path).map_err(failed("open", &path))?;
        let len = file.size().map_err(failed("read", &path))?;
        let mut text = vec![0; len.min(RESTORING_BYTES_MAX) as usize];
        file.read_exact_at(&mut text, 0).map_err(failed("read", &path))?;
        // A power loss or a failure may have left a part of it; nothing was written beside it then.
        let text = String::from_utf8(text).ok();
        Ok(text.filter(|text| text.parse::<BackupId>().is_ok()))
    }

    fn note(&self, id: &str) -> Result<()> {
        let path = self.partial.join(RESTORING);
        let mut file = self.fs.create(&path).map_err(failed("create", &path))?;
        file.write_all_at(id.as_bytes(), 0).map_err(failed("write", &path))?;
        file.sync().map_err(failed("sync", &path))?;
        self.fs.sync_dir(&self.partial).map_err(failed("sync", &self.partial))
    }

    /// Makes the directory whole and gives it its name.
    fn finish(
        &self,
        backup: &Backup,
        last: impl FnOnce(&Path) -> Result<()>,
        lock: Lock,
    ) -> Result<Contents> {
        let (fs, partial) = (&*self.fs, self.partial.as_path());
        let manifest = backup.record.manifest();
        let manifest = manifest.expect("a record that was read has a manifest");
        make_current(fs, partial, manifest)?;
        let found = contents(&self.fs, partial)?;
        self.compare(backup, &found)?;
        note_copies(fs, partial)?;
        // From now on the lock is for who opens the directory.
        drop(lock);
        last(partial)?;
        self.refuse_unless_empty()?;
        fs.rename(partial, &self.into).map_err(failed("rename", partial))?;
        // An earlier call may have made directories above it, and ended before they were durable.
        sync_names_above(fs, &self.into)?;
        // It is whole and has its name. Left behind, the note means nothing.
        let _ = fs.remove_file(&self.into.join(RESTORING));
        Ok(found)
    }

    /// Verifies that the restored directory has the contents of the backup.
    fn compare(&self, backup: &Backup, found: &Contents) -> Result<()> {
        let record = &backup.record;
        let files = found.files.iter().map(|file| (file.file, file.bytes));
        let same = found.store == Some(record.store)
            && found.point == record.point
            && files.eq(record.files.iter().map(|file| (file.file, file.bytes)));
        if same {
            return Ok(());
        }
        let what = "the files are intact but do not match the record";
        Err(Error::damaged(crate::verify::record_name(&backup.id), 0, what))
    }
}

/// State for restoring one file.
struct Bring<'a> {
    destination: &'a Destination,
    target: &'a Target,
    incoming: Incoming,
    lock: &'a Lock,
    /// Set when a file could not be brought: the others need not go on. Publishes nothing.
    stopped: &'a AtomicBool,
    meter: &'a Meter,
}

impl Bring<'_> {
    /// Runs `act` on a thread that may wait for the disk, the lock held.
    async fn locked<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let lock = Arc::clone(self.lock);
        blocking(move || {
            let done = act();
            drop(lock);
            done
        })
        .await
    }

    /// Brings the file into the directory beside. On disk when it returns, its name is not. If
    /// another file could not be brought, it may end with a part of this one.
    async fn bring(&self) -> Result<()> {
        let Self { destination, target, incoming, meter, .. } = self;
        if self.stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        let path = incoming.file.file.path(&target.partial);
        let trailer = incoming.trailer(destination).await?;
        let (fs, at, known) = (Arc::clone(&target.fs), path.clone(), trailer.clone());
        let (mut file, right) = self.locked(move || begin(&*fs, &at, &known)).await?;
        meter.skip((right * CHUNK_BYTES as u64).min(incoming.file.bytes));
        let mut chunks = incoming.read(destination, &trailer, right, meter);
        while let Some((at, chunk)) = chunks.next().await? {
            if self.stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            let path = path.clone();
            let written = self.locked(move || {
                file.write_all_at(&chunk, at).map_err(failed("write", &path))?;
                Ok(file)
            });
            file = written.await?;
        }
        let fs = Arc::clone(&target.fs);
        let synced = self.locked(move || {
            let synced = file.sync();
            if synced.is_err() {
                // Its bytes may read well and never have reached the disk.
                let _ = fs.remove_file(&path);
            }
            synced.map_err(failed("sync", &path))
        });
        synced.await
    }
}

/// Opens the file at `path` for what is missing of it, and tells how many of its chunks are right.
fn begin(fs: &dyn FileSystem, path: &Path, trailer: &Trailer) -> Result<(Box<dyn WriteFile>, u64)> {
    if !fs.exists(path).map_err(failed("open", path))? {
        return Ok((fs.create(path).map_err(failed("create", path))?, 0));
    }
    let found = fs.open_read(path).map_err(failed("open", path))?;
    let len = found.size().map_err(failed("read", path))?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let (mut right, mut at) = (0, 0);
    for sum in &trailer.sums {
        let end = (at + CHUNK_BYTES as u64).min(trailer.bytes);
        if end > len {
            break;
        }
        let chunk = &mut buffer[..(end - at) as usize];
        found.read_exact_at(chunk, at).map_err(failed("read", path))?;
        if xxh3(chunk) != *sum {
            break;
        }
        (right, at) = (right + 1, end);
    }
    let mut file = fs.open_write(path).map_err(failed("open", path))?;
    file.set_len(at).map_err(failed("cut", path))?;
    Ok((file, right))
}
