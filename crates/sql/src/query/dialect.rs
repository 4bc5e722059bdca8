//! PostgreSQL's dialect for the parser `sqlparser`, with a bound on its work.
//!
//! The parser tries some constructs in one way, and reads them again in another if that fails. Nested, such
//! constructs would take a time that doubles with each level.
//!
//! Invariants:
//! 1. The time of a parse is proportional to the length of its text: each beginning of an expression takes
//!    one of a bounded number of steps.
//! 2. An argument of a function is read once: it has a name only if an identifier begins it.
//! 3. Operators group as in PostgreSQL: those without a precedence of their own, prefix ones included, bind less
//!    than `+` and more than LIKE.

use std::any::TypeId;
use std::cell::Cell;

use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect as Rules, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Steps that a parse may take whatever its length.
const STEPS_MIN: usize = 200_000;
/// Steps that each byte or token of a text adds.
const STEPS_EACH: usize = 4;

/// The dialect for one parse.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// Beginnings of expressions that may still be read.
    left: Cell<usize>,
}

impl Dialect {
    /// Returns the dialect for a text of `len` bytes or tokens.
    pub(crate) fn for_length(len: usize) -> Self {
        Self { left: Cell::new(STEPS_MIN.saturating_add(len.saturating_mul(STEPS_EACH))) }
    }
}

/// Answers questions of the parser as PostgreSQL's dialect does.
macro_rules! as_postgresql {
    ($($question:ident)*) => {
        $(fn $question(&self) -> bool {
            PostgreSqlDialect {}.$question()
        })*
    };
}

impl Rules for Dialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let Some(left) = self.left.get().checked_sub(1) else {
            return Some(Err(ParserError::RecursionLimitExceeded));
        };
        self.left.set(left);
        // The parser itself would have these bind more tightly than `+` and `*`.
        let op = match &parser.peek_token_ref().token {
            Token::Tilde => UnaryOperator::BitwiseNot,
            Token::AtSign => UnaryOperator::PGAbs,
            Token::PGSquareRoot => UnaryOperator::PGSquareRoot,
            Token::PGCubeRoot => UnaryOperator::PGCubeRoot,
            _ => return None,
        };
        parser.advance_token();
        let operand = parser.parse_subexpr(self.prec_value(Precedence::PgOther));
        Some(operand.map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        // The parser itself would take everything behind FROM as the right side, AND and OR included.
        let distinct: fn(Box<Expr>, Box<Expr>) -> Expr =
            if parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]) {
                Expr::IsDistinctFrom
            } else if parser.parse_keywords(&[
                Keyword::IS,
                Keyword::NOT,
                Keyword::DISTINCT,
                Keyword::FROM,
            ]) {
                Expr::IsNotDistinctFrom
            } else {
                return None;
            };
        let right = parser.parse_subexpr(precedence);
        Some(right.map(|right| distinct(Box::new(expr.clone()), Box::new(right))))
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    // CREATE TABLE … USING, with PostgreSQL's access method in the place of Spark's format.
    fn supports_create_table_using(&self) -> bool {
        true
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        PostgreSqlDialect {}.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        PostgreSqlDialect {}.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        PostgreSqlDialect {}.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        PostgreSqlDialect {}.is_identifier_part(ch)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        PostgreSqlDialect {}.is_custom_operator_part(ch)
    }

    fn is_reserved_for_identifier(&self, word: Keyword) -> bool {
        PostgreSqlDialect {}.is_reserved_for_identifier(word)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        let is_other = match &parser.peek_token_ref().token {
            Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk => true,
            Token::Word(word) => word.keyword == Keyword::OPERATOR,
            _ => false,
        };
        if is_other {
            return Some(Ok(self.prec_value(Precedence::PgOther)));
        }
        PostgreSqlDialect {}.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        PostgreSqlDialect {}.prec_value(precedence)
    }

    as_postgresql! {
        allow_extract_custom
        allow_extract_single_quotes
        supports_alter_column_type_using
        supports_array_typedef_with_brackets
        supports_bitwise_shift_operators
        supports_comma_separated_trim
        supports_comment_on
        supports_comment_optimizer_hint
        supports_create_index_with_clause
        supports_create_table_like_parenthesized
        supports_empty_projections
        supports_explain_with_utility_options
        supports_factorial_operator
        supports_filter_during_aggregation
        supports_geometric_types
        supports_group_by_expr
        supports_insert_table_alias
        supports_interval_options
        supports_listen_notify
        supports_load_extension
        supports_named_fn_args_with_colon_operator
        supports_nested_comments
        supports_notnull_operator
        supports_numeric_literal_underscores
        supports_select_wildcard_with_alias
        supports_set_names
        supports_string_escape_constant
        supports_unicode_string_literal
        supports_xml_expressions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the expression that `text` is read as, with parentheses around each operation.
    fn grouped(text: &str) -> String {
        let dialect = Dialect::for_length(text.len());
        let mut parser = Parser::new(&dialect).try_with_sql(text).unwrap();
        shown(&parser.parse_expr().unwrap())
    }

    fn shown(expr: &Expr) -> String {
        match expr {
            Expr::BinaryOp { left, op, right } => {
                format!("({} {op} {})", shown(left), shown(right))
            }
            Expr::UnaryOp { op, expr } => format!("({op} {})", shown(expr)),
            Expr::IsDistinctFrom(left, right) => {
                format!("({} IS DISTINCT FROM {})", shown(left), shown(right))
            }
            Expr::IsNotDistinctFrom(left, right) => {
                format!("({} IS NOT DISTINCT FROM {})", shown(left), shown(right))
            }
            other => other.to_string(),
        }
    }

    #[test]
    fn is_distinct_from_ends_before_and_and_or() {
        for (text, meant) in [
            ("a IS DISTINCT FROM b AND c", "((a IS DISTINCT FROM b) AND c)"),
            ("a IS NOT DISTINCT FROM b OR c", "((a IS NOT DISTINCT FROM b) OR c)"),
            ("NOT a IS DISTINCT FROM b AND c", "((NOT (a IS DISTINCT FROM b)) AND c)"),
            ("a IS NOT DISTINCT FROM b + 1 = c", "(a IS NOT DISTINCT FROM ((b + 1) = c))"),
        ] {
            assert_eq!(grouped(text), meant, "{text}");
        }
    }

    #[test]
    fn operators_without_a_precedence_of_their_own_bind_less_than_plus() {
        for (text, meant) in [
            ("~a + b", "(~ (a + b))"),
            ("|/ a * b", "(|/ (a * b))"),
            ("||/ a ^ b", "(||/ (a ^ b))"),
            ("@ a - b", "(@ (a - b))"),
            ("~a # b", "((~ a) # b)"),
            ("~a = b", "((~ a) = b)"),
            ("a ~ b || c", "((a ~ b) || c)"),
            ("a || b !~* c", "((a || b) !~* c)"),
            ("a ~~ b + c", "(a ~~ (b + c))"),
            ("a ~ b = c", "((a ~ b) = c)"),
            ("a OPERATOR(pg_catalog.+) b * c", "(a OPERATOR(pg_catalog.+) (b * c))"),
            ("a OPERATOR(pg_catalog.~) b = c", "((a OPERATOR(pg_catalog.~) b) = c)"),
        ] {
            assert_eq!(grouped(text), meant, "{text}");
        }
    }
}
