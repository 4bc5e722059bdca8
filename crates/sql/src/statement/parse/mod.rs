//! From the text of a client to statements, by the parser `sqlparser`.
//!
//! The text is cut at its semicolons first, and a few statements that PostgreSQL writes in more ways than
//! the parser knows are brought into one of its ways, as tokens.
//!
//! Invariants:
//! 1. Whatever the text, nothing overflows a stack: nesting is bounded by the parser, and the depth of the
//!    tree by `depth.rs`. The time is bounded by [`Dialect`].
//! 2. Locations in trees are places in the whole text, so positions of errors are the client's.

mod depth;
mod operators;
mod words;

pub(crate) use words::TO_SCHEMA;

use super::sequence_words::{self, AlterSequence};
use crate::query::Dialect;
use crate::wide::{Foreign, parse_foreign};
use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use depth::{check_tokens, check_tree, too_complex};
use relational::{Error, Result, SqlState};

/// Deepest nesting of expressions and queries.
const NESTING_MAX: usize = 200;
/// Most tokens of a text.
const TOKENS_MAX: usize = 4_000_000;

/// A statement of a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Parsed {
    /// A statement in the parser's form.
    Tree(Box<Statement>),
    /// `MOVE`, as the `FETCH` whose rows it passes over.
    Move(Box<Statement>),
    /// `ALTER SEQUENCE`, which the parser does not know.
    AlterSequence(Box<AlterSequence>),
    /// A statement that is taken and needs no work here, by its tag.
    Nothing(&'static str),
    /// A statement about declared Bigtable tables.
    Foreign(Box<Foreign>),
}

/// Parses all statements of `text`.
pub(crate) fn parse(text: &str) -> Result<Vec<Parsed>> {
    if text.contains('\0') {
        return Err(Error::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        ));
    }
    let tokens = Tokenizer::new(&Dialect::for_length(0), text).tokenize_with_location();
    let mut tokens = tokens.map_err(|error| {
        let position = position_of(text, error.location);
        let near = text.chars().skip(position as usize - 1).take(40).collect::<String>();
        let what = match error.message.as_str() {
            message if message.contains("string literal") => "unterminated quoted string",
            message if message.contains("comment") => "unterminated /* comment",
            message if message.contains("delimiter") => "unterminated quoted identifier",
            _ => "syntax error",
        };
        syntax(format!("{what} at or near \"{near}\"")).at(position)
    })?;
    operators::part_signs(&mut tokens);
    if tokens.len() > TOKENS_MAX {
        return Err(too_complex("the statement has too many tokens"));
    }
    check_tokens(&tokens)?;
    let mut statements = Vec::new();
    for part in tokens.split(|token| token.token == Token::SemiColon) {
        let has_words =
            part.iter().any(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        if has_words {
            statements.push(parse_one(text, part.to_vec())?);
        }
    }
    Ok(statements)
}

