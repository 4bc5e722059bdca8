//! The options of sequences, in the one order that the parser knows, and ALTER SEQUENCE, which it does
//! not know.
//!
//! 1. Options are moved as tokens. Other tokens stay at the end, and the parser refuses them.

use super::parse::word_at;
use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::Range;

/// An ALTER SEQUENCE, with what it changes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AlterSequence {
    /// The name and the options, as a CREATE SEQUENCE has them.
    pub(crate) options: Statement,
    /// True if a sequence that does not exist is no error.
    pub(crate) if_exists: bool,
    pub(crate) restart: Restart,
}

/// The number that a sequence gives next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    /// The one that would come anyway.
    No,
    /// The number at which it starts.
    AtStart,
    At(i64),
}

/// First words of options, in the order of the parser. RESTART comes last.
const ORDER: [&str; 8] =
    ["AS", "INCREMENT", "MINVALUE", "MAXVALUE", "START", "CACHE", "CYCLE", "OWNED"];

/// Returns the place of an option in the order of the parser, by its first words.
fn rank(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let first = match word_at(tokens, at).as_str() {
        "NO" => word_at(tokens, at + 1),
        other => other.to_owned(),
    };
    match first.as_str() {
        "RESTART" => Some(ORDER.len()),
        first => ORDER.iter().position(|word| *word == first),
    }
}

/// Puts the options between two places into the order of the parser.
fn sort(tokens: &mut [TokenWithSpan], range: Range<usize>) {
    let mut options: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let words = if word_at(tokens, at) == "NO" { 2 } else { 1 };
        match (rank(tokens, at), options.last_mut()) {
            (Some(rank), _) => {
                let end = (at + words).min(range.end);
                options.push((rank, tokens[at..end].to_vec()));
                at = end;
            }
            (None, Some((_, last))) => {
                last.push(tokens[at].clone());
                at += 1;
            }
            (None, None) => return,
        }
    }
    options.sort_by_key(|(rank, _)| *rank);
    let sorted = options.into_iter().flat_map(|(_, option)| option);
    for (place, token) in tokens[range].iter_mut().zip(sorted) {
        *place = token;
    }
}

/// Returns the place of the end of the statement.
fn end(tokens: &[TokenWithSpan]) -> usize {
    tokens.iter().position(|token| token.token == Token::EOF).unwrap_or(tokens.len())
}

/// Returns the place behind a name at `at`, which may have several parts.
fn behind_name(tokens: &[TokenWithSpan], mut at: usize) -> usize {
    while matches!(tokens.get(at + 1).map(|token| &token.token), Some(Token::Period)) {
        at += 2;
    }
    (at + 1).min(end(tokens))
}

/// Puts the options of a CREATE SEQUENCE into the order of the parser.
pub(super) fn spell_create(tokens: &mut [TokenWithSpan]) {
    let Some(at) = (0..4).find(|at| word_at(tokens, *at) == "SEQUENCE") else { return };
    let name = if word_at(tokens, at + 1) == "IF" { at + 4 } else { at + 1 };
    let (from, end) = (behind_name(tokens, name), end(tokens));
    if from < end {
        sort(tokens, from..end);
    }
}

/// Puts the options of identity columns into the order of the parser.
pub(super) fn spell_identities(tokens: &mut [TokenWithSpan]) {
    let mut at = 0;
    while at + 1 < tokens.len() {
        if word_at(tokens, at) == "IDENTITY" && tokens[at + 1].token == Token::LParen {
            let from = at + 2;
            let close = tokens[from..].iter().position(|token| token.token == Token::RParen);
            // The parser says what is missing.
            let Some(close) = close else { return };
            sort(tokens, from..from + close);
            at = from + close;
        }
        at += 1;
    }
}

/// Turns the tokens of an ALTER SEQUENCE into the ones of a CREATE SEQUENCE with the same options. Returns
/// whether it may be missing, and the number that comes next; nothing if it changes name or owner, which
/// is spelled as ALTER TABLE.
pub(super) fn spell_alter(tokens: &mut Vec<TokenWithSpan>) -> Option<(bool, Restart)> {
    let if_exists = word_at(tokens, 2) == "IF";
    let name = if if_exists { 4 } else { 2 };
    let from = behind_name(tokens, name);
    if matches!(word_at(tokens, from).as_str(), "RENAME" | "OWNER" | "SET") {
        tokens[1].token = Token::make_word("TABLE", None);
        return None;
    }
    let last = end(tokens);
    sort(tokens, from..last);
    let mut restart = Restart::No;
    if let Some(at) = (from..last).find(|at| word_at(tokens, *at) == "RESTART") {
        let number: String = tokens[at + 1..last]
            .iter()
            .filter(|token| !matches!(&token.token, Token::Word(_)))
            .map(|token| token.token.to_string())
            .collect();
        restart = match number.parse() {
            Ok(number) => Restart::At(number),
            Err(_) if number.is_empty() => Restart::AtStart,
            // The parser says what is wrong.
            Err(_) => return Some((if_exists, Restart::No)),
        };
        tokens.drain(at..last);
    }
    tokens[0].token = Token::make_word("CREATE", None);
    if if_exists {
        tokens.drain(2..4);
    }
    Some((if_exists, restart))
}
