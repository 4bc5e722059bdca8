//! Functions that return sets, as tables; VALUES whose rows differ in their kinds of literals.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Query,
    Select, SelectFlavor, SelectItem, SetExpr, SetOperator, SetQuantifier, TableAlias,
    TableAliasColumnDef, TableFactor, Value, Values, visit_expressions,
};
use relational::{Error, Result};
use std::ops::ControlFlow;

use super::calls::{arguments, call, cast_call, function_name};
use super::names::folded;

/// Functions that return sets: name, functions that return the elements of each column as an array, and the
/// names of columns that have one of their own.
const SETS: &[(&str, &[&str], &[&str])] = &[
    ("generate_series", &["__series"], &[]),
    ("generate_subscripts", &["__subscripts"], &[]),
    ("jsonb_array_elements", &["__json_elements"], &["value"]),
    ("json_array_elements", &["__json_elements"], &["value"]),
    ("jsonb_array_elements_text", &["__json_elements_text"], &["value"]),
    ("json_array_elements_text", &["__json_elements_text"], &["value"]),
    ("jsonb_object_keys", &["__json_keys"], &[]),
    ("json_object_keys", &["__json_keys"], &[]),
    ("jsonb_each", &["__jsonb_names", "__jsonb_values"], &["key", "value"]),
    ("json_each", &["__json_names", "__json_values"], &["key", "value"]),
    ("jsonb_each_text", &["__jsonb_names", "__jsonb_values_text"], &["key", "value"]),
    ("json_each_text", &["__json_names", "__json_values_text"], &["key", "value"]),
    ("regexp_split_to_table", &["regexp_split_to_array"], &[]),
    ("string_to_table", &["string_to_array"], &[]),
    ("pg_partition_ancestors", &["__partition_ancestors"], &[]),
    ("regexp_matches", &["__regexp_matches"], &[]),
    (
        "pg_get_keywords",
        &[
            "__keyword_words",
            "__keyword_codes",
            "__keyword_labels",
            "__keyword_kinds",
            "__keyword_uses",
        ],
        &["word", "catcode", "barelabel", "catdesc", "baredesc"],
    ),
];

/// Rows of VALUES at most that are joined one after the other.
const CHAINED_ROWS_MAX: usize = 100;

/// Returns the array of a call that returns a set; nothing for other calls.
pub(super) fn elements(function: &Function) -> Option<Expr> {
    let name = function_name(&function.name)?;
    let given = arguments(function)?;
    if name == "unnest" && given.len() == 1 {
        return given.into_iter().next();
    }
    let (_, arrays, _) = SETS.iter().find(|(set, ..)| *set == name)?;
    match arrays {
        [array] => Some(call(array, given)),
        _ => None,
    }
}

/// Returns an element of a set as it is: `regexp_matches` gives arrays, which come as their texts.
pub(super) fn typed_element(set: &str, element: Expr) -> Expr {
    match set {
        "regexp_matches" => cast_call(element, "text[]"),
        _ => element,
    }
}

/// Returns the pairs of elements and places that `information_schema._pg_expandarray` gives, each as an array;
/// nothing for other calls. Drivers ask it for the columns of keys.
pub(super) fn numbered(function: &Function) -> Option<Expr> {
    let name: Vec<_> = function.name.0.iter().filter_map(|part| part.as_ident()).collect();
    let [schema, name] = name.as_slice() else { return None };
    let is_meant = |ident: &Ident, meant: &str| folded(ident) == meant;
    if !is_meant(schema, "information_schema") || !is_meant(name, "_pg_expandarray") {
        return None;
    }
    let array = arguments(function)?.into_iter().next()?;
    let places = call("__places", vec![array.clone()]);
    let pair = [array, places].map(|array| call("unnest", vec![array]));
    Some(call("__array", pair.to_vec()))
}

/// Returns both parts of a pair that [`numbered`] made; nothing for other expressions.
pub(super) fn pair_parts(pair: &Expr) -> Option<[Expr; 2]> {
    let named = |expr: &Expr, name: &str| match expr {
        Expr::Function(function) if function_name(&function.name).as_deref() == Some(name) => {
            arguments(function)
        }
        _ => None,
    };
    let parts = <[Expr; 2]>::try_from(named(pair, "__array")?).ok()?;
    let [places] = <[Expr; 1]>::try_from(named(&parts[1], "unnest")?).ok()?;
    named(&places, "__places").map(|_| parts)
}

