//! Changes of rows, at the leaders of their tablets.

use super::search::{Failure, Place, Search};
use super::{Routed, Subject, unexpected, wait};
use crate::group::NodeId;
use bytes::Bytes;
use futures::future::join_all;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use table::limits;
use table::mutate::Modify;
use table::wire::{Answer, Call};
use table::{
    CheckAndMutate, Error, HasRoom, OnceRow, ReadModifyWriteRule, Result, Row, RowMutations, Store,
    TableName, TreeId,
};

/// The outcome of some entries of a request, each for itself or all for one reason.
type Outcome = Result<Vec<Result<()>>, Failure>;

impl Routed {
    pub(super) async fn mutate_at_leader(
        &self,
        table: &TableName,
        row: RowMutations,
    ) -> Result<()> {
        let change = |place| {
            let row = &row;
            async move {
                let Place::Node(node) = place else {
                    return Ok(self.local.mutate_row(table, row.clone()).await?);
                };
                let change = OnceRow { change: row.clone(), once: None };
                let call = Call::MutateRows(table.clone(), vec![change]);
                match self.ask(node, &call).await? {
                    Answer::Results(results) if results.len() == 1 => {
                        Ok(results.into_iter().collect::<Result<()>>()?)
                    }
                    _ => Err(unexpected(node)),
                }
            }
        };
        self.at_leader(Subject::Row(table, &row.row), change).await
    }

    pub(super) async fn check_at_leader(
        &self,
        table: &TableName,
        request: CheckAndMutate,
    ) -> Result<bool> {
        let check = |place| {
            let request = &request;
            async move {
                let Place::Node(node) = place else {
                    return Ok(self.local.check_and_mutate_row(table, request.clone()).await?);
                };
                let call = Call::CheckAndMutate(table.clone(), request.clone());
                match self.ask(node, &call).await? {
                    Answer::Checked(holds) => Ok(holds),
                    _ => Err(unexpected(node)),
                }
            }
        };
        self.at_leader(Subject::Row(table, &request.row), check).await
    }

    pub(super) async fn modify_at_leader(
        &self,
        table: &TableName,
        row: Bytes,
        rules: Vec<ReadModifyWriteRule>,
        has_room: &HasRoom<'_>,
    ) -> Result<Row> {
        let modify = |place| {
            let (row, rules) = (row.clone(), rules.clone());
            async move {
                let Place::Node(node) = place else {
                    let modified =
                        self.local.read_modify_write_with_room(table, row, rules, has_room);
                    return Ok(modified.await?);
                };
                if !has_room(rules.iter().map(value_bytes).sum()) {
                    let text = "there is no room for the answer; try again later";
                    return Err(Failure::Failed(Error::Busy(text.to_owned())));
                }
                let call = Call::ReadModifyWrite { table: table.clone(), row, rules };
                match self.ask(node, &call).await? {
                    Answer::Row(row) => Ok(row),
                    _ => Err(unexpected(node)),
                }
            }
        };
        self.at_leader(Subject::Row(table, &row), modify).await
    }

    /// Changes rows, each on its own. Entries of one leader go there together; only refused entries are
    /// sent again.
    pub(super) async fn mutate_at_leaders(
        &self,
        table: &TableName,
        rows: Vec<OnceRow>,
    ) -> Result<Vec<Result<()>>> {
        let mutations = rows.iter().map(|row| row.change.mutations.len()).sum();
        if mutations > limits::MUTATIONS_MAX {
            limits::check_mutation_count("entries", mutations)?;
        }
        let mut schema = self.local.get_table(table).await?;
        let mut entries = Entries::of(rows);
        let mut is_first = true;
        while !entries.waiting.is_empty() {
            let tree_of = |row: &[u8]| schema.tablets[schema.tablet_of(row)].tree;
            let groups = entries.by_place(tree_of, |tree, search| self.leaders.next(tree, search));
            let is_whole = is_first && groups.len() == 1;
            is_first = false;
            let sent = groups.into_iter().map(|(place, group)| {
                let rows = group.iter().map(|(at, _)| entries.rows[*at].clone()).collect();
                async move { (place, group, self.mutate_at(table, place, rows).await) }
            });
            for (place, group, outcome) in join_all(sent).await {
                match outcome {
                    // The request as a whole was refused.
                    Err(Failure::Failed(error)) if is_whole && is_refusal(&error) => {
                        return Err(error);
                    }
                    outcome => {
                        let done = entries.take(group, outcome);
                        done.into_iter().for_each(|tree| self.leaders.found(tree, place));
                    }
                }
            }
            wait(entries.settle()).await;
            match self.local.get_table(table).await {
                Ok(newer) => schema = newer,
                Err(error) => entries.end(&error),
            }
        }
        Ok(entries.results)
    }

