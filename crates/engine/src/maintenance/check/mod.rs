//! Verifies a whole data directory without changing it.
//!
//! 1. Nothing is written. If the directory has a lock file it is held meanwhile, so that nobody
//!    changes what is being read.
//! 2. A finding does not end the check: every file is read, and each as far as it goes. Only a
//!    directory that cannot be judged at all (in use, of a newer format, none) is an error.
//! 3. Every byte that counts is read: the manifest with its invariants, each SSTable's blocks and
//!    what they say of each other and what the manifest says of them, every batch of the log, and every
//!    record of a group log.

mod check_log;
mod closed_tree;

pub use closed_tree::{TreeReading, read_tree};

use crate::cache::CacheFeatures;
use crate::cell::{SequenceNumber, TreeId};
use crate::error::{Corruption, Error, Result};
use crate::files::{FileNumber, copy_note};
use crate::group_log::{self, GROUP_LOG_DIR};
use crate::manifest::{self, SstMeta, State};
use crate::recovery::LOCK_FILE;
use crate::sstable::{BlockCache, Properties, SstReader};
use base::env::{Env, FileSystem};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Memory for blocks while one SSTable is checked.
const CACHE_BYTES: usize = 4 << 20;

/// What can be done about damage.
const SALVAGE: &str =
    "restore the directory from a backup, or salvage the rest with `stele repair`";
/// The way out of a damaged group log.
const REPLICATE: &str = "copy the replicas of this node from other nodes: `stele repair` does not \
                         salvage a group log";
/// The way out of a damaged note of a copied tree.
const REWRITE_NOTE: &str = "no data is lost: the note matters if the MANIFEST is lost. `stele repair` \
                            makes a directory with a new note";
/// What can be done about a file that cannot be read.
const READ_AGAIN: &str = "look at the disk and at the permissions of the file, then check again; \
                          `stele repair` salvages what can be read";

/// Something wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The damaged or missing file.
    pub file: PathBuf,
    /// Where in it, in bytes from its start.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
    /// What to do next.
    pub advice: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}: {}", self.file.display(), self.offset, self.what)
    }
}

/// What a check found, and how much it looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong; empty if the directory is clean.
    pub findings: Vec<Finding>,
    /// What is unusual and harmless: files that the next open removes.
    pub notes: Vec<String>,
    /// Trees the manifest names.
    pub trees: u64,
    /// SSTables read.
    pub ssts: u64,
    /// Bytes of those.
    pub sst_bytes: u64,
    /// Entries in them, as they say.
    pub entries: u64,
    /// Batches in the commit log.
    pub log_batches: u64,
    /// Records in the group log, which only a node of a cluster has.
    pub group_log_records: u64,
}

impl Report {
    /// Returns whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Notes an error as a finding about `file`; what is no damage is given back.
    fn note(&mut self, file: &Path, error: Error) -> Result<()> {
        let (file, offset, what, advice) = match error {
            Error::Corruption(Corruption { file, offset, what }) => (file, offset, what, SALVAGE),
            Error::Io { op, path, source } => {
                (path, 0, format!("cannot {op} it: {source}"), READ_AGAIN)
            }
            Error::InvalidArgument(what) => (file.to_owned(), 0, what, SALVAGE),
            unusable => return Err(unusable),
        };
        self.findings.push(Finding { file, offset, what, advice });
        Ok(())
    }

    /// Adds a finding about `file` that a repair may salvage what is left of.
    pub fn add(&mut self, file: PathBuf, offset: u64, what: impl Into<String>) {
        self.findings.push(Finding { file, offset, what: what.into(), advice: SALVAGE });
    }
}

/// How far a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file being read.
    pub file: &'a Path,
    /// Bytes of SSTables read so far.
    pub bytes: u64,
    /// Bytes of all SSTables of the directory.
    pub bytes_total: u64,
}

