//! From the text of a query to its tokens.
//!
//! The tokenizer of the library ends raw literals and literals of bytes at each of their quotes. In
//! GoogleSQL a quote after a backslash is a part of them. So the tokenizer reads a prefix as a word
//! and the literal as a text, whose end it finds as GoogleSQL does, and both are joined here.
//!
//! Source: "Lexical structure and syntax" of GoogleSQL.

use super::{Refusal, Result, unsupported};
use sqlparser::dialect::{BigQueryDialect, Dialect};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer};

/// The dialect of the parser, but its literals have no prefixes.
#[derive(Debug)]
struct WithoutPrefixes(BigQueryDialect);

impl Dialect for WithoutPrefixes {
    fn is_identifier_start(&self, letter: char) -> bool {
        self.0.is_identifier_start(letter)
    }

    fn is_identifier_part(&self, letter: char) -> bool {
        self.0.is_identifier_part(letter)
    }

    fn is_delimited_identifier_start(&self, letter: char) -> bool {
        self.0.is_delimited_identifier_start(letter)
    }

    fn supports_hash_comment(&self) -> bool {
        self.0.supports_hash_comment()
    }

    fn supports_triple_quoted_string(&self) -> bool {
        self.0.supports_triple_quoted_string()
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        self.0.supports_string_literal_backslash_escape()
    }

    fn supports_pipe_operator(&self) -> bool {
        self.0.supports_pipe_operator()
    }
}

/// Words that change the text right after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefix {
    Raw,
    Bytes,
    RawBytes,
}

/// Returns the tokens of a query. Escapes in literals are left as they are.
pub(super) fn tokens(text: &str) -> Result<Vec<TokenWithSpan>> {
    let dialect = WithoutPrefixes(BigQueryDialect);
    let read = Tokenizer::new(&dialect, text).with_unescape(false).tokenize_with_location();
    let read = read.map_err(|error| Refusal::Invalid(error.to_string()))?;
    let mut tokens: Vec<TokenWithSpan> = Vec::with_capacity(read.len());
    for next in read {
        // White space is a token too, so that only what touches is joined.
        let joined = match tokens.last().and_then(|last| Some((prefix(&last.token)?, last.span))) {
            Some((prefix, at)) => prefixed(prefix, &next.token)?.map(|token| (token, at)),
            None => None,
        };
        match joined {
            Some((token, at)) => {
                tokens.pop();
                tokens.push(TokenWithSpan::new(token, Span::new(at.start, next.span.end)));
            }
            None => tokens.push(next),
        }
    }
    Ok(tokens)
}

fn prefix(token: &Token) -> Option<Prefix> {
    let Token::Word(word) = token else { return None };
    match word.value.to_ascii_lowercase().as_str() {
        _ if word.quote_style.is_some() => None,
        "r" => Some(Prefix::Raw),
        "b" => Some(Prefix::Bytes),
        "rb" | "br" => Some(Prefix::RawBytes),
        _ => None,
    }
}

/// Returns the literal that a text is after a prefix; `None` for a token that is no text.
fn prefixed(prefix: Prefix, token: &Token) -> Result<Option<Token>> {
    use Token as T;
    Ok(Some(match (prefix, token.clone()) {
        (Prefix::Raw, T::SingleQuotedString(raw)) => T::SingleQuotedRawStringLiteral(raw),
        (Prefix::Raw, T::DoubleQuotedString(raw)) => T::DoubleQuotedRawStringLiteral(raw),
        (Prefix::Raw, T::TripleSingleQuotedString(raw)) => {
            T::TripleSingleQuotedRawStringLiteral(raw)
        }
        (Prefix::Raw, T::TripleDoubleQuotedString(raw)) => {
            T::TripleDoubleQuotedRawStringLiteral(raw)
        }
        (Prefix::Bytes, T::SingleQuotedString(raw)) => T::SingleQuotedByteStringLiteral(raw),
        (Prefix::Bytes, T::DoubleQuotedString(raw)) => T::DoubleQuotedByteStringLiteral(raw),
        (Prefix::Bytes, T::TripleSingleQuotedString(raw)) => {
            T::TripleSingleQuotedByteStringLiteral(raw)
        }
        (Prefix::Bytes, T::TripleDoubleQuotedString(raw)) => {
            T::TripleDoubleQuotedByteStringLiteral(raw)
        }
        (
            Prefix::RawBytes,
            T::SingleQuotedString(_)
            | T::DoubleQuotedString(_)
            | T::TripleSingleQuotedString(_)
            | T::TripleDoubleQuotedString(_),
        ) => return unsupported("a literal of raw bytes"),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_touches_its_literal() {
        for (text, want) in [
            (r"r'a\'b'", &[r"R'a\'b'"][..]),
            (r"B'\''", &[r"B'\''"]),
            ("r 'a'", &["r", " ", "'a'"]),
            ("`r`'a'", &["`r`", "'a'"]),
            ("bar'a'", &["bar", "'a'"]),
            ("r/**/'a'", &["r", "/**/", "'a'"]),
            ("r = b", &["r", " ", "=", " ", "b"]),
        ] {
            let tokens: Vec<String> =
                tokens(text).unwrap().iter().map(|token| token.token.to_string()).collect();
            assert_eq!(tokens, want, "{text}");
        }
        assert_eq!(tokens("r'a'").unwrap()[0].span.start.column, 1);
        assert!(tokens(r"r'a\'").is_err());
    }
}