    async fn mutate_at(&self, table: &TableName, place: Place, rows: Vec<OnceRow>) -> Outcome {
        let count = rows.len();
        let Place::Node(node) = place else {
            if rows.iter().any(|row| row.once.is_some()) {
                return Ok(self.local.mutate_rows_once(table, rows).await?);
            }
            let rows = rows.into_iter().map(|row| row.change).collect();
            return Ok(self.local.mutate_rows(table, rows).await?);
        };
        match self.ask(node, &Call::MutateRows(table.clone(), rows)).await? {
            Answer::Results(results) if results.len() == count => Ok(results),
            _ => Err(unexpected(node)),
        }
    }
}

/// Returns whether an error of a request says that no entry was applied. Only one that may come from the
/// way to the node does not.
fn is_refusal(error: &Error) -> bool {
    !matches!(error, Error::Unavailable(_) | Error::Internal(_))
}

/// Bytes that a rule adds to a value.
fn value_bytes(rule: &ReadModifyWriteRule) -> usize {
    match &rule.modify {
        Modify::Append(suffix) => suffix.len(),
        Modify::Increment(_) => size_of::<i64>(),
    }
}

/// Entries of a request with what became of them.
struct Entries {
    rows: Vec<OnceRow>,
    results: Vec<Result<()>>,
    /// Places of the entries without a result.
    waiting: Vec<usize>,
    /// Searches for leaders, by tablet.
    searches: HashMap<TreeId, Search>,
    begun: Search,
    /// Refusals since the last round: the tablet, and the leader that was named.
    refused: HashMap<TreeId, Option<NodeId>>,
}

impl Entries {
    fn of(rows: Vec<OnceRow>) -> Self {
        Self {
            results: vec![Ok(()); rows.len()],
            waiting: (0..rows.len()).collect(),
            rows,
            searches: HashMap::new(),
            begun: Search::begin(),
            refused: HashMap::new(),
        }
    }

    /// Returns the entries that wait, each with its tablet, by the place to which `next` sends the tablet.
    fn by_place(
        &mut self,
        tree_of: impl Fn(&[u8]) -> TreeId,
        next: impl Fn(TreeId, &mut Search) -> Place,
    ) -> BTreeMap<Place, Vec<(usize, TreeId)>> {
        let mut places = HashMap::new();
        let mut groups: BTreeMap<Place, Vec<(usize, TreeId)>> = BTreeMap::new();
        for at in std::mem::take(&mut self.waiting) {
            let tree = tree_of(&self.rows[at].change.row);
            let place = *places.entry(tree).or_insert_with(|| {
                let search = self.searches.entry(tree).or_insert_with(|| self.begun.again());
                next(tree, search)
            });
            groups.entry(place).or_default().push((at, tree));
        }
        groups
    }

    /// Takes the outcome of some entries. Returns the tablets of entries that were carried out.
    fn take(&mut self, group: Vec<(usize, TreeId)>, outcome: Outcome) -> Vec<TreeId> {
        let mut done = Vec::new();
        match outcome {
            Ok(results) => {
                for ((at, tree), result) in group.into_iter().zip(results) {
                    match result {
                        Err(error @ Error::NotLeader { .. }) => self.refuse(at, tree, error),
                        result => {
                            if result.is_ok() && done.last() != Some(&tree) {
                                done.push(tree);
                            }
                            self.results[at] = result;
                        }
                    }
                }
            }
            Err(Failure::Refused { error, .. }) => {
                group.into_iter().for_each(|(at, tree)| self.refuse(at, tree, error.clone()));
            }
            Err(Failure::Failed(error)) => {
                group.into_iter().for_each(|(at, _)| self.results[at] = Err(error.clone()));
            }
        }
        done
    }

    fn refuse(&mut self, at: usize, tree: TreeId, error: Error) {
        let leader = match error {
            Error::NotLeader { leader } => leader.map(NodeId),
            _ => None,
        };
        self.refused.insert(tree, leader);
        self.results[at] = Err(error);
        self.waiting.push(at);
    }

    /// Returns the pause before the entries that wait are sent again. None waits any longer if the
    /// search is over: their results are the last refusals.
    fn settle(&mut self) -> Duration {
        let mut longest = Duration::ZERO;
        for (tree, leader) in self.refused.drain() {
            match self.searches.get_mut(&tree).and_then(|search| search.refused(leader)) {
                Some(pause) => longest = longest.max(pause),
                None => self.waiting.clear(),
            }
        }
        self.waiting.sort_unstable();
        longest
    }

    /// Gives the entries that wait an error.
    fn end(&mut self, error: &Error) {
        for at in self.waiting.drain(..) {
            self.results[at] = Err(error.clone());
        }
    }
}
