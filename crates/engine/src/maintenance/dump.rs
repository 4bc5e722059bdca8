//! Shows any file of a data directory, or what its manifest says of all of them, as text, up to the
//! first damage, which is the error. Keys and values are escaped as in Rust (`\x00`, `\n`).

use crate::batch::{FrozenBatch, Mutation};
use crate::cache::CacheFeatures;
use crate::cell::SequenceNumber;
use crate::error::{Error, Result};
use crate::files::{FileNumber, copy_note};
use crate::group_log;
use crate::log::{self, RecordKind, tree_batches};
use crate::manifest::{self, Edit, EditReader, LogClosed, SstMeta, State};
use crate::sstable::{BlockCache, SstReader};
use base::env::FileSystem;
use std::io::{self, Write};
use std::path::Path;

pub use crate::sstable::DumpOptions;

/// Longest file of unknown inner form that is shown.
const TEXT_BYTES_MAX: u64 = 4096;
const CACHE_BYTES: usize = 4 << 20;

/// Writes the state of the data directory `dir` to `out` as text: its trees with their options,
/// levels, runs and SSTables. Reads nothing but the manifest.
///
/// `Error::Unusable` if it is no data directory or of a newer format.
pub fn dump_dir(
    fs: &dyn FileSystem,
    dir: &Path,
    options: &DumpOptions,
    out: &mut dyn Write,
) -> Result<()> {
    let Some(state) = manifest::load(fs, dir)? else {
        let what = "no data directory: it has no CURRENT".to_owned();
        return Err(Error::Unusable { dir: dir.to_owned(), what });
    };
    written(dump_state(&state, options, out))
}

fn dump_state(state: &State, options: &DumpOptions, out: &mut dyn Write) -> io::Result<()> {
    let State { trees, used, next_file, last_sequence, log_from, log_closed, .. } = state;
    let State { store, commit_time, clock, owner, member, .. } = state;
    writeln!(
        out,
        "{} trees, {} dropped; next file {}, last sequence number {}, log from segment {}",
        trees.len(),
        used.len(),
        next_file.0,
        last_sequence.0,
        log_from.0
    )?;
    if let Some(LogClosed { segment, end }) = log_closed {
        writeln!(out, "log closed in segment {} at {end}", segment.0)?;
    }
    if let Some(store) = store {
        writeln!(out, "store {store}")?;
    }
    if let Some(owner) = owner {
        writeln!(out, "of {owner}")?;
    }
    if let Some(member) = member {
        writeln!(out, "{member}")?;
    }
    if *commit_time > 0 {
        writeln!(out, "commit time {commit_time}, clock {clock}")?;
    }
    for (tree, version) in trees.iter().filter(|(tree, _)| options.wants(Some(**tree))) {
        writeln!(out, "tree {}, flushed up to {}", tree.0, version.flushed.0)?;
        writeln!(out, "  {:?}", version.options)?;
        for (level, runs) in version.levels.iter().enumerate() {
            for run in runs {
                let (id, count, bytes) = (run.id.0, run.ssts.len(), run.bytes());
                writeln!(out, "  level {level}, run {id}: {count} SSTables, {bytes} bytes")?;
                for meta in &run.ssts {
                    write!(out, "    ")?;
                    dump_meta(meta, out)?;
                }
            }
        }
    }
    Ok(())
}

/// Writes the file at `path` to `out` as text. What it is, its name says.
///
/// `InvalidArgument` if the name is not that of a file of a data directory.
pub fn dump_file(
    fs: &dyn FileSystem,
    path: &Path,
    options: &DumpOptions,
    out: &mut dyn Write,
) -> Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.rsplit_once('.') {
        _ if name == "CURRENT" => dump_text(fs, path, out),
        _ if name.starts_with("MANIFEST-") => dump_manifest(fs, path, options, out),
        Some((_, "log" | "changes")) => dump_segment(fs, path, options, out),
        Some((_, "glog")) => {
            let show = |payload: &[u8]| options.entries.then(|| options.value(payload));
            group_log::replay::dump(fs, path, &show, out)
        }
        Some((_, "sst")) => dump_sst(fs, path, options, out),
        Some((_, "copy")) => dump_copy_note(fs, path, out),
        _ => Err(Error::InvalidArgument(format!(
            "{} is not named like a file of a data directory (CURRENT, MANIFEST-N, N.log, N.changes, N.glog, N.sst, N.copy)",
            path.display()
        ))),
    }
}

