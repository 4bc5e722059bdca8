//! A planned query, its columns and its executions.

use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScanBuilder, WindowFunctionDefinition};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{ExecutionPlan, execute_stream, execute_stream_partitioned};
use datafusion::sql::sqlparser::ast::Query;
use engine::perf_context::PerfContext;
use futures::StreamExt;
use relational::catalog::ReadName;
use relational::{CancelFlag, DataType, Error, Result, Row, SqlState, Value, View};

use super::apply::{self, OUTER};
use super::arrow::{read_column, type_of_field};
use super::bind::{
    Bind, BoundFunction, Parameters, external, in_context, literal, needs_context, place_of,
};
use super::engine::Engine;
use super::origins::origin;
use super::provider::Provider;
use super::rewrite::SUFFIX;
use super::tables::RelationTable;
use super::{from_datafusion, position_of};
use crate::expression::EvalContext;
use crate::wide::WideRelation;

/// Rows that operators gather over a Bigtable table, whose values may be large.
const BIGTABLE_ROWS: usize = 256;

/// The session's part in the planning of a query.
pub struct QueryContext {
    /// The engine of the server.
    pub engine: Arc<Engine>,
    /// Catalog, settings and roles of the session.
    pub evaluation: EvalContext,
    /// Types of parameters that the client gave; unknown ones are inferred.
    pub param_types: Vec<DataType>,
}

/// A column of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutColumn {
    /// Its name, which others may share.
    pub name: String,
    /// The type of its values.
    pub data_type: DataType,
    /// The table whose column it is; 0 for an expression.
    pub table_oid: u32,
    /// The number of that column; 0 for an expression.
    pub attnum: i16,
    /// The OID of its type, if that is a vector of the catalog.
    pub vector: Option<u32>,
}

/// The session's part in one execution.
#[derive(Clone)]
pub struct Run {
    /// The rows that the statement sees.
    pub view: View,
    /// Time, settings and roles of the execution.
    pub evaluation: EvalContext,
    /// Ends the execution with 57014.
    pub cancel: CancelFlag,
    /// Counts what the reads look at, for EXPLAIN.
    pub counts: Option<Arc<PerfContext>>,
}

/// A query that can be executed any number of times.
pub struct Planned {
    engine: Arc<Engine>,
    plan: LogicalPlan,
    columns: Vec<OutColumn>,
    param_types: Vec<DataType>,
    reads: Vec<ReadName>,
    /// True if the rows come from several queries, one after the other.
    is_union: bool,
}

/// Plans a query. `text` is the statement, in which errors are placed. Errors have PostgreSQL's
/// states: 42P01, 42703, 42883, 42804, 0A000 and others.
pub fn plan(context: &QueryContext, query: &Query, text: &str) -> Result<Planned> {
    make(context, query).map_err(|problem| placed(problem, query, text))
}

/// Adds the place of the name that an error tells of.
fn placed(problem: Error, query: &Query, text: &str) -> Error {
    let about_name = [
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::AMBIGUOUS_COLUMN,
    ];
    if problem.position.is_some() || !about_name.contains(&problem.state) {
        return problem;
    }
    let quoted = problem.message.split('"').nth(1).map(str::to_owned);
    let word = problem.message.split(' ').nth(1).unwrap_or("").split('(').next();
    let name = quoted.or(word.map(str::to_owned)).unwrap_or_default();
    let last = name.rsplit('.').next().unwrap_or(&name).to_owned();
    match position_of(query, text, &last) {
        Some(position) => problem.at(position),
        None => problem,
    }
}

fn make(context: &QueryContext, query: &Query) -> Result<Planned> {
    let provider = Provider::new(&context.engine, &context.evaluation);
    let plan = provider.plan(query)?;
    let width = plan.schema().fields().len();
    let origins: Vec<_> = (0..width).map(|at| origin(&plan, at).unwrap_or_default()).collect();
    let parameters = Arc::new(Parameters::new(&context.param_types));
    let bind = Bind {
        settings: Arc::clone(&context.evaluation.settings),
        parameters: Arc::clone(&parameters),
    };
    let options = context.engine.config().options();
    let mut bound = bind.analyze(plan.clone(), options).map_err(from_datafusion)?;
    // A parameter may be typed by a later place than its first, or by none.
    parameters.settle();
    if parameters.found() != context.param_types {
        bound = bind.analyze(plan, options).map_err(from_datafusion)?;
    }
    let mut plan = bound;
    for rule in context.engine.rules() {
        plan = rule.analyze(plan, options).map_err(from_datafusion)?;
    }
    let plan = apply::with_unknown(plan).map_err(from_datafusion)?;
    let plan = apply::convert(plan, &context.engine).map_err(from_datafusion)?;
    let fields = plan.schema().iter().zip(origins);
    let columns = fields.map(|((_, field), (table_oid, attnum))| OutColumn {
        name: field.name().split(SUFFIX).next().unwrap_or("").to_owned(),
        data_type: match type_of_field(field) {
            DataType::Unknown => DataType::Text,
            known => known,
        },
        table_oid,
        attnum,
        vector: crate::catalogs::vector_type(table_oid, attnum),
    });
    let columns = columns.collect();
    let reads = provider.reads.into_inner();
    let engine = Arc::clone(&context.engine);
    let is_union = is_union(&plan);
    Ok(Planned { is_union, engine, columns, param_types: parameters.found(), reads, plan })
}

