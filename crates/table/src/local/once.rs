//! Changes of rows that take effect once, however often a client sends them.
//!
//! 1. The token of a change is a cell of its row, in the family [`TOKENS`], written in the batch that
//!    makes the change: after a crash both are there or none is.
//! 2. A writer looks for a token and then writes it. It holds the row's stripe alone in between.
//! 3. A token counts for [`limits::TOKEN_KEPT_MICROS`] after its change, and compaction removes it then. That is longer
//!    than the age up to which a request is accepted, so that clocks that differ a little do no harm.
//! 4. A deletion of the row deletes its tokens, and with them all that they stand for: a change that is
//!    sent again after it is not counted twice.
//! 5. No read yields a cell of [`TOKENS`], because no table has a family of that id.

use super::admission::Admitted;
use super::read::gone;
use super::replicated::Replicated;
use super::times::Place;
use super::write::{EvaluatedIn, TimesOfRow, ready};
use super::{Core, Local, Table};
use crate::error::{Error, Result};
use crate::limits;
use crate::mutate::{self, Once, OnceRow, RowMutation, RowMutations};
use crate::schema::TOKENS;
use engine::{
    Column, Columns, QualifierRange, ReadyBatch, RowRange, ScanRequest, Timestamp, TreeId,
    WriteBatch,
};
use futures::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Local {
    /// Changes rows as [`crate::Store::mutate_rows_once`] says.
    pub(super) async fn mutate_once(
        &self,
        table: Arc<Table>,
        rows: Vec<OnceRow>,
    ) -> Result<Mutated> {
        let mutations = rows.iter().map(|row| row.change.mutations.len()).sum();
        if mutations > limits::MUTATIONS_MAX {
            limits::check_mutation_count("entries", mutations)?;
        }
        let bytes = rows.iter().map(|row| row.change.batch_bytes()).sum();
        let admitted = Arc::new(table.kept.admission.admit(bytes)?);
        match self.core.replicated() {
            Some(replicated) => {
                Ok(Box::pin(self.once_in_groups(replicated, &table, rows, &admitted)).await)
            }
            None => self.once_on_one_machine(&table, rows, bytes, admitted).await,
        }
    }

    async fn once_on_one_machine(
        &self,
        table: &Arc<Table>,
        rows: Vec<OnceRow>,
        bytes: usize,
        admitted: Arc<Admitted>,
    ) -> Result<Mutated> {
        let trees: BTreeSet<TreeId> =
            rows.iter().map(|row| table.tree_of(&row.change.row)).collect();
        for tree in trees {
            self.core.room(table, tree, bytes).await?;
        }
        let locks = self.locks.exclusive_rows(rows.iter().map(|row| &*row.change.row)).await;
        self.change_once(table, rows, EvaluatedIn(None), Arc::new((locks, admitted))).await
    }

    /// Changes the rows of each tablet by themselves, side by side: a tablet that gives no outcome stops no
    /// row of another one.
    async fn once_in_groups(
        &self,
        replicated: &Replicated,
        table: &Arc<Table>,
        rows: Vec<OnceRow>,
        admitted: &Arc<Admitted>,
    ) -> Mutated {
        let mut results = vec![Ok(()); rows.len()];
        let mut of_tree = BTreeMap::<TreeId, (Vec<usize>, Vec<OnceRow>)>::new();
        for (at, row) in rows.into_iter().enumerate() {
            let (places, rows) = of_tree.entry(table.tree_of(&row.change.row)).or_default();
            places.push(at);
            rows.push(row);
        }
        let parts = of_tree.into_iter().map(|(tree, (places, rows))| async move {
            let part = self.once_in_group(replicated, table, tree, rows, Arc::clone(admitted));
            (places, part.await)
        });
        let mut repeated = Vec::new();
        for (places, outcome) in join_all(parts).await {
            match outcome {
                Ok(part) => {
                    repeated.extend(part.repeated.iter().map(|at| places[*at]));
                    let outcomes = places.iter().zip(part.results);
                    outcomes.for_each(|(at, outcome)| results[*at] = outcome);
                }
                Err(error) => places.iter().for_each(|at| results[*at] = Err(error.clone())),
            }
        }
        Mutated { results, repeated }
    }

    /// Changes rows of one tablet.
    async fn once_in_group(
        &self,
        replicated: &Replicated,
        table: &Arc<Table>,
        tree: TreeId,
        rows: Vec<OnceRow>,
        admitted: Arc<Admitted>,
    ) -> Result<Mutated> {
        let bytes = rows.iter().map(|row| row.change.batch_bytes()).sum();
        self.core.room(table, tree, bytes).await?;
        let keys = rows.iter().map(|row| &*row.change.row);
        let locks = replicated.exclusive_rows(tree, keys).await?;
        let term = replicated.term(tree).await?;
        self.change_once(table, rows, EvaluatedIn(Some(term)), Arc::new((locks, admitted))).await
    }

    /// Changes rows whose stripes `kept` holds; in a cluster they are of one tablet.
    async fn change_once<K: Send + Sync + 'static>(
        &self,
        table: &Arc<Table>,
        rows: Vec<OnceRow>,
        evaluated: EvaluatedIn,
        kept: Arc<K>,
    ) -> Result<Mutated> {
        let (core, of_rows) = (Arc::clone(&self.core), Arc::clone(table));
        let fresh = self.writes.run(move || Ok(core.fresh(&of_rows, &rows))).await?;
        let Fresh { mut results, groups, applied, repeated } = fresh;
        for (tree, batch, group) in groups {
            let kept = Arc::clone(&kept);
            let outcome =
                self.core.commit(table, tree, batch, &group.places, evaluated, kept).await;
            if let Err(error) = outcome {
                group.inside.iter().for_each(|at| results[*at] = Err(error.clone()));
            }
        }
        for (at, first) in &repeated {
            results[*at] = results[*first].clone();
        }
        let repeated = repeated.into_iter().map(|(at, _)| at).chain(applied).collect();
        Ok(Mutated { results, repeated })
    }
}

