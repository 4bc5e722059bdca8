//! Row writes over the engine, each in its task: none holds a thread while it waits.
//!
//! 1. A write waits for room in its trees first, and for its row stripes then: no stripe is held while
//!    background work is behind. It has the stripes, and its share of what may wait
//!    ([`super::admission`]), until its commit has ended, also when its task is gone before. A task that
//!    is gone before its batch has a place in the order of commits leaves nothing.
//! 2. What a check or a read-modify-write reads is read under the stripe of its row, alone: every write
//!    of the row that began before has ended, and no other begins.
//! 3. In a cluster invariant 2 holds of the leader of a tablet, in a term of it ([`super::replicated`]).
//! 4. A task converts no more than `Shape::task_write_bytes` bytes; the rest is for a blocking thread.

use super::read::{Reader, gone};
use super::replicated::{Check, TimedBatch};
use super::times::{Drawing, Place};
use super::{ALONE, Core, Local, Table};
use crate::error::{Error, Result};
use crate::filter::compile::Plan;
use crate::groups::Term;
use crate::limits;
use crate::marks::Mark;
use crate::mutate::{self, CheckAndMutate, Latest, ReadModifyWriteRule, RowMutations};
use crate::row::{Cell, Row};
use crate::row_output::Nothing;
use crate::schema::FamilySchema;
use crate::store::{DropRows, HasRoom};
use bytes::Bytes;
use engine::{
    Column, Columns, FamilyId, OpenTimes, QualifierRange, ReadyBatch, RowEnd, RowRange,
    RowSelection, ScanRequest, Timestamp, TimestampRange, TreeId, WriteBatch,
};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// A read-modify-write of a row whose stripe is held.
#[derive(Clone, Copy)]
pub(super) struct Modify<'a> {
    pub(super) table: &'a Arc<Table>,
    pub(super) tree: TreeId,
    pub(super) row: &'a Bytes,
    pub(super) rules: &'a [ReadModifyWriteRule],
    /// The family of each rule.
    pub(super) families: &'a [&'a FamilySchema],
}

/// The outcome of a read-modify-write of a row.
pub(super) struct Modified {
    pub(super) batch: ReadyBatch,
    pub(super) cells: Vec<Cell>,
    /// The time of the cells.
    pub(super) now: Timestamp,
}

/// The newest cells of the columns that a read-modify-write concerns.
type LatestCells = BTreeMap<(FamilyId, Bytes), Latest>;

/// The place of a row's times, and which of the times that are open in a batch are its.
pub(super) type TimesOfRow = (Place, Range<usize>);

/// The term in which a write of a cluster was evaluated; `None` if it depends on nothing that was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct EvaluatedIn(pub(super) Option<Term>);

/// Checks of a check-and-mutate that need no table.
pub(super) fn check_request(request: &CheckAndMutate) -> Result<()> {
    limits::check_row_key("row_key", &request.row)?;
    let count = request.on_true.len().max(request.on_false.len());
    limits::check_mutation_count("true_mutations or false_mutations", count)
}

/// Freezes `batch`, whose limits are checked.
pub(super) fn ready(batch: WriteBatch) -> Result<ReadyBatch> {
    batch.ready().map_err(|error| Error::invalid("", error.to_string()))
}

impl Core {
    /// Waits for room for `bytes` in a tablet of `table`.
    pub(super) async fn room(&self, table: &Table, tree: TreeId, bytes: usize) -> Result<()> {
        let room = match self.engine.tree(tree) {
            Ok(tree) => tree.room_for(bytes).await,
            Err(error) => Err(error),
        };
        written(table, room)
    }

