//! Plans that end when their statement is cancelled.
//!
//! Most operators work while they wait for a batch of another one, and a task that is aborted ends there. Two kinds
//! would go on: a join that compares each row with each without a batch to show for it, and the body of a subquery,
//! which runs on the thread that waits for it. So the condition of such a join looks at the flag of its statement,
//! and so do leaves and joins of a body for each of their batches.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use relational::CancelFlag;

use crate::query::bind::external;

/// Returns the plan of a query, which runs in a task of its own: it ends soon after the task is aborted and the
/// flag is set.
pub(crate) fn cancellable(
    plan: Arc<dyn ExecutionPlan>,
    cancel: &CancelFlag,
) -> Result<Arc<dyn ExecutionPlan>> {
    wrapped(plan, cancel, |node| match node.children().len() {
        0 | 1 => Transformed::no(node),
        _ => Transformed::yes(Arc::new(CooperativeExec::new(node))),
    })
}

/// Returns the plan of a body, which ends with 57014 once the flag is set.
pub(super) fn watched(
    plan: Arc<dyn ExecutionPlan>,
    cancel: &CancelFlag,
) -> Result<Arc<dyn ExecutionPlan>> {
    wrapped(plan, cancel, |node| match node.children().len() {
        1 => Transformed::no(node),
        _ => Transformed::yes(Arc::new(Watched { input: node, cancel: cancel.clone() })),
    })
}

/// Returns a plan whose joins look at the flag, and whose operators went through `wrap`, which wraps all joins.
fn wrapped(
    plan: Arc<dyn ExecutionPlan>,
    cancel: &CancelFlag,
    wrap: impl Fn(Arc<dyn ExecutionPlan>) -> Transformed<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| Ok(wrap(with_checks(node, cancel)?))).data()
}

/// Returns a join that compares each row with each with a condition that looks at the flag; other operators as they
/// are.
fn with_checks(
    node: Arc<dyn ExecutionPlan>,
    cancel: &CancelFlag,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() else { return Ok(node) };
    let Some(filter) = join.filter() else { return Ok(node) };
    let condition = Checked { inner: Arc::clone(filter.expression()), cancel: cancel.clone() };
    let columns = filter.column_indices().to_vec();
    let filter = JoinFilter::new(Arc::new(condition), columns, Arc::clone(filter.schema()));
    let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
    let projection = join.projection().as_ref().map(|places| places.to_vec());
    let new = NestedLoopJoinExec::try_new(left, right, Some(filter), join.join_type(), projection)?;
    Ok(Arc::new(new))
}

/// A condition that fails with 57014 once the flag is set.
struct Checked {
    inner: Arc<dyn PhysicalExpr>,
    cancel: CancelFlag,
}

impl fmt::Debug for Checked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.inner)
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.inner)
    }
}

impl PartialEq for Checked {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Checked {}

impl Hash for Checked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl PhysicalExpr for Checked {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.inner.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.inner.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.cancel.check().map_err(external)?;
        self.inner.evaluate(batch)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(schema)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match (children.pop(), children.is_empty()) {
            (Some(inner), true) => Ok(Arc::new(Self { inner, cancel: self.cancel.clone() })),
            _ => internal_err!("a checked condition is one"),
        }
    }

    fn fmt_sql(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(out)
    }
}

/// An operator and the flag that its batches are checked against.
struct Watched {
    input: Arc<dyn ExecutionPlan>,
    cancel: CancelFlag,
}

impl Watched {
    fn over(&self, mut inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self { input, cancel: self.cancel.clone() })),
            _ => internal_err!("a watched operator is one"),
        }
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "watched {:?}", self.input)
    }
}

impl DisplayAs for Watched {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Watched")
    }
}

impl ExecutionPlan for Watched {
    fn name(&self) -> &'static str {
        "Watched"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
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
        self.over(children)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.over(children)
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batches = self.input.execute(partition, task)?;
        let (schema, cancel) = (batches.schema(), self.cancel.clone());
        let batches = batches.map(move |batch| {
            cancel.check().map_err(external)?;
            batch
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}
