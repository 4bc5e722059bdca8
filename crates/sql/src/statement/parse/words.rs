//! Statements that their first words tell: the parser does not know them, or this server does not have what they are
//! about.

use super::{Parsed, word, word_at};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use relational::{Error, Result, SqlState};

/// Kinds of objects that this server does not have. A kind of two words stands before one that it begins with.
const KINDS: &[&str] = &[
    "ACCESS METHOD",
    "AGGREGATE",
    "CAST",
    "COLLATION",
    "CONSTRAINT TRIGGER",
    "CONVERSION",
    "DATABASE",
    "DOMAIN",
    "EVENT TRIGGER",
    "FOREIGN DATA",
    "FUNCTION",
    "LANGUAGE",
    "MATERIALIZED VIEW",
    "OPERATOR",
    "POLICY",
    "PROCEDURE",
    "PUBLICATION",
    "ROUTINE",
    "RULE",
    "SERVER",
    "STATISTICS",
    "SUBSCRIPTION",
    "TABLESPACE",
    "TEXT SEARCH",
    "TRANSFORM",
    "TRIGGER",
    "TRUSTED LANGUAGE",
    "TYPE",
    "USER MAPPING",
];

/// Statements that are refused as a whole, by the words that they begin with.
const REFUSED: &[&str] = &[
    "ALTER DEFAULT PRIVILEGES",
    "ALTER EXTENSION",
    "ALTER FOREIGN TABLE",
    "ALTER LARGE OBJECT",
    "ALTER SYSTEM",
    "CALL",
    "COMMIT PREPARED",
    "DO",
    "DROP OWNED",
    "IMPORT FOREIGN SCHEMA",
    "LOAD",
    "PREPARE TRANSACTION",
    "REASSIGN OWNED",
    "REFRESH MATERIALIZED VIEW",
    "ROLLBACK PREPARED",
    "SECURITY LABEL",
];

/// Returns what a statement comes to by its first words; nothing for the parser to tell.
pub(super) fn by_words(tokens: &[TokenWithSpan]) -> Option<Result<Parsed>> {
    let begins = |at: usize, words: &str| {
        words.split(' ').enumerate().all(|(number, word)| word_at(tokens, at + number) == word)
    };
    let refused = |what: &str| Some(Err(Error::unsupported(format!("{what} is not supported"))));
    if let Some(known) = REFUSED.iter().find(|known| begins(0, known)) {
        return refused(known);
    }
    let verb = word_at(tokens, 0);
    match verb.as_str() {
        "SET" if begins(1, "CONSTRAINTS ALL") => {
            // All constraints are checked at once: a statement that asks for it, or permits later, has its wish.
            return Some(Ok(Parsed::Nothing("SET CONSTRAINTS")));
        }
        "SET" if begins(1, "CONSTRAINTS") => {
            let message = "constraints are not deferrable";
            return Some(Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message)));
        }
        "GRANT" if (1..tokens.len()).any(|at| begins(at, "WITH ADMIN OPTION")) => {
            return refused("GRANT WITH ADMIN OPTION");
        }
        "CREATE" | "ALTER" | "DROP" => {}
        _ => return None,
    }
    let at = if begins(1, "OR REPLACE") { 3 } else { 1 };
    let kind = KINDS.iter().find(|kind| begins(at, kind))?;
    let behind = at + kind.split(' ').count();
    match verb.as_str() {
        // It is not there, as asked.
        "DROP" if begins(behind, "IF EXISTS") => Some(Ok(Parsed::Nothing(drop_tag(kind)))),
        verb => refused(&format!("{verb} {kind}")),
    }
}

fn drop_tag(kind: &str) -> &'static str {
    match kind {
        "AGGREGATE" => "DROP AGGREGATE",
        "CAST" => "DROP CAST",
        "DATABASE" => "DROP DATABASE",
        "DOMAIN" => "DROP DOMAIN",
        "FUNCTION" => "DROP FUNCTION",
        "MATERIALIZED VIEW" => "DROP MATERIALIZED VIEW",
        "PROCEDURE" => "DROP PROCEDURE",
        "ROUTINE" => "DROP ROUTINE",
        "RULE" => "DROP RULE",
        "TRIGGER" => "DROP TRIGGER",
        "TYPE" => "DROP TYPE",
        _ => "DROP",
    }
}

/// Spells `GRANT a, b TO c` as the grant of roles that it is.
pub(super) fn spell_roles(tokens: &mut Vec<TokenWithSpan>) {
    let end = (1..tokens.len()).find(|at| {
        matches!(word_at(tokens, *at).as_str(), "TO" | "FROM" | "ON")
            || tokens[*at].token == Token::EOF
    });
    let Some(end) = end.filter(|at| matches!(word_at(tokens, *at).as_str(), "TO" | "FROM")) else {
        return;
    };
    let names = &tokens[1..end];
    let is_list = names.iter().enumerate().all(|(at, token)| match at % 2 {
        0 => matches!(token.token, Token::Word(_)),
        _ => token.token == Token::Comma,
    });
    if !is_list || names.len().is_multiple_of(2) {
        return;
    }
    for at in (1..end).step_by(2).rev() {
        let span = tokens[at].span;
        tokens.insert(at, TokenWithSpan { token: word("ROLE"), span });
    }
}

/// Name of the schema in the form in which `ALTER TABLE … SET SCHEMA` comes from the parser.
pub(crate) const TO_SCHEMA: &str = "\u{1}schema";

/// Spells `ALTER TABLE a SET SCHEMA b` as a renaming to `"\u{1}schema".b`, since the parser does not know it.
pub(super) fn spell_schema(tokens: &mut Vec<TokenWithSpan>) {
    let at = (2..tokens.len())
        .find(|at| word_at(tokens, *at) == "SET" && word_at(tokens, at + 1) == "SCHEMA");
    let Some(at) = at else { return };
    let spans = (tokens[at].span, tokens[at + 1].span);
    let new = |token, span| TokenWithSpan { token, span };
    let renamed = [
        new(word("RENAME"), spans.0),
        new(word("TO"), spans.1),
        new(Token::make_word(TO_SCHEMA, Some('"')), spans.1),
        new(Token::Period, spans.1),
    ];
    tokens.splice(at..at + 2, renamed);
}
