//! [`Store`] over one engine: the tables of one machine, or the tables of a cluster as one of its nodes
//! serves them ([`replicated`]).
//!
//! 1. A table is immutable once opened; a schema change publishes another one. A request works
//!    with the table it began with.
//! 2. Blocking engine calls run on tokio's blocking threads, a bounded number at a time, reads
//!    and others apart. A read holds a thread for one step of bounded work ([`read::places`]), never while
//!    its client takes its time ([`read::task`]). Reads of named rows run in their task as far as they
//!    can ([`read`]).
//! 3. A write waits in its task, for room in its tree, for its rows and for its commit ([`write`]), and
//!    holds no thread and no place meanwhile. What waits is bounded for each table ([`admission`]): a
//!    table that stands still stops no other.
//! 4. Locks in order: row stripes ([`locks`]), then a place among the blocking calls, then the
//!    stripes of the server's times ([`times`]), under which a write only takes its place in the
//!    order of commits. Schema changes have a lock of their own, held by a blocking call that takes
//!    no other.

mod admission;
pub mod adopt;
mod changes;
pub mod check;
mod entries;
mod kept;
mod load;
mod locks;
mod meta;
mod metered;
mod once;
mod opening;
mod owned;
mod pool;
mod read;
mod replicated;
mod samples;
mod table;
mod tables;
#[cfg(test)]
mod tests;
mod times;
mod write;

pub use load::{LoadedRows, TableLoad};
pub use meta::{Intent, MetaChange, MetaStore};
pub use owned::TreeOwnership;
pub use read::task::READ_IDLE_MAX;
pub use replicated::Replication;
pub use samples::{TabletSamples, join_samples};

use crate::error::{Error, Result};
use crate::filter::RowFilter;
use crate::filter::compile::{self, Plan};
use crate::identity::TableIdentity;
use crate::limits;
use crate::meter::{Heat, Operation, StoreMeter, Timed, Volume};
use crate::mutate::{self, CheckAndMutate, OnceRow, ReadModifyWriteRule, RowMutations};
use crate::row::{Row, RowStream};
use crate::row_output::RowOutput;
use crate::schema::{CreateTable, FamilyChange, SQL_PREFIX, TableName, TableSchema, TableUpdate};
use crate::shape::Shape;
use crate::shelf::ShelfMap;
use crate::store::{DropRows, HasRoom, ReadRows, RowKeySample, Store};
use async_trait::async_trait;
use base::env::Clock;
use bytes::Bytes;
use engine::{Engine, RowRange, StoreId};
use kept::records::RecordMap;
use locks::RowLocks;
use metered::tree_of_entries;
use once::Mutated;
use parking_lot::{Mutex, RwLock};
use pool::Pool;
use read::Reader;
use read::places::ReadPlaces;
use read::task::{self, StreamLimits};
use replicated::Tablets;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use table::Table;
use tables::AfterDelete;
use times::RowTimes;
use tokio::runtime::Handle;

/// The version of every schema on a server that is no node of a cluster. There they are above it.
const ALONE: u64 = 0;

/// The tables of one engine. Cheap to clone.
#[derive(Clone)]
pub struct Local {
    core: Arc<Core>,
    locks: Arc<RowLocks>,
    /// Compilations of filters with large patterns.
    filters: Pool,
    reads: ReadPlaces,
    /// Places of schema changes, and of what writes cannot do in their tasks. No call waits for room in
    /// a table.
    writes: Pool,
    /// Of loads, while they wait for I/O: no write waits for a place that one of them has.
    loads: Pool,
    /// Places for reads of change streams.
    changes: Pool,
    /// Time after which a read ends whose client takes nothing.
    read_idle_max: Duration,
}