fn parse_one(text: &str, mut tokens: Vec<TokenWithSpan>) -> Result<Parsed> {
    join_texts(&mut tokens);
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    spell_trims(&mut tokens);
    if let Some(known) = words::by_words(&tokens) {
        return known;
    }
    let first = word_at(&tokens, 0);
    let is_move = first == "MOVE";
    match first.as_str() {
        "VACUUM" => return Ok(Parsed::Nothing("VACUUM")),
        "ANALYZE" | "ANALYSE" => return Ok(Parsed::Nothing("ANALYZE")),
        "CHECKPOINT" => return Ok(Parsed::Nothing("CHECKPOINT")),
        "REINDEX" => return Ok(Parsed::Nothing("REINDEX")),
        "CLUSTER" => return Ok(Parsed::Nothing("CLUSTER")),
        "ABORT" => tokens[0].token = word("ROLLBACK"),
        "COPY" => spell_switches(&mut tokens),
        "FETCH" | "MOVE" => spell_fetch(&mut tokens),
        "CREATE" | "ALTER" | "DROP" if word_at(&tokens, 1) == "USER" => spell_user(&mut tokens),
        "SELECT" | "WITH" | "EXPLAIN" | "DECLARE" | "PREPARE" => spell_locks(&mut tokens),
        "CREATE" => sequence_words::spell_create(&mut tokens),
        "GRANT" | "REVOKE" => words::spell_roles(&mut tokens),
        "ALTER" if word_at(&tokens, 1) == "TABLE" => words::spell_schema(&mut tokens),
        "BEGIN" | "START" | "SET" => spell_deferrable(&mut tokens),
        _ => {}
    }
    if matches!(first.as_str(), "CREATE" | "ALTER") {
        sequence_words::spell_identities(&mut tokens);
    }
    let altered = match first == "ALTER" && word_at(&tokens, 1) == "SEQUENCE" {
        true => sequence_words::spell_alter(&mut tokens),
        false => None,
    };
    let dialect = Dialect::for_length(tokens.len());
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(NESTING_MAX)
        .with_tokens_with_locations(tokens.clone());
    let is_foreign = matches!(first.as_str(), "CREATE" | "DROP")
        && word_at(&tokens, 1) == "FOREIGN"
        && word_at(&tokens, 2) == "TABLE";
    let outcome = match is_foreign {
        true => parse_foreign(&mut parser).map(|foreign| Parsed::Foreign(Box::new(foreign))),
        false => parser.parse_statement().map(|statement| match is_move {
            true => Parsed::Move(Box::new(statement)),
            false => Parsed::Tree(Box::new(statement)),
        }),
    };
    let outcome = outcome.and_then(|parsed| {
        let next = parser.peek_token();
        if next.token == Token::EOF { Ok(parsed) } else { parser.expected("end", next) }
    });
    match outcome {
        Ok(Parsed::Tree(options)) if let Some((if_exists, restart)) = altered => {
            let altered = AlterSequence { options: *options, if_exists, restart };
            Ok(Parsed::AlterSequence(Box::new(altered)))
        }
        Ok(Parsed::Tree(statement)) => {
            check_tree(&statement)?;
            Ok(Parsed::Tree(Box::new(into_table(with_source(*statement)))))
        }
        Ok(parsed) => Ok(parsed),
        Err(ParserError::RecursionLimitExceeded) => {
            Err(too_complex("the statement is nested too deeply"))
        }
        Err(ParserError::TokenizerError(message) | ParserError::ParserError(message)) => {
            Err(syntax_error(text, &tokens, &message))
        }
    }
}

/// Returns a `SELECT … INTO` as the CREATE TABLE AS that it is.
fn into_table(statement: Statement) -> Statement {
    use datafusion::sql::sqlparser::ast::{
        SetExpr, helpers::stmt_create_table::CreateTableBuilder,
    };
    let Statement::Query(mut query) = statement else { return statement };
    // The first query of a set operation names the table.
    let mut first = query.body.as_mut();
    while let SetExpr::SetOperation { left, .. } = first {
        first = left;
    }
    let SetExpr::Select(select) = first else { return Statement::Query(query) };
    let Some(into) = select.into.take() else { return Statement::Query(query) };
    let create = CreateTableBuilder::new(into.name).temporary(into.temporary).query(Some(query));
    Statement::CreateTable(create.build())
}

/// Gives the WITH of an INSERT to its query.
fn with_source(statement: Statement) -> Statement {
    use datafusion::sql::sqlparser::ast::SetExpr;
    let Statement::Query(mut query) = statement else { return statement };
    let SetExpr::Insert(Statement::Insert(insert)) = query.body.as_mut() else {
        return Statement::Query(query);
    };
    match &mut insert.source {
        Some(source) if source.with.is_none() => {
            source.with = query.with.take();
            Statement::Insert(insert.clone())
        }
        _ => Statement::Query(query),
    }
}

fn syntax(message: impl Into<String>) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, message)
}

/// Turns a message of the parser into an error that names the token and its position.
fn syntax_error(text: &str, tokens: &[TokenWithSpan], message: &str) -> Error {
    let place = message.rsplit_once(" at Line: ").and_then(|(_, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some(Location { line: line.parse().ok()?, column: column.parse().ok()? })
    });
    let Some(place) = place else {
        return syntax("syntax error at end of input").at(text.chars().count() as u32 + 1);
    };
    let position = position_of(text, place);
    let token = tokens.iter().find(|token| token.span.start == place);
    let Some(token) = token else { return syntax(format!("syntax error: {message}")).at(position) };
    let end = position_of(text, token.span.end);
    let len = end.saturating_sub(position).max(1) as usize;
    let near: String = text.chars().skip(position as usize - 1).take(len).collect();
    syntax(format!("syntax error at or near \"{near}\"")).at(position)
}

/// Returns the character of `text`, from 1, at `location`.
pub(crate) fn position_of(text: &str, location: Location) -> u32 {
    let (line, column) = (location.line.max(1), location.column.max(1));
    let mut at = 0u64;
    for (number, content) in text.split_inclusive('\n').enumerate() {
        if number as u64 + 1 == line {
            break;
        }
        at += content.chars().count() as u64;
    }
    u32::try_from(at + column).unwrap_or(u32::MAX)
}

