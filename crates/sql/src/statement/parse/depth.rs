//! The depth of the tree that a text becomes, and the numbers of its parts.
//!
//! Trees are cloned, walked and dropped by recursion, so their depth must be bounded before they are made.
//! An operator, an operand of UNION and a join each add a level, since `a OR b OR c` is `(a OR b) OR c`.
//!
//! Invariants:
//! 1. The depth is summed over nested parentheses: no path from the root of a tree passes more than
//!    [`DEPTH_MAX`] operators.
//! 2. A comma ends an expression of a list, and no operand of UNION and no join.

use datafusion::sql::sqlparser::ast::{Select, Statement, TableFactor, Visit, Visitor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use relational::{Error, Result, SqlState};
use std::ops::ControlFlow;

/// Most operators on one path through a statement.
pub(super) const DEPTH_MAX: usize = 1_000;
/// Operators that count as much as an operand of UNION or a join, whose levels are larger.
const QUERY_WEIGHT: usize = 2;
/// Most open parentheses, brackets and CASE.
const OPEN_MAX: usize = 1_000;
/// Most tables that a statement names.
const TABLES_MAX: usize = 2_000;
/// Most columns of a select list, as in PostgreSQL.
pub(crate) const COLUMNS_MAX: usize = 1_664;

/// Operators that are written as words.
const OPERATORS: [Keyword; 18] = [
    Keyword::AND,
    Keyword::AT,
    Keyword::BETWEEN,
    Keyword::COLLATE,
    Keyword::DIV,
    Keyword::ILIKE,
    Keyword::IN,
    Keyword::IS,
    Keyword::LIKE,
    Keyword::NOT,
    Keyword::NOTNULL,
    Keyword::OPERATOR,
    Keyword::OR,
    Keyword::OVERLAPS,
    Keyword::REGEXP,
    Keyword::RLIKE,
    Keyword::SIMILAR,
    Keyword::XOR,
];

/// Counts of what stands inside one pair of parentheses.
#[derive(Default)]
struct Level {
    /// Operators of the expression at hand.
    chain: usize,
    /// Depth of the deepest pair of parentheses in it.
    inner: usize,
    /// Depth of the deepest expression that is complete.
    deepest: usize,
    /// Operands of UNION and its kin, and joins.
    queries: usize,
}

impl Level {
    fn end_expression(&mut self) {
        self.deepest = self.deepest.max(self.chain + self.inner);
        (self.chain, self.inner) = (0, 0);
    }

    fn depth(&mut self) -> usize {
        self.end_expression();
        self.deepest + self.queries * QUERY_WEIGHT
    }
}

/// Fails with 54001 if the tree of a text would be too deep.
pub(super) fn check_tokens(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut open = Vec::new();
    let mut level = Level::default();
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => open.push(std::mem::take(&mut level)),
            Token::RParen | Token::RBracket => {
                close(&mut open, &mut level);
                // A subscript or a type of arrays is a level of its own.
                level.chain += usize::from(token.token == Token::RBracket);
            }
            Token::Comma => level.end_expression(),
            Token::SemiColon => {
                while !open.is_empty() {
                    close(&mut open, &mut level);
                }
                check(level.depth())?;
                level = Level::default();
            }
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::CASE => open.push(std::mem::take(&mut level)),
                Keyword::WHEN | Keyword::THEN | Keyword::ELSE => level.end_expression(),
                Keyword::END => close(&mut open, &mut level),
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::JOIN => {
                    level.queries += 1;
                }
                other => level.chain += usize::from(OPERATORS.contains(&other)),
            },
            Token::Word(_)
            | Token::Whitespace(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Period
            | Token::Placeholder(_) => {}
            _ => level.chain += 1,
        }
        check(level.chain.max(level.queries * QUERY_WEIGHT))?;
        if open.len() > OPEN_MAX {
            return Err(too_complex("the statement is nested too deeply"));
        }
    }
    while !open.is_empty() {
        close(&mut open, &mut level);
    }
    check(level.depth())
}

/// Ends a pair of parentheses, whose depth counts for what is around it.
fn close(open: &mut Vec<Level>, level: &mut Level) {
    let Some(outer) = open.pop() else { return };
    let depth = level.depth();
    *level = outer;
    level.inner = level.inner.max(depth);
}

fn check(depth: usize) -> Result<()> {
    match depth > DEPTH_MAX {
        true => Err(too_complex(format!("more than {DEPTH_MAX} operators in one expression"))),
        false => Ok(()),
    }
}

pub(super) fn too_complex(message: impl Into<String>) -> Error {
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, message)
}

/// Fails if a statement names too many tables (54001), or has a select list that is too long (54011).
pub(super) fn check_tree(statement: &Statement) -> Result<()> {
    match statement.visit(&mut Counts::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

#[derive(Default)]
struct Counts {
    tables: usize,
}

impl Visitor for Counts {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        if select.projection.len() <= COLUMNS_MAX {
            return ControlFlow::Continue(());
        }
        let message = format!("target lists can have at most {COLUMNS_MAX} entries");
        ControlFlow::Break(Error::new(SqlState::TOO_MANY_COLUMNS, message))
    }

    fn pre_visit_table_factor(&mut self, _factor: &TableFactor) -> ControlFlow<Error> {
        self.tables += 1;
        if self.tables <= TABLES_MAX {
            return ControlFlow::Continue(());
        }
        let message = format!("a statement names more than {TABLES_MAX} tables");
        ControlFlow::Break(too_complex(message))
    }
}