/// State that blocking calls work with.
struct Core {
    engine: Engine,
    meta: Arc<dyn MetaStore>,
    tablets: Tablets,
    clock: Arc<dyn Clock>,
    times: RowTimes,
    tables: RwLock<BTreeMap<TableName, Arc<Table>>>,
    /// Counts the changes of `tables`; raised under its lock, read without it.
    tables_version: AtomicU64,
    /// Records of the front, all of them.
    records: RwLock<RecordMap>,
    /// Tables that are out of service.
    shelf: RwLock<ShelfMap>,
    /// Microseconds for which deleted tables can come back. Guards nothing else.
    deleted_for: AtomicI64,
    /// Held while the schema changes.
    schema_change: Mutex<()>,
    /// When it was opened, if acknowledged writes may be lost with the machine's power.
    opened_micros: Option<i64>,
    /// True once change streams are to end.
    streams_end: tokio::sync::watch::Sender<bool>,
    /// Makes the row samples of two requests differ. Not synchronised with anything.
    requests: AtomicU64,
    meter: Arc<StoreMeter>,
    heat: Arc<Heat>,
    shape: Shape,
}

impl Local {
    /// The same tables, with another time after which a read ends whose client takes nothing: it keeps
    /// SSTables that were replaced.
    pub fn with_read_idle_max(self, read_idle_max: Duration) -> Self {
        Self { read_idle_max, ..self }
    }

    /// The same tables, whose scans and compilations of filters run on the blocking threads of `runtime`.
    /// A server gives these threads a lower priority than its other ones. The runtime must outlive the store's calls.
    pub fn with_scan_threads(self, runtime: &Handle) -> Self {
        let filters = self.filters.on_threads_of(runtime);
        Self { filters, reads: self.reads.on_threads_of(runtime), ..self }
    }

    /// Returns a table. A node of a cluster looks it up in the directory where it does not know it.
    async fn table(&self, name: &TableName) -> Result<Arc<Table>> {
        match self.core.table(name) {
            Err(Error::NotFound { .. }) if self.core.replicated().is_some() => {
                Box::pin(self.look_up(name)).await
            }
            found => found,
        }
    }

    /// Runs a schema change on a blocking thread.
    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Core) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let core = Arc::clone(&self.core);
        self.writes.run(move || change(&core)).await
    }
}

impl Core {
    fn table(&self, name: &TableName) -> Result<Arc<Table>> {
        self.tables.read().get(name).cloned().ok_or_else(|| Error::no_table(name))
    }

    /// Returns the store that the identities of its tables name: on all nodes of a cluster the same.
    fn store_id(&self) -> Result<StoreId> {
        match &self.tablets {
            Tablets::Engine => Ok(self.engine.store_id()?),
            Tablets::Groups(replicated) => Ok(StoreId(replicated.cluster.0)),
        }
    }

    fn seed(&self) -> u64 {
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        base::checksum::xxh3(&(self.clock.now_micros() as u64 ^ request << 48).to_le_bytes())
    }
}

#[async_trait]
impl Store for Local {
    fn now_micros(&self) -> i64 {
        self.core.clock.now_micros()
    }

    async fn create_table(&self, table: CreateTable) -> Result<Arc<TableSchema>> {
        if self.core.replicated().is_some() {
            return self.create_in_groups(table).await;
        }
        self.change(move |core| core.create_table(table)).await
    }

    async fn get_table(&self, table: &TableName) -> Result<Arc<TableSchema>> {
        Ok(Arc::clone(&self.table(table).await?.schema))
    }

    async fn list_tables(&self, prefix: &str) -> Result<Vec<Arc<TableSchema>>> {
        let tables = self.core.tables.read();
        let is_listed = |name: &str| name.starts_with(prefix) && !name.starts_with(SQL_PREFIX);
        let named = tables.values().filter(|table| is_listed(table.schema.name.as_str()));
        Ok(named.map(|table| Arc::clone(&table.schema)).collect())
    }

    async fn identity(&self, table: &TableName) -> Result<TableIdentity> {
        let table = self.table(table).await?;
        let core = Arc::clone(&self.core);
        let identity =
            move || Ok(TableIdentity::new(&table.schema, core.store_id()?, core.opened_micros));
        self.writes.run(identity).await
    }

    async fn sync(&self) -> Result<()> {
        if self.core.replicated().is_some() {
            return Ok(()); // Acknowledged writes are on the disks of a quorum.
        }
        let core = Arc::clone(&self.core);
        self.writes.run(move || Ok(core.engine.sync()?)).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        if self.core.replicated().is_some() {
            return self.delete_in_groups(table).await;
        }
        let table = table.clone();
        self.change(move |core| core.delete_table(&table, AfterDelete::MayComeBack)).await
    }

