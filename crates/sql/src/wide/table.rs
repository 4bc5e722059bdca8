//! A Bigtable table as DataFusion plans with it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use relational::Error;
use relational::catalog::{WideSource, WideTable};

use super::BigtableReads;
use super::conditions::{Bounds, Use, is_bytewise, use_of};
use super::request::{Columns, Spec};
use super::scan::WideScanExec;
use crate::query::{Run, external, field_of};

/// A Bigtable table of a statement; with the view of its run once it runs.
pub(crate) struct WideRelation {
    wide: Arc<WideTable>,
    schema: SchemaRef,
    reads: Option<Arc<dyn BigtableReads>>,
    run: Option<Run>,
}

impl WideRelation {
    /// Returns a table to plan with.
    pub(crate) fn new(wide: &Arc<WideTable>, reads: Option<&Arc<dyn BigtableReads>>) -> Self {
        let columns = wide.columns.iter();
        let fields: Vec<_> =
            columns.map(|column| field_of(&column.name, &column.data_type)).collect();
        let schema = Arc::new(Schema::new(fields));
        Self { wide: Arc::clone(wide), schema, reads: reads.cloned(), run: None }
    }

    /// Returns the table for one execution.
    pub(crate) fn for_run(&self, run: Run) -> Self {
        Self {
            wide: Arc::clone(&self.wide),
            schema: Arc::clone(&self.schema),
            reads: self.reads.clone(),
            run: Some(run),
        }
    }

    /// Returns the order of the rows, if the columns that are read show it.
    fn order(&self, wanted: &[usize]) -> Option<LexOrdering> {
        let columns = &self.wide.columns;
        let at = wanted.iter().position(|place| columns[*place].source == WideSource::Key)?;
        let column = &columns[wanted[at]];
        is_bytewise(&column.data_type).then_some(())?;
        LexOrdering::new([PhysicalSortExpr {
            expr: Arc::new(Column::new(&column.name, at)),
            options: SortOptions { descending: false, nulls_first: false },
        }])
    }
}

impl fmt::Debug for WideRelation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.wide.name)
    }
}

#[async_trait]
impl TableProvider for WideRelation {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let use_of = |filter: &&Expr| match use_of(&self.wide, filter) {
            Use::Exact => TableProviderFilterPushDown::Exact,
            Use::Inexact => TableProviderFilterPushDown::Inexact,
            Use::None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(use_of).collect())
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let name = &self.wide.name;
        let no_view = || DataFusionError::Internal(format!("{name} has no view"));
        let run = self.run.clone().ok_or_else(no_view)?;
        let reads = self.reads.clone().ok_or_else(|| {
            external(Error::unsupported("this server does not read Bigtable tables in SQL"))
        })?;
        let wanted: Vec<usize> = match projection {
            Some(places) => places.clone(),
            None => (0..self.wide.columns.len()).collect(),
        };
        let schema = Arc::new(self.schema.project(&wanted)?);
        let bounds = Bounds::of(&self.wide, filters);
        let order = self.order(&wanted);
        let columns = Columns::of(&self.wide, wanted, &bounds.present);
        let limit = limit.filter(|_| bounds.is_exact);
        let spec = Spec { wide: Arc::clone(&self.wide), columns, bounds, limit };
        Ok(Arc::new(WideScanExec::new(reads, spec, run, schema, order)))
    }
}