    /// Commits `batch`, which changes rows of one tablet of `table`, at the server's time where it is
    /// left open. `kept` is dropped when the commit has ended.
    pub(super) async fn commit<K: Send + 'static>(
        &self,
        table: &Table,
        tree: TreeId,
        batch: ReadyBatch,
        rows: &[TimesOfRow],
        evaluated: EvaluatedIn,
        kept: K,
    ) -> Result<()> {
        if let Some(replicated) = self.replicated() {
            let write = TimedBatch { table, tree, batch, rows };
            let commit = self.commit_in_group(replicated, write, evaluated, Box::new(kept));
            return Box::pin(commit).await;
        }
        let timed = batch.open_times() > 0;
        let set = |times: &mut OpenTimes<'_>| timed.then(|| self.set_times(table, rows, 0, times));
        let outcome = match self.engine.tree(tree) {
            Ok(tree) => tree.write_in_task(batch, set, kept).await,
            Err(error) => Err(error),
        };
        written(table, outcome)
    }

    /// Sets the open times of `rows` to the server's, above `floor`. They keep their order if the caller
    /// holds what is returned until its batch has a place in the order of commits.
    pub(super) fn set_times(
        &self,
        table: &Table,
        rows: &[TimesOfRow],
        floor: u64,
        times: &mut OpenTimes<'_>,
    ) -> Drawing<'_> {
        let rows = || rows.iter().filter(|(_, open)| !open.is_empty());
        let places = rows().map(|(place, _)| *place);
        let mut drawing = self.times.draw_above(floor, table.schema.granularity, places);
        rows().for_each(|(place, open)| times.set(open.clone(), drawing.next(*place)));
        drawing
    }

    /// Commits changes of `row`, which lies in `tree`.
    pub(super) async fn commit_row<K: Send + 'static>(
        &self,
        table: &Table,
        (tree, row): (TreeId, &[u8]),
        batch: ReadyBatch,
        evaluated: EvaluatedIn,
        kept: K,
    ) -> Result<()> {
        let times = [(Place::of(row), 0..batch.open_times())];
        self.commit(table, tree, batch, &times, evaluated, kept).await
    }
}

