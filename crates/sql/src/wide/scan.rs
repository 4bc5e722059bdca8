//! A read of the store as a step of a plan.
//!
//! 1. The read begins when the stream is first polled, and ends when the stream is dropped, or when it has
//!    as many rows as the plan wants.
//! 2. The rows of a batch are counted in the memory of queries while they are turned into columns.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
    ReplaceChildrenOptions,
};
use engine::perf_context;
use futures::stream;
use relational::{Error, SqlState};
use table::{RowStream, TableName};

use super::BigtableReads;
use super::request::Spec;
use super::rows::{Found, WideRows};
use crate::query::{Run, batch_of, external};

/// Returns whether a plan reads a Bigtable table.
pub(crate) fn is_read_by(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.name() == NAME || plan.children().into_iter().any(is_read_by)
}

/// Name of the step in plans.
const NAME: &str = "BigtableScan";

/// A read of a Bigtable table.
#[derive(Clone)]
pub(super) struct WideScanExec {
    reads: Arc<dyn BigtableReads>,
    spec: Spec,
    run: Run,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl WideScanExec {
    /// Returns a scan that yields rows of `schema` in an order.
    pub(super) fn new(
        reads: Arc<dyn BigtableReads>,
        spec: Spec,
        run: Run,
        schema: SchemaRef,
        order: Option<LexOrdering>,
    ) -> Self {
        let order = EquivalenceProperties::new_with_orderings(Arc::clone(&schema), order);
        let properties = PlanProperties::new(
            order,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Self { reads, spec, run, schema, properties: Arc::new(properties), metrics }
    }
}

impl fmt::Debug for WideScanExec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "BigtableScan: {}", self.spec.describe())
    }
}

impl DisplayAs for WideScanExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "BigtableScan: {}", self.spec.describe())
    }
}

impl ExecutionPlan for WideScanExec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a scan has no children") }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a scan has no children") }
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let counter =
            |name: &'static str| MetricBuilder::new(&self.metrics).counter(name, partition);
        let reading = Reading {
            reads: Arc::clone(&self.reads),
            spec: self.spec.clone(),
            run: self.run.clone(),
            schema: Arc::clone(&self.schema),
            rows: None,
            left: self.spec.limit.unwrap_or(usize::MAX),
            memory: MemoryConsumer::new("Bigtable scan").register(task.memory_pool()),
            baseline: BaselineMetrics::new(&self.metrics, partition),
            seen: (counter("rows_seen"), counter("cells_seen")),
            told: (0, 0),
        };
        let batches = stream::try_unfold(reading, |mut reading| async move {
            let mut counts = reading.run.counts.clone();
            let next = perf_context::within(&mut counts, || perf_context::carried(reading.next()));
            let next = next.await.map_err(external)?;
            Ok(next.map(|batch| (batch, reading)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn fetch(&self) -> Option<usize> {
        self.spec.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut scan = self.clone();
        scan.spec.limit = limit;
        Some(Arc::new(scan))
    }
}

/// A scan that is at work.
struct Reading {
    reads: Arc<dyn BigtableReads>,
    spec: Spec,
    run: Run,
    schema: SchemaRef,
    rows: Option<RowStream<Found>>,
    /// Rows that are still wanted.
    left: usize,
    memory: MemoryReservation,
    baseline: BaselineMetrics,
    /// Rows and cells that the read met, for people.
    seen: (Count, Count),
    told: (u64, u64),
}

impl Reading {
    /// Returns the next rows as columns; nothing at the end.
    async fn next(&mut self) -> relational::Result<Option<RecordBatch>> {
        if self.left == 0 {
            return Ok(None);
        }
        if self.rows.is_none() && !self.begin().await? {
            self.left = 0;
            return Ok(None);
        }
        loop {
            self.run.cancel.check()?;
            let Some(rows) = &mut self.rows else { return Ok(None) };
            let Some(batch) = rows.next_batch().await else {
                self.left = 0;
                return Ok(None);
            };
            let batch = batch.map_err(|error| read_failed(&self.spec, error))?;
            self.count(batch.stats);
            let Found { mut rows, bytes, error } = batch.rows;
            rows.truncate(self.left);
            if rows.is_empty() {
                match error {
                    Some(error) => return Err(error),
                    None => continue,
                }
            }
            if let Some(error) = error
                && rows.len() < self.left
            {
                return Err(error);
            }
            self.left -= rows.len();
            self.baseline.record_output(rows.len());
            return self.columns(rows, bytes).map(Some);
        }
    }

    /// Begins the read; returns false if there is nothing to read.
    async fn begin(&mut self) -> relational::Result<bool> {
        let name = TableName::new(self.spec.wide.table.as_str());
        let name = name.map_err(|error| read_failed(&self.spec, error))?;
        let schema = self.reads.schema(&name).await;
        let schema = schema.map_err(|error| read_failed(&self.spec, error))?;
        let Some(request) = self.spec.request(&schema)? else { return Ok(false) };
        let output = WideRows::new(&self.spec, Arc::clone(&self.run.evaluation.settings));
        let rows = self.reads.read(&name, request, output).await;
        self.rows = Some(rows.map_err(|error| read_failed(&self.spec, error))?);
        Ok(true)
    }

    /// Adds to the counts what a read met since it was last asked.
    fn count(&mut self, stats: table::ReadStats) {
        self.seen.0.add(stats.rows_seen.saturating_sub(self.told.0) as usize);
        self.seen.1.add(stats.cells_seen.saturating_sub(self.told.1) as usize);
        self.told = (stats.rows_seen, stats.cells_seen);
    }

    fn columns(
        &mut self,
        rows: Vec<relational::Row>,
        bytes: usize,
    ) -> relational::Result<RecordBatch> {
        self.memory.try_resize(bytes).map_err(crate::query::from_datafusion)?;
        let wanted = &self.spec.columns.wanted;
        let types = wanted.iter().map(|place| self.spec.wide.columns[*place].data_type.clone());
        let types: Vec<_> = types.collect();
        let batch = batch_of(&rows, &types, &self.schema).map_err(crate::query::from_datafusion);
        self.memory.free();
        batch
    }
}

/// Returns the error of a read that failed.
fn read_failed(spec: &Spec, error: table::Error) -> Error {
    let table = &spec.wide.table;
    match error {
        table::Error::NotFound { what: "table", .. } => {
            let message = format!("Bigtable table \"{table}\" does not exist");
            Error::new(SqlState::UNDEFINED_TABLE, message)
        }
        table::Error::Unavailable(_) | table::Error::NotLeader { .. } | table::Error::Busy(_) => {
            Error::new(SqlState::CANNOT_CONNECT_NOW, format!("Bigtable table \"{table}\": {error}"))
        }
        error => error.into(),
    }
}
