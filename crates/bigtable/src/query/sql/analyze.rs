//! From syntax to typed expressions: what each name stands for, and which types meet.
//!
//! Names are `_key`, families, and parameters. A column is a family with a qualifier in brackets.
//! Constants adapt: a text to bytes that it meets, a whole number to a float.

use super::coerce::{
    Typed, as_bytes, cast_to, check_ordered, literal, not, ordered, typed, unified, unify,
};
use super::expr::{Cast, Comparison, Expr};
use super::functions::Function;
use super::literals::{constant, negative};
use super::parse::Statement;
use super::types::{SqlType, Value};
use super::{Result, casts, invalid, shown, unsupported};
use sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, Expr as Ast, Function as Call, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, InTarget, SelectItem,
    Subscript, UnaryOperator, WildcardAdditionalOptions,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Deepest nesting of an expression. Chains of AND and of OR count as one.
pub(crate) const DEPTH_MAX: usize = 32;
/// Most columns of a result, after `*` is replaced by columns.
pub(crate) const COLUMNS_MAX: usize = 1_100;
/// The name of the row key.
pub(crate) const KEY: &str = "_key";

/// The names that a statement may use.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scope {
    /// Families in order of their names, each with the type of its map.
    pub(crate) families: Vec<(String, SqlType)>,
    /// Names of the parts of the row key, which queries cannot use.
    pub(crate) key_fields: Vec<String>,
    pub(crate) parameters: BTreeMap<String, SqlType>,
}

/// A statement whose names are known and whose types fit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Query {
    /// The columns of the result.
    pub(crate) columns: Vec<Column>,
    pub(crate) filter: Option<Expr>,
    /// True for descending order of keys.
    pub(crate) reverse: bool,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    /// The families that it names.
    pub(crate) families: BTreeSet<usize>,
}

/// A column of the result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// Its name; empty if the statement gives it none.
    pub(crate) name: String,
    pub(crate) r#type: SqlType,
    pub(crate) expr: Expr,
}

/// Analyzes a statement with the names of its scope.
pub(crate) fn analyze(statement: &Statement, scope: &Scope) -> Result<Query> {
    let alias = statement.source.as_ref().map(|source| source.alias.as_str());
    let analyzer = Analyzer { scope, alias, families: RefCell::default() };
    if alias.is_none() && (statement.filter.is_some() || statement.order.is_some()) {
        return invalid("a query without FROM can have neither WHERE nor ORDER BY");
    }
    let mut columns = Vec::new();
    for item in &statement.items {
        analyzer.item(item, &mut columns)?;
        if columns.len() > COLUMNS_MAX {
            return invalid(format!("the result has more than {COLUMNS_MAX} columns"));
        }
    }
    let filter = statement.filter.as_ref().map(|filter| analyzer.condition(filter, DEPTH_MAX));
    let reverse = match &statement.order {
        None => false,
        Some((by, descending)) => match analyzer.expr(by, DEPTH_MAX)?.expr {
            Expr::Key => *descending,
            _ => return unsupported("ORDER BY of anything but _key"),
        },
    };
    let count = |clause: &str, count: &Option<Ast>| {
        count.as_ref().map(|count| analyzer.count(clause, count)).transpose()
    };
    Ok(Query {
        columns,
        filter: filter.transpose()?,
        reverse,
        limit: count("LIMIT", &statement.limit)?,
        offset: count("OFFSET", &statement.offset)?,
        families: analyzer.families.into_inner(),
    })
}

struct Analyzer<'a> {
    scope: &'a Scope,
    /// The name of the table; `None` without FROM.
    alias: Option<&'a str>,
    /// The families that were named.
    families: RefCell<BTreeSet<usize>>,
}