fn word(text: &str) -> Token {
    Token::make_word(text, None)
}

/// Returns the word at `index` in capitals; nothing if there is another token.
pub(super) fn word_at(tokens: &[TokenWithSpan], index: usize) -> String {
    match tokens.get(index).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    }
}

/// Joins literals of text that only a line break parts, as SQL asks.
fn join_texts(tokens: &mut Vec<TokenWithSpan>) {
    use datafusion::sql::sqlparser::tokenizer::Whitespace;
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // The place of the literal before, if only blanks came since, and whether one of them is a line break.
    let (mut before, mut is_break) = (None, false);
    for token in tokens.drain(..) {
        match (&token.token, before) {
            (Token::Whitespace(blank), _) => {
                is_break |= *blank == Whitespace::Newline;
                out.push(token);
                continue;
            }
            (Token::SingleQuotedString(second), Some(at)) if is_break => {
                out.truncate(at + 1);
                if let Some(Token::SingleQuotedString(first)) = out.last_mut().map(|o| &mut o.token)
                {
                    first.push_str(second);
                }
            }
            (Token::SingleQuotedString(_), _) => {
                before = Some(out.len());
                out.push(token);
            }
            _ => {
                before = None;
                out.push(token);
            }
        }
        is_break = false;
    }
    *tokens = out;
}

/// Spells `trim(LEADING FROM x)` with the blank that it means.
fn spell_trims(tokens: &mut Vec<TokenWithSpan>) {
    let is_meant = |at: &usize| {
        word_at(tokens, at + 1) == "FROM"
            && matches!(word_at(tokens, *at).as_str(), "LEADING" | "TRAILING" | "BOTH")
            && word_at(tokens, at - 2) == "TRIM"
    };
    let places: Vec<usize> = (2..tokens.len()).filter(is_meant).collect();
    if places.is_empty() {
        return;
    }
    let mut places = places.into_iter().peekable();
    let mut out = Vec::with_capacity(tokens.len() + places.len());
    for (at, token) in tokens.drain(..).enumerate() {
        let span = token.span;
        out.push(token);
        if places.next_if_eq(&at).is_some() {
            let token = Token::SingleQuotedString(" ".to_owned());
            out.push(TokenWithSpan { token, span });
        }
    }
    *tokens = out;
}

/// Spells the values of the switches of `COPY` as the parser knows them.
fn spell_switches(tokens: &mut [TokenWithSpan]) {
    for index in 1..tokens.len() {
        if !matches!(word_at(tokens, index - 1).as_str(), "FREEZE" | "HEADER") {
            continue;
        }
        let value = match &tokens[index].token {
            Token::Word(word) => word.value.to_ascii_lowercase(),
            Token::Number(text, _) | Token::SingleQuotedString(text) => text.to_ascii_lowercase(),
            _ => continue,
        };
        match value.as_str() {
            "on" | "1" | "true" => tokens[index].token = word("TRUE"),
            "off" | "0" | "false" => tokens[index].token = word("FALSE"),
            _ => {}
        }
    }
}

/// Spells a user as the role that it is: one that may log in, if nothing else is said.
fn spell_user(tokens: &mut Vec<TokenWithSpan>) {
    tokens[1].token = word("ROLE");
    let is_about_login = |index| matches!(word_at(tokens, index).as_str(), "LOGIN" | "NOLOGIN");
    let is_said = (2..tokens.len()).any(is_about_login);
    if word_at(tokens, 0) == "CREATE" && !is_said {
        let end = tokens.iter().position(|token| token.token == Token::EOF);
        let span = tokens[1].span;
        tokens.insert(end.unwrap_or(tokens.len()), TokenWithSpan { token: word("LOGIN"), span });
    }
}

/// Takes DEFERRABLE from the modes of a transaction: it means something for SERIALIZABLE only.
fn spell_deferrable(tokens: &mut Vec<TokenWithSpan>) {
    let is_transaction =
        (0..tokens.len()).any(|at| matches!(word_at(tokens, at).as_str(), "BEGIN" | "TRANSACTION"));
    let Some(at) = (1..tokens.len()).find(|at| word_at(tokens, *at) == "DEFERRABLE") else {
        return;
    };
    if !is_transaction {
        return;
    }
    let mut from = if word_at(tokens, at - 1) == "NOT" { at - 1 } else { at };
    let mut to = at + 1;
    if tokens[from - 1].token == Token::Comma {
        from -= 1;
    } else if tokens.get(to).is_some_and(|token| token.token == Token::Comma) {
        to += 1;
    }
    tokens.drain(from..to);
}

