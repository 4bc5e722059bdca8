//! A query of one table that its keys answer: `WHERE id = $1`, ranges, and ORDER BY a key with LIMIT.

use super::only_table;
use super::scan::{Scan, ScanPlan};
use crate::access::{Access, Condition, Ordered};
use crate::statement::bind::{Binder, Bound};
use crate::statement::change::Returning;
use crate::statement::{Column, Environment, Rows, Run, Source, name_of};
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, LimitClause, OrderByKind, Query, Select, SelectItem, SetExpr,
    Value as Literal, ValueWithSpan,
};
use engine::Direction;
use relational::catalog::Table;
use relational::{DataType, Error, Result, SqlState, Value};
use std::sync::Arc;

/// A planned query of one table.
pub(crate) struct Single {
    table: Arc<Table>,
    access: Access,
    direction: Direction,
    is_ordered: bool,
    plan: Arc<ScanPlan>,
    limit: Option<Bound>,
    offset: Option<Bound>,
}

impl Single {
    /// Plans a query, if it is one of one table that its keys answer. Types of parameters are added to
    /// `params`, which are of no use if nothing is returned.
    pub(crate) fn plan(
        environment: &Environment<'_>,
        text: &Arc<str>,
        query: &Query,
        params: &mut Vec<DataType>,
    ) -> Option<Self> {
        let select = plain_select(query)?;
        let [from] = select.from.as_slice() else { return None };
        let (table, alias) = only_table(environment, from).ok()??;
        if table.is_columnar() {
            // Its segments are read by the query side only.
            return None;
        }
        let mut binder = Binder::of_table(environment, text, &table, &alias, params);
        let condition = Condition::analyze(&mut binder, &table, &alias, select.selection.as_ref());
        let order = order_of(query, select, &table, &alias)?;
        let (access, direction) = if order.is_empty() {
            (Access::choose(&table, &condition), Direction::Forward)
        } else {
            Access::in_order(&table, &condition, &order)?
        };
        let filter = select.selection.as_ref().map(|filter| binder.bind_condition(filter));
        let filter = filter.transpose().ok()?;
        let projection = Returning::bind(&mut binder, &table, &alias, &select.projection).ok()?;
        let (limit, offset) = limits(query)?;
        let mut number = |wanted: Option<&Expr>| {
            wanted.map(|wanted| binder.bind_number(wanted)).transpose().ok()
        };
        let (limit, offset) = (number(limit)?, number(offset)?);
        let plan = Arc::new(ScanPlan { filter, projection });
        let is_ordered = !order.is_empty();
        Some(Self { table, access, direction, is_ordered, plan, limit, offset })
    }

    /// Returns whether the access reads a part of the table, or its first rows in an order.
    pub(crate) fn is_narrow(&self) -> bool {
        self.access.is_narrow() || (self.limit.is_some() && self.is_ordered)
    }

    /// Returns the columns of the rows.
    pub(crate) fn columns(&self) -> Arc<[Column]> {
        self.plan.projection.columns()
    }

    /// Starts the query in the snapshot of its statement.
    pub(crate) async fn rows(&self, run: &mut Run<'_>) -> Result<Rows> {
        let eval = run.eval();
        let limit = number(self.limit.as_ref(), &eval, "LIMIT")?;
        let offset = number(self.offset.as_ref(), &eval, "OFFSET")?.unwrap_or_default();
        let view = run.transaction.view();
        if self.access.is_point() && limit.is_none() && offset == 0 {
            // The common case needs no more than the rows themselves.
            let mut scan = self.scan(view, eval, run, (0, None))?;
            let mut rows = Vec::new();
            loop {
                let batch = scan.next(1_000).await?;
                if batch.is_empty() {
                    return Ok(Rows::ready(self.columns(), rows, "SELECT"));
                }
                rows.extend(batch);
            }
        }
        let scan = self.scan(view, eval, run, (offset, limit))?;
        Ok(Rows::of(self.columns(), Source::Scan(Box::new(scan))))
    }

    fn scan(
        &self,
        view: relational::View,
        eval: crate::statement::Eval,
        run: &Run<'_>,
        bounds: (u64, Option<u64>),
    ) -> Result<Scan> {
        let way = (self.table.oid, &self.access, self.direction);
        Scan::new(view, way, Arc::clone(&self.plan), eval, &run.flag, bounds)
    }

    /// Returns the plan as lines of text.
    pub(crate) fn explain(&self) -> Vec<String> {
        explain_access(
            &self.access,
            self.direction,
            self.plan.filter.is_some(),
            self.limit.is_some(),
        )
    }
}

