//! A destination on the simulated machine: what `object_store` does for a directory whose writes are
//! synced, said again on the simulated disk, where each of its steps can be the last.
//!
//! An object is written to a name of its own beside its place (`NAME#1`), synced, and given its name
//! by a rename, or by a link where none of the name may be there. Then its directory is synced, as
//! are directories that were made for it. What is deleted is not synced.

use async_trait::async_trait;
use base::env::FileSystem;
use base::env::sim::SimFs;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path as Name;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// See the file header.
#[derive(Clone)]
pub(crate) struct SimStore {
    fs: SimFs,
    root: PathBuf,
}

impl SimStore {
    /// The objects below `root`, which exists.
    pub(crate) fn new(fs: SimFs, root: &Path) -> Self {
        Self { fs, root: root.to_owned() }
    }

    fn path(&self, name: &Name) -> PathBuf {
        self.root.join(name.as_ref())
    }

    /// Makes the missing directories above `path`, durably.
    fn make_parents(&self, path: &Path) -> io::Result<()> {
        let parent = path.parent().expect("it is below the root");
        if self.fs.exists(parent)? {
            return Ok(());
        }
        self.fs.create_dir_all(parent)?;
        for dir in parent.ancestors() {
            self.fs.sync_dir(dir)?;
            if dir == self.root {
                break;
            }
        }
        Ok(())
    }

    /// A name beside `path` for what is being written.
    fn staged(&self, path: &Path) -> io::Result<PathBuf> {
        for number in 1.. {
            let staged = PathBuf::from(format!("{}#{number}", path.display()));
            if !self.fs.exists(&staged)? {
                return Ok(staged);
            }
        }
        unreachable!("numbers do not end")
    }

    fn put(&self, path: &Path, payload: &PutPayload, mode: &PutMode) -> io::Result<()> {
        self.make_parents(path)?;
        let staged = self.staged(path)?;
        let put = self.put_at(&staged, path, payload, mode);
        if put.is_err() {
            let _ = self.fs.remove_file(&staged);
        }
        put
    }

    fn put_at(
        &self,
        staged: &Path,
        path: &Path,
        payload: &PutPayload,
        mode: &PutMode,
    ) -> io::Result<()> {
        let mut file = self.fs.create(staged)?;
        let mut at = 0;
        for bytes in payload {
            file.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
        }
        file.sync()?;
        let parent = path.parent().expect("it is below the root");
        if *mode != PutMode::Create {
            self.fs.rename(staged, path)?;
            return self.fs.sync_dir(parent);
        }
        self.fs.hard_link(staged, path)?;
        self.fs.sync_dir(parent)?;
        let _ = self.fs.remove_file(staged);
        Ok(())
    }

    fn read(&self, path: &Path) -> io::Result<Bytes> {
        let file = self.fs.open_read(path)?;
        let mut bytes = vec![0; usize::try_from(file.size()?).expect("it is small")];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes.into())
    }

    /// Objects below `dir`, with their lengths. What is being written is none.
    fn below(&self, dir: &Path, found: &mut Vec<(PathBuf, u64)>) -> io::Result<()> {
        for name in self.fs.list(dir)? {
            let path = dir.join(name);
            match self.fs.size(&path) {
                Ok(_) if path.to_string_lossy().contains('#') => {}
                Ok(len) => found.push((path, len)),
                Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                    self.below(&path, found)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn list_all(&self, prefix: Option<&Name>) -> Result<Vec<ObjectMeta>> {
        let dir = prefix.map_or_else(|| self.root.clone(), |prefix| self.path(prefix));
        let mut found = Vec::new();
        match self.below(&dir, &mut found) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let object = |(path, size): (PathBuf, u64)| {
            let name = path.strip_prefix(&self.root).expect("it is below the root");
            let location = Name::from(name.to_string_lossy().as_ref());
            ObjectMeta {
                location,
                last_modified: Default::default(),
                size,
                e_tag: None,
                version: None,
            }
        };
        Ok(found.into_iter().map(object).collect())
    }
}

fn failed(error: io::Error) -> Error {
    let (path, source) = (String::new(), Box::new(error));
    match source.kind() {
        io::ErrorKind::NotFound => Error::NotFound { path, source },
        io::ErrorKind::AlreadyExists => Error::AlreadyExists { path, source },
        _ => Error::Generic { store: "simulated", source },
    }
}

impl fmt::Display for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("simulated")
    }
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("simulated")
    }
}

#[async_trait]
impl ObjectStore for SimStore {
    async fn put_opts(
        &self,
        location: &Name,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.put(&self.path(location), &payload, &options.mode).map_err(failed)?;
        Ok(PutResult { e_tag: None, version: None, extensions: Default::default() })
    }

    async fn put_multipart_opts(
        &self,
        _: &Name,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        panic!("the files of these tests are small")
    }

    async fn get_opts(&self, location: &Name, options: GetOptions) -> Result<GetResult> {
        let bytes = self.read(&self.path(location)).map_err(failed)?;
        // Which knows ranges.
        let one = InMemory::new();
        one.put(location, bytes.into()).await?;
        one.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Name>>,
    ) -> BoxStream<'static, Result<Name>> {
        let this = self.clone();
        let delete = move |location: Result<Name>| {
            let location = location?;
            this.fs.remove_file(&this.path(&location)).map_err(failed)?;
            Ok(location)
        };
        locations.map(delete).boxed()
    }

    fn list(&self, prefix: Option<&Name>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = match self.list_all(prefix) {
            Ok(objects) => objects.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        futures::stream::iter(listed).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Name>) -> Result<ListResult> {
        panic!("backups list what is below a prefix")
    }

    async fn copy_opts(&self, _: &Name, _: &Name, _: CopyOptions) -> Result<()> {
        panic!("backups copy no objects")
    }
}