impl Local {
    /// Runs `convert`, which converts a write of `bytes` bytes: in this task if that is quick, else on a
    /// blocking thread.
    pub(super) async fn convert<T: Send + 'static>(
        &self,
        bytes: usize,
        convert: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if bytes <= self.core.shape.task_write_bytes {
            return convert();
        }
        Mark::WriteOnThread.hit();
        self.writes.run(convert).await
    }

    /// Changes a row, as [`crate::Store::mutate_row`] says.
    pub(super) async fn write_row(&self, table: Arc<Table>, row: RowMutations) -> Result<()> {
        let bytes = row.batch_bytes();
        let admitted = table.kept.admission.admit(bytes)?;
        let (schema, key) = (Arc::clone(&table.schema), row.row.clone());
        let batch = self.convert(bytes, move || {
            let mut batch = WriteBatch::with_capacity(bytes);
            mutate::append(&mut batch, &schema, &row.row, &row.mutations)?;
            ready(batch)
        });
        let batch = batch.await?;
        let tree = table.tree_of(&key);
        self.core.room(&table, tree, batch.encoded_len()).await?;
        let locks = self.shared_one(tree, &key).await?;
        let kept = (locks, admitted);
        self.core.commit_row(&table, (tree, &key), batch, EvaluatedIn(None), kept).await
    }

    /// Drops rows of the tablets whose trees are `wanted`, and holds off read-modify-writes meanwhile. After
    /// `NotLeader` no row was dropped.
    pub(super) async fn write_dropped_rows(
        &self,
        table: &Table,
        rows: &DropRows,
        wanted: impl Fn(TreeId) -> bool,
    ) -> Result<()> {
        let range = match rows {
            DropRows::All => RowRange::ALL,
            DropRows::Prefix(prefix) => {
                limits::check_row_key("row_key_prefix", prefix)?;
                RowRange::prefix(prefix)
            }
        };
        let mut parts = super::tables::parts(&table.schema, &[range]);
        parts.retain(|(tree, _)| wanted(*tree));
        if let Some(replicated) = self.core.replicated() {
            Box::pin(replicated.writable(parts.iter().map(|(tree, _)| *tree))).await?;
        }
        let mut batches = Vec::new();
        for (tree, range) in parts {
            let mut batch = WriteBatch::new();
            batch.drop_row_range(&range.start, range.end.as_deref());
            let batch = ready(batch)?;
            self.core.room(table, tree, batch.encoded_len()).await?;
            batches.push((tree, batch));
        }
        let replicated = self.core.replicated();
        let of_store = match replicated {
            Some(_) => None,
            None => Some(Arc::new(self.locks.shared_all().await)),
        };
        for (at, (tree, batch)) in batches.into_iter().enumerate() {
            let dropped = async {
                let of_tablet = match replicated {
                    Some(replicated) => Some(replicated.shared_all(tree).await?),
                    None => None,
                };
                let kept = (of_store.clone(), of_tablet);
                self.core.commit(table, tree, batch, &[], EvaluatedIn(None), kept).await
            };
            dropped.await.map_err(|error| if at == 0 { error } else { dropped_in_part(error) })?;
        }
        Ok(())
    }

    /// Changes a row, as [`crate::Store::check_and_mutate_row`] says.
    pub(super) async fn check_and_write(
        &self,
        table: Arc<Table>,
        plan: Arc<Plan>,
        request: CheckAndMutate,
    ) -> Result<bool> {
        check_request(&request)?;
        let CheckAndMutate { row, on_true, on_false, .. } = request;
        let bytes = mutate::batch_bytes(&row, &on_true) + mutate::batch_bytes(&row, &on_false);
        let admitted = table.kept.admission.admit(bytes)?;
        let (schema, key) = (Arc::clone(&table.schema), row.clone());
        // Both lists are checked, whichever is taken.
        let [on_true, on_false] = self
            .convert(bytes, move || {
                let lists = [("true_mutations", &on_true), ("false_mutations", &on_false)];
                let mut batches = [WriteBatch::new(), WriteBatch::new()];
                for (batch, (field, mutations)) in batches.iter_mut().zip(lists) {
                    if !mutations.is_empty() {
                        mutate::append(batch, &schema, &key, mutations)
                            .map_err(|error| rename(error, field))?;
                    }
                }
                let [on_true, on_false] = batches;
                Ok([ready(on_true)?, ready(on_false)?])
            })
            .await?;
        let tree = table.tree_of(&row);
        self.core.room(&table, tree, on_true.encoded_len().max(on_false.encoded_len())).await?;
        let locks = self.exclusive(tree, &row).await?;
        if let Some(replicated) = self.core.replicated() {
            let check = Check { table, tree, row, plan, on_true, on_false };
            let kept = Arc::new((locks, admitted));
            return Box::pin(self.check_in_group(replicated, &check, kept)).await;
        }
        let holds = self.holds(&table, plan, &row).await?;
        let (batch, evaluated) = (if holds { on_true } else { on_false }, EvaluatedIn(None));
        self.core.commit_row(&table, (tree, &row), batch, evaluated, (locks, admitted)).await?;
        Ok(holds)
    }

    /// Returns whether `plan` yields any cell of `row`.
    pub(super) async fn holds(
        &self,
        table: &Arc<Table>,
        plan: Arc<Plan>,
        row: &[u8],
    ) -> Result<bool> {
        let (rows, forward) = ([RowRange::single(row)], engine::Direction::Forward);
        let mut reader = Reader::new(&self.core, Arc::clone(table), plan, &rows, forward, 1);
        reader.stop_at_first_cell();
        while reader.is_for_task() {
            let filled = reader.fill_rows(&mut Nothing).await?;
            if reader.has_yielded() {
                return Ok(true);
            }
            if filled.done {
                return Ok(false);
            }
        }
        self.writes.run(move || reader.yields_anything()).await
    }

    /// Changes a row, as [`crate::Store::read_modify_write_with_room`] says.
    pub(super) async fn read_modify_write(
        &self,
        table: Arc<Table>,
        row: Bytes,
        rules: Vec<ReadModifyWriteRule>,
        has_room: &HasRoom<'_>,
    ) -> Result<Row> {
        let families = mutate::check_rules(&table.schema, &row, &rules)?;
        let bytes = rules.iter().map(ReadModifyWriteRule::bytes).sum();
        let admitted = table.kept.admission.admit(bytes)?;
        let tree = table.tree_of(&row);
        self.core.room(&table, tree, bytes).await?;
        let locks = self.exclusive(tree, &row).await?;
        let modify = Modify { table: &table, tree, row: &row, rules: &rules, families: &families };
        if let Some(replicated) = self.core.replicated() {
            drop(admitted);
            let locks = Arc::new(locks);
            return Box::pin(self.modify_in_group(replicated, &modify, locks, has_room)).await;
        }
        let Modified { batch, cells, now } = self.modified(&modify, 0).await?;
        check_room_for(&cells, has_room)?;
        // The new cells may be much larger than the rules.
        drop(admitted);
        let admitted = table.kept.admission.admit(batch.encoded_len())?;
        let outcome = match self.core.engine.tree(tree) {
            Ok(tree) => {
                let kept = (locks, admitted);
                tree.write_in_task(batch, move |times| times.note(now), kept).await
            }
            Err(error) => Err(error),
        };
        written(&table, outcome)?;
        Ok(Row { key: row, cells })
    }

    /// Evaluates the rules of a read-modify-write, at a time above `floor`.
    pub(super) async fn modified(&self, modify: &Modify<'_>, floor: u64) -> Result<Modified> {
        let Modify { table, tree, row, rules, families } = *modify;
        let columns = rules.iter().zip(families);
        let columns = columns.map(|(rule, family)| ((family.id, rule.qualifier.clone()), None));
        let mut columns = self.latest(table, tree, row, columns.collect()).await?;
        // No other write of the row begins before this is committed.
        let place = Place::of(row);
        let granularity = table.schema.granularity;
        let now = self.core.times.draw_above(floor, granularity, [place]).current(place);
        for (at, (rule, family)) in rules.iter().zip(families).enumerate() {
            let latest = columns.entry((family.id, rule.qualifier.clone())).or_default();
            mutate::modify(latest, rule, now).map_err(|e| e.within(&format!("rules[{at}]")))?;
        }
        let (batch, cells) = new_cells(table, row, columns);
        Ok(Modified { batch: ready(batch)?, cells, now })
    }

    /// Reads the newest cell of each column in `columns` that GC rules do not hide.
    async fn latest(
        &self,
        table: &Arc<Table>,
        tree: TreeId,
        row: &Bytes,
        mut columns: LatestCells,
    ) -> Result<LatestCells> {
        let (wanted, now_micros) = (wanted(&columns), self.core.clock.now_micros());
        let selection = RowSelection {
            columns: &wanted,
            timestamps: TimestampRange::ALL,
            versions_max: Some(1),
        };
        let mut bytes = 0;
        let mut reads = self.core.engine.tree(tree).map_err(|e| gone(e, table))?.row_reads(None);
        let end = reads.read(row, std::iter::empty(), &selection, |cell| {
            bytes += cell.value.len();
            if bytes > self.core.shape.task_bytes {
                return ControlFlow::Break(());
            }
            note_latest(table, &mut columns, cell, now_micros);
            ControlFlow::Continue(())
        });
        if let RowEnd::Lent(_) = end.await.map_err(|error| gone(error, table))? {
            return Ok(columns);
        }
        Mark::LatestOnThread.hit();
        let (core, table, row) = (Arc::clone(&self.core), Arc::clone(table), row.clone());
        self.writes.run(move || core.read_latest(&table, tree, &row, columns)).await
    }
}