impl Analyzer<'_> {
    fn item(&self, item: &SelectItem, columns: &mut Vec<Column>) -> Result<()> {
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, implied_name(expr)),
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias.value.clone()),
            SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default() => {
                return self.all(columns);
            }
            SelectItem::Wildcard(_) => return unsupported("a modifier of *"),
            SelectItem::QualifiedWildcard(..) => return unsupported("* of a name"),
            SelectItem::ExprWithAliases { .. } => return unsupported("a list of names after AS"),
        };
        let Typed { expr, r#type } = self.expr(expr, DEPTH_MAX)?;
        columns.push(Column { name, r#type: r#type.unwrap_or(SqlType::Int64), expr });
        Ok(())
    }

    /// Appends the key and all families.
    fn all(&self, columns: &mut Vec<Column>) -> Result<()> {
        if self.alias.is_none() {
            return invalid("SELECT * needs FROM");
        }
        let key = Column { name: KEY.into(), r#type: SqlType::Bytes, expr: Expr::Key };
        columns.push(key);
        for (at, (name, r#type)) in self.scope.families.iter().enumerate() {
            let (name, r#type) = (name.clone(), r#type.clone());
            self.families.borrow_mut().insert(at);
            columns.push(Column { name, r#type, expr: Expr::Family(at) });
        }
        Ok(())
    }

    fn count(&self, clause: &str, count: &Ast) -> Result<Expr> {
        let typed = self.expr(count, DEPTH_MAX)?;
        match typed.r#type {
            Some(SqlType::Int64) if typed.expr.is_constant() => Ok(typed.expr),
            _ => invalid(format!("{clause} must be a constant of type INT64")),
        }
    }

    /// An expression that is true, false or NULL.
    fn condition(&self, ast: &Ast, depth: usize) -> Result<Expr> {
        let typed = self.expr(ast, depth)?;
        match typed.r#type {
            None | Some(SqlType::Bool) => Ok(typed.expr),
            Some(other) => invalid(format!("a condition must be BOOL, not {other}")),
        }
    }

    fn expr(&self, ast: &Ast, depth: usize) -> Result<Typed> {
        let Some(depth) = depth.checked_sub(1) else {
            return invalid(format!("an expression is nested more than {DEPTH_MAX} deep"));
        };
        match ast {
            Ast::Nested(inner) => self.expr(inner, depth),
            Ast::Value(value) => constant(&value.value).map(literal),
            Ast::Identifier(name) => self.name(name),
            Ast::CompoundIdentifier(names) => self.qualified(names),
            Ast::CompoundFieldAccess { root, access_chain } => {
                self.access(root, access_chain, depth)
            }
            Ast::UnaryOp { op, expr } => self.unary(*op, expr, depth),
            Ast::BinaryOp { left, op, right } => self.binary(left, op, right, depth),
            Ast::Cast { kind, expr, data_type, format } => {
                if format.is_some() {
                    return unsupported("CAST with FORMAT");
                }
                self.cast(kind, expr, data_type, depth)
            }
            Ast::Function(call) => self.call(call, depth),
            Ast::Array(array) => self.array(&array.elem, depth),
            Ast::Struct { values, fields } if fields.is_empty() => self.structure(values, depth),
            other => self.predicate(other, depth),
        }
    }

    /// A condition of one form of syntax.
    fn predicate(&self, ast: &Ast, depth: usize) -> Result<Typed> {
        let condition = match ast {
            Ast::IsNull(of) => Expr::IsNull(Box::new(self.expr(of, depth)?.expr)),
            Ast::IsNotNull(of) => not(Expr::IsNull(Box::new(self.expr(of, depth)?.expr)), true),
            Ast::IsTrue(of) => Expr::Is(Box::new(self.condition(of, depth)?), true),
            Ast::IsNotTrue(of) => not(Expr::Is(Box::new(self.condition(of, depth)?), true), true),
            Ast::IsFalse(of) => Expr::Is(Box::new(self.condition(of, depth)?), false),
            Ast::IsNotFalse(of) => not(Expr::Is(Box::new(self.condition(of, depth)?), false), true),
            Ast::Between { expr, negated, low, high } => {
                let parts =
                    [self.expr(expr, depth)?, self.expr(low, depth)?, self.expr(high, depth)?];
                not(Expr::Between(Box::new(ordered(parts, "BETWEEN")?)), *negated)
            }
            Ast::In { expr, target, negated, global: false } => {
                not(self.is_in(expr, target, depth)?, *negated)
            }
            Ast::Like { negated, any: false, expr, pattern, escape_char: None } => {
                let sides = [self.expr(expr, depth)?, self.expr(pattern, depth)?];
                let (sides, of) = unified(sides, "LIKE")?;
                if !matches!(of, None | Some(SqlType::String | SqlType::Bytes)) {
                    return invalid("LIKE takes STRING or BYTES");
                }
                not(Expr::Like(Box::new(sides)), *negated)
            }
            other => return unsupported(format!("the expression {}", shown(&other.to_string()))),
        };
        Ok(Typed { expr: condition, r#type: Some(SqlType::Bool) })
    }

    fn is_in(&self, expr: &Ast, target: &InTarget, depth: usize) -> Result<Expr> {
        let value = self.expr(expr, depth)?;
        match target {
            InTarget::List(items) => {
                let mut all = vec![value];
                for item in items {
                    all.push(self.expr(item, depth)?);
                }
                let (all, of) = unify(all, "IN")?;
                check_ordered(of.as_ref(), "IN")?;
                let mut all = all.into_iter();
                let value = all.next().unwrap_or(Expr::Literal(Value::Null));
                Ok(Expr::In(Box::new(value), all.collect()))
            }
            InTarget::Unnest(array) => {
                let array = self.expr(array, depth)?;
                let Some(SqlType::Array(element)) = array.r#type else {
                    return invalid("UNNEST takes an array");
                };
                let array = match (&value.r#type, &*element) {
                    (Some(SqlType::Bytes), SqlType::String) if array.expr.is_constant() => {
                        let to = SqlType::Array(Box::new(SqlType::Bytes));
                        cast_to(array.expr, SqlType::Array(element), to)
                    }
                    (None, _) => array.expr,
                    (Some(of), element) if of == element && of.is_ordered() => array.expr,
                    (Some(of), element) => {
                        return invalid(format!("IN cannot compare {of} with {element}"));
                    }
                };
                Ok(Expr::InArray(Box::new([value.expr, array])))
            }
            InTarget::Subquery(_) | InTarget::Table { .. } => unsupported("IN a subquery"),
        }
    }

    /// The key, a family or a parameter.
    fn name(&self, name: &Ident) -> Result<Typed> {
        let word = name.value.as_str();
        if name.quote_style.is_none()
            && let Some(parameter) = word.strip_prefix('@')
        {
            return match self.scope.parameters.get(parameter) {
                Some(of) => Ok(typed(Expr::Parameter(parameter.to_owned()), of.clone())),
                None => invalid(format!("the parameter @{} has no type", shown(parameter))),
            };
        }
        if self.alias.is_some() {
            if word.eq_ignore_ascii_case(KEY) {
                return Ok(typed(Expr::Key, SqlType::Bytes));
            }
            if let Some(at) = self.family(word) {
                self.families.borrow_mut().insert(at);
                return Ok(typed(Expr::Family(at), self.scope.families[at].1.clone()));
            }
        }
        if self.alias.is_some() && self.scope.key_fields.iter().any(|field| field == word) {
            return unsupported(format!("the field {} of the row key schema", shown(word)));
        }
        invalid(format!("unrecognized name: {}", shown(word)))
    }

    /// Returns the family called `name`; names that differ in case alone match if only one does.
    fn family(&self, name: &str) -> Option<usize> {
        let families = &self.scope.families;
        let exact = families.iter().position(|(family, _)| family == name);
        exact.or_else(|| {
            let same = |family: &str| family.eq_ignore_ascii_case(name);
            let mut found = (0..families.len()).filter(|at| same(&families[*at].0));
            found.next().filter(|_| found.next().is_none())
        })
    }

    /// A name after the name of the table.
    fn qualified(&self, names: &[Ident]) -> Result<Typed> {
        match names {
            [table, name] if self.alias == Some(table.value.as_str()) => self.name(name),
            _ => {
                let names: Vec<&str> = names.iter().map(|name| name.value.as_str()).collect();
                invalid(format!("unrecognized name: {}", shown(&names.join("."))))
            }
        }
    }

    /// The column of a family.
    fn access(&self, root: &Ast, chain: &[AccessExpr], depth: usize) -> Result<Typed> {
        let (root, subscript) = match (root, chain) {
            (root, [AccessExpr::Subscript(subscript)]) => (self.expr(root, depth)?, subscript),
            // The parser gives the family of `table.family['q']` as a step of the chain.
            (
                Ast::Identifier(table),
                [AccessExpr::Dot(Ast::Identifier(name)), AccessExpr::Subscript(subscript)],
            ) => (self.qualified(&[table.clone(), name.clone()])?, subscript),
            _ => return unsupported("access to a part of a value"),
        };
        let (Expr::Family(family), Some(SqlType::Map(_, value))) = (root.expr, root.r#type) else {
            return unsupported("[ ] after anything but a family");
        };
        let Subscript::Index { index } = subscript else { return unsupported("a slice") };
        let qualifier = self.expr(index, depth)?;
        let Some(qualifier) = as_bytes(qualifier).filter(Expr::is_constant) else {
            return invalid("a qualifier must be a constant of type BYTES or STRING");
        };
        Ok(typed(Expr::Column(family, Box::new(qualifier)), *value))
    }

    fn unary(&self, op: UnaryOperator, expr: &Ast, depth: usize) -> Result<Typed> {
        match op {
            UnaryOperator::Not => {
                let condition = self.condition(expr, depth)?;
                Ok(typed(not(condition, true), SqlType::Bool))
            }
            UnaryOperator::Plus | UnaryOperator::Minus => {
                let minus = op == UnaryOperator::Minus;
                // The least INT64 is a number only with its minus.
                if let Ast::Value(value) = expr
                    && minus
                    && let Some(number) = negative(&value.value)
                {
                    return number.map(literal);
                }
                let of = self.expr(expr, depth)?;
                let value = match of.expr {
                    Expr::Literal(Value::Int64(value)) if minus => match value.checked_neg() {
                        Some(value) => Value::Int64(value),
                        None => return invalid(format!("-({value}) is out of range of INT64")),
                    },
                    Expr::Literal(Value::Float(value)) if minus => Value::Float(-value),
                    Expr::Literal(value @ (Value::Int64(_) | Value::Float(_))) => value,
                    _ => return unsupported("arithmetic"),
                };
                Ok(Typed { expr: Expr::Literal(value), ..of })
            }
            other => unsupported(format!("the operator {other}")),
        }
    }

    fn binary(&self, left: &Ast, op: &BinaryOperator, right: &Ast, depth: usize) -> Result<Typed> {
        use BinaryOperator as Op;
        let how = match op {
            Op::And | Op::Or => return self.chain(left, op, right, depth),
            Op::Eq => Comparison::Equal,
            Op::NotEq => Comparison::NotEqual,
            Op::Lt => Comparison::Less,
            Op::LtEq => Comparison::LessOrEqual,
            Op::Gt => Comparison::Greater,
            Op::GtEq => Comparison::GreaterOrEqual,
            Op::Plus | Op::Minus | Op::Multiply | Op::Divide | Op::Modulo => {
                return unsupported("arithmetic");
            }
            other => return unsupported(format!("the operator {other}")),
        };
        let sides = [self.expr(left, depth)?, self.expr(right, depth)?];
        let sides = ordered(sides, &op.to_string())?;
        Ok(typed(Expr::Compare(how, Box::new(sides)), SqlType::Bool))
    }

    /// A chain of AND or of OR, which the parser nests to the left.
    fn chain(&self, left: &Ast, op: &BinaryOperator, right: &Ast, depth: usize) -> Result<Typed> {
        let mut parts = vec![self.condition(right, depth)?];
        let mut rest = left;
        while let Ast::BinaryOp { left, op: next, right } = rest
            && next == op
        {
            parts.push(self.condition(right, depth)?);
            rest = left;
        }
        parts.push(self.condition(rest, depth)?);
        parts.reverse();
        let is_and = *op == BinaryOperator::And;
        let chain = if is_and { Expr::And(parts) } else { Expr::Or(parts) };
        Ok(typed(chain, SqlType::Bool))
    }

    fn cast(&self, kind: &CastKind, expr: &Ast, to: &DataType, depth: usize) -> Result<Typed> {
        let safe = match kind {
            CastKind::Cast => false,
            CastKind::SafeCast => true,
            CastKind::TryCast | CastKind::DoubleColon => return unsupported("this form of a cast"),
        };
        let of = self.expr(expr, depth)?;
        let to = data_type(to)?;
        let from = of.r#type.unwrap_or_else(|| to.clone());
        if !casts::exists(&from, &to) {
            return invalid(format!("{from} cannot be cast to {to}"));
        }
        let cast = Cast { expr: of.expr, from, to: to.clone(), safe };
        Ok(typed(Expr::Cast(Box::new(cast)), to))
    }

    fn call(&self, call: &Call, depth: usize) -> Result<Typed> {
        let Call {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            filter,
            null_treatment,
            over,
            within_group,
        } = call;
        let name = name.to_string();
        let function = Function::named(&name)?;
        let plain = !uses_odbc_syntax
            && *parameters == FunctionArguments::None
            && filter.is_none()
            && null_treatment.is_none()
            && over.is_none()
            && within_group.is_empty();
        let FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses,
        }) = args
        else {
            return unsupported(format!("this form of a call of {}", shown(&name)));
        };
        if !plain || !clauses.is_empty() {
            return unsupported(format!("this form of a call of {}", shown(&name)));
        }
        let mut arguments = Vec::with_capacity(args.len());
        for arg in args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg else {
                return unsupported(format!("the argument {}", shown(&arg.to_string())));
            };
            arguments.push(self.expr(arg, depth)?);
        }
        applied(function, &name, arguments)
    }

    fn array(&self, elements: &[Ast], depth: usize) -> Result<Typed> {
        let elements = elements.iter().map(|element| self.expr(element, depth));
        let (elements, of) = unify(elements.collect::<Result<_>>()?, "an array")?;
        let of = SqlType::Array(Box::new(of.unwrap_or(SqlType::Int64)));
        Ok(typed(Expr::Array(elements), of))
    }

    fn structure(&self, values: &[Ast], depth: usize) -> Result<Typed> {
        let (mut exprs, mut fields) = (Vec::new(), Vec::new());
        for value in values {
            let (expr, name) = match value {
                Ast::Named { expr, name } => (&**expr, name.value.clone()),
                expr => (expr, implied_name(expr)),
            };
            let Typed { expr, r#type } = self.expr(expr, depth)?;
            exprs.push(expr);
            fields.push((name, r#type.unwrap_or(SqlType::Int64)));
        }
        Ok(typed(Expr::Array(exprs), SqlType::Struct(fields)))
    }
}

/// Returns the name of a column that is a name itself.
fn implied_name(expr: &Ast) -> String {
    match expr {
        Ast::Identifier(name) if !name.value.starts_with('@') => name.value.clone(),
        Ast::CompoundIdentifier(names) => {
            names.last().map(|name| name.value.clone()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn applied(function: Function, name: &str, mut arguments: Vec<Typed>) -> Result<Typed> {
    if function == Function::MapContainsKey
        && let [map, key] = &mut arguments[..]
        && let Some(SqlType::Map(of, _)) = &map.r#type
        && **of == SqlType::Bytes
        && key.r#type == Some(SqlType::String)
        && key.expr.is_constant()
    {
        let text = std::mem::replace(&mut key.expr, Expr::Literal(Value::Null));
        *key = typed(cast_to(text, SqlType::String, SqlType::Bytes), SqlType::Bytes);
    }
    if function.unifies() {
        let (exprs, of) = unify(arguments, &name.to_ascii_uppercase())?;
        let of = of.unwrap_or(SqlType::String);
        arguments = exprs.into_iter().map(|expr| typed(expr, of.clone())).collect();
    }
    // NULL fits where any type does.
    let first = arguments.iter().find_map(|arg| arg.r#type.clone());
    let types: Vec<SqlType> =
        arguments.iter().filter_map(|arg| arg.r#type.clone().or_else(|| first.clone())).collect();
    let result = function.result(name, &types)?;
    // One column answers the question; the other columns of the family need not be read.
    if function == Function::MapContainsKey
        && let [Typed { expr: Expr::Family(family), .. }, key] = &arguments[..]
        && key.expr.is_constant()
    {
        let column = Expr::HasColumn(*family, Box::new(key.expr.clone()));
        return Ok(typed(not(Expr::IsNull(Box::new(column)), true), result));
    }
    Ok(typed(Expr::Call(function, arguments.into_iter().map(|arg| arg.expr).collect()), result))
}

fn data_type(name: &DataType) -> Result<SqlType> {
    Ok(match name.to_string().to_ascii_uppercase().as_str() {
        "BOOL" | "BOOLEAN" => SqlType::Bool,
        "INT64" => SqlType::Int64,
        "FLOAT32" => SqlType::Float32,
        "FLOAT64" => SqlType::Float64,
        "STRING" => SqlType::String,
        "BYTES" => SqlType::Bytes,
        other => return unsupported(format!("a cast to {}", shown(other))),
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    /// Words that the parser knows and GoogleSQL does not reserve.
    #[test]
    fn families_may_have_the_names_of_words() {
        for name in [
            "cf",
            "cell_plan",
            "count",
            "data",
            "date",
            "datetime",
            "day",
            "first",
            "format",
            "index",
            "info",
            "int64",
            "key",
            "last",
            "map",
            "name",
            "offset",
            "position",
            "row",
            "session",
            "source",
            "stats_summary",
            "status",
            "string",
            "sum",
            "table",
            "time",
            "timestamp",
            "tags",
            "type",
            "user",
            "users",
            "value",
            "values",
            "view",
            "year",
        ] {
            let bytes = || Box::new(SqlType::Bytes);
            let scope = Scope {
                families: vec![(name.to_owned(), SqlType::Map(bytes(), bytes()))],
                key_fields: Vec::new(),
                parameters: BTreeMap::new(),
            };
            let text = format!(
                "SELECT {name}, {name}['q'], t.{name}, t.{name}['q'] FROM t \
                 WHERE {name}['q'] = 'x' AND {name}['p'] IS NULL"
            );
            let query = parse(&text).and_then(|statement| analyze(&statement, &scope));
            let query = query.unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
            assert_eq!(query.columns[0].expr, Expr::Family(0), "{name}");
            assert!(matches!(query.columns[3].expr, Expr::Column(0, _)), "{name}");
        }
    }
}
