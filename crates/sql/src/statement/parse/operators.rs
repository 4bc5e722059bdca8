//! Operators that stand against a sign, as in `a>=-1`.
//!
//! The parser joins all characters of operators that follow each other. PostgreSQL lets an operator of
//! several characters end in `+` or `-` only if it also has one of ``~ ! @ # % ^ & | ` ?``: so `>=-` is the
//! operator `>=` and a sign, and `@-` is one operator.

use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

/// Parts operators from the signs behind them, as PostgreSQL does.
pub(super) fn part_signs(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| signs(&token.token) > 0) {
        return;
    }
    let mut out = Vec::with_capacity(tokens.len() + 1);
    for token in tokens.drain(..) {
        match (signs(&token.token), &token.token) {
            (count @ 1.., Token::CustomBinaryOperator(text)) => {
                let (operator, signs) = text.split_at(text.len() - count);
                out.push(part(&token.span, 0, known(operator), operator.len()));
                for (at, sign) in signs.char_indices() {
                    let sign = if sign == '+' { Token::Plus } else { Token::Minus };
                    out.push(part(&token.span, operator.len() + at, sign, 1));
                }
            }
            _ => out.push(token),
        }
    }
    *tokens = out;
}

/// Returns how many signs at the end of an operator are no part of it.
fn signs(token: &Token) -> usize {
    let Token::CustomBinaryOperator(text) = token else { return 0 };
    // Comments begin within such a text, and the parser has passed over that: it stays an error.
    let is_whole = text.contains("--")
        || text.contains("/*")
        || text.contains(['~', '!', '@', '#', '%', '^', '&', '|', '`', '?']);
    if is_whole || !text.is_ascii() {
        return 0;
    }
    let rest = text.trim_end_matches(['+', '-']);
    // An operator of signs alone keeps its first.
    text.len() - rest.len().max(1)
}

/// Returns `len` characters of the token at `span`, from the character `from` on, as a token of their own.
fn part(span: &Span, from: usize, token: Token, len: usize) -> TokenWithSpan {
    let at =
        |ahead: usize| Location { line: span.start.line, column: span.start.column + ahead as u64 };
    TokenWithSpan { token, span: Span { start: at(from), end: at(from + len) } }
}

/// Returns the token of an operator.
fn known(operator: &str) -> Token {
    match operator {
        "+" => Token::Plus,
        "-" => Token::Minus,
        "*" => Token::Mul,
        "/" => Token::Div,
        "<" => Token::Lt,
        ">" => Token::Gt,
        "=" => Token::Eq,
        "<=" => Token::LtEq,
        ">=" => Token::GtEq,
        "<>" => Token::Neq,
        "<<" => Token::ShiftLeft,
        ">>" => Token::ShiftRight,
        "->" => Token::Arrow,
        "->>" => Token::LongArrow,
        other => Token::CustomBinaryOperator(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Dialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    /// Returns the tokens of `text` with the columns where they begin and end.
    fn tokens(text: &str) -> Vec<(String, u64, u64)> {
        let dialect = Dialect::for_length(text.len());
        let mut tokens = Tokenizer::new(&dialect, text).tokenize_with_location().unwrap();
        part_signs(&mut tokens);
        let shown = |token: &TokenWithSpan| {
            (token.token.to_string(), token.span.start.column, token.span.end.column)
        };
        tokens.iter().filter(|token| token.token != Token::EOF).map(shown).collect()
    }

    #[test]
    fn a_sign_is_no_part_of_the_operator_before_it() {
        for operator in ["<", ">", "=", "<=", ">=", "<>", "<<", ">>", "->", "->>", "+", "*", "/"] {
            let end = 2 + operator.len() as u64;
            let parts = [
                ("1".to_owned(), 1, 2),
                (operator.to_owned(), 2, end),
                ("-".to_owned(), end, end + 1),
                ("2".to_owned(), end + 1, end + 2),
            ];
            assert_eq!(tokens(&format!("1{operator}-2")), parts, "{operator}");
        }
        let words = |text| tokens(text).into_iter().map(|token| token.0).collect::<Vec<_>>();
        assert_eq!(words("1>=-+2"), ["1", ">=", "-", "+", "2"]);
        assert_eq!(words("1-+2"), ["1", "-", "+", "2"]);
    }

    #[test]
    fn an_operator_with_a_mark_of_its_own_keeps_its_sign() {
        for text in ["1~-2", "1||-2", "1%-2", "1&-2", "1>--2"] {
            assert_eq!(tokens(text).len(), 3, "{text}");
        }
    }
}