    async fn update_table(
        &self,
        table: &TableName,
        update: TableUpdate,
    ) -> Result<Arc<TableSchema>> {
        if self.core.replicated().is_some() {
            return self.update_in_groups(table, update).await;
        }
        let table = table.clone();
        self.change(move |core| core.update_table(&table, update)).await
    }

    async fn modify_families(
        &self,
        table: &TableName,
        changes: Vec<FamilyChange>,
    ) -> Result<Arc<TableSchema>> {
        if self.core.replicated().is_some() {
            return self.modify_families_in_groups(table, changes).await;
        }
        let table = table.clone();
        self.change(move |core| core.modify_families(&table, changes)).await
    }

    async fn drop_rows(&self, table: &TableName, rows: DropRows) -> Result<()> {
        let table = self.table(table).await?;
        let tree = table.tree_of_all(&[RowRange::prefix(rows.prefix())]);
        let timed = self.core.time(&table, Operation::DropRows, tree, (rows.prefix(), 1));
        let dropped = self.write_dropped_rows(&table, &rows, |_| true).await;
        timed.end(&dropped, |()| Volume::default());
        dropped
    }

    async fn mutate_row(&self, table: &TableName, row: RowMutations) -> Result<()> {
        let table = self.table(table).await?;
        let tree = table.tree_of(&row.row);
        let timed = self.core.time(&table, Operation::MutateRow, Some(tree), (&row.row, 1));
        let volume = Volume::written(row.batch_bytes());
        self.core.writes(&table, tree, &row.row);
        let written = self.write_row(table, row).await;
        timed.end(&written, |()| volume);
        written
    }

    async fn mutate_rows(
        &self,
        table: &TableName,
        rows: Vec<RowMutations>,
    ) -> Result<Vec<Result<()>>> {
        let table = self.table(table).await?;
        let mutations = rows.iter().map(|row| row.mutations.len()).sum();
        if mutations > limits::MUTATIONS_MAX {
            limits::check_mutation_count("entries", mutations)?;
        }
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let first = (rows.first().map_or(&[][..], |row| &row.row), rows.len());
        let mut timed = self.core.time(&table, Operation::MutateRows, None, first);
        let entries = self.core.writes_all(&table, rows.iter());
        timed.find_tablet(tree_of_entries(&entries));
        let written = self.write_rows(table, rows).await;
        timed.end_entries(&written, &entries);
        written
    }

    async fn mutate_rows_once(
        &self,
        table: &TableName,
        rows: Vec<OnceRow>,
    ) -> Result<Vec<Result<()>>> {
        let table = self.table(table).await?;
        let first = (rows.first().map_or(&[][..], |row| &row.change.row), rows.len());
        let mut timed = self.core.time(&table, Operation::MutateRows, None, first);
        let mut entries = self.core.writes_all(&table, rows.iter().map(|row| &row.change));
        timed.find_tablet(tree_of_entries(&entries));
        let mutated = self.mutate_once(table, rows).await.map(|Mutated { results, repeated }| {
            repeated.into_iter().for_each(|at| entries[at].bytes = None);
            results
        });
        timed.end_entries(&mutated, &entries);
        mutated
    }

    fn waiting_part(&self, table: &TableName) -> f64 {
        self.core.table(table).map_or(0.0, |table| table.kept.admission.waiting_part())
    }

    async fn check_and_mutate_row(
        &self,
        table: &TableName,
        request: CheckAndMutate,
    ) -> Result<bool> {
        let table = self.table(table).await?;
        let tree = table.tree_of(&request.row);
        let of = (&request.row[..], 1);
        let timed = self.core.time(&table, Operation::CheckAndMutateRow, Some(tree), of);
        let volumes = [&request.on_false, &request.on_true].map(|mutations| {
            let bytes = mutate::batch_bytes(&request.row, mutations);
            if mutations.is_empty() { Volume::default() } else { Volume::written(bytes) }
        });
        self.core.writes(&table, tree, &request.row);
        let checked = self.check_and_mutate(table, request).await;
        timed.end(&checked, |holds| volumes[usize::from(*holds)]);
        checked
    }