fn written(result: io::Result<()>) -> Result<()> {
    result.map_err(|error| Error::io("write", Path::new("the output"), &error))
}

fn dump_copy_note(fs: &dyn FileSystem, path: &Path, out: &mut dyn Write) -> Result<()> {
    let dir = path.parent().unwrap_or(Path::new(""));
    let tree = path.file_name().and_then(|name| copy_note::tree_of(Path::new(name)));
    let Some(tree) = tree else {
        let text = format!("{} is not named like the note of a copied tree", path.display());
        return Err(Error::InvalidArgument(text));
    };
    let missing = || Error::io("open", path, &io::ErrorKind::NotFound.into());
    let note = copy_note::read(fs, dir, tree)?.ok_or_else(missing)?;
    written(writeln!(out, "tree {} is a copy: {} SSTables", note.tree.0, note.numbers.len()))?;
    note.numbers.iter().try_for_each(|number| written(writeln!(out, "  file {}", number.0)))
}

fn dump_text(fs: &dyn FileSystem, path: &Path, out: &mut dyn Write) -> Result<()> {
    let read = |error: io::Error| Error::io("read", path, &error);
    let file = fs.open_read(path).map_err(read)?;
    let mut bytes = vec![0; file.size().map_err(read)?.min(TEXT_BYTES_MAX) as usize];
    file.read_exact_at(&mut bytes, 0).map_err(read)?;
    written(writeln!(out, "{}", bytes.trim_ascii_end().escape_ascii()))
}

fn dump_manifest(
    fs: &dyn FileSystem,
    path: &Path,
    options: &DumpOptions,
    out: &mut dyn Write,
) -> Result<()> {
    let mut reader = EditReader::open(fs, path)?;
    while let Some((offset, edits)) = reader.next()? {
        written(writeln!(out, "{offset}: {} edits", edits.len()))?;
        for edit in edits.iter().filter(|edit| options.wants(edit.tree())) {
            written(dump_edit(edit, out))?;
        }
    }
    written(writeln!(out, "{}: end", reader.end()))
}

fn dump_edit(edit: &Edit, out: &mut dyn Write) -> io::Result<()> {
    match edit {
        Edit::CreateTree { tree, options } => {
            writeln!(out, "  create tree {} with {options:?}", tree.0)
        }
        Edit::DropTree { tree } => writeln!(out, "  drop tree {}", tree.0),
        Edit::UsedTree { tree } => writeln!(out, "  tree {} was used", tree.0),
        Edit::AddSst { tree, level, run, meta } => {
            let (tree, run) = (tree.0, run.0);
            write!(out, "  add to tree {tree}, level {level}, run {run}: ")?;
            dump_meta(meta, out)
        }
        Edit::RemoveSst { tree, level, run, number } => {
            let (tree, run, sst) = (tree.0, run.0, number.0);
            writeln!(out, "  remove from tree {tree}, level {level}, run {run}: SSTable {sst}")
        }
        Edit::Flushed { tree, position } => {
            writeln!(out, "  tree {} is flushed up to {}", tree.0, position.0)
        }
        Edit::NextFile(number) => writeln!(out, "  next file {}", number.0),
        Edit::LastSequence(last) => writeln!(out, "  last sequence number {}", last.0),
        Edit::LogFrom(segment) => writeln!(out, "  log from segment {}", segment.0),
        Edit::LogClosed(closed) => {
            let LogClosed { segment, end } = closed;
            writeln!(out, "  log closed in segment {} at {end}", segment.0)
        }
        Edit::Store(store) => writeln!(out, "  store {store}"),
        Edit::Member(member) => writeln!(out, "  {member}"),
        Edit::Owner(owner) => writeln!(out, "  of {owner}"),
        Edit::CommitTime(micros) => writeln!(out, "  commit time {micros}"),
        Edit::Clock(micros) => writeln!(out, "  clock {micros}"),
        Edit::KeepChanges { tree, log: None } => {
            writeln!(out, "  tree {} keeps no changes", tree.0)
        }
        Edit::KeepChanges { tree, log: Some(log) } => writeln!(
            out,
            "  tree {} keeps changes after {} at {} for {} microseconds",
            tree.0, log.since.0, log.since_micros, log.retention_micros
        ),
    }
}

