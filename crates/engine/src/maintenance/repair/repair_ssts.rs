//! Brings one SSTable into the new directory: as it is if all of it verifies, else what does.

use super::report::{Loss, Lost, RepairReport};
use crate::batch::check_entry;
use crate::cache::CacheFeatures;
use crate::cell::{SequenceNumber, TreeId};
use crate::error::{Error, Result};
use crate::files::{FileIdentity, FileNumber, copy_file};
use crate::maintenance::check::disagreement;
use crate::manifest::SstMeta;
use crate::options::{Compression, FilterGranularity, TreeOptions};
use crate::request::RowRange;
use crate::shape::Shape;
use crate::sstable::salvage::{Known, LostRows, Piece, SstSalvage};
use crate::sstable::{BlockCache, Origin, SstBuilder, SstOptions, SstReader};
use base::env::FileSystem;
use std::path::Path;
use std::sync::Arc;

/// Memory for blocks while one SSTable is checked.
const CACHE_BYTES: usize = 4 << 20;

/// An SSTable to bring over, and what is known of it.
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) number: FileNumber,
    pub(super) tree: TreeId,
    pub(super) options: &'a TreeOptions,
    pub(super) compression: Compression,
    /// What the manifest says of it.
    pub(super) meta: Option<&'a SstMeta>,
}

/// Opens an SSTable as it is read alone.
pub(super) fn open(fs: &dyn FileSystem, path: &Path, number: FileNumber) -> Result<Arc<SstReader>> {
    let file = fs.open_read(path).map_err(|error| Error::io("open", path, &error))?;
    SstReader::open(file, path, number, BlockCache::new(CACHE_BYTES, CacheFeatures::PASSING))
}

/// Brings `source` into the directory `into`, under its number. Gives what the new manifest is to
/// say of it; `None` if nothing of it is left.
pub(super) fn bring(
    fs: &dyn FileSystem,
    into: &Path,
    source: &Source<'_>,
    report: &mut RepairReport,
    read: &mut dyn FnMut(u64),
) -> Result<Option<SstMeta>> {
    let damage = match verify(fs, source, read) {
        Ok(meta) => {
            copy_file(fs, source.path, &source.number.sst_path(into))?;
            report.copied += 1;
            return Ok(Some(meta));
        }
        Err(error @ (Error::Corruption(_) | Error::Io { .. })) => error,
        Err(error) => return Err(error),
    };
    let losses = report.losses.len();
    let meta = salvage(fs, into, source, report)?;
    if report.losses.len() == losses {
        report.notes.push(format!("{damage}; nothing is lost by it, the file was written anew"));
    }
    Ok(meta)
}

/// What the manifest is to say of the file, if all of it verifies.
fn verify(fs: &dyn FileSystem, source: &Source<'_>, read: &mut dyn FnMut(u64)) -> Result<SstMeta> {
    let sst = open(fs, source.path, source.number)?;
    let sequence = source.meta.map_or(SequenceNumber(0), |meta| meta.sequence_max);
    let sst = SstReader::numbered(sst, sequence);
    let mut first = None;
    sst.verify_all(&mut |error| first = first.take().or(Some(error)), read);
    if let Some(error) = first {
        return Err(error);
    }
    let Some(meta) = source.meta else { return Ok(meta_of(&sst)) };
    let origin = sst.properties().origin.as_ref();
    let other_tree = origin.is_some_and(|origin| !origin.fits(source.tree));
    match disagreement(meta, &sst).or(other_tree.then_some("another tree")) {
        Some(what) => {
            Err(Error::corruption(source.path, 0, format!("the manifest tells of {what}")))
        }
        None => Ok(meta_of(&sst)),
    }
}

