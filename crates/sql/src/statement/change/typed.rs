//! Literals and parameters without a type in a query whose columns are written to a table.
//!
//! By itself such a query gives them the type text. Here they take the type of the column that they are
//! written to, as PostgreSQL has it for the outermost SELECT.

use crate::values::type_name;
use datafusion::sql::sqlparser::ast::{
    self, CastKind, Expr, Ident, ObjectName, Query, SelectItem, SetExpr, Value as Literal,
};
use relational::DataType;

/// Gives the columns of a query the types `wanted`, if they are literals or parameters without a type.
pub(super) fn typed_query(query: &Query, wanted: &[DataType]) -> Query {
    let mut query = query.clone();
    type_body(&mut query.body, wanted);
    query
}

fn type_body(body: &mut SetExpr, wanted: &[DataType]) {
    match body {
        SetExpr::Query(query) => type_body(&mut query.body, wanted),
        SetExpr::Select(select) => {
            for (item, to) in select.projection.iter_mut().zip(wanted) {
                match item {
                    SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                        type_expr(expr, to);
                    }
                    // The number of columns that it stands for is not known yet.
                    _ => return,
                }
            }
        }
        SetExpr::Values(values) => {
            for row in &mut values.rows {
                for (expr, to) in row.content.iter_mut().zip(wanted) {
                    type_expr(expr, to);
                }
            }
        }
        _ => {}
    }
}

/// Gives a literal or a parameter without a type the type `to`, without its length or precision.
pub(super) fn type_expr(expr: &mut Expr, to: &DataType) {
    let is_open = match &*expr {
        Expr::Value(value) => matches!(
            value.value,
            Literal::SingleQuotedString(_) | Literal::Null | Literal::Placeholder(_)
        ),
        Expr::Nested(_) => {
            if let Expr::Nested(inner) = expr {
                type_expr(inner, to);
            }
            return;
        }
        _ => false,
    };
    let to = match to {
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Name => return,
        DataType::Numeric(_) => &DataType::Numeric(None),
        other => other,
    };
    if !is_open {
        return;
    }
    let inner = std::mem::replace(expr, Expr::value(Literal::Null));
    let name = ObjectName::from(vec![Ident::new(type_name(to))]);
    *expr = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(inner),
        data_type: ast::DataType::Custom(name, Vec::new()),
        array: false,
        format: None,
    };
}