/// Returns the options of a foreign table as an array, for the subquery with which clients ask for them.
pub(super) fn option_list(expr: &Expr) -> Option<Expr> {
    let Expr::Function(Function { args: FunctionArguments::Subquery(query), .. }) = expr else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [from] = select.from.as_slice() else { return None };
    let (name, args) = match &from.relation {
        TableFactor::Table { name, args: Some(args), .. } => (name, &args.args),
        TableFactor::Function { name, args, .. } => (name, args),
        _ => return None,
    };
    match args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(options))]
            if function_name(name).as_deref() == Some("pg_options_to_table") =>
        {
            Some(call("__option_texts", vec![options.clone()]))
        }
        _ => None,
    }
}

/// Returns the arrays of the columns of a call that returns a set, and the columns' own names.
fn columns(name: &str, given: Vec<Expr>) -> Option<(Vec<Expr>, Vec<String>)> {
    if name == "unnest" && !given.is_empty() {
        let names =
            if given.len() > 1 { vec!["unnest".to_owned(); given.len()] } else { Vec::new() };
        return Some((given, names));
    }
    let (_, arrays, names) = SETS.iter().find(|(set, ..)| *set == name)?;
    let arrays = arrays.iter().map(|array| call(array, given.clone()));
    Some((arrays.collect(), names.iter().map(|name| (*name).to_owned()).collect()))
}

/// Turns a function in FROM into a table of the elements of its arrays.
pub(super) fn table_function(factor: &mut TableFactor) -> Result<()> {
    let (name, args, alias, ordinality) = match factor {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
            (name.clone(), args.args.clone(), alias.clone(), *with_ordinality)
        }
        TableFactor::Function { name, args, alias, .. } => {
            (name.clone(), args.clone(), alias.clone(), false)
        }
        TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
            let (alias, arrays) = (alias.clone(), std::mem::take(array_exprs));
            let name = "unnest".to_owned();
            let (arrays, own) = columns(&name, arrays).unwrap_or_default();
            *factor = spread(name, arrays, own, alias, *with_ordinality);
            return Ok(());
        }
        _ => return Ok(()),
    };
    let given: Option<Vec<Expr>> = args
        .into_iter()
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect();
    let given = given.unwrap_or_default();
    let shown = function_name(&name).unwrap_or_else(|| name.to_string());
    match columns(&shown, given.clone()) {
        Some((arrays, own)) => *factor = spread(shown, arrays, own, alias, ordinality),
        None if ordinality => {
            return Err(Error::unsupported("WITH ORDINALITY of this function is not supported"));
        }
        None => {
            // Another function is a table of one row.
            let Expr::Function(function) = call("x", given) else { return Ok(()) };
            let alias = aliased(alias, &shown, vec![shown.clone()]);
            let column = alias.columns[0].name.clone();
            let item = (Expr::Function(Function { name, ..function }), column);
            *factor = derived(vec![item], alias);
        }
    }
    Ok(())
}

/// Returns the table of the elements of arrays, side by side.
fn spread(
    shown: String,
    arrays: Vec<Expr>,
    own: Vec<String>,
    alias: Option<TableAlias>,
    ordinality: bool,
) -> TableFactor {
    let table = alias.as_ref().map_or_else(|| shown.clone(), |alias| folded(&alias.name));
    let mut names = if own.is_empty() { vec![table] } else { own };
    let element = |array: &Expr| typed_element(&shown, call("unnest", vec![array.clone()]));
    let mut items: Vec<Expr> = arrays.iter().map(element).collect();
    if ordinality {
        names.push("ordinality".to_owned());
        items.extend(
            arrays
                .into_iter()
                .next()
                .map(|array| call("unnest", vec![call("__ordinals", vec![array])])),
        );
    }
    let alias = aliased(alias, &shown, names);
    let unique = (1..).map(|at| Ident::with_quote('"', format!("c{at}")));
    derived(items.into_iter().zip(unique).collect(), alias)
}

/// Returns the alias with a name for each column; names that were given stay.
fn aliased(alias: Option<TableAlias>, shown: &str, names: Vec<String>) -> TableAlias {
    let mut alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::with_quote('"', shown),
        columns: Vec::new(),
        at: None,
    });
    for name in names.into_iter().skip(alias.columns.len()) {
        let name = Ident::with_quote('"', name);
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    }
    alias
}