impl Core {
    /// [`Local::latest`], on a blocking thread.
    fn read_latest(
        &self,
        table: &Table,
        tree: TreeId,
        row: &[u8],
        mut columns: LatestCells,
    ) -> Result<LatestCells> {
        columns.values_mut().for_each(|latest| *latest = None);
        let request = ScanRequest {
            columns: wanted(&columns),
            versions_max: Some(1),
            ..ScanRequest::rows(RowRange::single(row))
        };
        let now_micros = self.clock.now_micros();
        let scan = self.engine.tree(tree).and_then(|tree| tree.scan(&request, None));
        let mut scan = scan.map_err(|error| gone(error, table))?;
        if scan.next_row()?.is_none() {
            return Ok(columns);
        }
        while let Some(cell) = scan.next_cell()? {
            note_latest(table, &mut columns, &cell, now_micros);
        }
        Ok(columns)
    }
}

/// Returns `Busy` if there is no room for `cells` in an answer.
pub(super) fn check_room_for(cells: &[Cell], has_room: &HasRoom<'_>) -> Result<()> {
    if has_room(cells.iter().map(|cell| cell.value.len()).sum()) {
        return Ok(());
    }
    Err(Error::Busy("there is no room for the answer; try again later".into()))
}

/// Exactly the columns of `columns`.
fn wanted(columns: &LatestCells) -> Columns {
    let each = columns.keys().map(|(family, name)| QualifierRange::column(*family, name));
    Columns::ranges(each.collect())
}

