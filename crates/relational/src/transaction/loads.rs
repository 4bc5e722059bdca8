//! Bulk loads of columnar tables: segments that are written beside the transaction, and become part of the table
//! with its commit.
//!
//! 1. Files of pages are written first, by any number of threads; no read sees them. [`Transaction::add_segments`]
//!    notes their segments durably, ingests the files, and writes the descriptors as the transaction's own.
//! 2. The commit writes the descriptors and removes the note in one atomic write. Without it the note stays, and the
//!    pages that it names are removed: when the transaction ends, or at the next open.

use super::Transaction;
use super::writes::bytes_of;
use crate::catalog::Table;
use crate::database::{LoadedSegments, PagesWriter, Storage, blocking};
use crate::error::{Error, Result};
use crate::format::segment::{load_key, segment_key};
use crate::types::Oid;
use bytes::Bytes;
use engine::IngestFiles;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A bulk load of a columnar table. Cheap to clone.
#[derive(Clone)]
pub struct SegmentLoad {
    storage: Arc<Storage>,
    table: Arc<Table>,
}

impl SegmentLoad {
    /// Returns a writer of segments, for one thread. Blocks.
    pub fn writer(&self) -> Result<SegmentWriter> {
        Ok(SegmentWriter { pages: PagesWriter::new(&self.storage)?, descriptors: Vec::new() })
    }
}

impl fmt::Debug for SegmentLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentLoad").field("table", &self.table.name).finish_non_exhaustive()
    }
}

/// Writes segments that no read sees yet. Dropped, it removes what it wrote.
pub struct SegmentWriter {
    pages: PagesWriter,
    descriptors: Vec<Bytes>,
}

impl SegmentWriter {
    /// Adds a segment: columns by ascending numbers, each with its pages in their order, and the encoded descriptor
    /// of all. Blocks. After an error the writer is of no more use. XX000 without any page.
    pub fn add<'a>(
        &mut self,
        columns: impl IntoIterator<Item = (u32, &'a [Vec<u8>])>,
        descriptor: Vec<u8>,
    ) -> Result<()> {
        self.pages.add(columns)?;
        self.descriptors.push(descriptor.into());
        Ok(())
    }

    /// Ends the writing. Blocks until the files are on disk.
    pub fn finish(self) -> Result<WrittenSegments> {
        let written = self.pages.finish()?;
        Ok(WrittenSegments { files: written, descriptors: self.descriptors })
    }
}

impl fmt::Debug for SegmentWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentWriter").field("segments", &self.descriptors.len()).finish()
    }
}

/// Segments that a writer wrote. Dropped, their files are removed.
pub struct WrittenSegments {
    files: Option<(IngestFiles, RangeInclusive<u64>)>,
    descriptors: Vec<Bytes>,
}

impl fmt::Debug for WrittenSegments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrittenSegments").field("segments", &self.descriptors.len()).finish()
    }
}

impl Transaction {
    /// Begins a bulk load of a columnar table, with the lock of writers. 25006 in a read-only transaction; 40001 if the
    /// columns were changed since the statement began; XX000 for a table of rows.
    pub async fn begin_load(&mut self, table: Oid) -> Result<SegmentLoad> {
        self.check_writable("COPY FROM")?;
        let table = self.table_to_write(table).await?;
        let storage = Arc::clone(table.storage()?);
        storage.pages()?;
        storage.retry_garbage();
        Ok(SegmentLoad { storage, table })
    }

    /// Makes segments part of the table: for this transaction at once, for others when it commits.
    ///
    /// 54000 if the descriptors are more than a transaction may write, before any file is; 53100 if the disk is full.
    /// After an error the caller goes back to its mark, and the pages are removed.
    pub async fn add_segments(
        &mut self,
        load: &SegmentLoad,
        written: Vec<WrittenSegments>,
    ) -> Result<()> {
        let tree = load.storage.number();
        if self.table(load.table.oid)?.tree != tree {
            return Err(Error::internal("a load is of a table that was emptied"));
        }
        let (mut files, mut loads) = (Vec::new(), Vec::new());
        for WrittenSegments { files: of_writer, descriptors } in written {
            let Some((of_writer, segments)) = of_writer else { continue };
            files.push(of_writer);
            loads.push((segments, descriptors));
        }
        let described = loads.iter().flat_map(|(_, descriptors)| descriptors);
        let key_bytes = bytes_of(&segment_key(0), None);
        self.writes.check(described.map(|descriptor| key_bytes + descriptor.len()).sum())?;
        let segments: Vec<_> = loads.iter().map(|(segments, _)| segments.clone()).collect();
        let loaded = segments.iter().cloned();
        let loaded = loaded.map(|of| Arc::new(LoadedSegments::new(&load.storage, of)));
        let loaded: Vec<_> = loaded.collect();
        self.loaded.extend(loaded.iter().cloned());
        let store = Arc::clone(&self.database.store);
        blocking(move || {
            let mut note = store.batches();
            segments.iter().for_each(|segments| note.put(tree, &load_key(segments), b""));
            store.write_blocking(note)?;
            let mut files = files.into_iter();
            let Some(mut all) = files.next() else { return Ok(()) };
            files.try_for_each(|of_writer| all.append(of_writer))?;
            store.engine().ingest(&mut all)?;
            // Until here the pages are kept from being removed.
            drop(loaded);
            Ok(())
        })
        .await?;
        for (segments, descriptors) in loads {
            self.writes.set(tree, load_key(&segments).into(), None)?;
            for (segment, descriptor) in segments.zip(descriptors) {
                self.writes.set(tree, segment_key(segment).into(), Some(descriptor))?;
            }
        }
        Ok(())
    }

    /// Lets the pages stay whose segments the commit writes: it may be written even if it is not known to be.
    pub(super) fn keep_loaded(&self) -> Vec<Arc<LoadedSegments>> {
        let overlay = self.writes.overlay();
        let is_written = |loaded: &&Arc<LoadedSegments>| {
            let (tree, mut segments) = loaded.place();
            segments.any(|of| matches!(overlay.get(tree, &segment_key(of)), Some(Some(_))))
        };
        let kept: Vec<_> = self.loaded.iter().filter(is_written).cloned().collect();
        kept.iter().for_each(|loaded| loaded.keep());
        kept
    }
}
