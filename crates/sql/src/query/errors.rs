//! Errors of DataFusion as PostgreSQL states them, and places in the text of a statement.
//!
//! 1. An error of this crate comes out as it went in, however DataFusion wrapped it.
//! 2. The text of an unknown error is a detail, never the message.

use std::ops::ControlFlow;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Query, Spanned, Visit, Visitor};
use relational::{Error, SqlState};

/// Returns the error that a client sees.
pub(crate) fn from_datafusion(problem: DataFusionError) -> Error {
    if let Some(own) = own_error(&problem) {
        return own;
    }
    match problem {
        DataFusionError::SchemaError(problem, _) => schema_error(&problem),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            from_datafusion(*inner)
        }
        DataFusionError::Collection(mut all) if !all.is_empty() => {
            from_datafusion(all.swap_remove(0))
        }
        DataFusionError::ResourcesExhausted(_) => {
            Error::new(SqlState::OUT_OF_MEMORY, "out of memory")
                .with_detail("The query needs more memory than the server gives to queries.")
        }
        DataFusionError::NotImplemented(text) if text.contains("expression WindowFunction") => {
            Error::new(SqlState::WINDOWING_ERROR, "window functions are not allowed here")
        }
        DataFusionError::NotImplemented(text) => {
            Error::unsupported("the query uses something that is not supported")
                .with_detail(first(&text))
        }
        DataFusionError::Plan(text) => plan_error(&text),
        DataFusionError::IoError(problem) => {
            Error::new(SqlState::IO_ERROR, format!("a spill file failed: {problem}"))
        }
        DataFusionError::Shared(inner) => match inner.as_ref() {
            DataFusionError::Plan(text) => plan_error(text),
            DataFusionError::SchemaError(problem, _) => schema_error(problem),
            other => unknown(&other.to_string()),
        },
        other => unknown(&other.to_string()),
    }
}

fn unknown(text: &str) -> Error {
    Error::internal("the query could not be executed").with_detail(first(text))
}

/// Returns the first line of a text, bounded.
fn first(text: &str) -> String {
    text.lines().next().unwrap_or("").chars().take(300).collect()
}

/// Returns the error of this crate inside an error.
fn own_error(problem: &DataFusionError) -> Option<Error> {
    match problem {
        DataFusionError::External(inner) => {
            if let Some(own) = inner.downcast_ref::<Error>() {
                return Some(own.clone());
            }
            inner.downcast_ref::<DataFusionError>().and_then(own_error)
        }
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            own_error(inner)
        }
        DataFusionError::Shared(inner) => own_error(inner),
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::ExternalError(inner) => {
                if let Some(own) = inner.downcast_ref::<Error>() {
                    return Some(own.clone());
                }
                inner.downcast_ref::<DataFusionError>().and_then(own_error)
            }
            _ => None,
        },
        DataFusionError::Collection(all) => all.iter().find_map(own_error),
        _ => None,
    }
}

fn schema_error(problem: &SchemaError) -> Error {
    match problem {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let name = match &field.relation {
                Some(table) => {
                    let known =
                        valid_fields.iter().any(|other| other.relation.as_ref() == Some(table));
                    if !known && !valid_fields.is_empty() {
                        let message =
                            format!("missing FROM-clause entry for table \"{}\"", table.table());
                        return Error::new(SqlState::UNDEFINED_TABLE, message);
                    }
                    format!("{}.{}", table.table(), field.name)
                }
                None => format!("\"{}\"", field.name),
            };
            Error::new(SqlState::UNDEFINED_COLUMN, format!("column {name} does not exist"))
        }
        SchemaError::AmbiguousReference { field } => {
            let message = format!("column reference \"{}\" is ambiguous", field.name);
            Error::new(SqlState::AMBIGUOUS_COLUMN, message)
        }
        SchemaError::DuplicateUnqualifiedField { name }
        | SchemaError::DuplicateQualifiedField { name, .. } => Error::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{name}\" specified more than once"),
        ),
    }
}

