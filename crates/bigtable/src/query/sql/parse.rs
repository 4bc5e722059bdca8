//! From the text of a query to the parts of one SELECT statement.
//!
//! The parser knows much more than is served. Each structure of its syntax tree is taken apart with
//! all its fields by name, so that no clause is passed over, also none that a later version adds.
//!
//! Invariants:
//! 1. The tree is no deeper than [`TOKENS_MAX`], so that the walk of its drop is safe; nested brackets
//!    and words that begin nested clauses are counted before the parser sees them.
//! 2. A word that GoogleSQL reserves and this server does not serve is refused before parsing.

use super::{Refusal, Result, invalid, lexer, shown, unsupported};
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, GroupByExpr, LimitClause, ObjectName, Offset, OrderBy,
    OrderByExpr, OrderByKind, OrderByOptions, OrderBySort, Query, Select, SelectFlavor, SelectItem,
    SetExpr, TableAlias, TableFactor, TableFunctionArgs, TableWithJoins, Value,
};
use sqlparser::dialect::BigQueryDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Longest text of a query.
pub(crate) const QUERY_BYTES_MAX: usize = 64 << 10;
/// Most tokens of a query, commas not counted.
const TOKENS_MAX: usize = 4_096;
/// Deepest nesting of brackets in a query.
const BRACKETS_MAX: usize = 16;
/// Deepest recursion of the parser.
const RECURSION_MAX: usize = 40;

/// Words that GoogleSQL reserves, for clauses and operators that are not served.
const REFUSED_WORDS: &[&str] = &[
    "ALL",
    "ANY",
    "AT",
    "CASE",
    "COLLATE",
    "CROSS",
    "CUBE",
    "CURRENT",
    "DISTINCT",
    "ESCAPE",
    "EXCEPT",
    "EXISTS",
    "EXTRACT",
    "FETCH",
    "FOR",
    "FULL",
    "GROUP",
    "GROUPING",
    "HAVING",
    "IF",
    "INNER",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "JOIN",
    "LATERAL",
    "LEFT",
    "MERGE",
    "NATURAL",
    "NEW",
    "OUTER",
    "OVER",
    "PARTITION",
    "PROTO",
    "QUALIFY",
    "RANGE",
    "RECURSIVE",
    "RIGHT",
    "ROLLUP",
    "ROWS",
    "SET",
    "SOME",
    "TABLESAMPLE",
    "TREAT",
    "UNION",
    "USING",
    "WINDOW",
    "WITH",
    "WITHIN",
];

/// A SELECT statement in parts.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(super) items: Vec<SelectItem>,
    /// The table; `None` for a query of constants.
    pub(super) source: Option<Source>,
    pub(super) filter: Option<Expr>,
    /// The one expression to order by, and true for descending order.
    pub(super) order: Option<(Expr, bool)>,
    pub(super) limit: Option<Expr>,
    pub(super) offset: Option<Expr>,
}

/// A table that is read.
#[derive(Debug)]
pub(crate) struct Source {
    /// The id of the table.
    pub(crate) table: String,
    /// The name that stands for it in the query.
    pub(super) alias: String,
}

impl Statement {
    /// Returns the table that is read; `None` for a query of constants.
    pub(crate) fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// Returns the text of the condition after WHERE.
    pub(crate) fn condition(&self) -> Option<String> {
        self.filter.as_ref().map(ToString::to_string)
    }
}

/// Parses the text of a query.
pub(crate) fn parse(text: &str) -> Result<Statement> {
    if text.len() > QUERY_BYTES_MAX {
        let len = text.len();
        return invalid(format!("{len} bytes are over the limit of {QUERY_BYTES_MAX} bytes"));
    }
    let dialect = BigQueryDialect;
    let tokens = lexer::tokens(text)?;
    check_tokens(&tokens)?;
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(RECURSION_MAX)
        .with_tokens_with_locations(tokens);
    let query = parser.parse_query().map_err(syntax)?;
    let _ends = parser.consume_token(&Token::SemiColon);
    let next = parser.peek_token_ref();
    if next.token != Token::EOF {
        let at = next.span.start;
        return invalid(format!("unexpected {}{at}", shown(&next.token.to_string())));
    }
    statement(*query)
}

