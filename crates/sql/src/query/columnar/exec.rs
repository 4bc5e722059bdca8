//! A scan of a columnar table as a step of a plan.
//!
//! 1. The partitions share the segments between them; the last one has the rows that lie in no segment too.
//! 2. A partition reads nothing before it is polled. Then it holds a blocking thread while it reads a batch, and one
//!    batch is read while the query works on the one before.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt, stream};
use tokio::task::{JoinHandle, spawn_blocking};

use super::reader::{Reader, Shared, Step};
use super::segment::Part;

/// Name of the step in plans.
const NAME: &str = "ColumnarScan";

/// A scan of a columnar table.
pub(super) struct ColumnarScanExec {
    shared: Arc<Shared>,
    /// Places of the segments that each partition reads.
    partitions: Vec<Range<usize>>,
    /// The rows that lie in no segment.
    rows: Arc<dyn PartitionStream>,
    /// Rows that the query wants at most, if it wants not all.
    limit: Option<usize>,
    /// The segments that were looked at, with the ones that are not read.
    segments: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ColumnarScanExec {
    /// Returns a scan in at most so many partitions.
    pub(super) fn new(
        shared: Shared,
        rows: Arc<dyn PartitionStream>,
        limit: Option<usize>,
        (segments, partitions): (usize, usize),
    ) -> Self {
        let partitions = shares(shared.parts.len(), partitions);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&shared.schema)),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            shared: Arc::new(shared),
            partitions,
            rows,
            limit,
            segments,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn describe(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, parts, all) = (&self.shared.table, self.shared.parts.len(), self.segments);
        let pages: usize = self.shared.parts.iter().map(Part::pages).sum();
        write!(out, "{NAME}: {table}, segments {parts} of {all}, pages {pages}")?;
        match self.limit {
            Some(limit) => write!(out, ", fetch={limit}"),
            None => Ok(()),
        }
    }
}

/// Returns the places of the parts that each partition reads. There is one partition at least.
fn shares(parts: usize, partitions: usize) -> Vec<Range<usize>> {
    let count = partitions.min(parts).max(1);
    (0..count).map(|at| parts * at / count..parts * (at + 1) / count).collect()
}

impl fmt::Debug for ColumnarScanExec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(out)
    }
}

impl DisplayAs for ColumnarScanExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(out)
    }
}

impl ExecutionPlan for ColumnarScanExec {
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
        let Some(parts) = self.partitions.get(partition) else {
            return internal_err!("a scan has no partition {partition}");
        };
        let memory = MemoryConsumer::new(NAME).register(task.memory_pool());
        let pages_read = MetricBuilder::new(&self.metrics).counter("pages_read", partition);
        let limit = self.limit.unwrap_or(usize::MAX);
        let shared = Arc::clone(&self.shared);
        let reader = Reader::new(shared, parts.clone(), limit, memory, pages_read);
        let segments = batches(reader);
        let batches = if partition + 1 == self.partitions.len() {
            let rows = Arc::clone(&self.rows);
            let rows = stream::once(async move { rows.execute(task) }).flatten();
            segments.chain(rows).boxed()
        } else {
            segments.boxed()
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let counted = batches.inspect(move |batch| {
            if let Ok(batch) = batch {
                baseline.record_output(batch.num_rows());
            }
        });
        let schema = Arc::clone(&self.shared.schema);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
    }

    /// Returns the scan with metrics of its own: a plan that is run for each row would keep the ones of all runs.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            shared: Arc::clone(&self.shared),
            partitions: self.partitions.clone(),
            rows: Arc::clone(&self.rows),
            limit: self.limit,
            segments: self.segments,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    /// Returns the number of rows in segments, about: few rows are expected to lie in none.
    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let unknown = Statistics::new_unknown(&self.shared.schema);
        if args.partition().is_some() || self.shared.parts.is_empty() {
            return Ok(Arc::new(unknown));
        }
        let rows: u64 = self.shared.parts.iter().map(Part::rows).sum();
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        Ok(Arc::new(unknown.with_num_rows(Precision::Inexact(rows))))
    }
}

/// The state of a partition between two batches.
enum State {
    /// Nothing was read yet, or the reader waits for the next batch to be asked for.
    Idle(Box<Reader>),
    /// A batch is being read.
    Reading(JoinHandle<Result<Step>>),
}

/// Returns the batches of a reader.
fn batches(reader: Reader) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
    stream::try_unfold(State::Idle(Box::new(reader)), |state| async move {
        let read = match state {
            State::Idle(reader) => spawn_blocking(move || reader.step()),
            State::Reading(read) => read,
        };
        let found = read.await.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok::<_, DataFusionError>(found?.map(|(batch, reader)| {
            // The next batch is read while the query works on this one.
            (batch, State::Reading(spawn_blocking(move || reader.step())))
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_have_each_segment_once() {
        assert_eq!(shares(0, 2), shares(0, 1));
        assert_eq!(shares(0, 2).len(), 1);
        for (parts, partitions) in [(1, 4), (5, 2), (7, 3), (2, 2)] {
            let shares = shares(parts, partitions);
            assert_eq!(shares.len(), partitions.min(parts));
            let all: Vec<usize> = shares.into_iter().flatten().collect();
            assert_eq!(all, (0..parts).collect::<Vec<_>>());
        }
    }
}
