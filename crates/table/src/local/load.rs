//! Bulk loads: rows in order, written straight into the SSTables of their tablets, which become
//! part of the table all at once.
//!
//! 1. Rows ascend, so that the tablets are written one after the other.
//! 2. Nobody sees anything of a load before [`Local::install`], and all of it after. A load that is
//!    dropped, or of which the process dies, leaves nothing.
//! 3. A row of the server's time is a write of when the load began: it gets that time, or the one after
//!    the latest that the row was given until it is added. Other rows' times do not change by it.
//! 4. What an install can do before its moment it does without a lock and without a place of writes.
//!    Then it holds off schema changes and read-modify-writes, looks again whether the table is still
//!    what it was, and makes the files part of it.
//! 5. The limits are those of other writes, but for the number of mutations, which is one of
//!    requests.

use super::times::Place;
use super::{Core, Local, Table};
use crate::error::{Error, Result};
use crate::limits;
use crate::mutate::{RowMutation, RowMutations, WriteTime};
use crate::schema::TableName;
use bytes::Bytes;
use engine::{Column, FamilyId, IngestFiles, IngestOptions, SstWriter, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Writes the rows of one load. Made by [`Local::load`]. All calls block.
pub struct TableLoad {
    core: Arc<Core>,
    table: Arc<Table>,
    options: IngestOptions,
    /// When it began.
    begun: Timestamp,
    /// The newest time that a row was given.
    newest: Timestamp,
    /// The tablet being written, by its index.
    writing: Option<(usize, SstWriter)>,
    files: Option<IngestFiles>,
    /// The families that have a cell.
    families: BTreeSet<FamilyId>,
    last_row: Bytes,
    rows: u64,
    cells: u64,
}

/// A cell of a row, checked.
type LoadCell<'a> = (FamilyId, &'a Bytes, std::cmp::Reverse<Timestamp>, &'a Bytes);

impl TableLoad {
    /// Returns whether `row` could be loaded, wherever it stands in the order. `InvalidArgument`
    /// names the limit it breaks, `NotFound` the family that the table lacks. Only `SetCell` can be
    /// loaded.
    pub fn check(&self, row: &RowMutations) -> Result<()> {
        self.cells_of(row, self.begun).map(|_| ())
    }

    /// The cells of `row`, in their order of mutations; `server` is the time of those that ask for the
    /// server's.
    fn cells_of<'a>(&self, row: &'a RowMutations, server: Timestamp) -> Result<Vec<LoadCell<'a>>> {
        limits::check_row_key("row_key", &row.row)?;
        let mut bytes = 0;
        let mut cells = Vec::with_capacity(row.mutations.len());
        for mutation in &row.mutations {
            let RowMutation::SetCell { family, qualifier, timestamp, value } = mutation else {
                return Err(Error::invalid("mutations", "only cells can be loaded"));
            };
            let family = mutation
                .check(&self.table.schema)?
                .map_or_else(|| Err(Error::no_family(family.clone())), |family| Ok(family.id))?;
            let at = timestamp.given(self.table.schema.granularity).unwrap_or(server);
            bytes += qualifier.len() + value.len();
            cells.push((family, qualifier, std::cmp::Reverse(at), value));
        }
        if cells.is_empty() {
            return Err(Error::invalid("mutations", "a row needs at least one cell"));
        }
        limits::check_len("row", bytes, limits::ROW_BYTES_MAX)?;
        Ok(cells)
    }

    /// Adds a row, which comes after all rows added before. Of two cells of the same column and
    /// timestamp the later one is kept.
    ///
    /// `InvalidArgument` for a row out of order, or as [`Self::check`] says: it is not added, and
    /// the load can go on. After any other error it cannot.
    pub fn add(&mut self, row: &RowMutations) -> Result<()> {
        if self.rows > 0 && row.row <= self.last_row {
            let (row, last) = (row.row.escape_ascii(), self.last_row.escape_ascii());
            let text = format!("row \"{row:.64}\" does not come after row \"{last:.64}\"");
            return Err(Error::invalid("row_key", text));
        }
        let server = self.time_of(row);
        let mut cells = self.cells_of(row, server)?;
        // Stable: the last of equal ones is the one that was added last.
        cells.sort_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)));
        self.write(&row.row, &cells)?;
        self.last_row = row.row.clone();
        self.rows += 1;
        Ok(())
    }

    /// The server's time of `row`.
    fn time_of(&mut self, row: &RowMutations) -> Timestamp {
        let timed = |mutation: &RowMutation| {
            matches!(mutation, RowMutation::SetCell { timestamp: WriteTime::Server, .. })
        };
        if !row.mutations.iter().any(timed) {
            return self.begun;
        }
        let time = {
            let granularity = self.table.schema.granularity;
            self.core.times.draw_loaded(granularity, Place::of(&row.row), self.begun)
        };
        self.newest = self.newest.max(time);
        time
    }

    fn write(&mut self, row: &Bytes, cells: &[LoadCell<'_>]) -> Result<()> {
        let tablet = self.table.schema.tablet_of(row);
        if self.writing.as_ref().is_none_or(|(writing, _)| *writing != tablet) {
            self.end_tablet()?;
            let tree = self.table.schema.tablets[tablet].tree;
            let writer =
                self.core.engine.tree(tree).and_then(|tree| tree.sst_writer(&self.options));
            let writer = writer.map_err(|error| of_engine(error, &self.table))?;
            self.writing = Some((tablet, writer));
        }
        let Some((_, writer)) = &mut self.writing else { return Ok(()) };
        self.families.extend(cells.iter().map(|(family, ..)| *family));
        for (at, (family, qualifier, time, value)) in cells.iter().enumerate() {
            let same =
                |next: &LoadCell<'_>| (next.0, next.1, next.2) == (*family, *qualifier, *time);
            if !cells.get(at + 1).is_some_and(same) {
                writer.put(row, Column::of(*family, qualifier), time.0, value)?;
                self.cells += 1;
            }
        }
        Ok(())
    }

    fn end_tablet(&mut self) -> Result<()> {
        let Some((_, writer)) = self.writing.take() else { return Ok(()) };
        let files = writer.finish()?;
        match &mut self.files {
            None => self.files = Some(files),
            Some(all) => all.append(files)?,
        }
        Ok(())
    }

    /// Finishes the files. They are on disk, and nobody sees them yet.
    pub fn finish(mut self) -> Result<LoadedRows> {
        self.end_tablet()?;
        // The files carry it, and no record of the log does.
        self.core.engine.note_commit_micros(u64::try_from(self.newest.0).unwrap_or(0));
        let Self { table, files, families, rows, cells, .. } = self;
        Ok(LoadedRows { table, files, families, rows, cells })
    }

    /// Rows added so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

impl std::fmt::Debug for TableLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.table.schema.name;
        f.debug_struct("TableLoad").field("table", name).field("rows", &self.rows).finish()
    }
}

