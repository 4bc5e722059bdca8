//! Columns that JOIN … USING merges: they come first in `*`, and have the value of the side that has a row.
//!
//! 1. Only a FROM of one chain of joins is rewritten, whose tables have names.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, GroupByExpr, Ident, Join, JoinConstraint,
    JoinOperator, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    TableFactor, VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use relational::{Error, Result};

use super::calls::call;
use super::names::folded;
use super::syntax::binary;

/// A merged column: its name, its value, and whether the planner's own choice is another value, or none.
struct Merged {
    name: Ident,
    value: Expr,
    differs: bool,
}

/// A table of the chain, and its columns that `*` shows as merged ones.
struct Source {
    name: Ident,
    hidden: Vec<Ident>,
}

/// The tables and the merged columns of a chain of joins, in the order of `*`.
struct Chain {
    tables: Vec<Source>,
    merged: Vec<Merged>,
    /// True if a column was merged that any of several tables may have.
    is_open: bool,
}

/// Writes the merged columns of a SELECT out. 0A000 for `*` if it is not known which table has one of them.
pub(super) fn merge(select: &mut Select) -> Result<()> {
    let [table] = select.from.as_mut_slice() else { return Ok(()) };
    let Some(first) = name_of(&table.relation) else { return Ok(()) };
    let names: Option<Vec<Ident>> =
        table.joins.iter().map(|join| name_of(&join.relation)).collect();
    let Some(names) = names else { return Ok(()) };
    let first = Source { name: first, hidden: Vec::new() };
    let mut chain = Chain { tables: vec![first], merged: Vec::new(), is_open: false };
    for (join, name) in table.joins.iter_mut().zip(names) {
        chain.add(join, name);
    }
    let Chain { tables, mut merged, is_open } = chain;
    if merged.is_empty() {
        return Ok(());
    }
    let mut items = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) if options == Default::default() => {
                if is_open {
                    let message =
                        "* over JOIN ... USING of a column that one of several tables has";
                    return Err(Error::unsupported(message).with_hint("Write the columns out."));
                }
                spread(&merged, &tables, &mut items);
            }
            SelectItem::UnnamedExpr(Expr::Identifier(column)) => match find(&merged, &column) {
                Some(merged) if merged.differs => items
                    .push(SelectItem::ExprWithAlias { expr: merged.value.clone(), alias: column }),
                _ => items.push(SelectItem::UnnamedExpr(Expr::Identifier(column))),
            },
            other => items.push(other),
        }
    }
    select.projection = items;
    merged.retain(|merged| merged.differs);
    if !merged.is_empty() {
        replace(select, &merged);
    }
    Ok(())
}

fn find<'a>(merged: &'a [Merged], column: &Ident) -> Option<&'a Merged> {
    merged.iter().find(|merged| folded(&merged.name) == folded(column))
}

fn column_of(table: &Ident, column: &Ident) -> Expr {
    Expr::CompoundIdentifier(vec![table.clone(), column.clone()])
}

fn name_of(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { name, alias, args: None, .. } => match alias {
            Some(alias) => Some(alias.name.clone()),
            None => name.0.last()?.as_ident().cloned(),
        },
        TableFactor::Derived { alias, .. } => alias.as_ref().map(|alias| alias.name.clone()),
        _ => None,
    }
}

/// Returns the constraint of a join that may have USING.
fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

/// Returns the columns that a join merges.
fn using(constraint: &JoinConstraint) -> Vec<Ident> {
    let JoinConstraint::Using(columns) = constraint else { return Vec::new() };
    columns
        .iter()
        .filter_map(|column| column.0.last().and_then(|part| part.as_ident().cloned()))
        .collect()
}

