//! The rewriting of one expression whose parts are rewritten already.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Interval, SelectItem, SetExpr, Subscript, TrimWhereField, UnaryOperator,
    Value, ValueWithSpan, WindowFrame, WindowFrameBound, WindowType, visit_expressions,
};
use relational::{Error, Result, SqlState};
use std::ops::ControlFlow;

use super::calls::{
    arguments, call, cast_call, function_name, number, text_literal, unwrap_number,
};
use super::sets::{elements, numbered, pair_parts, typed_element};
use super::subqueries;
use crate::query::bind::operator_name;

/// Most nodes of an expression that is copied within another.
const COPIED_NODES_MAX: usize = 10_000;
/// Most values of rows that are compared by `<` and its kin, each of which is compared for each before it.
const ROW_ORDER_MAX: usize = 100;

pub(super) fn rewrite(expr: Expr) -> Result<Expr> {
    Ok(match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => number(&digits),
        Expr::Cast { expr, data_type, .. } => cast(*expr, &data_type.to_string()),
        Expr::TypedString(typed) => {
            let text = typed.value.into_string().unwrap_or_default();
            round_call(text_literal(&text), &typed.data_type.to_string())
        }
        Expr::Interval(interval) => interval_call(interval)?,
        Expr::AtTimeZone { timestamp, time_zone } => call("timezone", vec![*time_zone, *timestamp]),
        Expr::Extract { field, expr, .. } => {
            let field = field.to_string().to_lowercase();
            call("extract", vec![text_literal(field.trim_matches('\'')), *expr])
        }
        Expr::UnaryOp { op, expr } => unary(op, *expr),
        Expr::Like { negated, any: false, expr, pattern, escape_char } => {
            like(negated, *expr, *pattern, escape_char, false)
        }
        Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
            like(negated, *expr, *pattern, escape_char, true)
        }
        Expr::SimilarTo { negated, expr, pattern, escape_char } => {
            let escape =
                escape_char.and_then(|value| value.into_string()).unwrap_or("\\".to_owned());
            not_if(negated, call("__similar", vec![*expr, *pattern, text_literal(&escape)]))
        }
        Expr::InList { expr, list, negated } => not_if(negated, in_list(*expr, list)?),
        Expr::Between { expr, negated, low, high } => {
            let low = binary(copied(&expr)?, BinaryOperator::GtEq, *low);
            let high = binary(*expr, BinaryOperator::LtEq, *high);
            not_if(negated, binary(low, BinaryOperator::And, high))
        }
        Expr::IsDistinctFrom(left, right) => call("op:is distinct", vec![*left, *right]),
        Expr::IsNotDistinctFrom(left, right) => call("op:is not distinct", vec![*left, *right]),
        Expr::Case { operand, conditions, else_result, .. } => {
            let other = else_result.map(|other| *other);
            case(operand.map(|operand| *operand), conditions, other)?
        }
        Expr::Array(array) => call("__array", array.elem),
        Expr::CompoundFieldAccess { root, access_chain } => access(*root, access_chain)?,
        Expr::AnyOp { left, compare_op, right, .. } if !is_subquery(&right) => {
            quantified("__any", *left, &compare_op, *right)?
        }
        Expr::AllOp { left, compare_op, right } if !is_subquery(&right) => {
            quantified("__all", *left, &compare_op, *right)?
        }
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            subqueries::within(*left, *right, false)
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            subqueries::within(*left, *right, true)
        }
        Expr::AnyOp { left, compare_op, right, is_some } => {
            let right = Box::new(subqueries::unprotected(*right));
            Expr::AnyOp { left, compare_op, right, is_some }
        }
        Expr::AllOp { left, compare_op, right } => {
            let right = Box::new(subqueries::unprotected(*right));
            Expr::AllOp { left, compare_op, right }
        }
        Expr::InSubquery { expr, subquery, negated } => {
            subqueries::in_rows(*expr, subquery, negated)?
        }
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let from = substring_from.map_or_else(|| number("1"), |from| *from);
            let mut arguments = vec![*expr, from];
            arguments.extend(substring_for.map(|length| *length));
            call("substring", arguments)
        }
        Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
            let name = match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                _ => "btrim",
            };
            let mut arguments = vec![*expr];
            arguments.extend(trim_what.map(|what| *what));
            arguments.extend(trim_characters.unwrap_or_default());
            call(name, arguments)
        }
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let mut arguments = vec![*expr, *overlay_what, *overlay_from];
            arguments.extend(overlay_for.map(|length| *length));
            call("overlay", arguments)
        }
        Expr::Position { expr, r#in } => call("position", vec![*expr, *r#in]),
        Expr::Ceil { expr, .. } => call("ceil", vec![*expr]),
        Expr::Floor { expr, .. } => call("floor", vec![*expr]),
        Expr::Collate { expr, collation } => {
            let name = collation.to_string().to_lowercase().replace('"', "");
            match name.trim_start_matches("pg_catalog.") {
                "default" | "c" | "posix" | "ucs_basic" => *expr,
                _ => {
                    let message =
                        format!("collation {collation} is not supported: text sorts by its bytes");
                    return Err(Error::unsupported(message));
                }
            }
        }
        Expr::BinaryOp { left, op, right } => compare(*left, op, *right)?,
        Expr::Function(function) => rewrite_function(function)?,
        Expr::Subquery(query) => super::correlated::value(query),
        other => other,
    })
}