/// Checks the data directory `dir`. Takes as long as reading all of it does; `progress` is called
/// with every block.
///
/// `Error::Unusable` if it is in use, of a newer format, or no data directory.
pub fn check_dir(env: &Env, dir: &Path, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Report> {
    let fs = &*env.fs;
    let _lock = lock(fs, dir)?;
    let ssts = ssts(fs, dir)?;
    let sizes = ssts.iter().map(|(_, path)| fs.size(path).unwrap_or(0));
    let bytes_total = sizes.sum();
    let report = Report::default();
    let copied = BTreeMap::new();
    let mut check = Check { fs, dir, report, progress, bytes: 0, bytes_total, copied };
    let state = match manifest::load(fs, dir) {
        Ok(Some(state)) => Some(state),
        Ok(None) => return Err(unusable(dir, "no data directory: it has no CURRENT")),
        Err(error) => {
            check.report.note(dir, error)?;
            None
        }
    };
    match &state {
        Some(state) => check.listed(state, &ssts)?,
        None => check.unlisted(&ssts)?,
    }
    let mut report = check.report;
    if let Err(error) = check_log::check(env, dir, state.as_ref(), &mut report) {
        report.note(dir, error)?;
    }
    check_group_log(env, dir, &mut report)?;
    Ok(report)
}

/// Reads the group log to its end, past damage, if there is one.
fn check_group_log(env: &Env, dir: &Path, report: &mut Report) -> Result<()> {
    let dir = dir.join(GROUP_LOG_DIR);
    let mut found = |(file, offset, what)| {
        report.findings.push(Finding { file, offset, what, advice: REPLICATE });
    };
    match group_log::replay::verify(&env.fs, &dir, &mut found) {
        Ok(records) => report.group_log_records = records,
        Err(error) => report.note(&dir, error)?,
    }
    Ok(())
}

fn unusable(dir: &Path, what: &str) -> Error {
    Error::Unusable { dir: dir.to_owned(), what: what.to_owned() }
}

/// Holds the lock file if there is one. A file that cannot be opened for writing is no lock that
/// anybody else could hold while writing.
pub(crate) fn lock(fs: &dyn FileSystem, dir: &Path) -> Result<Option<Box<dyn Send + Sync>>> {
    if !fs.exists(dir).map_err(|error| Error::io("open", dir, &error))? {
        return Err(unusable(dir, "there is no such directory"));
    }
    let path = dir.join(LOCK_FILE);
    if !fs.exists(&path).map_err(|error| Error::io("open", &path, &error))? {
        return Ok(None);
    }
    match fs.lock(&path) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(unusable(dir, "in use by another process; stop it, or take a copy"))
        }
        Err(_) => Ok(None),
    }
}

/// The SSTables in `dir` by their names.
pub(crate) fn ssts(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<(FileNumber, PathBuf)>> {
    let names = fs.list(dir).map_err(|error| Error::io("list", dir, &error))?;
    let number = |name: PathBuf| Some((FileNumber::of_sst(&name)?, dir.join(name)));
    Ok(names.into_iter().filter_map(number).collect())
}

struct Check<'a> {
    fs: &'a dyn FileSystem,
    dir: &'a Path,
    report: Report,
    progress: &'a mut dyn FnMut(Progress<'_>),
    bytes: u64,
    bytes_total: u64,
    /// SSTables that name another tree than the one they belong to, by that.
    copied: BTreeMap<TreeId, BTreeSet<FileNumber>>,
}