/// Returns whether the rows of a plan come from a UNION ALL.
fn is_union(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Union(_) => true,
        LogicalPlan::Projection(node) => is_union(&node.input),
        LogicalPlan::SubqueryAlias(node) => is_union(&node.input),
        _ => false,
    }
}

impl Planned {
    /// Returns the columns of the result.
    pub fn columns(&self) -> &[OutColumn] {
        &self.columns
    }

    /// Returns the types of the parameters, given or inferred.
    pub fn param_types(&self) -> &[DataType] {
        &self.param_types
    }

    /// Returns the numbers of the tables and views that the query names.
    pub fn reads(&self) -> &[ReadName] {
        &self.reads
    }

    /// Begins an execution. Errors: the errors of constant parts of the query.
    pub async fn execute(&self, run: Run, params: &[Value]) -> Result<RowStream> {
        let (plan, task, height) = self.physical(&run, params).await?;
        let stream = self.in_a_task(plan, task, height)?;
        let types = self.columns.iter().map(|column| column.data_type.clone()).collect();
        Ok(RowStream { stream, types, cancel: run.cancel })
    }

    /// Returns the plan as text, a line for each step; with counts and times if it is `analyze`d.
    pub async fn explain(&self, run: Run, params: &[Value], analyze: bool) -> Result<Vec<String>> {
        let (plan, task, height) = self.physical(&run, params).await?;
        if analyze {
            let mut stream = self.in_a_task(Arc::clone(&plan), task, height)?;
            while let Some(batch) = stream.next().await {
                run.cancel.check()?;
                batch.map_err(from_datafusion)?;
            }
        }
        use datafusion::physical_plan::display::DisplayableExecutionPlan;
        let shown = match analyze {
            true => DisplayableExecutionPlan::with_metrics(plan.as_ref()).indent(false).to_string(),
            false => DisplayableExecutionPlan::new(plan.as_ref()).indent(false).to_string(),
        };
        Ok(shown.lines().map(str::to_owned).collect())
    }