/// Returns the lines of an access in a plan.
pub(crate) fn explain_access(
    access: &Access,
    direction: Direction,
    has_filter: bool,
    has_limit: bool,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut indent = "";
    if has_limit {
        lines.push("Limit".to_owned());
        indent = "  ->  ";
    }
    let backward = if direction == Direction::Reverse { " (backward)" } else { "" };
    lines.push(format!("{indent}{}{backward}", access.describe()));
    let columns = access.bounded_columns();
    if !columns.is_empty() {
        lines.push(format!("        Key: {}", columns.join(", ")));
    }
    if has_filter {
        lines.push("        Filter: the condition, on each row that the key finds".to_owned());
    }
    lines
}

/// Returns the value of a LIMIT or OFFSET.
pub(crate) fn number(
    bound: Option<&Bound>,
    eval: &crate::statement::Eval,
    what: &str,
) -> Result<Option<u64>> {
    let Some(bound) = bound else { return Ok(None) };
    match bound.value(&[], eval)? {
        Value::Int8(number) => match u64::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => {
                let state = match what {
                    "LIMIT" => SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE,
                    _ => SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE,
                };
                Err(Error::new(state, format!("{what} must not be negative")))
            }
        },
        _ => Ok(None),
    }
}

/// Returns the SELECT of a query that has nothing but FROM, WHERE, ORDER BY and LIMIT.
pub(crate) fn plain_select(query: &Query) -> Option<&Select> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(list, modifiers) => !list.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let is_plain = query.with.is_none()
        && query.fetch.is_none()
        && select.distinct.is_none()
        && select.top.is_none()
        && select.into.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.named_window.is_empty()
        && !is_grouped
        && !select.projection.is_empty();
    is_plain.then_some(select)
}

/// Returns LIMIT and OFFSET of a query, or nothing for another form than theirs.
pub(crate) fn limits(query: &Query) -> Option<(Option<&Expr>, Option<&Expr>)> {
    match &query.limit_clause {
        None => Some((None, None)),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            Some((limit.as_ref(), offset.as_ref().map(|offset| &offset.value)))
        }
        Some(_) => None,
    }
}

/// Returns the columns of an ORDER BY; nothing if it orders by anything else.
pub(super) fn order_of(
    query: &Query,
    select: &Select,
    table: &Table,
    alias: &str,
) -> Option<Vec<Ordered>> {
    let Some(order) = &query.order_by else { return Some(Vec::new()) };
    let OrderByKind::Expressions(items) = &order.kind else { return None };
    let mut ordered = Vec::with_capacity(items.len());
    for item in items {
        let descending = item.options.asc == Some(false);
        let place = ordered_place(&item.expr, select, table, alias)?;
        let nulls_first = item.options.nulls_first.unwrap_or(descending);
        ordered.push(Ordered { place, descending, nulls_first });
    }
    Some(ordered)
}

/// Returns the place of the column that an ORDER BY names, by its name or by its number in the select
/// list.
fn ordered_place(expr: &Expr, select: &Select, table: &Table, alias: &str) -> Option<usize> {
    match expr {
        Expr::Value(ValueWithSpan { value: Literal::Number(number, _), .. }) => {
            let number: usize = number.to_string().parse().ok()?;
            let before = select.projection.get(..number.checked_sub(1)?)?;
            // A wildcard before it stands for several columns.
            let is_named = |item: &SelectItem| {
                matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
            };
            if !before.iter().all(is_named) {
                return None;
            }
            match select.projection.get(before.len())? {
                SelectItem::UnnamedExpr(inner) | SelectItem::ExprWithAlias { expr: inner, .. }
                    if !matches!(inner, Expr::Value(_)) =>
                {
                    ordered_place(inner, select, table, alias)
                }
                _ => None,
            }
        }
        Expr::Identifier(name) => {
            let name = name_of(name);
            // A name of the select list goes before one of the table.
            for item in &select.projection {
                if let SelectItem::ExprWithAlias { expr, alias: label } = item
                    && name_of(label) == name
                {
                    return match expr {
                        Expr::Identifier(inner) => Some(table.column(&name_of(inner))?.0),
                        _ => None,
                    };
                }
            }
            Some(table.column(&name)?.0)
        }
        Expr::CompoundIdentifier(parts) => {
            let [.., owner, name] = parts.as_slice() else { return None };
            (name_of(owner) == alias).then_some(())?;
            Some(table.column(&name_of(name))?.0)
        }
        _ => None,
    }
}