fn is_subquery(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_subquery(inner),
        other => matches!(other, Expr::Subquery(_) | Expr::Exists { .. }),
    }
}

pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

pub(super) fn not_if(negated: bool, expr: Expr) -> Expr {
    match negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) },
        false => expr,
    }
}

fn cast(expr: Expr, name: &str) -> Expr {
    let lower = name.to_lowercase();
    let bare = lower.trim_start_matches("pg_catalog.").to_owned();
    // The number of an object whose name is computed.
    if bare == "oid"
        && let Expr::Function(function) = &expr
        && function_name(&function.name).as_deref() == Some("__reg_name")
        && let Some(given) = super::calls::arguments(function)
    {
        return call("__reg_oid", given);
    }
    if bare.starts_with("reg") && !bare.ends_with(']') {
        let literal = matches!(&expr, Expr::Value(_));
        return match literal {
            true => call("__reg_oid", vec![expr, text_literal(&bare)]),
            false => call("__reg_name", vec![expr, text_literal(&bare)]),
        };
    }
    match reg_call(&expr) {
        // As text, an object is its name.
        Some(kind) if !matches!(bare.as_str(), "oid" | "int4" | "int8" | "integer" | "bigint") => {
            cast_call(call("__reg_name", vec![expr, kind]), name)
        }
        _ => round_call(expr, name),
    }
}

/// Returns a cast, and the rounding that a type such as `timestamp(0)` asks for.
fn round_call(expr: Expr, name: &str) -> Expr {
    let (Some(digits), Some((before, rest))) =
        (crate::values::time_precision(name), name.split_once('('))
    else {
        return cast_call(expr, name);
    };
    let behind = rest.split_once(')').map_or("", |(_, behind)| behind);
    let value = cast_call(expr, &format!("{before}{behind}"));
    call("__round_moment", vec![value, number(&digits.to_string())])
}

/// Returns the kind of object whose number an expression is, by its name as a literal.
fn reg_call(expr: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expr else { return None };
    let is_it = function_name(&function.name).as_deref() == Some("__reg_oid");
    let given = arguments(function).filter(|_| is_it)?;
    given.into_iter().nth(1)
}

/// Has the columns of a whole query show objects by their names, where they are literals such as `'t'::regclass`.
pub(super) fn show_names(body: &mut SetExpr) {
    let select = match body {
        SetExpr::Select(select) => select,
        SetExpr::Query(query) => return show_names(&mut query.body),
        SetExpr::SetOperation { left, right, .. } => {
            show_names(left);
            return show_names(right);
        }
        _ => return,
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && let Some(kind) = reg_call(expr)
        {
            let number = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = call("__reg_name", vec![number, kind]);
        }
    }
}

