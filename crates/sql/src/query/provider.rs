//! The names of a statement: tables, views and functions, as DataFusion asks for them.
//!
//! 1. A name without a schema is looked for in `pg_catalog`, then along the search path. A schema on which the
//!    role has no USAGE is passed over there, and refused where it is named.
//! 2. A name in a view is what it was when the view was made, with the columns of then: neither the path of the
//!    reader nor a new name or column of a table changes it.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType as ArrowType, SchemaRef};
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, TableReference};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner};
use datafusion::logical_expr::{
    AggregateUDF, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::sql::planner::SqlToRel;
use datafusion::sql::sqlparser::ast::{Query, Statement};
use datafusion::sql::sqlparser::parser::Parser;
use parking_lot::Mutex;
use relational::catalog::{Column, ColumnNumber, ReadName, Relation, ViewDefinition};
use relational::{Error, SqlState};

use super::bind::{Operators, external, named_function};
use super::dialect::Dialect;
use super::engine::Engine;
use super::rewrite::{Suffixes, rewrite_query};
use super::tables::{CHANGED, ROW_ID, RelationTable, Source, sequence_columns};
use crate::expression::EvalContext;
use crate::statement::cut;
use crate::statement::privilege::{denied, may_use};
use crate::wide::WideRelation;

/// Views inside views at most.
const VIEW_DEPTH_MAX: usize = 32;

/// The names that one statement may use.
pub(crate) struct Provider<'a> {
    engine: &'a Engine,
    evaluation: &'a EvalContext,
    planners: Vec<Arc<dyn ExprPlanner>>,
    depth: usize,
    /// The names of the view whose query this is; nothing for a statement's own query.
    view: Option<&'a [ReadName]>,
    /// The tables and views that the query names.
    pub(super) reads: Mutex<Vec<ReadName>>,
}