    /// Returns the plan of one execution, its memory, and its height.
    async fn physical(
        &self,
        run: &Run,
        params: &[Value],
    ) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>, usize)> {
        let prepare = |plan| self.prepared(plan, run, params);
        let planner =
            apply::Planner { engine: &self.engine, cancel: &run.cancel, prepare: &prepare };
        let plan = prepare(self.plan.clone()).map_err(from_datafusion)?;
        let (plan, height) = apply::ready(plan, &planner).await.map_err(from_datafusion)?;
        let state = match self.is_union {
            true => self.engine.inner_state(),
            false => self.engine.state(),
        };
        let plan = state.optimizer().optimize(plan, state, |_, _| {}).map_err(from_datafusion)?;
        let planner = state.query_planner();
        let physical = planner.create_physical_plan(&plan, state).await.map_err(from_datafusion)?;
        let physical = apply::cancellable(physical, &run.cancel).map_err(from_datafusion)?;
        let task = match crate::wide::is_read_by(&physical) {
            true => self.engine.task_of(BIGTABLE_ROWS),
            false => self.engine.task(),
        };
        Ok((physical, task, height))
    }

    /// Runs a plan in a task on the threads of queries, so that its session hears of a cancel request while an
    /// operator computes. The task ends at its next pause when the stream is dropped.
    fn in_a_task(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
        height: usize,
    ) -> Result<SendableRecordBatchStream> {
        let threads = self.engine.threads(height)?;
        let mut builder = RecordBatchReceiverStream::builder(plan.schema(), 2);
        let sender = builder.tx();
        let is_union = self.is_union;
        let work = async move {
            // Each branch has its own partition. They are read one after the other, as PostgreSQL does.
            let streams = match is_union {
                true => execute_stream_partitioned(plan, task)?,
                false => vec![execute_stream(plan, task)?],
            };
            for mut stream in streams {
                while let Some(batch) = stream.next().await {
                    let is_end = batch.is_err();
                    if sender.send(batch).await.is_err() || is_end {
                        return Ok(());
                    }
                }
            }
            Ok(())
        };
        builder.spawn_on(work, &threads);
        Ok(builder.build())
    }

    /// Returns the plan with parameters, context and view of one execution.
    fn prepared(
        &self,
        plan: LogicalPlan,
        run: &Run,
        params: &[Value],
    ) -> datafusion::common::Result<LogicalPlan> {
        let evaluation = Arc::new(run.evaluation.clone());
        let plan = plan.transform_up_with_subqueries(|node| {
            let node = match node {
                LogicalPlan::TableScan(mut scan) => {
                    if let Ok(provider) = source_as_provider(&scan.source)
                        && let Some(table) = provider.downcast_ref::<RelationTable>()
                    {
                        let bound = table.for_run(run.clone());
                        scan.source = provider_as_source(Arc::new(bound));
                        scan = TableScanBuilder::from(scan).build()?;
                    } else if let Ok(provider) = source_as_provider(&scan.source)
                        && let Some(table) = provider.downcast_ref::<WideRelation>()
                    {
                        let bound = table.for_run(run.clone());
                        scan.source = provider_as_source(Arc::new(bound));
                    }
                    LogicalPlan::TableScan(scan)
                }
                other => other,
            };
            // Nodes above name a column by the expression that had parameters.
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let new = expr.transform_up(|expr| match expr {
                    Expr::Placeholder(parameter) if !parameter.id.starts_with(OUTER) => {
                        let at = place_of(&parameter)?;
                        let missing = || {
                            let message = format!("there is no parameter ${}", at + 1);
                            external(Error::new(SqlState::UNDEFINED_PARAMETER, message))
                        };
                        let value = params.get(at).ok_or_else(missing)?;
                        let data_type = self.param_types.get(at).ok_or_else(missing)?;
                        literal(value, data_type).map(Transformed::yes).map_err(external)
                    }
                    Expr::ScalarFunction(mut call) => {
                        let bound = call.func.inner().downcast_ref::<BoundFunction>();
                        match bound.filter(|bound| needs_context(&bound.work)) {
                            Some(bound) => {
                                call.func = Arc::new(bound.in_context(&evaluation));
                                Ok(Transformed::yes(Expr::ScalarFunction(call)))
                            }
                            None => Ok(Transformed::no(Expr::ScalarFunction(call))),
                        }
                    }
                    Expr::AggregateFunction(mut call) => {
                        match in_context(&call.func, &evaluation) {
                            Some(func) => {
                                call.func = func;
                                Ok(Transformed::yes(Expr::AggregateFunction(call)))
                            }
                            None => Ok(Transformed::no(Expr::AggregateFunction(call))),
                        }
                    }
                    Expr::WindowFunction(mut call) => {
                        let WindowFunctionDefinition::AggregateUDF(func) = &call.fun else {
                            return Ok(Transformed::no(Expr::WindowFunction(call)));
                        };
                        match in_context(func, &evaluation) {
                            Some(func) => {
                                call.fun = WindowFunctionDefinition::AggregateUDF(func);
                                Ok(Transformed::yes(Expr::WindowFunction(call)))
                            }
                            None => Ok(Transformed::no(Expr::WindowFunction(call))),
                        }
                    }
                    other => Ok(Transformed::no(other)),
                })?;
                Ok(new.update_data(|new| name.restore(new)))
            })?
            .map_data(LogicalPlan::recompute_schema)
        })?;
        Ok(plan.data)
    }
}

/// The rows of a running query.
pub struct RowStream {
    stream: SendableRecordBatchStream,
    types: Vec<DataType>,
    cancel: CancelFlag,
}

impl RowStream {
    /// Returns the next rows; nothing at the end. Errors end the query: 57014 after a cancel, and
    /// the errors of its expressions.
    pub async fn next_batch(&mut self) -> Result<Option<Vec<Row>>> {
        loop {
            self.cancel.check()?;
            let Some(batch) = self.stream.next().await else { return Ok(None) };
            let batch = batch.map_err(from_datafusion)?;
            if batch.num_rows() > 0 {
                return rows(&batch, &self.types).map(Some);
            }
        }
    }
}

fn rows(batch: &RecordBatch, types: &[DataType]) -> Result<Vec<Row>> {
    let mut out: Vec<Row> = vec![Vec::with_capacity(types.len()); batch.num_rows()];
    for (column, data_type) in batch.columns().iter().zip(types) {
        let values = read_column(column, data_type)?;
        out.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
    }
    Ok(out)
}
