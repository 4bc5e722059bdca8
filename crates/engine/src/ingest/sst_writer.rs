//! Writes the files of an ingest.
//!
//! 1. Cells ascend strictly over all files of a writer; a row lies in one file.
//! 2. Files belong to whoever holds them until they are ingested, and are removed with the
//!    holder. A holder keeps the engine open, so that nobody else can open the directory and give
//!    the numbers of the files again.

use crate::batch::{BatchError, QUALIFIER_BYTES_MAX, ROW_BYTES_MAX, VALUE_BYTES_MAX, check_entry};
use crate::cell::{Column, Entry, Kind, SequenceNumber, Timestamp, TreeId};
use crate::error::{Error, Result};
use crate::files::{FileIdentity, FileNumber};
use crate::manifest::SstMeta;
use crate::marks::Mark;
use crate::memory::budget::{Charge, Use};
use crate::options::Compression;
use crate::shape::Shape;
use crate::sstable::{Deferred, Origin, SstBuilder, SstOptions, SstReader};
use crate::state::{Handle, Shared};
use crate::tree::TreeState;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keys are shown in errors up to this many bytes.
const SHOWN_BYTES: usize = 64;

/// How the files of an ingest differ from those the tree writes itself. What they lack they say
/// ([`Deferred`]), and every compaction that rewrites them makes up for it: one by hand, or when
/// something that overlaps them is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestOptions {
    /// Compression of the files. `None`, the default: that of the tree's last level.
    pub compression: Option<Compression>,
    /// True if the files get filters, as the tree's options say. Without them, loading is a
    /// little faster and every read of a missing row reads a data block. Default `true`.
    pub filters: bool,
}

impl Default for IngestOptions {
    fn default() -> Self {
        Self { compression: None, filters: true }
    }
}

impl IngestOptions {
    /// What shapes the files, and what they lack.
    fn of_files(&self, tree: &TreeState, shape: &Shape) -> (SstOptions, Deferred) {
        let of_tree = &tree.view().version.options;
        let compression = self.compression.unwrap_or(of_tree.compression_last);
        let mut options = SstOptions::new(of_tree, compression, tree.learn_granularity(), shape);
        let deferred = Deferred {
            compression: compression == Compression::None
                && of_tree.compression_last != Compression::None,
            filters: !self.filters && of_tree.filter_bits_per_key > 0,
        };
        if !self.filters {
            options.filter_bits_per_key = 0;
        }
        (options, deferred)
    }
}

/// Writes sorted cells into SSTables that nobody sees before [`Engine::ingest`]. Made by
/// [`Tree::sst_writer`]. Dropped without `finish`, it removes what it wrote.
///
/// ```
/// # use engine::{Column, ColumnOf, Engine, FamilyId, IngestOptions};
/// # use engine::{Options, Timestamp, TreeId, TreeOptions};
/// # fn main() -> engine::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let engine = Engine::open(dir.path(), Options::default())?;
/// # let tree = engine.create_tree(TreeId(1), TreeOptions::default())?;
/// let mut writer = tree.sst_writer(&IngestOptions::default())?;
/// for number in 0..1000u32 {
///     let column = Column::of(FamilyId(1), b"square");
///     let value = u64::from(number).pow(2).to_be_bytes();
///     writer.put(&number.to_be_bytes(), column, Timestamp(0), &value)?;
/// }
/// let mut files = writer.finish()?;
/// engine.ingest(&mut files)?;
/// let row = 7u32.to_be_bytes();
/// let seven = ColumnOf::new(&row, FamilyId(1), b"square");
/// assert!(tree.get(seven, None)?.is_some());
/// # Ok(())
/// # }
/// ```
pub struct SstWriter {
    tree: TreeId,
    files: IngestFiles,
    options: SstOptions,
    deferred: Deferred,
    sst_bytes_max: u64,
    /// The file being written.
    building: Option<Building>,
    charge: Charge,
    /// Bytes of the file being written when it was charged last.
    charged_at: u64,
    /// Last row of the files before that one.
    last_row: Vec<u8>,
    /// Why the file being written cannot be finished.
    failed: Option<Error>,
}

struct Building {
    number: FileNumber,
    builder: SstBuilder,
}

impl SstWriter {
    /// A writer of files for `tree` of `engine`.
    pub(crate) fn new(handle: Handle, tree: TreeId, options: &IngestOptions) -> Result<Self> {
        let shared = Arc::clone(handle.shared());
        let (options, deferred) = options.of_files(&*shared.tree(tree)?, &shared.options.shape);
        let sst_bytes_max = shared.options.sst_bytes_max;
        let charge = shared.budget().charge(Use::Building);
        let files = IngestFiles { trees: BTreeMap::new(), shared, ready: false, handle };
        Ok(Self {
            tree,
            files,
            options,
            deferred,
            sst_bytes_max,
            building: None,
            charge,
            charged_at: 0,
            last_row: Vec::new(),
            failed: None,
        })
    }