impl<'a> Provider<'a> {
    /// Returns the names of a session.
    pub(crate) fn new(engine: &'a Engine, evaluation: &'a EvalContext) -> Self {
        let planners: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(Operators)];
        Self { engine, evaluation, planners, depth: 0, view: None, reads: Mutex::default() }
    }

    /// Returns the plan of a query whose tables and names have not been looked up yet. Columns beside a wildcard
    /// keep their names, unless these clash with the wildcard's. Errors: 0A000 for syntax, and the errors of names.
    pub(super) fn plan(&self, query: &Query) -> relational::Result<LogicalPlan> {
        let (found, is_open) = self.plan_with(query, Suffixes::Repeated);
        if !is_open || found.as_ref().is_ok_and(|plan| !has_repeats(plan)) {
            return found;
        }
        if let (Ok(plan), _) = self.plan_with(query, Suffixes::Unnamed) {
            return Ok(plan);
        }
        match found {
            Err(problem) => self.plan_with(query, Suffixes::All).0.map_err(|_| problem),
            Ok(plan) => Ok(plan),
        }
    }

    /// Returns the plan of a query, and whether it may be another with other suffixes.
    fn plan_with(
        &self,
        query: &Query,
        suffixes: Suffixes,
    ) -> (relational::Result<LogicalPlan>, bool) {
        self.reads.lock().clear();
        let mut query = query.clone();
        let is_open = match rewrite_query(&mut query, suffixes) {
            Ok(is_open) => is_open,
            Err(problem) => return (Err(problem), false),
        };
        let statement = Statement::Query(Box::new(query));
        let plan = SqlToRel::new(self).sql_statement_to_plan(statement);
        (plan.map_err(super::from_datafusion), is_open)
    }

    fn find(&self, name: &TableReference) -> relational::Result<Arc<dyn TableSource>> {
        let unknown = || {
            let shown = match name.schema() {
                Some(schema) => format!("{schema}.{}", name.table()),
                None => name.table().to_owned(),
            };
            Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist"))
        };
        let table = cut(name.table());
        let schemas: Vec<&str> = match name.schema() {
            Some(schema) => vec![schema],
            // A view that was made before views had names.
            None if self.view.is_some() => vec!["pg_catalog", "public"],
            None => {
                let path = self.evaluation.settings.search_path.iter().map(String::as_str);
                ["pg_catalog"].into_iter().chain(path).collect()
            }
        };
        let catalog = self.evaluation.catalog.as_ref().ok_or_else(unknown)?;
        if name.schema() == Some(CHANGED) {
            let table =
                table.parse().ok().and_then(|oid| catalog.table(oid)).ok_or_else(unknown)?;
            let (name, oid) = (table.name.clone(), table.oid);
            self.reads.lock().push(ReadName { schema: None, name, oid, columns: None });
            return Ok(changed(table));
        }
        let is_named =
            |read: &&ReadName| read.schema.as_deref() == name.schema() && read.name == table;
        if let Some(read) = self.view.and_then(|names| names.iter().find(is_named)) {
            let found = catalog.relation(read.oid).ok_or_else(unknown)?;
            return self.relation(found, read.columns);
        }
        for schema in schemas {
            if let Some(found) = crate::catalogs::table(schema, table) {
                let source = RelationTable::new(table, found.columns(), Source::Virtual(found));
                return Ok(provider_as_source(Arc::new(source)));
            }
            let Some(schema) = catalog.schema_named(schema) else { continue };
            // The names of a view were looked up when it was made.
            if self.view.is_none() && !may_use(catalog, self.evaluation.acting, schema) {
                match name.schema() {
                    Some(_) => return Err(denied("schema", &schema.name)),
                    None => continue,
                }
            }
            let Some(found) = catalog.find(schema.oid, table) else { continue };
            let (schema, name) = (name.schema().map(str::to_owned), table.to_owned());
            let (oid, columns) = (found.oid(), last_column(&found));
            self.reads.lock().push(ReadName { schema, name, oid, columns });
            return self.relation(found, None);
        }
        Err(unknown())
    }

    /// Returns a relation with its columns up to a number.
    fn relation(
        &self,
        found: Relation,
        last: Option<ColumnNumber>,
    ) -> relational::Result<Arc<dyn TableSource>> {
        match found {
            Relation::Table(table) => {
                // New columns come last.
                let is_meant = |column: &&Column| last.is_none_or(|last| column.number <= last);
                let columns = table.columns.iter().take_while(is_meant);
                let columns = columns.map(|column| (column.name.clone(), column.data_type.clone()));
                let source = Source::Rows(table.definition());
                let source = RelationTable::new(&table.name, columns.collect(), source);
                Ok(provider_as_source(Arc::new(source)))
            }
            Relation::View(view) => self.view(&view, last),
            Relation::Wide(wide) => {
                let source = WideRelation::new(&wide, self.engine.bigtable());
                Ok(provider_as_source(Arc::new(source)))
            }
            Relation::Sequence(sequence) => {
                let (name, columns) = (sequence.name.clone(), sequence_columns());
                let source = RelationTable::new(&name, columns, Source::Sequence(sequence));
                Ok(provider_as_source(Arc::new(source)))
            }
            Relation::Index(..) => {
                let message = "an index cannot be read as a table";
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    /// Returns the plan of a view as a table, with its columns up to a number.
    fn view(
        &self,
        view: &ViewDefinition,
        last: Option<ColumnNumber>,
    ) -> relational::Result<Arc<dyn TableSource>> {
        if self.depth >= VIEW_DEPTH_MAX {
            let message = format!("views are nested deeper than {VIEW_DEPTH_MAX}");
            return Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        let bad = || Error::internal("the text of a view is not a query");
        let mut statements = Parser::parse_sql(&Dialect::for_length(view.query.len()), &view.query)
            .map_err(|_| bad())?;
        let Some(Statement::Query(query)) = statements.pop() else { return Err(bad()) };
        let mut inner = Provider::new(self.engine, self.evaluation);
        inner.depth = self.depth + 1;
        inner.view = Some(&view.names);
        let plan = inner.plan(&query)?;
        let count = last.map_or(usize::MAX, |last| usize::try_from(last).unwrap_or_default());
        let names: Vec<String> =
            view.columns.iter().take(count).map(|(name, _)| name.clone()).collect();
        let exprs = plan.schema().iter().zip(&names).map(|((qualifier, field), name)| {
            datafusion::logical_expr::Expr::from((qualifier, field)).alias(name)
        });
        let exprs: Vec<_> = exprs.collect();
        let plan = datafusion::logical_expr::LogicalPlanBuilder::from(plan)
            .project(exprs)
            .and_then(datafusion::logical_expr::LogicalPlanBuilder::build)
            .map_err(super::from_datafusion)?;
        Ok(provider_as_source(Arc::new(ViewTable::new(plan, None))))
    }
}

/// Returns whether two columns of one select list have the same name.
fn has_repeats(plan: &LogicalPlan) -> bool {
    let found = plan.exists(|node| {
        let LogicalPlan::Projection(list) = node else { return Ok(false) };
        let mut names = HashSet::new();
        Ok(!list.schema.fields().iter().all(|field| names.insert(field.name())))
    });
    found.unwrap_or(true)
}

/// Returns the greatest number of a column; nothing for relations whose columns do not change.
fn last_column(relation: &Relation) -> Option<ColumnNumber> {
    match relation {
        Relation::Table(table) => table.columns.iter().map(|column| column.number).max(),
        Relation::View(view) => ColumnNumber::try_from(view.columns.len()).ok(),
        _ => None,
    }
}

/// Returns a table with the row id beside its columns, if it has no primary key.
fn changed(table: &Arc<relational::Table>) -> Arc<dyn TableSource> {
    let columns =
        table.columns.iter().map(|column| (column.name.clone(), column.data_type.clone()));
    let id = (ROW_ID.to_owned(), relational::DataType::Int8);
    let columns = columns.chain(table.primary_key.is_none().then_some(id)).collect();
    let source = RelationTable::new(&table.name, columns, Source::Rows(table.definition()));
    provider_as_source(Arc::new(source))
}

impl ContextProvider for Provider<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        self.find(&name).map_err(external)
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        named_function(name)
    }

    fn get_higher_order_meta(&self, _name: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.engine.aggregates.get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.engine.windows.get(name).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<ArrowType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.engine.config().options()
    }

    fn udf_names(&self) -> Vec<String> {
        vec!["count".to_owned()]
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udwf_names(&self) -> Vec<String> {
        Vec::new()
    }
}