fn syntax(error: ParserError) -> Refusal {
    Refusal::Invalid(match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => {
            format!("syntax error: {}", text.chars().take(500).collect::<String>())
        }
        ParserError::RecursionLimitExceeded => "the query is nested too deep".to_owned(),
    })
}

/// Bounds the tokens, and refuses words that are not served.
fn check_tokens(tokens: &[TokenWithSpan]) -> Result<()> {
    let (mut count, mut depth) = (0, 0);
    for TokenWithSpan { token, .. } in tokens {
        match token {
            Token::Whitespace(_) | Token::Comma => continue,
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => depth = usize::max(depth, 1) - 1,
            Token::Word(word) if word.quote_style.is_none() => {
                check_word(&word.value.to_ascii_uppercase(), count)?;
            }
            _ => {}
        }
        count += 1;
        if count > TOKENS_MAX {
            return invalid(format!("the query has more than {TOKENS_MAX} tokens; use parameters"));
        }
        if depth > BRACKETS_MAX {
            return invalid(format!("brackets are nested more than {BRACKETS_MAX} deep"));
        }
    }
    Ok(())
}

/// Refuses an unquoted word that is not served, at the place `at` of the query.
fn check_word(word: &str, at: usize) -> Result<()> {
    if at == 0 && word != "SELECT" {
        return unsupported(format!("a statement that begins with {}", shown(word)));
    }
    if at > 0 && word == "SELECT" {
        return unsupported("a subquery");
    }
    if REFUSED_WORDS.contains(&word) {
        return unsupported(if word == "GROUP" { "GROUP BY" } else { word });
    }
    Ok(())
}

/// Refuses a clause that is there.
fn none<T>(clause: Option<T>, name: &str) -> Result<()> {
    if clause.is_some() { unsupported(name) } else { Ok(()) }
}

fn no_items<T>(clause: &[T], name: &str) -> Result<()> {
    none(clause.first(), name)
}

