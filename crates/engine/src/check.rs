//! Verifies a whole data directory without changing it.
//!
//! 1. Nothing is written. If the directory has a lock file it is held meanwhile, so that nobody
//!    changes what is being read.
//! 2. A finding does not end the check: each file is read by itself, as far as it goes. Only a
//!    directory that cannot be judged at all (in use, of a newer format, none) is an error.
//! 3. Every byte that counts is read: the manifest with its invariants, each SSTable's blocks and
//!    what they say of each other and what the manifest says of them, and every batch of the log.

use crate::batch::FrozenBatch;
use crate::cache::CacheFeatures;
use crate::cell::{SequenceNumber, TreeId};
use crate::error::{Error, Result};
use crate::file::FileNumber;
use crate::log::LogReader;
use crate::manifest::{self, SstMeta, State};
use crate::recovery::LOCK_FILE;
use crate::sstable::{BlockCache, Properties, SstReader};
use base::env::{Env, FileSystem};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Memory for blocks while one SSTable is checked.
const CACHE_BYTES: usize = 4 << 20;

/// Something wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The damaged or missing file.
    pub file: PathBuf,
    /// Where in it, in bytes from its start.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
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
    /// Entries in them.
    pub entries: u64,
    /// Batches in the commit log.
    pub log_batches: u64,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Notes an error as a finding about `file`; what is no damage is given back.
    fn note(&mut self, file: &Path, error: Error) -> Result<()> {
        let (file, offset, what) = match error {
            Error::Corruption { file, offset, what } => (file, offset, what),
            Error::Io { op, path, message, .. } => (path, 0, format!("cannot {op} it: {message}")),
            Error::InvalidArgument(what) => (file.to_owned(), 0, what),
            unusable => return Err(unusable),
        };
        self.add(file, offset, what);
        Ok(())
    }

    fn add(&mut self, file: PathBuf, offset: u64, what: impl Into<String>) {
        self.findings.push(Finding { file, offset, what: what.into() });
    }
}

/// Checks the data directory `dir`. Takes as long as reading all of it does.
///
/// `Error::Unusable` if it is in use, of a newer format, or no data directory.
pub fn check_dir(env: &Env, dir: &Path) -> Result<Report> {
    let fs = &*env.fs;
    let _lock = lock(fs, dir)?;
    let mut report = Report::default();
    let state = match manifest::load(fs, dir) {
        Ok(Some(state)) => Some(state),
        Ok(None) => return Err(unusable(dir, "no data directory: it has no CURRENT")),
        Err(error) => {
            report.note(dir, error)?;
            None
        }
    };
    match &state {
        Some(state) => check_listed(fs, dir, state, &mut report)?,
        None => check_unlisted(fs, dir, &mut report)?,
    }
    check_log(env, dir, state.as_ref(), &mut report)?;
    Ok(report)
}

fn unusable(dir: &Path, what: &str) -> Error {
    Error::Unusable { dir: dir.to_owned(), what: what.to_owned() }
}

/// Holds the lock file if there is one. A file that cannot be opened for writing is no lock that
/// anybody else could hold while writing.
fn lock(fs: &dyn FileSystem, dir: &Path) -> Result<Option<Box<dyn Send + Sync>>> {
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
            Err(unusable(dir, "in use by another process; stop it, or check a copy"))
        }
        Err(_) => Ok(None),
    }
}

/// Checks the SSTables that the manifest names, and notes the others.
fn check_listed(fs: &dyn FileSystem, dir: &Path, state: &State, report: &mut Report) -> Result<()> {
    report.trees = state.trees.len() as u64;
    for (tree, version) in &state.trees {
        for sst in version.runs().flat_map(|run| &run.ssts) {
            let path = sst.number.sst_path(dir);
            if !fs.exists(&path).map_err(|error| Error::io("open", &path, &error))? {
                let what = format!("it is missing; the manifest names it in tree {}", tree.0);
                report.add(path, 0, what);
            } else if let Err(error) = check_sst(fs, &path, sst.number, Some(sst), report) {
                report.note(&path, error)?;
            }
        }
    }
    let listed = state.files();
    for (number, path) in ssts(fs, dir)? {
        if !listed.contains(&number) {
            let note = "the manifest does not name it; the next open removes it";
            report.notes.push(format!("{}: {note}", path.display()));
        }
    }
    Ok(())
}