/// Rows that were written and that nobody sees before [`Local::install`]. Dropped before, they are
/// removed.
#[derive(Debug)]
pub struct LoadedRows {
    table: Arc<Table>,
    files: Option<IngestFiles>,
    families: BTreeSet<FamilyId>,
    rows: u64,
    cells: u64,
}

impl LoadedRows {
    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of cells.
    pub fn cells(&self) -> u64 {
        self.cells
    }

    /// Number of SSTables.
    pub fn files(&self) -> usize {
        self.files.as_ref().map_or(0, IngestFiles::len)
    }

    /// Bytes of those.
    pub fn bytes(&self) -> u64 {
        self.files.as_ref().map_or(0, IngestFiles::bytes)
    }
}

impl Local {
    /// Begins a load of rows into `table`. `NotFound` if there is no such table.
    ///
    /// Cells that ask for the server's time get that of this call; where the server gave their row that
    /// or a later one before the row was added, the one after it. Times that the server gives the row
    /// later are above it. Blocks.
    pub fn load(&self, table: &TableName, options: &IngestOptions) -> Result<TableLoad> {
        self.core.check_alone("bulk loads")?;
        let table = self.core.table(table)?;
        let begun = self.core.times.now();
        Ok(TableLoad {
            core: Arc::clone(&self.core),
            table,
            options: options.clone(),
            begun,
            newest: Timestamp(0),
            writing: None,
            files: None,
            families: BTreeSet::new(),
            last_row: Bytes::new(),
            rows: 0,
            cells: 0,
        })
    }

    /// Makes `loaded` part of its table, in all tablets at once or not at all. When it returns, it
    /// is durable and every later read sees it. It waits for read-modify-writes under way; they and
    /// schema changes wait for it while commits do, but not for what it writes before. Errors as
    /// those of [`Engine::ingest`], and `FailedPrecondition` if a family that has loaded cells was
    /// dropped since the load began, though there may be another of that name; after one, `loaded`
    /// is removed.
    pub async fn install(&self, loaded: LoadedRows) -> Result<()> {
        let core = Arc::clone(&self.core);
        let loaded = self.loads.run(move || core.ready(loaded)).await?;
        let guard = self.locks.shared_all().await;
        self.change(move |core| {
            let installed = core.install(loaded);
            drop(guard);
            installed
        })
        .await
    }
}

impl Core {
    /// Does the part of an install that needs no lock and takes long.
    fn ready(&self, mut loaded: LoadedRows) -> Result<LoadedRows> {
        self.check_families(&loaded.table, &loaded.families)?;
        if let Some(files) = &mut loaded.files {
            let ready = self.engine.ready_ingest(files);
            ready.map_err(|error| of_engine(error, &loaded.table))?;
        }
        Ok(loaded)
    }

    fn install(&self, loaded: LoadedRows) -> Result<()> {
        let LoadedRows { table, files, families, .. } = loaded;
        let Some(mut files) = files else { return Ok(()) };
        // Until the files are part of the table, no family is dropped.
        let _changing = self.schema_change.lock();
        self.check_families(&table, &families)?;
        match self.engine.ingest(&mut files) {
            Ok(_) => Ok(()),
            Err(error) => Err(of_engine(error, &table)),
        }
    }
}

impl Core {
    /// Refuses a load of `table` whose `families` are not all there any more: nobody would see their
    /// cells.
    fn check_families(&self, table: &Table, families: &BTreeSet<FamilyId>) -> Result<()> {
        let name = &table.schema.name;
        let now = self.table(name)?;
        if now.schema.tablets != table.schema.tablets {
            let text = format!("table {name} was deleted and recreated since the load began");
            return Err(Error::FailedPrecondition(text));
        }
        for family in families {
            let place = usize::from(family.0);
            if now.families.get(place).is_none_or(Option::is_none) {
                let loaded = table.families.get(place).and_then(Option::as_ref);
                let loaded = loaded.map_or("", |family| &family.name);
                return Err(Error::FailedPrecondition(format!(
                    "column family {loaded} of table {name} was dropped since the load began"
                )));
            }
        }
        Ok(())
    }
}

/// An error of the engine; a tree that is gone is a table that is gone.
fn of_engine(error: engine::Error, table: &Table) -> Error {
    match error {
        engine::Error::UnknownTree(_) => Error::no_table(&table.schema.name),
        error => error.into(),
    }
}