fn statement(query: Query) -> Result<Statement> {
    let Query {
        with,
        body,
        order_by,
        limit_clause,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    none(with, "WITH")?;
    none(fetch, "FETCH")?;
    no_items(&locks, "a lock clause")?;
    none(for_clause, "FOR")?;
    none(settings, "SETTINGS")?;
    none(format_clause, "FORMAT")?;
    no_items(&pipe_operators, "the pipe operator |>")?;
    let SetExpr::Select(select) = *body else { return unsupported("a query without SELECT") };
    let (limit, offset) = limit(limit_clause)?;
    let (items, source, filter) = parts(*select)?;
    let order = order_by.map(order).transpose()?;
    Ok(Statement { items, source, filter, order, limit, offset })
}

type Parts = (Vec<SelectItem>, Option<Source>, Option<Expr>);

fn parts(select: Select) -> Result<Parts> {
    let Select {
        select_token: _,
        optimizer_hints,
        distinct,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having,
        named_window,
        qualify,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    no_items(&optimizer_hints, "a hint")?;
    none(distinct, "DISTINCT")?;
    none(select_modifiers, "a modifier of SELECT")?;
    none(top, "TOP")?;
    none(exclude, "EXCLUDE")?;
    none(into, "INTO")?;
    no_items(&lateral_views, "LATERAL VIEW")?;
    none(prewhere, "PREWHERE")?;
    no_items(&connect_by, "CONNECT BY")?;
    match group_by {
        GroupByExpr::Expressions(by, modifiers) if by.is_empty() && modifiers.is_empty() => {}
        _ => return unsupported("GROUP BY"),
    }
    no_items(&cluster_by, "CLUSTER BY")?;
    no_items(&distribute_by, "DISTRIBUTE BY")?;
    no_items(&sort_by, "SORT BY")?;
    none(having, "HAVING")?;
    no_items(&named_window, "WINDOW")?;
    none(qualify, "QUALIFY")?;
    none(value_table_mode, "SELECT AS")?;
    if flavor != SelectFlavor::Standard {
        return unsupported("a query that begins with FROM");
    }
    let source = match <[TableWithJoins; 1]>::try_from(from) {
        Ok([from]) => Some(source(from)?),
        Err(from) if from.is_empty() => None,
        Err(_) => return unsupported("a query of more than one table"),
    };
    Ok((projection, source, selection))
}

fn source(from: TableWithJoins) -> Result<Source> {
    let TableWithJoins { relation, joins } = from;
    no_items(&joins, "JOIN")?;
    let TableFactor::Table {
        name,
        alias,
        args,
        with_hints,
        version,
        with_ordinality,
        partitions,
        json_path,
        sample,
        index_directives,
        inheritance,
    } = relation
    else {
        return unsupported("anything but a table after FROM");
    };
    no_items(&with_hints, "a hint")?;
    none(version, "FOR SYSTEM_TIME")?;
    none(with_ordinality.then_some(()), "WITH ORDINALITY")?;
    no_items(&partitions, "PARTITION")?;
    none(json_path, "a path into a table")?;
    none(sample, "TABLESAMPLE")?;
    no_items(&index_directives, "an index hint")?;
    none(inheritance, "ONLY")?;
    if let Some(args) = args {
        check_arguments(args)?;
    }
    let table = joined(&name)?;
    let alias = match alias {
        None => table.clone(),
        Some(TableAlias { explicit: _, name, columns, at }) => {
            no_items(&columns, "names of columns after a table")?;
            none(at, "AT")?;
            name.value
        }
    };
    Ok(Source { table, alias })
}

/// Returns a name with its parts joined: the parser cuts names in backticks at their dots.
fn joined(name: &ObjectName) -> Result<String> {
    let parts: Option<Vec<&str>> =
        name.0.iter().map(|part| Some(part.as_ident()?.value.as_str())).collect();
    match parts {
        Some(parts) => Ok(parts.join(".")),
        None => invalid(format!("{} is not a name", shown(&name.to_string()))),
    }
}

/// Checks the arguments of a table: only an argument that asks for the default passes.
fn check_arguments(args: TableFunctionArgs) -> Result<()> {
    let TableFunctionArgs { args, settings } = args;
    none(settings, "SETTINGS")?;
    for arg in args {
        let FunctionArg::Named { name, arg, operator: _ } = arg else {
            return invalid("arguments of a table must have names, as with_history => FALSE");
        };
        let is_false = matches!(
            &arg,
            FunctionArgExpr::Expr(Expr::Value(value)) if value.value == Value::Boolean(false)
        );
        if !is_false || !name.value.eq_ignore_ascii_case("with_history") {
            return unsupported(format!("{} => {}", shown(&name.value), shown(&arg.to_string())));
        }
    }
    Ok(())
}

fn order(order: OrderBy) -> Result<(Expr, bool)> {
    let OrderBy { kind, interpolate } = order;
    none(interpolate, "INTERPOLATE")?;
    let OrderByKind::Expressions(by) = kind else { return unsupported("ORDER BY ALL") };
    let Ok([by]) = <[OrderByExpr; 1]>::try_from(by) else {
        return unsupported("ORDER BY of anything but _key");
    };
    let OrderByExpr { expr, options: OrderByOptions { sort, nulls_first }, with_fill } = by;
    none(nulls_first, "NULLS FIRST or NULLS LAST")?;
    none(with_fill, "WITH FILL")?;
    match sort {
        None | Some(OrderBySort::Asc) => Ok((expr, false)),
        Some(OrderBySort::Desc) => Ok((expr, true)),
        Some(OrderBySort::Using(_)) => unsupported("ORDER BY USING"),
    }
}

fn limit(clause: Option<LimitClause>) -> Result<(Option<Expr>, Option<Expr>)> {
    match clause {
        None => Ok((None, None)),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) => {
            no_items(&limit_by, "LIMIT BY")?;
            if limit.is_none() {
                return invalid("OFFSET needs a LIMIT before it");
            }
            Ok((limit, offset.map(|Offset { value, rows: _ }| value)))
        }
        Some(LimitClause::OffsetCommaLimit { .. }) => unsupported("LIMIT with two numbers"),
    }
}