/// Checks every SSTable by itself, when no manifest says which of them count.
fn check_unlisted(fs: &dyn FileSystem, dir: &Path, report: &mut Report) -> Result<()> {
    for (number, path) in ssts(fs, dir)? {
        if let Err(error) = check_sst(fs, &path, number, None, report) {
            report.note(&path, error)?;
        }
    }
    Ok(())
}

fn ssts(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<(FileNumber, PathBuf)>> {
    let names = fs.list(dir).map_err(|error| Error::io("list", dir, &error))?;
    let number = |name: PathBuf| Some((FileNumber::of_sst(&name)?, dir.join(name)));
    Ok(names.into_iter().filter_map(number).collect())
}

fn check_sst(
    fs: &dyn FileSystem,
    path: &Path,
    number: FileNumber,
    meta: Option<&SstMeta>,
    report: &mut Report,
) -> Result<()> {
    let file = fs.open_read(path).map_err(|error| Error::io("open", path, &error))?;
    let cache = BlockCache::new(CACHE_BYTES, CacheFeatures::PASSING);
    let sst = SstReader::open(file, path, number, cache)?;
    let sequence = meta.map_or(SequenceNumber(0), |meta| meta.sequence_max);
    let sst = SstReader::numbered(sst, sequence);
    sst.verify()?;
    report.ssts += 1;
    report.sst_bytes += sst.bytes();
    report.entries += sst.properties().entries;
    if let Some(meta) = meta
        && let Some(what) = disagreement(meta, sst.bytes(), sst.properties())
    {
        return Err(Error::corruption(path, 0, format!("the manifest tells of {what}")));
    }
    Ok(())
}

/// Where the manifest and the file itself do not say the same.
fn disagreement(meta: &SstMeta, bytes: u64, own: &Properties) -> Option<&'static str> {
    let empty = own.entries == 0;
    let rows = empty || (&meta.first_row, &meta.last_row) == (&own.first_row, &own.last_row);
    let times = (meta.timestamp_min, meta.timestamp_max);
    let sequences = (meta.sequence_min, meta.sequence_max);
    [
        (meta.bytes == bytes, "another length"),
        (meta.entries == own.entries, "another count of entries"),
        (meta.tombstones == own.tombstones, "another count of tombstones"),
        (meta.range_tombstones == own.range_tombstones, "another count of range tombstones"),
        (rows, "other first and last rows"),
        (empty || times == (own.timestamp_min, own.timestamp_max), "other timestamps"),
        (sequences == (own.sequence_min, own.sequence_max), "other sequence numbers"),
    ]
    .into_iter()
    .find_map(|(agrees, what)| (!agrees).then_some(what))
}

/// Reads the commit log to its end.
fn check_log(env: &Env, dir: &Path, state: Option<&State>, report: &mut Report) -> Result<()> {
    if let Err(error) = read_log(env, dir, state, report) {
        report.note(dir, error)?;
    }
    Ok(())
}

fn read_log(env: &Env, dir: &Path, state: Option<&State>, report: &mut Report) -> Result<()> {
    let mut reader = LogReader::open(Arc::clone(&env.fs), dir)?;
    let mut next = SequenceNumber(0);
    while let Some(item) = reader.next()? {
        let (path, offset) = (item.segment.path(dir), item.offset);
        report.log_batches += 1;
        let existed = |tree: TreeId| {
            state.is_none_or(|state| state.trees.contains_key(&tree) || state.used.contains(&tree))
        };
        if !existed(item.record.tree) {
            let what = format!("a batch of tree {}, which never existed", item.record.tree.0);
            report.add(path.clone(), offset, what);
        }
        if item.record.first < next {
            let what = format!("batch {} stands after {}", item.record.first.0, next.0 - 1);
            report.add(path.clone(), offset, what);
        }
        let known = state.map_or(u64::MAX, |state| state.last_sequence.0);
        if next.0 > 0 && item.record.first > next && item.record.first.0 - 1 > known {
            let what = format!("numbers from {} are missing, in the manifest too", next.0);
            report.add(path.clone(), offset, what);
        }
        match FrozenBatch::decode(item.record.payload) {
            Ok(batch) => next = SequenceNumber(item.record.first.0 + batch.len() as u64),
            Err(error) => report.add(path, offset, error.to_string()),
        }
    }
    Ok(())
}