/// Returns a table of one SELECT without FROM, which may name the tables before it.
fn derived(items: Vec<(Expr, Ident)>, alias: TableAlias) -> TableFactor {
    let is_name = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    let lateral = items.iter().any(|(expr, _)| {
        visit_expressions(expr, |expr| match is_name(expr) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
        .is_break()
    });
    let items = items.into_iter().map(|(expr, alias)| SelectItem::ExprWithAlias { expr, alias });
    let mut query = crate::query::empty_query();
    query.body = Box::new(SetExpr::Select(Box::new(select_of(items.collect()))));
    let (subquery, alias) = (Box::new(query), Some(alias));
    TableFactor::Derived { lateral, subquery, alias, sample: None }
}

/// Returns a SELECT of items without FROM.
pub(super) fn select_of(projection: Vec<SelectItem>) -> Select {
    use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
    Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from: Vec::new(),
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }
}

/// Kinds of cells of a VALUES list that DataFusion does not unify as PostgreSQL does.
#[derive(PartialEq, Clone, Copy)]
enum Kind {
    Null,
    Whole,
    Fraction,
    Text,
    Other,
}

fn kind(expr: &Expr) -> Kind {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Null => Kind::Null,
            Value::Number(digits, _) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                match digits.parse::<i32>() {
                    Ok(_) => Kind::Whole,
                    Err(_) => Kind::Fraction,
                }
            }
            Value::Number(..) => Kind::Fraction,
            Value::SingleQuotedString(_) => Kind::Text,
            _ => Kind::Other,
        },
        Expr::UnaryOp { expr, .. } => kind(expr),
        _ => Kind::Other,
    }
}

/// Turns VALUES whose columns mix kinds into a UNION ALL, whose types are unified later.
pub(super) fn spread_values(body: &mut SetExpr) {
    let SetExpr::Values(Values { rows, .. }) = body else { return };
    let mixed = |column: usize| {
        let mut kinds = rows.iter().filter_map(|row| row.content.get(column)).map(kind);
        let first = kinds.next();
        kinds.any(|kind| Some(kind) != first || kind == Kind::Other)
    };
    let width = rows.first().map_or(0, |row| row.content.len());
    let even = rows.iter().all(|row| row.content.len() == width);
    let has_parameter = |expr: &Expr| match expr {
        Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
        _ => false,
    };
    // The type of a parameter may be found later than the types of VALUES.
    let is_typed_later = rows.len() == 1 && rows[0].content.iter().any(has_parameter);
    if rows.len() < 2 && !is_typed_later
        || rows.len() > 1000
        || !even
        || !(is_typed_later || (0..width).any(mixed))
    {
        return;
    }
    let selects = rows.iter().map(|row| {
        let items = row.content.iter().enumerate().map(|(at, expr)| SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: Ident::new(format!("column{}", at + 1)),
        });
        SetExpr::Select(Box::new(select_of(items.collect())))
    });
    let both = |left, right| SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left: Box::new(left),
        right: Box::new(right),
    };
    // In a chain from the first row on, a literal without a type meets the types of all rows before it. A
    // long chain would be too deep.
    let union = match rows.len() {
        0..=CHAINED_ROWS_MAX => selects.reduce(both),
        _ => super::syntax::balanced(selects.collect(), both),
    };
    if let Some(union) = union {
        *body = union;
    }
}

/// Calls that the rewriting made of operators, which are never aggregates.
fn is_operator(name: &str) -> bool {
    name.starts_with("op:") || name.starts_with("__") && name != "__single"
}

/// Lets a subquery that is used as a value fail if it has a second row; true if it does so now. DataFusion runs a correlated
/// subquery only if it is an aggregate.
pub(super) fn single_value(mut query: Box<Query>) -> (Box<Query>, bool) {
    let SetExpr::Select(select) = query.body.as_mut() else { return (query, false) };
    let grouped =
        !matches!(&select.group_by, GroupByExpr::Expressions(items, _) if items.is_empty());
    let plain = query.limit_clause.is_none() && query.with.is_none() && !grouped;
    let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] =
        select.projection.as_mut_slice()
    else {
        return (query, false);
    };
    let bare = select.distinct.is_some() || select.from.is_empty() || select.having.is_some();
    if !plain || bare || has_call(expr) {
        return (query, false);
    }
    query.order_by = None;
    let value = std::mem::replace(expr, Expr::value(Value::Null));
    *expr = call("__single", vec![value]);
    (query, true)
}

/// Returns whether an expression calls a function, which may be an aggregate or return a set.
fn has_call(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |expr| match expr {
        Expr::Function(function) => {
            let name = function_name(&function.name).unwrap_or_default();
            let scalar = is_operator(&name) || crate::query::bind::named_function(&name).is_some();
            match scalar && name != "unnest" && function.over.is_none() {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