/// Notes the newest cell of a column, unless GC rules hide it.
fn note_latest(table: &Table, columns: &mut LatestCells, cell: &engine::Cell<'_>, now: i64) {
    let Some(family) = &table.families[usize::from(cell.family.0)] else { return };
    if !family.gc.elides(0, cell.timestamp, now) {
        let column = (cell.family, Bytes::copy_from_slice(cell.qualifier));
        columns.insert(column, Some((cell.timestamp, Bytes::copy_from_slice(cell.value))));
    }
}

/// The cells that rules made of `columns`, and the batch that writes them.
fn new_cells(table: &Table, row: &[u8], columns: LatestCells) -> (WriteBatch, Vec<Cell>) {
    let mut batch = WriteBatch::new();
    let mut cells = Vec::with_capacity(columns.len());
    for ((family, qualifier), latest) in columns {
        let Some((timestamp, value)) = latest else { continue };
        let Some(schema) = &table.families[usize::from(family.0)] else { continue };
        batch.put(row, Column::of(family, &qualifier), timestamp, &value);
        let family = schema.name.clone();
        cells.push(Cell { family, qualifier, timestamp, value, label: None });
    }
    (batch, cells)
}

/// The outcome of a write to `table`.
fn written<T>(table: &Table, outcome: engine::Result<T>) -> Result<()> {
    match outcome {
        Ok(_) => Ok(()),
        Err(engine::Error::UnknownTree(_)) if table.version == ALONE => {
            Err(Error::no_table(&table.schema.name))
        }
        Err(engine::Error::UnknownTree(_)) => Err(Error::NotLeader { leader: None }),
        Err(error) => Err(error.into()),
    }
}

/// The error of a drop of rows that has dropped some: it must not say that nothing was done.
fn dropped_in_part(error: Error) -> Error {
    match error {
        Error::NotLeader { .. } | Error::Busy(_) => Error::Unavailable(format!(
            "some of the rows were dropped, and others may not be ({error}); send the request again"
        )),
        other => other,
    }
}

/// Names the list of a check-and-mutate instead of the plain `mutations`.
fn rename(error: Error, list: &str) -> Error {
    match error {
        Error::InvalidArgument { field, message } => {
            let field = match field.strip_prefix("mutations") {
                Some(rest) => format!("{list}{rest}"),
                None => field,
            };
            Error::InvalidArgument { field, message }
        }
        other => other,
    }
}