    /// Adds a cell. Cells come in the order of a scan: rows ascending, families ascending,
    /// qualifiers ascending, timestamps descending; no two are of the same row, column and
    /// timestamp.
    ///
    /// `InvalidArgument` for a cell out of order or over a limit, which the text names: it is not
    /// added and the writer can go on. After any other error every call fails with it.
    pub fn put(
        &mut self,
        row: &[u8],
        column: Column<'_>,
        timestamp: Timestamp,
        value: &[u8],
    ) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let sequence = SequenceNumber(0);
        let entry = Entry { column, timestamp, sequence, kind: Kind::Put, value };
        check(row, &entry).map_err(|error| Error::InvalidArgument(error.to_string()))?;
        let added = self.add(row, &entry);
        if let Err(error) = &added {
            self.failed = Some(error.clone());
        }
        if added? { Ok(()) } else { Err(self.out_of_order(row, &entry)) }
    }

    /// Adds `entry` unless it is out of order; whether it did.
    fn add(&mut self, row: &[u8], entry: &Entry<'_>) -> Result<bool> {
        if let Some(Building { builder, .. }) = &mut self.building {
            let full = builder.bytes_cut() >= self.sst_bytes_max && builder.last_row() < row;
            if !full {
                let due = self.charged_at + self.options.shape.ingest_charge_bytes as u64;
                if builder.bytes_cut() >= due {
                    self.charged_at = builder.bytes_cut();
                    self.charge.set(builder.memory_bytes());
                    // Blocks give way.
                    self.files.shared.cache.balance();
                }
                return builder.try_add(row, entry);
            }
            Mark::IngestInFiles.hit();
            self.end_file()?;
        } else if !self.files.is_empty() && row <= self.last_row.as_slice() {
            return Ok(false);
        }
        self.begin_file()?.try_add(row, entry)
    }

    fn begin_file(&mut self) -> Result<&mut SstBuilder> {
        let shared = &self.files.shared;
        let number = shared.manifest.new_file()?;
        let path = number.sst_path(&shared.dir);
        let file = shared.env.fs.create_direct(&path);
        let file = file.map_err(|error| Error::io("create", &path, &error))?;
        let origin = Origin { tree: self.tree, position: 0, inputs: Vec::new() };
        let builder = SstBuilder::for_ingest(file, &path, self.options.clone());
        let identity = FileIdentity::draw(&*shared.env.fs, &path)?;
        let builder = builder.with_origin(origin).with_deferred(self.deferred);
        let builder = builder.with_identity(identity);
        Ok(&mut self.building.insert(Building { number, builder }).builder)
    }

    /// Ends the file being written: it is on disk and open, its name is not yet durable.
    fn end_file(&mut self) -> Result<()> {
        let Some(Building { number, builder }) = self.building.take() else { return Ok(()) };
        self.last_row = builder.last_row().to_vec();
        self.charged_at = 0;
        let finished = builder.finish(number).and_then(|meta| {
            let shared = &self.files.shared;
            let path = number.sst_path(&shared.dir);
            let file = shared.open_files.open(&path);
            let file = file.map_err(|error| Error::io("open", &path, &error))?;
            let cache = Arc::clone(&shared.cache);
            let sst = SstReader::open(file, &path, number, cache)?;
            let sst = SstReader::with_read_path(sst, shared.options.read_path);
            Ok((meta, sst))
        });
        self.charge.set(0);
        match finished {
            Ok((meta, reader)) => {
                self.files.trees.entry(self.tree).or_default().push(IngestSst { meta, reader });
                Ok(())
            }
            Err(error) => {
                self.files.remove(number);
                Err(error)
            }
        }
    }

    fn out_of_order(&self, row: &[u8], entry: &Entry<'_>) -> Error {
        let last = match &self.building {
            Some(Building { builder, .. }) => builder.last_row(),
            None => &self.last_row,
        };
        let Entry { column, timestamp, .. } = entry;
        Error::InvalidArgument(format!(
            "a cell out of order: row {}, column {}:{} @{} does not come after the cell before it, \
             of row {}",
            shown(row),
            column.family.0,
            shown(column.qualifier),
            timestamp.0,
            shown(last)
        ))
    }

    /// Finishes the files. They and their names are on disk, and nobody sees them yet.
    pub fn finish(mut self) -> Result<IngestFiles> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.end_file()?;
        let Self { files, .. } = &mut self;
        if !files.is_empty() {
            let dir = &files.shared.dir;
            let synced = files.shared.env.fs.sync_dir(dir);
            synced.map_err(|error| Error::io("sync", dir, &error))?;
        }
        let nothing = IngestFiles {
            trees: BTreeMap::new(),
            shared: Arc::clone(&files.shared),
            ready: false,
            handle: files.handle.clone(),
        };
        Ok(std::mem::replace(files, nothing))
    }
}

