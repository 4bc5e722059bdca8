//! Row writes over the engine. All block; the caller holds the row's stripe.

use super::read::Reader;
use super::times::Place;
use super::{Core, Table};
use crate::error::{Error, Result};
use crate::filter::compile::Plan;
use crate::limits;
use crate::marks::Mark;
use crate::mutate::{self, CheckAndMutate, Latest, ReadModifyWriteRule, RowMutations};
use crate::row::{Cell, Row};
use bytes::Bytes;
use engine::{
    Column, Columns, FamilyId, OpenTimes, QualifierRange, RowRange, ScanRequest, SequenceNumber,
    TreeId, WriteBatch,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Checks of a check-and-mutate that need no table.
pub(super) fn check_request(request: &CheckAndMutate) -> Result<()> {
    limits::check_row_key("row_key", &request.row)?;
    let count = request.on_true.len().max(request.on_false.len());
    limits::check_mutation_count("true_mutations or false_mutations", count)
}

impl Core {
    /// Writes a batch that leaves no time to the server.
    pub(super) fn write(&self, table: &Table, tree: TreeId, batch: &WriteBatch) -> Result<()> {
        written(table, self.engine.tree(tree).and_then(|tree| tree.write(batch)))
    }

    /// Writes the changes of one row.
    pub(super) fn write_row(
        &self,
        table: &Table,
        tree: TreeId,
        row: &[u8],
        batch: &WriteBatch,
    ) -> Result<()> {
        self.write_rows(table, tree, batch, &[(Place::of(row), 0..batch.open_times())])
    }

    /// Writes a batch of changes of several rows: the place of each, and which of the times that are
    /// open in the batch are its.
    pub(super) fn write_rows(
        &self,
        table: &Table,
        tree: TreeId,
        batch: &WriteBatch,
        rows: &[(Place, Range<usize>)],
    ) -> Result<()> {
        if batch.open_times() == 0 {
            return self.write(table, tree, batch);
        }
        let rows = || rows.iter().filter(|(_, open)| !open.is_empty());
        let granularity = table.schema.granularity;
        let set = |times: &mut OpenTimes<'_>| {
            let mut drawing = self.times.draw(granularity, rows().map(|(place, _)| *place));
            rows().for_each(|(place, open)| times.set(open.clone(), drawing.next(*place)));
            drawing
        };
        written(table, self.engine.tree(tree).and_then(|tree| tree.write_timed(batch, set)))
    }

    /// Applies each entry on its own. Entries of one tablet share batches, so that many rows cost
    /// few commits; a batch that fails fails all its entries.
    pub(super) fn mutate_rows(&self, table: &Table, rows: &[RowMutations]) -> Vec<Result<()>> {
        let mut results = vec![Ok(()); rows.len()];
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let tablets: Vec<usize> = rows.iter().map(|row| table.schema.tablet_of(&row.row)).collect();
        // Stable: entries of one row keep their order.
        order.sort_by_key(|at| tablets[*at]);
        for entries in order.chunk_by(|a, b| tablets[*a] == tablets[*b]) {
            let tree = table.schema.tablets[tablets[entries[0]]].tree;
            let mut batch = WriteBatch::new();
            let mut inside: Vec<usize> = Vec::new();
            let mut places: Vec<(Place, Range<usize>)> = Vec::new();
            let mut timed = 0;
            for (position, at) in entries.iter().enumerate() {
                let row = &rows[*at];
                let open = batch.open_times();
                match mutate::append(&mut batch, &table.schema, &row.row, &row.mutations) {
                    Ok(()) => {
                        inside.push(*at);
                        places.push((Place::of(&row.row), open..batch.open_times()));
                    }
                    Err(error) => results[*at] = Err(error),
                }
                let last = position + 1 == entries.len();
                timed += usize::from(batch.open_times() > open);
                let full = batch.encoded_len() >= self.shape.write_batch_bytes
                    || timed >= self.shape.timed_rows_max;
                if full && !last {
                    Mark::WriteInBatches.hit();
                }
                if (last || full) && !batch.is_empty() {
                    if let Err(error) = self.write_rows(table, tree, &batch, &places) {
                        inside.iter().for_each(|at| results[*at] = Err(error.clone()));
                    }
                    batch.clear();
                    inside.clear();
                    places.clear();
                    timed = 0;
                }
            }
        }
        results
    }

    pub(super) fn check_and_mutate(
        &self,
        table: &Arc<Table>,
        plan: Arc<Plan>,
        request: &CheckAndMutate,
    ) -> Result<bool> {
        // Both lists are checked, whichever is taken.
        let mut batches = [WriteBatch::new(), WriteBatch::new()];
        let lists = [("true_mutations", &request.on_true), ("false_mutations", &request.on_false)];
        for (batch, (field, mutations)) in batches.iter_mut().zip(lists) {
            if !mutations.is_empty() {
                mutate::append(batch, &table.schema, &request.row, mutations)
                    .map_err(|error| rename(error, field))?;
            }
        }
        let rows = [RowRange::single(&request.row)];
        let mut reader =
            Reader::new(self, Arc::clone(table), plan, &rows, engine::Direction::Forward, 1);
        let holds = reader.yields_anything()?;
        let batch = &batches[usize::from(!holds)];
        if !batch.is_empty() {
            let tree = table.schema.tablets[table.schema.tablet_of(&request.row)].tree;
            self.write_row(table, tree, &request.row, batch)?;
        }
        Ok(holds)
    }

    pub(super) fn read_modify_write(
        &self,
        table: &Table,
        row: Bytes,
        rules: &[ReadModifyWriteRule],
    ) -> Result<Row> {
        let families = mutate::check_rules(&table.schema, &row, rules)?;
        let tree = table.schema.tablets[table.schema.tablet_of(&row)].tree;
        let mut columns: BTreeMap<(FamilyId, Bytes), Latest> = BTreeMap::new();
        for (rule, family) in rules.iter().zip(&families) {
            columns.insert((family.id, rule.qualifier.clone()), None);
        }
        self.read_latest(table, tree, &row, &mut columns)?;
        // Nobody else writes the row before this is committed.
        let place = Place::of(&row);
        let now = self.times.draw(table.schema.granularity, [place]).current(place);
        for (at, (rule, family)) in rules.iter().zip(&families).enumerate() {
            let latest = columns.entry((family.id, rule.qualifier.clone())).or_default();
            mutate::modify(latest, rule, now).map_err(|e| e.within(&format!("rules[{at}]")))?;
        }
        let mut batch = WriteBatch::new();
        let mut cells = Vec::with_capacity(columns.len());
        for ((family, qualifier), latest) in columns {
            let Some((timestamp, value)) = latest else { continue };
            let Some(schema) = &table.families[usize::from(family.0)] else { continue };
            batch.put(&row, Column::of(family, &qualifier), timestamp, &value);
            let family = schema.name.clone();
            cells.push(Cell { family, qualifier, timestamp, value, label: None });
        }
        written(
            table,
            self.engine
                .tree(tree)
                .and_then(|tree| tree.write_timed(&batch, |times| times.note(now))),
        )?;
        Ok(Row { key: row, cells })
    }

    /// Reads the newest cell of each column in `columns` that GC rules do not hide.
    fn read_latest(
        &self,
        table: &Table,
        tree: TreeId,
        row: &[u8],
        columns: &mut BTreeMap<(FamilyId, Bytes), Latest>,
    ) -> Result<()> {
        let wanted = columns.keys().map(|(family, name)| QualifierRange::column(*family, name));
        let request = ScanRequest {
            columns: Columns::ranges(wanted.collect()),
            versions_max: Some(1),
            ..ScanRequest::rows(RowRange::single(row))
        };
        let now_micros = self.clock.now_micros();
        let mut scan = self.engine.tree(tree)?.scan(&request, None)?;
        if scan.next_row()?.is_none() {
            return Ok(());
        }
        while let Some(cell) = scan.next_cell()? {
            let Some(family) = &table.families[usize::from(cell.family.0)] else { continue };
            let column = (cell.family, Bytes::copy_from_slice(cell.qualifier));
            if !family.gc.elides(0, cell.timestamp, now_micros) {
                columns.insert(column, Some((cell.timestamp, Bytes::copy_from_slice(cell.value))));
            }
        }
        Ok(())
    }
}

/// The outcome of a write to `table`.
fn written(table: &Table, outcome: engine::Result<SequenceNumber>) -> Result<()> {
    match outcome {
        Ok(_) => Ok(()),
        Err(engine::Error::UnknownTree(_)) => Err(Error::no_table(&table.schema.name)),
        Err(error) => Err(error.into()),
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