/// Changes of a request that was carried out.
pub(super) struct Mutated {
    pub(super) results: Vec<Result<()>>,
    /// Places of the changes that were applied before, or come again in the request. They write nothing.
    pub(super) repeated: Vec<usize>,
}

/// The changes of a request that were not applied before.
struct Fresh {
    results: Vec<Result<()>>,
    /// The changes to be written with their tokens.
    groups: Vec<(TreeId, ReadyBatch, Group)>,
    /// Changes that were applied before.
    applied: Vec<usize>,
    /// Changes that come again in the request, each with the place of the first.
    repeated: Vec<(usize, usize)>,
}

/// Returns whether a change needs its token: only counting twice does harm.
fn counts(change: &RowMutations) -> bool {
    let counts = |mutation: &RowMutation| {
        matches!(mutation, RowMutation::AddToCell { .. } | RowMutation::MergeToCell { .. })
    };
    change.mutations.iter().any(counts)
}

impl Core {
    /// Looks which changes were applied before, and encodes the others. The caller holds the stripes of
    /// the rows. Blocks.
    fn fresh(&self, table: &Table, rows: &[OnceRow]) -> Fresh {
        let now = self.times.now();
        let mut results = vec![Ok(()); rows.len()];
        let mut first: BTreeMap<(&[u8], &[u8]), usize> = BTreeMap::new();
        let (mut fresh, mut applied, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        for (at, row) in rows.iter().enumerate() {
            let Some(once) = row.once.as_ref().filter(|_| counts(&row.change)) else {
                fresh.push(at);
                continue;
            };
            if let Some(first) = first.get(&(&row.change.row[..], &once.token[..])) {
                repeated.push((at, *first));
                continue;
            }
            match self.is_applied(table, &row.change.row, once, now) {
                Ok(true) => applied.push(at),
                Ok(false) => fresh.push(at),
                Err(error) => results[at] = Err(error),
            }
            first.insert((&row.change.row, &once.token), at);
        }
        let groups = self.encode_fresh(table, rows, &fresh, now, &mut results);
        Fresh { results, groups, applied, repeated }
    }

    /// Returns whether the change of `once` is in `row`; refuses one that is so old that its token may be
    /// gone.
    fn is_applied(&self, table: &Table, row: &[u8], once: &Once, now: Timestamp) -> Result<bool> {
        once.check()?;
        let oldest = now.0.saturating_sub(limits::IDEMPOTENCY_MICROS);
        if once.start_micros.is_some_and(|start| start < oldest) {
            return Err(Error::FailedPrecondition(
                "idempotency.start_time is more than 15 minutes ago: whether the change was applied is \
                 no longer known"
                    .into(),
            ));
        }
        limits::check_row_key("row_key", row)?;
        let column = QualifierRange::column(TOKENS, &once.token);
        let request = ScanRequest {
            columns: Columns::ranges(vec![column]),
            versions_max: Some(1),
            ..ScanRequest::rows(RowRange::single(row))
        };
        let tree = self.engine.tree(table.tree_of(row));
        let mut scan =
            tree.and_then(|tree| tree.scan(&request, None)).map_err(|error| gone(error, table))?;
        if scan.next_row()?.is_none() {
            return Ok(false);
        }
        let token = scan.next_cell()?;
        Ok(token.is_some_and(|token| {
            token.timestamp.0 >= now.0.saturating_sub(limits::TOKEN_KEPT_MICROS)
        }))
    }

    /// Encodes the changes at `fresh` with their tokens. The changes of one tablet share batches.
    fn encode_fresh(
        &self,
        table: &Table,
        rows: &[OnceRow],
        fresh: &[usize],
        now: Timestamp,
        results: &mut [Result<()>],
    ) -> Vec<(TreeId, ReadyBatch, Group)> {
        let mut order = fresh.to_vec();
        let tree = |at: &usize| table.tree_of(&rows[*at].change.row);
        // Stable: changes of one row keep their order.
        order.sort_by_key(tree);
        let mut groups = Vec::new();
        for entries in order.chunk_by(|a, b| tree(a) == tree(b)) {
            let mut group = Group::default();
            for at in entries {
                if let Err(error) = group.add(table, *at, &rows[*at], now) {
                    results[*at] = Err(error);
                }
                if group.batch.encoded_len() >= self.shape.write_batch_bytes
                    || group.places.len() >= self.shape.timed_rows_max
                {
                    groups.extend(std::mem::take(&mut group).end(tree(at), results));
                }
            }
            groups.extend(group.end(tree(&entries[0]), results));
        }
        groups
    }
}

/// Changes of one tablet that are committed together.
#[derive(Default)]
struct Group {
    batch: WriteBatch,
    /// The changes in the batch, by their place in the request.
    inside: Vec<usize>,
    places: Vec<TimesOfRow>,
}

impl Group {
    /// Gives its batch, of `tree`, unless there is nothing in it.
    fn end(
        mut self,
        tree: TreeId,
        results: &mut [Result<()>],
    ) -> Option<(TreeId, ReadyBatch, Self)> {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return None;
        }
        match ready(batch) {
            Ok(batch) => Some((tree, batch, self)),
            Err(error) => {
                self.inside.iter().for_each(|at| results[*at] = Err(error.clone()));
                None
            }
        }
    }

    /// Adds a change and its token, or nothing.
    fn add(&mut self, table: &Table, at: usize, row: &OnceRow, now: Timestamp) -> Result<()> {
        let OnceRow { change, once } = row;
        let open = self.batch.open_times();
        mutate::append(&mut self.batch, &table.schema, &change.row, &change.mutations)?;
        if let Some(once) = once.as_ref().filter(|_| counts(change)) {
            self.batch.put(&change.row, Column::of(TOKENS, &once.token), now, b"");
        }
        self.inside.push(at);
        self.places.push((Place::of(&change.row), open..self.batch.open_times()));
        Ok(())
    }
}
