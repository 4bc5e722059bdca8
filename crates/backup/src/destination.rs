//! A destination of backups: a few operations on an object store, with errors that name the object.

use crate::error::{Error, Result};
use crate::frame::Malformed;
use crate::names;
use crate::ranges::Cut;
use base::env::FileSystem;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use object_store::path::Path as Name;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::ErrorKind;
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

/// Outcome of a write that must not replace an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    Written,
    /// The store was asked before, for it cannot tell in one step: somebody may have written the object
    /// in between, and it is gone.
    WrittenOver,
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

    pub(crate) fn store(&self) -> &dyn ObjectStore {
        &*self.store
    }

    pub(crate) fn error(&self, op: &'static str, name: &str, source: object_store::Error) -> Error {
        let object = format!("{}/{name}", self.name.trim_end_matches('/'));
        Error::Store { op, object, source: Box::new(source) }
    }

    /// The whole of a small object; `None` if there is none. One of more than `bytes_max` is damaged.
    pub(crate) async fn get(&self, name: &str, bytes_max: u64) -> Result<Option<Bytes>> {
        let found = match self.store.get(&self.path(name)).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.error("read", name, error)),
        };
        let size = found.meta.size;
        if size > bytes_max {
            let what = format!("it has {size} bytes, over the limit of {bytes_max}");
            return Err(Error::damaged(name, bytes_max, what));
        }
        let mut read = BytesMut::new();
        let mut body = found.into_stream();
        while let Some(piece) = body.next().await {
            match piece.map_err(|error| self.cut(name, error)) {
                Ok(piece) => read.extend_from_slice(&piece),
                // What is missing is asked for by itself.
                Err(Cut::Again(_)) => break,
                Err(Cut::Final(error)) => return Err(error),
            }
        }
        if (read.len() as u64) < size {
            let mut rest = self.read(name, read.len() as u64..size);
            while let Some(piece) = rest.next().await {
                read.extend_from_slice(&piece?);
            }
        }
        Ok(Some(read.freeze()))
    }

    /// Returns whether the object exists.
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
                false => self.put(name, bytes).await.map(|()| Put::WrittenOver),
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

    /// Removes what processes that were killed left of objects that they were writing, under whatever
    /// name. Only while nobody writes: a write that is met fails. What cannot be removed costs nothing
    /// but space.
    pub(crate) fn remove_unfinished(&self) {
        let Some(Directory { fs, path }) = &self.local else { return };
        let mut dirs = vec![path.clone()];
        dirs.extend(names::DIRECTORIES.map(|name| path.join(name)));
        let backups = path.join(names::BACKUPS);
        dirs.extend(fs.list(&backups).unwrap_or_default().iter().map(|id| backups.join(id)));
        for dir in dirs {
            for name in fs.list(&dir).unwrap_or_default() {
                if is_unfinished(&name.to_string_lossy()) {
                    let _ = fs.remove_file(&dir.join(name));
                }
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

/// Returns whether a file of that name is an object that is being written: its name, `#`, and a number.
fn is_unfinished(name: &str) -> bool {
    name.rsplit_once('#').is_some_and(|(name, number)| {
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        digits && !name.is_empty()
    })
}

/// Returns the error for a malformed object called `name`.
pub(crate) fn malformed(name: &str) -> impl Fn(Malformed) -> Error + '_ {
    move |Malformed { at, what }| Error::damaged(name, at, what)
}