/// Parts of texts of DataFusion in small letters, and the error that PostgreSQL gives.
const KNOWN: &[(&str, SqlState, &str)] = &[
    (
        "aggregate function calls cannot be nested",
        SqlState::GROUPING_ERROR,
        "aggregate function calls cannot be nested",
    ),
    (
        "aggregate functions are not allowed in the where",
        SqlState::GROUPING_ERROR,
        "aggregate functions are not allowed in WHERE",
    ),
    (
        "select distinct on expressions must match",
        SqlState::INVALID_COLUMN_REFERENCE,
        "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
    ),
    (
        "for select distinct, order by expressions",
        SqlState::INVALID_COLUMN_REFERENCE,
        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
    ),
    (
        "order by column out of bounds",
        SqlState::INVALID_COLUMN_REFERENCE,
        "ORDER BY position is not in select list",
    ),
    (
        "group by column out of bounds",
        SqlState::INVALID_COLUMN_REFERENCE,
        "GROUP BY position is not in select list",
    ),
    ("limit must be >=", SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, "LIMIT must not be negative"),
    (
        "offset must be >=",
        SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE,
        "OFFSET must not be negative",
    ),
    (
        "inconsistent data length across values list",
        SqlState::SYNTAX_ERROR,
        "VALUES lists must all be the same length",
    ),
    (
        "too many columns! the subquery should only return one column",
        SqlState::SYNTAX_ERROR,
        "subquery must return only one column",
    ),
];

/// Returns the error of a plan that DataFusion refused, by the kind of its text. DataFusion has no
/// codes for these.
fn plan_error(text: &str) -> Error {
    let between = |start: &str| {
        let rest = &text[text.find(start)? + start.len()..];
        Some(rest[..rest.find('\'')?].to_owned())
    };
    if let Some(name) = between("Invalid function '") {
        let message = format!("function {name} does not exist");
        return Error::new(SqlState::UNDEFINED_FUNCTION, message);
    }
    let lower = text.to_lowercase();
    let is = |words: &str| lower.contains(words);
    for (words, state, message) in KNOWN {
        if is(words) {
            return Error::new(*state, *message);
        }
    }
    if is("must be in group by") || is("must appear in the group by") {
        let message =
            "a column must appear in the GROUP BY clause or be used in an aggregate function";
        return Error::new(SqlState::GROUPING_ERROR, message);
    }
    if is("different number of columns") {
        let message = "each UNION query must have the same number of columns";
        return Error::new(SqlState::SYNTAX_ERROR, message);
    }
    if is("scalar subquery") && is("more than one row") {
        let message = "more than one row returned by a subquery used as an expression";
        return Error::new(SqlState::CARDINALITY_VIOLATION, message);
    }
    if is("non-boolean predicate") {
        let message = "argument of WHERE must be type boolean";
        return Error::new(SqlState::DATATYPE_MISMATCH, message);
    }
    Error::unsupported("the query could not be planned").with_detail(first(text))
}

/// Returns the character of the text at which a name stands first, from 1.
pub(crate) fn position_of(query: &Query, text: &str, name: &str) -> Option<u32> {
    let mut search = Search { name: name.to_owned(), found: None };
    let _ = query.visit(&mut search);
    let (line, column) = search.found?;
    let before: usize =
        text.lines().take(line.checked_sub(1)? as usize).map(|line| line.chars().count() + 1).sum();
    u32::try_from(before as u64 + column).ok()
}

struct Search {
    name: String,
    found: Option<(u64, u64)>,
}

impl Search {
    fn look(&mut self, parts: &[Ident]) -> ControlFlow<()> {
        let same = |ident: &Ident| match ident.quote_style {
            Some(_) => ident.value == self.name,
            None => ident.value.to_ascii_lowercase() == self.name,
        };
        match (parts.iter().any(same), parts.first()) {
            (true, Some(first)) if first.span.start.line > 0 => {
                self.found = Some((first.span.start.line, first.span.start.column));
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Visitor for Search {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let parts: Vec<Ident> =
            relation.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
        self.look(&parts)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) => self.look(std::slice::from_ref(ident)),
            Expr::CompoundIdentifier(parts) => self.look(parts),
            Expr::Function(function) => {
                debug_assert!(function.name.span().start.line < u64::MAX);
                let parts: Vec<Ident> =
                    function.name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
                self.look(&parts)
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