fn dump_meta(meta: &SstMeta, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        "SSTable {}, {} bytes, rows {} to {}, {} entries ({} tombstones, {} ranges), \
         #{} to #{}, @{} to @{}",
        meta.number.0,
        meta.bytes,
        meta.first_row.escape_ascii(),
        meta.last_row.escape_ascii(),
        meta.entries,
        meta.tombstones,
        meta.range_tombstones,
        meta.sequence_min.0,
        meta.sequence_max.0,
        meta.timestamp_min.0,
        meta.timestamp_max.0,
    )?;
    match &meta.dropped {
        Some(rows) => writeln!(out, ", dropped {}", range(&rows.start, rows.end.as_deref())),
        None => writeln!(out),
    }
}

fn range(start: &[u8], end: Option<&[u8]>) -> String {
    let end = end.map_or("end".to_owned(), |end| end.escape_ascii().to_string());
    format!("[{}, {end})", start.escape_ascii())
}

fn dump_segment(
    fs: &dyn FileSystem,
    path: &Path,
    options: &DumpOptions,
    out: &mut dyn Write,
) -> Result<()> {
    let mut reader = log::open_alone(fs, path)?;
    while let Some(item) = reader.next()? {
        let (offset, synced, record) = (item.offset, item.synced_to, item.record);
        let kind = format!("{offset}: {:?}, synced to {synced}", item.kind);
        if !matches!(item.kind, RecordKind::Batch | RecordKind::Batches) {
            if options.wants(None) {
                written(writeln!(out, "{kind}"))?;
            }
            continue;
        }
        let mut batches = Vec::new();
        let parts = tree_batches::for_each(&record, |batch| batches.push(batch));
        parts.map_err(|what| Error::corruption(path, offset, what))?;
        for record in batches.iter().filter(|record| options.wants(Some(record.tree))) {
            let (tree, first, time) = (record.tree.0, record.first, record.commit_time);
            written(writeln!(out, "{kind}, tree {tree}, from #{}, at {time}", first.0))?;
            let batch = FrozenBatch::decode(record.payload);
            let batch = batch.map_err(|error| Error::corruption(path, offset, error))?;
            if options.entries {
                written(dump_batch(&batch, first, options, out))?;
            }
        }
    }
    written(writeln!(out, "{}: end", reader.end()))
}

fn dump_batch(
    batch: &FrozenBatch,
    first: SequenceNumber,
    options: &DumpOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    for mutation in batch.mutations(first) {
        match mutation {
            Mutation::Entry { row, .. } if !options.rows.contains(row) => {}
            Mutation::Entry { row, entry } => {
                let column = entry.column;
                writeln!(
                    out,
                    "  #{} {} {}:{} {:?} {:?} @{} = {}",
                    entry.sequence.0,
                    row.escape_ascii(),
                    column.family.0,
                    column.qualifier.escape_ascii(),
                    column.scope,
                    entry.kind,
                    entry.timestamp.0,
                    options.value(entry.value),
                )?;
            }
            Mutation::DropRange(dropped) => {
                let rows = range(&dropped.start, dropped.end.as_deref());
                writeln!(out, "  #{} drop {rows}", dropped.sequence.0)?;
            }
        }
    }
    Ok(())
}

fn dump_sst(
    fs: &dyn FileSystem,
    path: &Path,
    options: &DumpOptions,
    out: &mut dyn Write,
) -> Result<()> {
    let name = Path::new(path.file_name().unwrap_or_default());
    let number = FileNumber::of_sst(name).ok_or_else(|| {
        Error::InvalidArgument(format!("{} is not named like an SSTable", path.display()))
    })?;
    let file = fs.open_read(path).map_err(|error| Error::io("open", path, &error))?;
    SstReader::open(file, path, number, BlockCache::new(CACHE_BYTES, CacheFeatures::PASSING))?
        .dump(options, out)
}