fn interval_call(interval: Interval) -> Result<Expr> {
    let Interval { value, leading_field, last_field, .. } = interval;
    if last_field.is_some() {
        return Err(Error::unsupported("intervals with a range of fields are not supported"));
    }
    let text = match (*value, leading_field) {
        (Expr::Value(value), Some(field)) => {
            format!("{} {field}", value.into_string().unwrap_or_default())
        }
        (Expr::Value(value), None) => value.into_string().unwrap_or_default(),
        (other, _) => return Ok(cast_call(other, "interval")),
    };
    Ok(cast_call(text_literal(&text), "interval"))
}

fn unary(op: UnaryOperator, expr: Expr) -> Expr {
    let name = match op {
        UnaryOperator::Not => return not_if(true, expr),
        UnaryOperator::Plus => "op:+",
        UnaryOperator::Minus => match negative(&expr) {
            Some(literal) => return literal,
            None => "op:-",
        },
        UnaryOperator::BitwiseNot => "op:~",
        UnaryOperator::PGAbs => "op:@",
        UnaryOperator::PGSquareRoot => "op:|/",
        UnaryOperator::PGCubeRoot => "op:||/",
        other => return Expr::UnaryOp { op: other, expr: Box::new(expr) },
    };
    call(name, vec![expr])
}

/// Returns the literal that a minus before a number makes: `-2147483648` is an integer.
fn negative(expr: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expr else { return None };
    let given = arguments(function)?;
    let [Expr::Value(digits), Expr::Value(name)] = given.as_slice() else { return None };
    let (Value::SingleQuotedString(digits), Value::SingleQuotedString(_)) =
        (&digits.value, &name.value)
    else {
        return None;
    };
    let is_number = function_name(&function.name)? == "__cast"
        && digits.bytes().next()?.is_ascii_digit()
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number(&format!("-{digits}")))
}

fn like(
    negated: bool,
    expr: Expr,
    pattern: Expr,
    escape: Option<ValueWithSpan>,
    ignore_case: bool,
) -> Expr {
    match escape.and_then(|value| value.into_string()) {
        Some(escape) => {
            let name = if ignore_case { "__ilike" } else { "__like" };
            not_if(negated, call(name, vec![expr, pattern, text_literal(&escape)]))
        }
        None => {
            let name = match (negated, ignore_case) {
                (false, false) => "op:~~",
                (true, false) => "op:!~~",
                (false, true) => "op:~~*",
                (true, true) => "op:!~~*",
            };
            call(name, vec![expr, pattern])
        }
    }
}

/// Joins parts in pairs, so that the tree is only as deep as the logarithm of their number.
pub(in crate::query) fn balanced<T>(mut parts: Vec<T>, join: impl Fn(T, T) -> T) -> Option<T> {
    while parts.len() > 1 {
        let mut pairs = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        parts = pairs;
    }
    parts.pop()
}

fn in_list(expr: Expr, list: Vec<Expr>) -> Result<Expr> {
    if let Expr::Tuple(_) = &expr {
        let equal = list.into_iter().map(|item| compare(expr.clone(), BinaryOperator::Eq, item));
        let equal = equal.collect::<Result<Vec<_>>>()?;
        let either = balanced(equal, |left, right| binary(left, BinaryOperator::Or, right));
        return Ok(either.unwrap_or_else(|| Expr::value(Value::Boolean(false))));
    }
    let mut arguments = vec![expr];
    arguments.extend(list);
    Ok(call("__in", arguments))
}

fn case(operand: Option<Expr>, conditions: Vec<CaseWhen>, other: Option<Expr>) -> Result<Expr> {
    let mut arguments = Vec::new();
    for CaseWhen { condition, result } in conditions {
        arguments.push(match &operand {
            Some(operand) => binary(copied(operand)?, BinaryOperator::Eq, condition),
            None => condition,
        });
        arguments.push(result);
    }
    arguments.push(other.unwrap_or_else(|| Expr::value(Value::Null)));
    Ok(call("__case", arguments))
}