impl Check<'_> {
    /// Checks the SSTables that the manifest names, and notes the others.
    fn listed(&mut self, state: &State, ssts: &[(FileNumber, PathBuf)]) -> Result<()> {
        self.report.trees = state.trees.len() as u64;
        let there: BTreeSet<FileNumber> = ssts.iter().map(|(number, _)| *number).collect();
        for (tree, version) in state.trees.iter() {
            for sst in version.runs().flat_map(|run| &run.ssts) {
                let path = sst.number.sst_path(self.dir);
                if there.contains(&sst.number) {
                    self.sst(&path, sst.number, Some((*tree, sst)))?;
                } else {
                    let what = format!("it is missing; the manifest names it in tree {}", tree.0);
                    self.report.add(path, 0, what);
                }
            }
        }
        let listed: BTreeSet<FileNumber> = state.files();
        for (_, path) in ssts.iter().filter(|(number, _)| !listed.contains(number)) {
            let note = "the manifest does not name it; the next open removes it";
            self.report.notes.push(format!("{}: {note}", path.display()));
        }
        let names = self.fs.list(self.dir).map_err(|error| Error::io("list", self.dir, &error))?;
        for name in names.iter().filter(|name| FileNumber::is_sort(name)) {
            let note = "left by a sort that did not end; the next open removes it";
            self.report.notes.push(format!("{}: {note}", self.dir.join(name).display()));
        }
        self.copy_notes(state)
    }

    /// Reads the notes of copied trees, and reports each one whose tree does not exist, and SSTables
    /// that need one and have none.
    fn copy_notes(&mut self, state: &State) -> Result<()> {
        for tree in copy_note::trees(self.fs, self.dir)? {
            let path = copy_note::path(self.dir, tree);
            if !state.trees.contains_key(&tree) {
                let note = "its tree does not exist; the next open removes it";
                self.report.notes.push(format!("{}: {note}", path.display()));
                continue;
            }
            match copy_note::read(self.fs, self.dir, tree) {
                Ok(note) => {
                    let numbers = note.map(|note| note.numbers).unwrap_or_default();
                    if let Some(copied) = self.copied.get_mut(&tree) {
                        copied.retain(|number| !numbers.contains(number));
                    }
                }
                Err(error) => {
                    self.report.note(&path, error)?;
                    let finding = self.report.findings.last_mut();
                    finding.expect("an error that was noted").advice = REWRITE_NOTE;
                    self.copied.remove(&tree);
                }
            }
        }
        for (tree, copied) in self.copied.iter().filter(|(_, copied)| !copied.is_empty()) {
            let (path, count) = (copy_note::path(self.dir, *tree), copied.len());
            self.report.notes.push(format!(
                "{}: {count} SSTables of tree {} name another tree and are not in this note; if the \
                 MANIFEST is lost they count to the other. `stele repair` makes a directory with a new note",
                path.display(),
                tree.0
            ));
        }
        Ok(())
    }

    /// Checks every SSTable by itself, when no manifest says which of them count.
    fn unlisted(&mut self, ssts: &[(FileNumber, PathBuf)]) -> Result<()> {
        ssts.iter().try_for_each(|(number, path)| self.sst(path, *number, None))
    }

    /// Checks one SSTable, by itself and against what the manifest says of it.
    fn sst(
        &mut self,
        path: &Path,
        number: FileNumber,
        listed: Option<(TreeId, &SstMeta)>,
    ) -> Result<()> {
        let before = self.bytes;
        let checked = self.read_sst(path, number, listed);
        self.bytes = before + self.fs.size(path).unwrap_or(0);
        (self.progress)(Progress { file: path, bytes: self.bytes, bytes_total: self.bytes_total });
        checked.or_else(|error| self.report.note(path, error))
    }

    fn read_sst(
        &mut self,
        path: &Path,
        number: FileNumber,
        listed: Option<(TreeId, &SstMeta)>,
    ) -> Result<()> {
        let file = self.fs.open_read(path).map_err(|error| Error::io("open", path, &error))?;
        let cache = BlockCache::new(CACHE_BYTES, CacheFeatures::PASSING);
        let sst = SstReader::open(file, path, number, cache)?;
        let sequence = listed.map_or(SequenceNumber(0), |(_, meta)| meta.sequence_max);
        let sst = SstReader::numbered(sst, sequence);
        let Self { report, progress, bytes, bytes_total, .. } = self;
        let (before, bytes_total) = (*bytes, *bytes_total);
        let mut unusable = None;
        let mut found = |error| {
            if let Err(error) = report.note(path, error) {
                unusable = Some(error);
            }
        };
        let mut read =
            |bytes| progress(Progress { file: path, bytes: before + bytes, bytes_total });
        sst.verify_all(&mut found, &mut read);
        if let Some(error) = unusable {
            return Err(error);
        }
        report.ssts += 1;
        report.sst_bytes += sst.bytes();
        report.entries += sst.properties().entries;
        let Some((tree, meta)) = listed else { return Ok(()) };
        if let Some(what) = disagreement(meta, &sst) {
            return Err(Error::corruption(path, 0, format!("the manifest tells of {what}")));
        }
        match &sst.properties().origin {
            Some(origin) if !origin.fits(tree) => {
                let (own, tree) = (origin.tree.0, tree.0);
                let what = format!("it was written for tree {own}, the manifest has it in {tree}");
                Err(Error::corruption(path, 0, what))
            }
            Some(origin) if origin.tree != tree => {
                self.copied.entry(tree).or_default().insert(number);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Where the manifest and the file itself do not say the same.
pub(crate) fn disagreement(meta: &SstMeta, sst: &SstReader) -> Option<&'static str> {
    let own: &Properties = sst.properties();
    let empty = own.entries == 0;
    let rows = empty || (&meta.first_row, &meta.last_row) == (&own.first_row, &own.last_row);
    let times = (meta.timestamp_min, meta.timestamp_max);
    let sequences = (meta.sequence_min, meta.sequence_max);
    [
        (meta.bytes == sst.bytes(), "another length"),
        (meta.entries == own.entries, "another count of entries"),
        (meta.tombstones == own.tombstones, "another count of tombstones"),
        (meta.range_tombstones == own.range_tombstones, "another count of range tombstones"),
        (meta.dropped == sst.dropped(), "another dropped range"),
        (rows, "other first and last rows"),
        (empty || times == (own.timestamp_min, own.timestamp_max), "other timestamps"),
        (sequences == (own.sequence_min, own.sequence_max), "other sequence numbers"),
    ]
    .into_iter()
    .find_map(|(agrees, what)| (!agrees).then_some(what))
}
