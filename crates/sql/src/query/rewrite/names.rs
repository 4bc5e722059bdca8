//! Names of the columns of a SELECT, as PostgreSQL chooses them.

use std::collections::{HashMap, HashSet};

use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem, SetExpr, Value};

use super::calls::function_name;
use relational::DataType;

/// Begins the suffix that makes a name unique.
pub(crate) const SUFFIX: char = '\u{1}';

/// The columns of a select list with a wildcard that get a suffix: the names of a wildcard's columns are not
/// known before the tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suffixes {
    /// A column whose name is written before it too.
    Repeated,
    /// Columns behind a wildcard to which the statement gives no name, and repeated ones.
    Unnamed,
    /// All columns beside a wildcard.
    All,
}

/// Gives every unnamed column its name, and every repeated name a suffix. Returns whether a column stands beside
/// a wildcard, so that its name may clash with one that is not known yet.
pub(super) fn name_columns(select: &mut Select, suffixes: Suffixes) -> bool {
    let mut seen = Seen::default();
    let is_named = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    let named = select.projection.iter().filter(|item| is_named(item)).count();
    let has_wildcard = named < select.projection.len();
    let mut wildcard = has_wildcard && suffixes == Suffixes::All;
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let name = column_name(expr).unwrap_or_else(|| "?column?".to_owned());
                let plain = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                if plain && !wildcard && seen.names.insert(name.clone()) {
                    continue;
                }
                let alias = seen.unique(name, wildcard && suffixes != Suffixes::Repeated);
                let expr = std::mem::replace(expr, Expr::value(Value::Null));
                *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', alias) };
            }
            SelectItem::ExprWithAlias { alias, .. } => {
                let name = folded(alias);
                if seen.names.contains(&name) || wildcard {
                    let alone = wildcard && suffixes == Suffixes::All;
                    *alias = Ident::with_quote('"', seen.unique(name, alone));
                } else {
                    seen.names.insert(name);
                }
            }
            _ => wildcard = true,
        }
    }
    has_wildcard && named > 0
}

/// Returns the names of the columns of a SELECT; nothing if one of them is a wildcard.
pub(super) fn column_names(select: &Select) -> Option<Vec<String>> {
    let name = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) => {
            Some(column_name(expr).unwrap_or_else(|| "?column?".to_owned()))
        }
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    };
    select.projection.iter().map(name).collect()
}

/// Names of the columns of a select list up to one of them.
#[derive(Default)]
struct Seen {
    names: HashSet<String>,
    /// The last suffix that each name got.
    counts: HashMap<String, usize>,
}

impl Seen {
    /// Returns a name that the columns before do not have; `always` with a suffix.
    fn unique(&mut self, name: String, always: bool) -> String {
        if !always && self.names.insert(name.clone()) {
            return name;
        }
        let count = self.counts.entry(name.clone()).or_insert(1);
        loop {
            *count += 1;
            let candidate = format!("{name}{SUFFIX}{count}");
            if self.names.insert(candidate.clone()) {
                return candidate;
            }
        }
    }
}

/// Returns an identifier as PostgreSQL folds it.
pub(super) fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}

/// Returns whether the type that an expression is cast to names the column rather than the expression.
fn is_weak(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_weak(inner),
        Expr::Cast { .. } | Expr::TypedString(_) | Expr::Interval(_) | Expr::Value(_) => true,
        Expr::Case { else_result, .. } => else_result.as_deref().is_none_or(is_weak),
        _ => false,
    }
}

/// Returns the name that PostgreSQL gives to the column of an expression.
fn column_name(expr: &Expr) -> Option<String> {
    let fixed = |name: &str| Some(name.to_owned());
    match expr {
        Expr::Identifier(ident) => Some(folded(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(folded),
        Expr::Function(function) => {
            let last = function.name.0.last().and_then(|part| part.as_ident()).map(folded);
            function_name(&function.name).or(last)
        }
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => column_name(inner),
        Expr::CompoundFieldAccess { root, .. } => column_name(root),
        Expr::Cast { expr, data_type, .. } => {
            let own = if is_weak(expr) { None } else { column_name(expr) };
            own.or_else(|| {
                let found = crate::values::parse_type(&data_type.to_string());
                Some(match found {
                    Some(DataType::Array(element)) => crate::values::type_short_name(&element),
                    Some(found) => crate::values::type_short_name(&found),
                    None => data_type.to_string().to_lowercase(),
                })
            })
        }
        Expr::TypedString(typed) => {
            let found = crate::values::parse_type(&typed.data_type.to_string())?;
            Some(crate::values::type_short_name(&found))
        }
        Expr::Interval(_) => fixed("interval"),
        Expr::Case { else_result, .. } => match else_result.as_deref().and_then(column_name) {
            Some(name) => Some(name),
            None => fixed("case"),
        },
        Expr::Exists { .. } => fixed("exists"),
        Expr::Array(_) => fixed("array"),
        Expr::Tuple(_) => fixed("row"),
        Expr::Extract { .. } => fixed("extract"),
        Expr::Substring { shorthand, .. } => fixed(if *shorthand { "substr" } else { "substring" }),
        Expr::Position { .. } => fixed("position"),
        Expr::Overlay { .. } => fixed("overlay"),
        Expr::Ceil { .. } => fixed("ceil"),
        Expr::Floor { .. } => fixed("floor"),
        Expr::AtTimeZone { .. } => fixed("timezone"),
        Expr::Trim { trim_where, .. } => {
            use datafusion::sql::sqlparser::ast::TrimWhereField;
            fixed(match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                _ => "btrim",
            })
        }
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => fixed("bool"),
        Expr::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::UnnamedExpr(expr)) => column_name(expr),
                Some(SelectItem::ExprWithAlias { alias, .. }) => Some(folded(alias)),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}