/// Spells locks of rows by the two modes that the parser knows, each the next stronger one.
fn spell_locks(tokens: &mut Vec<TokenWithSpan>) {
    let mut is_left_out = vec![false; tokens.len()];
    for at in (0..tokens.len()).filter(|at| word_at(tokens, *at) == "FOR") {
        let word = |ahead: usize| word_at(tokens, at + ahead);
        if word(1) == "NO" && word(2) == "KEY" && word(3) == "UPDATE" {
            is_left_out[at + 1..at + 3].fill(true);
        } else if word(1) == "KEY" && word(2) == "SHARE" {
            is_left_out[at + 1] = true;
        }
    }
    let mut is_left_out = is_left_out.into_iter();
    tokens.retain(|_| is_left_out.next() != Some(true));
}

/// Spells `FETCH` and `MOVE` as `FETCH direction FROM name`.
fn spell_fetch(tokens: &mut Vec<TokenWithSpan>) {
    let new = |token: Token, like: &TokenWithSpan| TokenWithSpan { token, span: like.span };
    let Some(first) = tokens.first().cloned() else { return };
    tokens[0].token = word("FETCH");
    let is_preposition = |text: &str| matches!(text, "FROM" | "IN");
    let end = tokens.iter().position(|token| token.token == Token::EOF).unwrap_or(tokens.len());
    let Some(name_at) = end.checked_sub(1).filter(|at| *at > 0) else { return };
    if !is_preposition(&word_at(tokens, name_at - 1)) {
        tokens.insert(name_at, new(word("FROM"), &first));
    }
    let direction = word_at(tokens, 1);
    if is_preposition(&direction) {
        tokens.insert(1, new(word("NEXT"), &first));
    } else if matches!(direction.as_str(), "FORWARD" | "BACKWARD")
        && is_preposition(&word_at(tokens, 2))
    {
        tokens.insert(2, new(Token::Number("1".into(), false), &first));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> (String, Option<u32>, String) {
        let error = parse(text).unwrap_err();
        (error.state.to_string(), error.position, error.message.clone())
    }

    #[test]
    fn a_syntax_error_names_token_and_position() {
        for (text, position, message) in [
            ("SELEC 1", 1, "syntax error at or near \"SELEC\""),
            ("SELECT 1;\n SELECT 'é', 1 2", 26, "syntax error at or near \"2\""),
            ("SELECT 'é', 1 2", 15, "syntax error at or near \"2\""),
            ("SELECT (1", 10, "syntax error at end of input"),
            ("SELECT 'x", 8, "unterminated quoted string at or near \"'x\""),
        ] {
            let (state, at, said) = error(text);
            assert_eq!(
                (state.as_str(), at, said.as_str()),
                ("42601", Some(position), message),
                "{text}"
            );
        }
    }

    #[test]
    fn nesting_and_chains_are_errors_and_no_overflow() {
        let nested = format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000));
        let chain = format!("SELECT 1{}", "+1".repeat(100_000));
        let ors = format!("SELECT 1 WHERE a = 1{}", " OR a = 1".repeat(100_000));
        let unions = format!("SELECT 1{}", " UNION SELECT 1".repeat(50_000));
        let negated = format!("SELECT {} 1", "- ".repeat(100_000));
        let casts = format!("SELECT 1::int{}", "[]".repeat(100_000));
        let nulls = format!("SELECT 1 {}", " NOTNULL".repeat(100_000));
        let named = format!("SELECT 1 {}", " OPERATOR(pg_catalog.+) 1".repeat(10_000));
        let wide = format!("SELECT 1,1{}", " UNION ALL SELECT 1,1".repeat(100_000));
        let joins = format!("SELECT 1 FROM t{}", " JOIN t ON true".repeat(10_000));
        let tables = format!("SELECT 1 FROM t{}", ", t".repeat(10_000));
        let sums = "+1".repeat(1_900);
        let pyramid = format!("SELECT {}1{}", "(".repeat(20), format!("{sums})").repeat(20));
        let cases = format!(
            "SELECT {}1{}",
            "CASE WHEN ".repeat(20),
            format!("{sums} THEN 1 END").repeat(20)
        );
        let all = [nested, chain, ors, unions, negated, casts, nulls, named, wide, joins, tables];
        for text in all.into_iter().chain([pyramid, cases]) {
            assert_eq!(error(&text).0, "54001", "{}", &text[..30]);
        }
        let branches = " WHEN a = 1 AND b = 2 THEN 3".repeat(5_000);
        assert_eq!(parse(&format!("SELECT CASE{branches} ELSE 4 END FROM t")).unwrap().len(), 1);
        let many = format!("VALUES (-1 + 2){}", ", (-1 + 2)".repeat(10_000));
        assert_eq!(parse(&many).unwrap().len(), 1);
    }

    #[test]
    fn the_time_of_a_parse_does_not_double_with_each_level() {
        let calls = format!("SELECT {}1{}", "abs(".repeat(60), ")".repeat(60));
        assert_eq!(parse(&calls).unwrap().len(), 1);
        let named = "SELECT f(a => abs(abs(1)), 2)";
        assert_eq!(parse(named).unwrap().len(), 1);
        // Each level is tried as a subquery and then as a join, so this one is given up.
        let depth = 60;
        let derived = format!(
            "SELECT 1 FROM {}t{}",
            "((SELECT 1 FROM ".repeat(depth),
            ") a CROSS JOIN b) ".repeat(depth)
        );
        assert_eq!(error(&derived).0, "54001");
        let wrong = format!("SELECT {}1 1{}", "extract(".repeat(60), ")".repeat(60));
        assert!(parse(&wrong).is_err());
    }

    #[test]
    fn select_lists_are_as_long_as_postgresql_allows() {
        let list = |count: usize| format!("SELECT 1{}", ",1".repeat(count - 1));
        assert_eq!(parse(&list(1_664)).unwrap().len(), 1);
        assert_eq!(error(&list(1_665)).0, "54011");
    }

    #[test]
    fn statements_are_cut_at_semicolons() {
        assert_eq!(parse("").unwrap(), []);
        assert_eq!(parse(" ;; -- nothing\n").unwrap(), []);
        assert_eq!(parse("SELECT ';'; SELECT 2;").unwrap().len(), 2);
        assert_eq!(parse("vacuum analyze t").unwrap(), [Parsed::Nothing("VACUUM")]);
    }

    #[test]
    fn statements_of_clients_parse() {
        for text in [
            "copy pgbench_accounts from stdin with (freeze on)",
            "COPY t (a, b) FROM STDIN WITH (FORMAT csv, HEADER true, NULL 'x')",
            "COPY (SELECT 1) TO STDOUT (FORMAT binary)",
            "copy t to stdout csv header",
            "ABORT",
            "FETCH c",
            "FETCH FROM c",
            "FETCH FORWARD 10 FROM c",
            "FETCH FORWARD FROM c",
            "FETCH ALL IN c",
            "FETCH 5 c",
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
            "create table pgbench_tellers(tid int not null,bid int,filler char(84)) with (fillfactor=100)",
            "alter table pgbench_branches add primary key (bid)",
            "drop table if exists a, b",
            "truncate table a, b",
            "BEGIN ISOLATION LEVEL REPEATABLE READ",
            "START TRANSACTION READ ONLY",
            "BEGIN ISOLATION LEVEL READ COMMITTED NOT DEFERRABLE",
            "BEGIN READ ONLY, DEFERRABLE",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SET LOCAL statement_timeout = '5s'",
            "SHOW TRANSACTION ISOLATION LEVEL",
            "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING *",
            "CREATE SEQUENCE s START 10 INCREMENT BY 5 NO CYCLE NO MINVALUE AS int OWNED BY t.a CACHE 1",
            "CREATE SEQUENCE IF NOT EXISTS a.s MAXVALUE 9 INCREMENT -1",
            "CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 2) PRIMARY KEY)",
            "ALTER SEQUENCE s RESTART",
            "ALTER SEQUENCE IF EXISTS a.s INCREMENT 2 RESTART WITH -7 NO MAXVALUE",
            "ALTER SEQUENCE s OWNED BY NONE",
            "ALTER SEQUENCE s RENAME TO q",
            "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS i ON t (a DESC NULLS LAST, b)",
            "SELECT * FROM t FOR UPDATE SKIP LOCKED",
            "SELECT * FROM t FOR NO KEY UPDATE",
            "CREATE FOREIGN TABLE IF NOT EXISTS s.u (id bytea, n text OPTIONS (column 'f:n') NOT NULL) \
             SERVER bigtable OPTIONS (table 'u')",
            "drop foreign table if exists a, b cascade",
        ] {
            match parse(text) {
                Ok(parsed) => assert_eq!(parsed.len(), 1, "{text}"),
                Err(error) => panic!("{text}: {error}"),
            }
        }
        let Ok(moved) = parse("MOVE 3 FROM c") else { panic!("MOVE") };
        assert!(matches!(moved[..], [Parsed::Move(_)]));
    }
}
