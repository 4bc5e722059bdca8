//! Projections of rows of one table: select lists and RETURNING.

use crate::statement::bind::{Binder, Bound, Eval, column_label};
use crate::statement::names::name_of;
use crate::statement::privilege::reads_columns;
use crate::statement::{Column, Kept};
use datafusion::sql::sqlparser::ast::{SelectItem, SelectItemQualifiedWildcardKind};
use relational::catalog::Table;
use relational::{Error, Result, Row, SqlState, Value};
use std::sync::Arc;

/// Most bytes of the results of a statement.
const KEPT_BYTES_MAX: usize = 256 << 20;

enum Item {
    /// The value at a place of the row.
    Place(usize),
    Computed(Box<Bound>),
}

/// A list of expressions over the rows of one table.
pub(crate) struct Returning {
    columns: Arc<[Column]>,
    items: Vec<Item>,
}

/// Returns whether an item of RETURNING has values of the row, for which a role needs SELECT.
pub(super) fn reads_row(item: &SelectItem) -> bool {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            reads_columns(expr)
        }
        _ => true,
    }
}

impl Returning {
    /// Binds a list. `table` is known as `alias`; `binder` knows its columns at the first places.
    pub(crate) fn bind(
        binder: &mut Binder<'_>,
        table: &Table,
        alias: &str,
        list: &[SelectItem],
    ) -> Result<Self> {
        let (mut columns, mut items) = (Vec::new(), Vec::new());
        for item in list {
            match item {
                SelectItem::Wildcard(_) => all(table, &mut columns, &mut items),
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let last = name.0.last().and_then(|part| part.as_ident()).map(name_of);
                    if last.as_deref() != Some(alias) {
                        let message = format!("missing FROM-clause entry for table \"{name}\"");
                        return Err(Error::new(SqlState::UNDEFINED_TABLE, message));
                    }
                    all(table, &mut columns, &mut items);
                }
                SelectItem::UnnamedExpr(expression) => {
                    let bound = binder.bind(expression)?;
                    let label = column_label(expression);
                    push(table, label, bound, &mut columns, &mut items);
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    let bound = binder.bind(expr)?;
                    push(table, name_of(alias), bound, &mut columns, &mut items);
                }
                _ => return Err(Error::unsupported("this kind of select list item")),
            }
        }
        Ok(Self { columns: columns.into(), items })
    }

    /// Returns room for the results of a statement.
    pub(crate) fn kept() -> Kept {
        Kept::new(KEPT_BYTES_MAX, "RETURNING")
    }

    /// Returns the columns of the results.
    pub(crate) fn columns(&self) -> Arc<[Column]> {
        Arc::clone(&self.columns)
    }

    /// Returns the results for a row.
    pub(crate) fn row(&self, row: &[Value], eval: &Eval) -> Result<Row> {
        let value = |item: &Item| match item {
            Item::Place(place) => Ok(row.get(*place).cloned().unwrap_or_default()),
            Item::Computed(bound) => bound.value(row, eval),
        };
        self.items.iter().map(value).collect()
    }
}

fn all(table: &Table, columns: &mut Vec<Column>, items: &mut Vec<Item>) {
    for (place, column) in table.columns.iter().enumerate() {
        columns.push(Column {
            name: column.name.clone(),
            data_type: column.data_type.clone(),
            table: table.oid,
            number: column.number,
            vector: None,
        });
        items.push(Item::Place(place));
    }
}

fn push(
    table: &Table,
    name: String,
    bound: Bound,
    columns: &mut Vec<Column>,
    items: &mut Vec<Item>,
) {
    let from = bound.place().and_then(|place| table.columns.get(place).map(|c| (place, c)));
    match from {
        Some((place, column)) => {
            columns.push(Column {
                name,
                data_type: column.data_type.clone(),
                table: table.oid,
                number: column.number,
                vector: None,
            });
            items.push(Item::Place(place));
        }
        None => {
            columns.push(Column::computed(&name, bound.result_type()));
            items.push(Item::Computed(Box::new(bound)));
        }
    }
}