/// What the manifest says of a file.
fn meta_of(sst: &SstReader) -> SstMeta {
    let own = sst.properties();
    let dropped = sst.dropped();
    let start = dropped.as_ref().map(|rows| rows.start.clone()).unwrap_or_default();
    let empty = own.entries == 0;
    SstMeta {
        number: sst.number(),
        bytes: sst.bytes(),
        first_row: if empty { start.clone() } else { own.first_row.clone() },
        last_row: if empty { start } else { own.last_row.clone() },
        entries: own.entries,
        tombstones: own.tombstones,
        range_tombstones: own.range_tombstones,
        dropped,
        sequence_min: own.sequence_min,
        sequence_max: own.sequence_max,
        timestamp_min: own.timestamp_min,
        timestamp_max: own.timestamp_max,
    }
}

/// Writes what verifies of the file anew.
fn salvage(
    fs: &dyn FileSystem,
    into: &Path,
    source: &Source<'_>,
    report: &mut RepairReport,
) -> Result<Option<SstMeta>> {
    let Source { path, number, tree, meta, .. } = *source;
    let lost = |rows| Lost::Rows { tree: Some(tree), rows };
    let mut damaged = match fs.open_read(path).map_err(|error| Error::io("open", path, &error)) {
        Ok(file) => SstSalvage::open(file, path, number)?,
        Err(error) => {
            let rows = meta.map_or(RowRange::ALL, SstMeta::span);
            let reason = error.to_string();
            report.losses.push(Loss { file: path.into(), offset: 0, reason, lost: lost(rows) });
            return Ok(None);
        }
    };
    let origin = damaged.properties().and_then(|own| own.origin.clone());
    let origin = origin.unwrap_or(Origin { tree, position: 0, inputs: Vec::new() });
    let to = number.sst_path(into);
    let file = fs.create(&to).map_err(|error| Error::io("create", &to, &error))?;
    let granularity = damaged.properties().map(|own| own.filter_granularity);
    let granularity = granularity.or(source.options.filter_granularity);
    let granularity = granularity.unwrap_or(FilterGranularity::Column);
    let options = SstOptions::new(source.options, source.compression, granularity, &Shape::DEFAULT);
    let mut builder = SstBuilder::new(file, &to, options)
        .with_origin(origin)
        .with_identity(FileIdentity::draw(fs, &to)?);
    let known = meta.map(|meta| Known {
        tree,
        entries: meta.entries,
        first_row: meta.first_row.clone(),
        last_row: meta.last_row.clone(),
        range_tombstones: meta.range_tombstones,
        span: meta.span(),
        sequence_min: meta.sequence_min,
        sequence_max: meta.sequence_max,
    });
    damaged.read(known.as_ref(), &mut |piece| match piece {
        Piece::Lost(LostRows { offset, what: reason, rows }) => {
            report.losses.push(Loss { file: path.into(), offset, reason, lost: lost(rows) });
            Ok(())
        }
        Piece::Entry(row, entry) => {
            if check_entry(&entry).is_ok() && builder.try_add(row, &entry)? {
                return Ok(());
            }
            let (reason, rows) = ("an entry out of order".to_owned(), RowRange::single(row));
            report.losses.push(Loss { file: path.into(), offset: 0, reason, lost: lost(rows) });
            Ok(())
        }
    })?;
    match damaged.range_tombstones() {
        Some(ranges) => ranges.iter().for_each(|range| builder.add_range_tombstone(range)),
        None if meta.is_some_and(|meta| meta.range_tombstones == 0) => {}
        None => {
            let rows = meta.and_then(|meta| meta.dropped.clone()).unwrap_or(RowRange::ALL);
            let reason = "its dropped row ranges cannot be read".to_owned();
            report.losses.push(Loss { file: path.into(), offset: 0, reason, lost: lost(rows) });
        }
    }
    if builder.is_empty() {
        drop(builder);
        fs.remove_file(&to).map_err(|error| Error::io("remove", &to, &error))?;
        return Ok(None);
    }
    report.rewritten += 1;
    builder.finish(number).map(Some)
}
