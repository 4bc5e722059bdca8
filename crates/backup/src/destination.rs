//! Where backups are kept: a few operations on an object store, with errors that name the object.

use crate::error::{Error, Result};
use crate::frame::Malformed;
use base::env::FileSystem;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path as Name;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A place for the backups of one store.
#[derive(Clone)]
pub struct Destination {
    store: Arc<dyn ObjectStore>,
    root: Name,
    name: String,
    /// The directory, where it is one.
    local: Option<Directory>,
}

#[derive(Clone)]
struct Directory {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
}

/// What became of an object that was to be written if absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    Written,
    Present,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Destination {
    /// The destination below `root` of `store`; `name` is for messages.
    pub fn new(store: Arc<dyn ObjectStore>, root: Name, name: impl Into<String>) -> Self {
        Self { store, root, name: name.into(), local: None }
    }

    /// The same, whose names are those of files below the directory `path` of `fs`: a name may be
    /// there, or gone, and not so on disk.
    pub fn in_directory(self, fs: Arc<dyn FileSystem>, path: PathBuf) -> Self {
        Self { local: Some(Directory { fs, path }), ..self }
    }

    pub(crate) fn path(&self, name: &str) -> Name {
        Name::from_iter(self.root.parts().chain(Name::from(name).parts()))
    }

    fn error(&self, op: &'static str, name: &str, source: object_store::Error) -> Error {
        let object = format!("{}/{name}", self.name.trim_end_matches('/'));
        Error::Store { op, object, source: Box::new(source) }
    }

    /// The whole of a small object; `None` if there is none. One of more than `bytes_max` is damaged.
    pub(crate) async fn get(&self, name: &str, bytes_max: u64) -> Result<Option<Bytes>> {
        let failed = |error| self.error("read", name, error);
        let found = match self.store.get(&self.path(name)).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if found.meta.size > bytes_max {
            let what = format!("it has {} bytes; {bytes_max} is the limit", found.meta.size);
            return Err(Error::damaged(name, bytes_max, what));
        }
        found.bytes().await.map(Some).map_err(failed)
    }

    /// A part of an object, as it comes. An object that does not exist, or ends before the part, is
    /// damaged.
    pub(crate) async fn stream(
        &self,
        name: &str,
        part: Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        let ends_early = |size| {
            let what = format!("it ends there; {} bytes were expected", part.end);
            Error::damaged(name, size, what)
        };
        let options =
            GetOptions { range: Some(GetRange::Bounded(part.clone())), ..GetOptions::default() };
        let found = match self.store.get_opts(&self.path(name), options).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => {
                return Err(Error::damaged(name, 0, "it is missing"));
            }
            // Stores have several words for a part that begins behind the end.
            Err(error) => match self.store.head(&self.path(name)).await {
                Ok(found) if found.size < part.end => return Err(ends_early(found.size)),
                _ => return Err(self.error("read", name, error)),
            },
        };
        if found.meta.size < part.end {
            return Err(ends_early(found.meta.size));
        }
        let (this, name) = (self.clone(), name.to_owned());
        Ok(found.into_stream().map_err(move |error| this.error("read", &name, error)).boxed())
    }

    /// Whether the object exists.
    pub(crate) async fn exists(&self, name: &str) -> Result<bool> {
        match self.store.head(&self.path(name)).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.error("read", name, error)),
        }
    }

    /// Writes an object, whole or not at all, in place of one that exists.
    pub(crate) async fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        let put = self.store.put(&self.path(name), bytes.into()).await;
        put.map(drop).map_err(|error| self.error("write", name, error))
    }

    /// Writes an object if there is none of its name. A store that cannot tell in one step is asked
    /// first.
    pub(crate) async fn put_if_absent(&self, name: &str, bytes: Bytes) -> Result<Put> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(&self.path(name), bytes.clone().into(), options).await {
            Ok(_) => Ok(Put::Written),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(Put::Present),
            Err(
                object_store::Error::NotImplemented { .. }
                | object_store::Error::NotSupported { .. },
            ) => match self.exists(name).await? {
                true => Ok(Put::Present),
                false => self.put(name, bytes).await.map(|()| Put::Written),
            },
            Err(error) => Err(self.error("write", name, error)),
        }
    }

    /// Writes a large object out of parts; nothing is there before the last.
    pub(crate) async fn put_parts(&self, name: &str) -> Result<Parts> {
        let upload = self.store.put_multipart(&self.path(name)).await;
        let upload = upload.map_err(|error| self.error("write", name, error))?;
        Ok(Parts { upload, destination: self.clone(), name: name.to_owned() })
    }

    /// The names below `prefix`, relative to it, with their lengths.
    pub(crate) async fn list(&self, prefix: &str) -> Result<BTreeMap<String, u64>> {
        let below = self.path(prefix);
        let mut listed = self.store.list(Some(&below));
        let mut names = BTreeMap::new();
        while let Some(found) = listed.next().await {
            let found = match found {
                Ok(found) => found,
                // A directory that another process is changing.
                Err(object_store::Error::NotFound { .. }) => continue,
                Err(error) => return Err(self.error("list", prefix, error)),
            };
            if let Some(name) = found.location.prefix_match(&below) {
                let name: Vec<_> = name.map(|part| part.as_ref().to_owned()).collect();
                names.insert(name.join("/"), found.size);
            }
        }
        Ok(names)
    }

    /// Deletes objects; those that are gone already are none to complain of. Durable when it returns.
    pub(crate) async fn delete(&self, names: Vec<String>) -> Result<()> {
        let paths: Vec<_> = names.iter().map(|name| Ok(self.path(name))).collect();
        let mut deleted = self.store.delete_stream(futures::stream::iter(paths).boxed());
        while let Some(done) = deleted.next().await {
            match done {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => {
                    return Err(self.error("delete", names.first().map_or("", |n| n), error));
                }
            }
        }
        self.sync_dirs(&names)
    }

    /// Removes what a process that was killed left of objects it was writing below `prefix`. Only
    /// while nobody writes; what cannot be removed costs nothing but space.
    pub(crate) fn remove_unfinished(&self, prefix: &str) {
        let Some(Directory { fs, path }) = &self.local else { return };
        let dir = path.join(prefix);
        for name in fs.list(&dir).unwrap_or_default() {
            if name.to_string_lossy().contains('#') {
                let _ = fs.remove_file(&dir.join(name));
            }
        }
    }

    /// Makes it durable that objects of these names are there, or are not, where they are those of a
    /// directory: a call that failed, or a process that was killed, may have left it at that.
    pub(crate) fn sync_dirs(&self, names: &[String]) -> Result<()> {
        let Some(Directory { fs, path }) = &self.local else { return Ok(()) };
        let mut dirs = BTreeSet::new();
        for name in names {
            let object = path.join(name);
            let above = object.ancestors().skip(1).take_while(|dir| dir.starts_with(path));
            dirs.extend(above.map(Path::to_owned));
        }
        for dir in dirs {
            match fs.sync_dir(&dir) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(engine::Error::io("sync", &dir, &error).into());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// An object that is being written out of parts.
pub(crate) struct Parts {
    upload: Box<dyn object_store::MultipartUpload>,
    destination: Destination,
    name: String,
}

impl Parts {
    pub(crate) async fn put(&mut self, bytes: Bytes) -> Result<()> {
        let put = self.upload.put_part(bytes.into()).await;
        put.map_err(|error| self.destination.error("write", &self.name, error))
    }

    pub(crate) async fn finish(&mut self) -> Result<()> {
        let done = self.upload.complete().await;
        done.map(drop).map_err(|error| self.destination.error("write", &self.name, error))
    }

    /// Gives up. A store that keeps the parts is told to drop them, as far as it listens.
    pub(crate) async fn abort(&mut self) {
        let _ = self.upload.abort().await;
    }
}

/// What a malformed object called `name` is to the caller.
pub(crate) fn malformed(name: &str) -> impl Fn(Malformed) -> Error + '_ {
    move |Malformed { at, what }| Error::damaged(name, at, what)
}
