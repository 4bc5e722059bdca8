//! EXCEPT ALL and INTERSECT ALL: equal rows are numbered, so that each of them counts for one.
//!
//! 1. The columns of both sides must be written out: without them there is nothing to number by.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, SelectItem, SetExpr, SetOperator, SetQuantifier,
    TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, WindowSpec, WindowType,
};
use relational::{Error, Result};

use super::calls::call;
use super::names::column_names;
use super::sets::select_of;

/// Turns EXCEPT ALL and INTERSECT ALL into EXCEPT and INTERSECT of numbered rows, or 0A000.
pub(super) fn number(body: &mut SetExpr) -> Result<()> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return Ok(()) };
    number(left)?;
    number(right)?;
    let by_rows = matches!(op, SetOperator::Except | SetOperator::Intersect);
    if !by_rows || *set_quantifier != SetQuantifier::All {
        return Ok(());
    }
    let unknown = || Error::unsupported(format!("{op} ALL of columns that are not written out"));
    let names = names(left).ok_or_else(unknown)?;
    if self::names(right).map(|other| other.len()) != Some(names.len()) {
        return Err(unknown());
    }
    let side = |side: &SetExpr| numbered(side.clone(), names.len());
    let both = SetExpr::SetOperation {
        op: *op,
        set_quantifier: SetQuantifier::None,
        left: Box::new(side(left)),
        right: Box::new(side(right)),
    };
    let items = names.iter().enumerate().map(|(at, name)| SelectItem::ExprWithAlias {
        expr: Expr::Identifier(column(at)),
        alias: Ident::with_quote('"', name),
    });
    *body = from(both, names.len() + 1, items.collect());
    Ok(())
}

fn column(at: usize) -> Ident {
    Ident::with_quote('"', format!("\u{1}a{at}"))
}

/// Returns the names of the columns of a query; nothing if one of them is a wildcard.
fn names(body: &SetExpr) -> Option<Vec<String>> {
    match body {
        SetExpr::Select(select) => column_names(select),
        SetExpr::Values(values) => {
            let width = values.rows.first()?.content.len();
            Some((1..=width).map(|at| format!("column{at}")).collect())
        }
        SetExpr::SetOperation { left, .. } => names(left),
        SetExpr::Query(query) => names(&query.body),
        _ => None,
    }
}

/// Returns a SELECT from a query whose columns get numbers as names.
fn from(body: SetExpr, width: usize, items: Vec<SelectItem>) -> SetExpr {
    let mut query = crate::query::empty_query();
    query.body = Box::new(body);
    let columns = (0..width).map(|at| TableAliasColumnDef { name: column(at), data_type: None });
    let alias = TableAlias {
        explicit: true,
        name: Ident::with_quote('"', "\u{1}all"),
        columns: columns.collect(),
        at: None,
    };
    let relation = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(alias),
        sample: None,
    };
    let mut select = select_of(items);
    select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
    SetExpr::Select(Box::new(select))
}

fn numbered(body: SetExpr, width: usize) -> SetExpr {
    let columns: Vec<Expr> = (0..width).map(|at| Expr::Identifier(column(at))).collect();
    let mut items: Vec<SelectItem> =
        columns.iter().map(|column| SelectItem::UnnamedExpr(column.clone())).collect();
    if let Expr::Function(number) = call("row_number", Vec::new()) {
        let over = WindowSpec {
            window_name: None,
            partition_by: columns,
            order_by: Vec::new(),
            window_frame: None,
        };
        let over = Some(WindowType::WindowSpec(over));
        let expr = Expr::Function(Function { over, ..number });
        items.push(SelectItem::ExprWithAlias { expr, alias: column(width) });
    }
    from(body, width, items)
}