/// Returns a copy of an expression. 54001 if it is large: nested copies double with each level.
fn copied(expr: &Expr) -> Result<Expr> {
    let mut nodes = 0;
    let flow = visit_expressions(expr, |_| {
        nodes += 1;
        match nodes > COPIED_NODES_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    if flow.is_break() { Err(too_large()) } else { Ok(expr.clone()) }
}

/// Returns the error of an expression that is too large to be copied.
pub(in crate::query) fn too_large() -> Error {
    let message = "an expression is too large to be evaluated more than once";
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, message)
}

fn access(root: Expr, chain: Vec<AccessExpr>) -> Result<Expr> {
    let mut out = root;
    for step in chain {
        out = match step {
            // A column with the name of its table.
            AccessExpr::Dot(Expr::Identifier(name)) => match out {
                Expr::Identifier(table) => Expr::CompoundIdentifier(vec![table, name]),
                Expr::CompoundIdentifier(mut parts) => {
                    parts.push(name);
                    Expr::CompoundIdentifier(parts)
                }
                Expr::Nested(pair) => pair_part(*pair, &name.value)?,
                _ => return Err(Error::unsupported("composite types are not supported")),
            },
            AccessExpr::Subscript(Subscript::Index { index }) => {
                call("__subscript", vec![out, index])
            }
            AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) => {
                let low = lower_bound.unwrap_or_else(|| number("1"));
                let high = upper_bound.unwrap_or_else(|| number("2147483647"));
                call("__slice", vec![out, low, high])
            }
            AccessExpr::Dot(_) => {
                return Err(Error::unsupported("composite types are not supported"));
            }
        };
    }
    Ok(out)
}

/// Returns the element, or the place, of a pair as [`super::sets::numbered`] makes them: of its call, or of a
/// column that has such pairs. 42809 for other expressions.
fn pair_part(pair: Expr, name: &str) -> Result<Expr> {
    let place = match name.to_ascii_lowercase().as_str() {
        "x" => 0,
        "n" => 1,
        _ => return Err(Error::unsupported("composite types are not supported")),
    };
    if let Some([element, ordinal]) = pair_parts(&pair) {
        return Ok(if place == 0 { element } else { ordinal });
    }
    match pair {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
            Ok(call("__pair_part", vec![pair, number(&(place + 1).to_string())]))
        }
        _ => {
            let message =
                format!("column notation .{name} applied to a value that is not composite");
            Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
    }
}

fn quantified(name: &str, left: Expr, op: &BinaryOperator, right: Expr) -> Result<Expr> {
    let operator = operator_name(op)
        .ok_or_else(|| Error::unsupported(format!("{op} ANY is not supported")))?;
    let right = match right {
        Expr::Nested(inner) => *inner,
        other => other,
    };
    Ok(call(name, vec![left, text_literal(&operator), right]))
}

/// Spreads comparisons of rows over their columns; other operators stay.
fn compare(left: Expr, op: BinaryOperator, right: Expr) -> Result<Expr> {
    let (lefts, rights) = match (left, right) {
        (Expr::Tuple(lefts), Expr::Tuple(rights)) => (lefts, rights),
        (left, right) => {
            return Ok(match op {
                // Parentheses keep the operators that a name in full carries apart.
                BinaryOperator::PGCustomBinaryOperator(ref parts) => {
                    let symbol = parts.last().cloned().unwrap_or_default();
                    call(&format!("op:{symbol}"), vec![left, right])
                }
                op => binary(left, op, right),
            });
        }
    };
    if lefts.len() != rights.len() {
        let message = "unequal number of entries in row expressions";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    }
    let pairs: Vec<(Expr, Expr)> = lefts.into_iter().zip(rights).collect();
    let join = |parts: Vec<Expr>, with: BinaryOperator| {
        balanced(parts, |left, right| binary(left, with.clone(), right))
    };
    let equal = |pair: &(Expr, Expr)| binary(pair.0.clone(), BinaryOperator::Eq, pair.1.clone());
    let out = match op {
        BinaryOperator::Eq => join(pairs.iter().map(equal).collect(), BinaryOperator::And),
        BinaryOperator::NotEq => {
            let all = join(pairs.iter().map(equal).collect(), BinaryOperator::And);
            all.map(|all| not_if(true, Expr::Nested(Box::new(all))))
        }
        BinaryOperator::Lt | BinaryOperator::LtEq | BinaryOperator::Gt | BinaryOperator::GtEq => {
            if pairs.len() > ROW_ORDER_MAX {
                let message = format!("rows of more than {ROW_ORDER_MAX} values have no order");
                return Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, message));
            }
            let strict = match op {
                BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
                _ => BinaryOperator::Gt,
            };
            let mut alternatives = Vec::new();
            for (at, (left, right)) in pairs.iter().enumerate() {
                let last = at + 1 == pairs.len();
                let own = if last { op.clone() } else { strict.clone() };
                let mut parts: Vec<Expr> = pairs[..at].iter().map(equal).collect();
                parts.push(binary(left.clone(), own, right.clone()));
                alternatives.extend(join(parts, BinaryOperator::And));
            }
            join(alternatives, BinaryOperator::Or)
        }
        _ => return Err(Error::unsupported(format!("{op} of rows is not supported"))),
    };
    out.ok_or_else(|| Error::unsupported("comparison of empty rows is not supported"))
}