    async fn read_modify_write_with_room(
        &self,
        table: &TableName,
        row: Bytes,
        rules: Vec<ReadModifyWriteRule>,
        has_room: &HasRoom<'_>,
    ) -> Result<Row> {
        let table = self.table(table).await?;
        let tree = table.tree_of(&row);
        let timed = self.core.time(&table, Operation::ReadModifyWriteRow, Some(tree), (&row, 1));
        self.core.writes(&table, tree, &row);
        let written = self.read_modify_write(table, row, rules, has_room).await;
        timed.end(&written, |row| Volume::written(mutate::cells_bytes(&row.key, &row.cells)));
        written
    }

    #[expect(clippy::manual_async_fn, reason = "`async_trait` would box the future")]
    fn read_rows<S: RowOutput>(
        &self,
        table: &TableName,
        request: ReadRows,
        output: S,
    ) -> impl Future<Output = Result<RowStream<S::Batch>>> + Send {
        async move {
            let table = self.table(table).await?;
            let first = request.rows.first();
            let mut timed = self.core.time(&table, Operation::ReadRows, None, first);
            let begun = self.begin_read(table, request, output, &mut timed).await;
            match begun {
                Ok(stream) => Ok(stream.timed(timed)),
                Err(error) => {
                    timed.end(&Err::<(), _>(error.clone()), |()| Volume::default());
                    Err(error)
                }
            }
        }
    }

    async fn sample_row_keys(&self, table: &TableName) -> Result<Vec<RowKeySample>> {
        let table = self.table(table).await?;
        let core = Arc::clone(&self.core);
        let tree = table.tree_of_all(&[RowRange::ALL]);
        let timed = self.core.time(&table, Operation::SampleRowKeys, tree, (&[], 0));
        let samples = self.reads.run(move || core.sample_row_keys(&table)).await;
        timed.end(&samples, |_| Volume::default());
        samples
    }
}

impl Local {
    /// Makes the first step of a read. Tells `timed` its tablet.
    async fn begin_read<S: RowOutput>(
        &self,
        table: Arc<Table>,
        request: ReadRows,
        output: S,
        timed: &mut Timed,
    ) -> Result<RowStream<S::Batch>> {
        let (request, plan) =
            self.compile(&table, request, |request| request.filter.as_ref()).await?;
        let plan = Arc::new(plan?);
        let ranges = request.rows.normalize()?;
        let by_tablet = timed.find_tablet(table.tree_of_all(&ranges));
        let by_tablet = by_tablet.then(|| Arc::clone(&table.kept.meter));
        let (direction, limit) = (request.direction, request.rows_limit);
        if let Some(replicated) = self.core.replicated() {
            Box::pin(replicated.readable(&self.core, &table, &plan, &ranges)).await?;
        }
        let mut reader = Reader::new(&self.core, table, plan, &ranges, direction, limit);
        reader.count_uses(&self.core.heat, by_tablet);
        let begun = self.reads.fill(reader, output).await?;
        let (batches_ahead, idle_max) = (self.core.shape.batches_ahead, self.read_idle_max);
        Ok(task::stream(&self.reads, StreamLimits { batches_ahead, idle_max }, begun))
    }

    async fn check_and_mutate(&self, table: Arc<Table>, request: CheckAndMutate) -> Result<bool> {
        let (request, plan) =
            self.compile(&table, request, |request| request.predicate.as_ref()).await?;
        let plan = Arc::new(plan.map_err(|error| error.within("predicate"))?);
        self.check_and_write(table, plan, request).await
    }

    /// Compiles the filter that `filter_of` finds in a request: in this task if that takes
    /// microseconds, else on a blocking thread. Returns the request with the plan.
    async fn compile<R: Send + 'static>(
        &self,
        table: &Arc<Table>,
        request: R,
        filter_of: fn(&R) -> Option<&RowFilter>,
    ) -> Result<(R, Result<Plan>)> {
        let shape = &self.core.shape;
        let filter = filter_of(&request);
        if filter.is_none_or(compile::is_light) {
            let plan = Plan::compile(filter, &table.schema, shape);
            return Ok((request, plan));
        }
        let (table, shape) = (Arc::clone(table), *shape);
        let compile = move || {
            let plan = Plan::compile(filter_of(&request), &table.schema, &shape);
            Ok((request, plan))
        };
        self.filters.run(compile).await
    }
}