impl Chain {
    /// Joins a table to the chain. Its merged columns come first.
    fn add(&mut self, join: &mut Join, own: Ident) {
        let columns = constraint(&mut join.join_operator).map_or_else(Vec::new, |on| using(on));
        let has_one = self.tables.len() == 1;
        if has_one {
            self.tables[0].hidden.clone_from(&columns);
        }
        self.is_open |= !has_one && columns.iter().any(|one| find(&self.merged, one).is_none());
        self.compare_merged(join, &columns, &own);
        let mut merged = Vec::with_capacity(self.merged.len() + columns.len());
        for column in &columns {
            merged.push(self.merge(column, &own, &join.join_operator));
        }
        self.merged.retain(|before| find(&merged, &before.name).is_none());
        merged.append(&mut self.merged);
        self.merged = merged;
        self.tables.push(Source { name: own, hidden: columns });
    }

    /// Writes USING of columns that were merged before as ON, for a FULL JOIN before gives them values of
    /// either side.
    fn compare_merged(&self, join: &mut Join, columns: &[Ident], own: &Ident) {
        let equal = columns.iter().map(|column| {
            let before = find(&self.merged, column)?;
            let value = Expr::Nested(Box::new(before.value.clone()));
            Some(binary(value, BinaryOperator::Eq, column_of(own, column)))
        });
        let Some(equal) = equal.collect::<Option<Vec<Expr>>>() else { return };
        let both = |left, right| binary(left, BinaryOperator::And, right);
        let condition = equal.into_iter().reduce(both);
        if let (Some(condition), Some(on)) = (condition, constraint(&mut join.join_operator)) {
            *on = JoinConstraint::On(condition);
        }
    }

    fn merge(&self, column: &Ident, own: &Ident, operator: &JoinOperator) -> Merged {
        let known = find(&self.merged, column);
        let before = match (known, self.tables.as_slice()) {
            (Some(known), _) => known.value.clone(),
            (None, [only]) => column_of(&only.name, column),
            // The one of the tables that has it is found when the query is planned.
            (None, _) => Expr::Identifier(column.clone()),
        };
        let own = column_of(own, column);
        let (value, differs) = match operator {
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (own, true),
            JoinOperator::FullOuter(_) => (call("coalesce", vec![before, own]), true),
            _ => (before, known.is_some()),
        };
        Merged { name: column.clone(), value, differs }
    }
}

/// Puts the merged columns and the other columns of all tables in place of `*`.
fn spread(merged: &[Merged], tables: &[Source], items: &mut Vec<SelectItem>) {
    for Merged { name, value, .. } in merged {
        items.push(SelectItem::ExprWithAlias { expr: value.clone(), alias: name.clone() });
    }
    for Source { name, hidden } in tables {
        let table = ObjectName::from(vec![name.clone()]);
        let kind = SelectItemQualifiedWildcardKind::ObjectName(table);
        let names = hidden.iter().map(|column| ObjectName::from(vec![Ident::new(folded(column))]));
        let exclude = ExcludeSelectItem::Multiple(names.collect());
        let options = WildcardAdditionalOptions {
            opt_exclude: (!hidden.is_empty()).then_some(exclude),
            ..Default::default()
        };
        items.push(SelectItem::QualifiedWildcard(kind, options));
    }
}

/// Puts the values of merged columns in place of their names.
fn replace(select: &mut Select, merged: &[Merged]) {
    let mut replacer = Replacer { merged, depth: 0 };
    let _ = select.projection.visit(&mut replacer);
    let _ = select.selection.visit(&mut replacer);
    let _ = select.having.visit(&mut replacer);
    if let GroupByExpr::Expressions(items, _) = &mut select.group_by {
        let _ = items.visit(&mut replacer);
    }
}

/// Replaces names outside of subqueries, where a name may be of a column of the subquery's own tables.
struct Replacer<'a> {
    merged: &'a [Merged],
    /// Number of subqueries around the expression.
    depth: usize,
}

impl VisitorMut for Replacer<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(column) = expr
            && self.depth == 0
            && let Some(found) = find(self.merged, column)
        {
            *expr = Expr::Nested(Box::new(found.value.clone()));
        }
        ControlFlow::Continue(())
    }
}