impl Drop for SstWriter {
    fn drop(&mut self) {
        if let Some(Building { number, builder }) = self.building.take() {
            drop(builder);
            self.files.remove(number);
        }
    }
}

impl std::fmt::Debug for SstWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tree, files, .. } = self;
        f.debug_struct("SstWriter")
            .field("tree", tree)
            .field("files", files)
            .finish_non_exhaustive()
    }
}

/// Checks the limits of a cell.
fn check(row: &[u8], entry: &Entry<'_>) -> Result<(), BatchError> {
    let limit = |what, len: usize, max: usize| {
        if len > max { Err(BatchError::Limit(what, len, max)) } else { Ok(()) }
    };
    limit("row key", row.len(), ROW_BYTES_MAX)?;
    limit("qualifier", entry.column.qualifier.len(), QUALIFIER_BYTES_MAX)?;
    limit("value", entry.value.len(), VALUE_BYTES_MAX)?;
    check_entry(entry)
}

fn shown(key: &[u8]) -> String {
    match key.get(..SHOWN_BYTES) {
        Some(start) if key.len() > SHOWN_BYTES => {
            format!("\"{}...\" ({} bytes)", start.escape_ascii(), key.len())
        }
        _ => format!("\"{}\"", key.escape_ascii()),
    }
}

/// Finished SSTables, of one tree or of several, that nobody sees before [`Engine::ingest`].
/// Dropped before, they are removed.
pub struct IngestFiles {
    /// In row order once `Engine::ingest` begins; no tree is without a file.
    pub(super) trees: BTreeMap<TreeId, Vec<IngestSst>>,
    pub(super) shared: Arc<Shared>,
    /// There was room for them a moment ago (`Engine::ready_ingest`), and no ingest was tried since.
    pub(super) ready: bool,
    /// Keeps it open (rule 2).
    handle: Handle,
}

pub(super) struct IngestSst {
    pub(super) meta: SstMeta,
    pub(super) reader: Arc<SstReader>,
}

impl IngestFiles {
    fn ssts(&self) -> impl Iterator<Item = &IngestSst> {
        self.trees.values().flatten()
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.ssts().count()
    }

    /// Returns whether there is no file: nothing was written, or all was ingested.
    pub fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// Length of all files.
    pub fn bytes(&self) -> u64 {
        self.ssts().map(|sst| sst.meta.bytes).sum()
    }

    /// Number of cells in them.
    pub fn cells(&self) -> u64 {
        self.ssts().map(|sst| sst.meta.entries).sum()
    }

    /// Takes over the files of `other`, so that those of several writers are ingested at once: of
    /// several trees, or of parts of the rows of one, written in as many threads. `InvalidArgument`
    /// if it is of another engine; it is then dropped. That the parts of a tree share no row is
    /// checked by `Engine::ingest`.
    pub fn append(&mut self, mut other: Self) -> Result<()> {
        if !Arc::ptr_eq(&self.shared, &other.shared) {
            return Err(Error::InvalidArgument("files of another engine".to_owned()));
        }
        for (tree, ssts) in std::mem::take(&mut other.trees) {
            self.trees.entry(tree).or_default().extend(ssts);
        }
        self.ready &= other.ready;
        Ok(())
    }

    /// Gives the files away: the manifest names them, or it is not known whether it does.
    pub(super) fn let_go(&mut self) {
        self.trees.clear();
    }

    /// Removes a file that nobody knows of. What cannot be removed is left to the next open.
    fn remove(&self, number: FileNumber) {
        let path = number.sst_path(&self.shared.dir);
        if let Err(error) = self.shared.env.fs.remove_file(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "could not delete an SSTable that was not ingested");
        }
    }
}

impl Drop for IngestFiles {
    fn drop(&mut self) {
        for sst in std::mem::take(&mut self.trees).into_values().flatten() {
            let number = sst.meta.number;
            drop(sst);
            self.remove(number);
        }
    }
}

impl std::fmt::Debug for IngestFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (trees, files) = (self.trees.keys(), self.len());
        f.debug_struct("IngestFiles").field("trees", &trees).field("len", &files).finish()
    }
}
