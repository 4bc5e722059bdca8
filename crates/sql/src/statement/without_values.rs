//! Texts of statements for logs: what was asked, and none of the values.

use crate::query::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// Bytes of the longest text that is looked at.
const TEXT_MAX: usize = 64 << 10;
/// Bytes that are told at most.
const TOLD_MAX: usize = 1 << 10;
/// Text that stands for a literal.
const LITERAL: &str = "?";

/// Returns the beginning of `text` with `?` for each literal, without comments. Nothing if it is longer than 64 KiB or
/// ends within a literal.
pub(crate) fn without_values(text: &str) -> Option<String> {
    if text.len() > TEXT_MAX {
        return None;
    }
    let tokens = Tokenizer::new(&Dialect::for_length(0), text).tokenize().ok()?;
    let mut told = String::new();
    for token in tokens {
        match token {
            // Comments are white space too.
            Token::Whitespace(_) if told.ends_with(' ') => {}
            Token::Whitespace(_) => told.push(' '),
            token if is_literal(&token) => told.push_str(LITERAL),
            token => told.push_str(&token.to_string()),
        }
        if told.len() > TOLD_MAX {
            told.truncate(told.floor_char_boundary(TOLD_MAX));
            told.push_str("...");
            break;
        }
    }
    Some(told.trim().to_owned())
}

/// Returns whether a token may have a value of a user: also one of a form that this file does not know.
fn is_literal(token: &Token) -> bool {
    match token {
        Token::Word(_) | Token::Placeholder(_) => false,
        Token::Number(..) | Token::DollarQuotedString(_) | Token::DoubleQuotedString(_) => true,
        other => other.to_string().contains('\''),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_not_told_and_the_rest_is() {
        for (text, told) in [
            (
                "SELECT a, \"it's\"\n FROM t WHERE b = 'secret' AND c > -4.5e3",
                "SELECT a, \"it's\" FROM t WHERE b = ? AND c > -?",
            ),
            ("SELECT $$secret$$, $tag$secret$tag$, $1", "SELECT ?, ?, $1"),
            ("SELECT E'secret\\'', U&'secret', B'01', X'5ec', N'secret'", "SELECT ?, ?, ?, ?, ?"),
            ("SELECT 1 -- secret\n/* secret */ + 2", "SELECT ? + ?"),
            ("CREATE ROLE r PASSWORD 'secret'", "CREATE ROLE r PASSWORD ?"),
            ("SELECT date '2026-01-01', a->>'secret'", "SELECT date ?, a->>?"),
            ("", ""),
        ] {
            assert_eq!(without_values(text).as_deref(), Some(told), "{text}");
        }
    }

    #[test]
    fn what_is_told_is_bounded() {
        assert_eq!(without_values("SELECT 'secret"), None);
        assert_eq!(without_values(&format!("SELECT {}", "1,".repeat(TEXT_MAX))), None);
        let long = without_values(&format!("SELECT {}", "ä, ".repeat(1_000))).unwrap();
        assert!(long.len() <= TOLD_MAX + 3 && long.ends_with("..."), "{long}");
        let whole = format!("SELECT {}", "a".repeat(TOLD_MAX - 7));
        assert_eq!(without_values(&whole), Some(whole));
    }
}
