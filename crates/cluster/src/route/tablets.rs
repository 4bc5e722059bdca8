//! Calls for whole tablets: rows to drop, and samples of keys.

use super::search::Place;
use super::{Routed, Subject, unexpected};
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeSet;
use table::local::{TabletSamples, join_samples};
use table::wire::{Answer, Call};
use table::{DropRows, Error, Result, RowKeySample, RowRange, Store, TableName, TreeId};

/// Tablets of one call that are asked at the same time.
const AT_ONCE: usize = 16;

impl Routed {
    pub(super) async fn drop_rows_at_leaders(
        &self,
        table: &TableName,
        rows: &DropRows,
    ) -> Result<()> {
        let range = match rows {
            DropRows::All => RowRange::ALL,
            DropRows::Prefix(prefix) => RowRange::prefix(prefix),
        };
        let schema = self.local.get_table(table).await?;
        let trees = super::parts::by_tablet(&schema, &[range]);
        let is_one = trees.len() == 1;
        let dropped = trees.into_iter().map(|(tree, _)| self.drop_in(table, rows, tree));
        let dropped = stream::iter(dropped).buffer_unordered(AT_ONCE).try_collect().await;
        dropped.map_err(|error| match error {
            // The rows of other tablets may be gone.
            Error::NotLeader { .. } | Error::Busy(_) if !is_one => Error::Unavailable(format!(
                "some of the rows may not be dropped ({error}); send the request again"
            )),
            error => error,
        })
    }

    async fn drop_in(&self, table: &TableName, rows: &DropRows, tree: TreeId) -> Result<()> {
        let drop_rows = |place| async move {
            let Place::Node(node) = place else {
                let trees = BTreeSet::from([tree]);
                return Ok(self.local.drop_rows_of(table, rows, &trees).await?);
            };
            let (table, rows) = (table.clone(), rows.clone());
            match self.ask(node, &Call::DropRows { table, rows, trees: vec![tree] }).await? {
                Answer::Done => Ok(()),
                _ => Err(unexpected(node)),
            }
        };
        self.at_leader(Subject::Tablet(table, tree), drop_rows).await
    }

    pub(super) async fn sample_replicas(&self, table: &TableName) -> Result<Vec<RowKeySample>> {
        let schema = self.local.get_table(table).await?;
        let trees: Vec<_> = schema.tablets.iter().map(|tablet| tablet.tree).collect();
        let sampled = trees.into_iter().map(|tree| self.sample(table, tree));
        let samples: Vec<Vec<TabletSamples>> =
            stream::iter(sampled).buffered(AT_ONCE).try_collect().await?;
        Ok(join_samples(&schema, samples.into_iter().flatten().collect()))
    }

    /// Samples a tablet at its leader, whose replica is the newest.
    async fn sample(&self, table: &TableName, tree: TreeId) -> Result<Vec<TabletSamples>> {
        let sample = |place| async move {
            let Place::Node(node) = place else {
                return Ok(self.local.sample_tablets(table, BTreeSet::from([tree])).await?);
            };
            let call = Call::SampleTablets { table: table.clone(), trees: vec![tree] };
            match self.ask(node, &call).await? {
                Answer::Samples(samples) => Ok(samples),
                _ => Err(unexpected(node)),
            }
        };
        self.at_leader(Subject::Tablet(table, tree), sample).await
    }
}