/// Returns the value of a lag or lead by NULL rows, whose answer is NULL; nothing for other calls.
fn beside_unknown(function: &Function, name: &str) -> Option<Expr> {
    if function.over.is_none() || !matches!(name, "lag" | "lead") {
        return None;
    }
    let mut all = arguments(function)?.into_iter();
    let (value, by) = (all.next()?, all.next()?);
    is_null(&by).then_some(value)
}

/// Returns whether an expression that is rewritten already is NULL, or a cast of it.
fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_null(inner),
        Expr::Value(value) => value.value == Value::Null,
        Expr::Function(function) if function_name(&function.name).as_deref() == Some("__cast") => {
            arguments(function).is_some_and(|all| all.first().is_some_and(is_null))
        }
        _ => false,
    }
}

fn rewrite_function(mut function: Function) -> Result<Expr> {
    if let Some(WindowType::WindowSpec(spec)) = &mut function.over {
        spec.window_frame.iter_mut().for_each(unwrap_frame);
    }
    if let FunctionArguments::Subquery(query) = function.args {
        return Ok(call("__array_of", vec![Expr::Subquery(query)]));
    }
    if let Some(pairs) = numbered(&function) {
        return Ok(pairs);
    }
    let Some(name) = function_name(&function.name) else {
        let message = format!("function {} does not exist", function.name);
        return Err(Error::new(SqlState::UNDEFINED_FUNCTION, message));
    };
    if function.over.is_none()
        && let Some(array) = elements(&function)
    {
        return Ok(typed_element(&name, call("unnest", vec![array])));
    }
    if name == "count"
        && let FunctionArguments::List(list) = &mut function.args
        && let [argument @ FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] =
            list.args.as_mut_slice()
    {
        *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::value(Value::Boolean(true))));
    }
    if let Some(value) = beside_unknown(&function, &name) {
        let condition = Expr::value(Value::Boolean(false));
        return case(None, vec![CaseWhen { condition, result: value }], None);
    }
    let own = match name.as_str() {
        "coalesce" => "__coalesce",
        "nullif" => "__nullif",
        "every" => "bool_and",
        other => other,
    };
    let plain = Expr::Function(function.clone());
    let Expr::Function(template) = call(own, Vec::new()) else { return Ok(plain) };
    function.name = template.name;
    if matches!(function.args, FunctionArguments::None) {
        function.args = template.args;
    }
    Ok(Expr::Function(function))
}

/// Turns the offsets of a frame back into numbers.
pub(super) fn unwrap_frame(frame: &mut WindowFrame) {
    unwrap_bound(&mut frame.start_bound);
    frame.end_bound.iter_mut().for_each(unwrap_bound);
}

fn unwrap_bound(bound: &mut WindowFrameBound) {
    if let WindowFrameBound::Preceding(Some(expr)) | WindowFrameBound::Following(Some(expr)) = bound
    {
        unwrap_number(expr);
    }
}
