//! CREATE FOREIGN TABLE and DROP FOREIGN TABLE: declarations of Bigtable tables.
//!
//! ```sql
//! CREATE FOREIGN TABLE users (
//!     id text,
//!     name text OPTIONS (column 'info:name'),
//!     visits bigint OPTIONS (column 'stats:visits', encoding 'binary')
//! ) SERVER bigtable OPTIONS (table 'users');
//! ```
//!
//! 1. The column without the option `column` is the row key; there is exactly one.
//! 2. Table and families are there when the table is declared. Later they may go, and reads then fail.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{DataType as Written, Ident, ObjectName};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use relational::catalog::{Relation, WideColumn, WideEncoding, WideSource};
use relational::{DataType, Error, NewWide, Result, SqlState};
use table::TableName;
use table::limits::QUALIFIER_BYTES_MAX;

use super::cells::can_be_binary;
use super::conditions::is_bytewise;
use crate::statement::{Run, data_type, name_of, new_name};

/// Most columns of a declared table.
const COLUMNS_MAX: usize = 500;

/// Options in the order in which they were written.
type Options = Vec<(String, String)>;

/// A statement about declared Bigtable tables.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Foreign {
    /// `CREATE FOREIGN TABLE`, which declares one.
    Create {
        name: ObjectName,
        if_not_exists: bool,
        columns: Vec<ForeignColumn>,
        server: Ident,
        options: Options,
    },
    /// `DROP FOREIGN TABLE`, which drops some.
    Drop { names: Vec<ObjectName>, if_exists: bool, cascade: bool },
}

/// A column of a declaration of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ForeignColumn {
    name: Ident,
    data_type: Written,
    not_null: bool,
    options: Options,
}

/// Parses a statement that begins with `CREATE FOREIGN TABLE` or `DROP FOREIGN TABLE`.
pub(crate) fn parse_foreign(parser: &mut Parser<'_>) -> Result<Foreign, ParserError> {
    use Keyword::{CASCADE, EXISTS, FOREIGN, IF, NOT, RESTRICT, SERVER, TABLE};
    let is_create = parser.parse_keyword(Keyword::CREATE);
    if !is_create {
        parser.expect_keyword_is(Keyword::DROP)?;
    }
    parser.expect_keyword_is(FOREIGN)?;
    parser.expect_keyword_is(TABLE)?;
    if !is_create {
        let if_exists = parser.parse_keywords(&[IF, EXISTS]);
        let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
        let cascade = parser.parse_keyword(CASCADE);
        if !cascade {
            let _ = parser.parse_keyword(RESTRICT);
        }
        return Ok(Foreign::Drop { names, if_exists, cascade });
    }
    let if_not_exists = parser.parse_keywords(&[IF, NOT, EXISTS]);
    let name = parser.parse_object_name(false)?;
    parser.expect_token(&Token::LParen)?;
    let columns = parser.parse_comma_separated(parse_column)?;
    parser.expect_token(&Token::RParen)?;
    parser.expect_keyword_is(SERVER)?;
    let server = parser.parse_identifier()?;
    let options = parse_options(parser)?;
    Ok(Foreign::Create { name, if_not_exists, columns, server, options })
}

fn parse_column(parser: &mut Parser<'_>) -> Result<ForeignColumn, ParserError> {
    let (name, data_type) = (parser.parse_identifier()?, parser.parse_data_type()?);
    let options = parse_options(parser)?;
    let not_null = parser.parse_keywords(&[Keyword::NOT, Keyword::NULL]);
    if !not_null {
        let _ = parser.parse_keyword(Keyword::NULL);
    }
    Ok(ForeignColumn { name, data_type, not_null, options })
}

fn parse_options(parser: &mut Parser<'_>) -> Result<Options, ParserError> {
    if !parser.parse_keyword(Keyword::OPTIONS) {
        return Ok(Vec::new());
    }
    parser.expect_token(&Token::LParen)?;
    let options = parser.parse_comma_separated(|parser| {
        let name = parser.parse_identifier()?;
        match parser.next_token().token {
            Token::SingleQuotedString(value) => Ok((name_of(&name), value)),
            _ => {
                parser.prev_token();
                parser.expected("a text in quotes", parser.peek_token())
            }
        }
    })?;
    parser.expect_token(&Token::RParen)?;
    Ok(options)
}

/// Carries out a declaration. Returns its tag.
pub(crate) async fn create(foreign: &Foreign, run: &mut Run<'_>) -> Result<&'static str> {
    let Foreign::Create { name, if_not_exists, columns, server, options } = foreign else {
        return Err(Error::internal("no declaration of a Bigtable table"));
    };
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    let (schema, name) = new_name(&environment, name)?;
    if name_of(server) != "bigtable" {
        let message = format!("server \"{server}\" does not exist");
        return Err(Error::new(SqlState::UNDEFINED_OBJECT, message)
            .with_hint("The only server is bigtable: the Bigtable tables of this store."));
    }
    // It gives away whatever the table has.
    environment.check_superuser("declare a Bigtable table")?;
    if *if_not_exists && catalog.find(schema, &name).is_some() {
        run.notice(format!("relation \"{name}\" already exists, skipping"));
        return Ok("CREATE FOREIGN TABLE");
    }
    let table = table_of(options)?;
    let table = full_name(&catalog, &table)?;
    let columns = columns_of(columns)?;
    check_families(run, &table, &columns).await?;
    let owner = run.role()?;
    run.transaction.create_wide(NewWide { schema, name, owner, table, columns }).await?;
    Ok("CREATE FOREIGN TABLE")
}

/// Carries out a DROP FOREIGN TABLE. Returns its tag.
pub(crate) async fn drop(foreign: &Foreign, run: &mut Run<'_>) -> Result<&'static str> {
    let Foreign::Drop { names, if_exists, cascade } = foreign else {
        return Err(Error::internal("no DROP of a declaration"));
    };
    for name in names {
        let catalog = run.transaction.catalog();
        let environment = run.environment(&catalog);
        let relation = match environment.find(name)? {
            Some(relation) => relation,
            None => {
                let message = format!("foreign table \"{name}\" does not exist");
                if !if_exists {
                    return Err(Error::new(SqlState::UNDEFINED_TABLE, message));
                }
                run.notice(format!("{message}, skipping"));
                continue;
            }
        };
        environment.check_owner(&relation)?;
        match relation {
            Relation::Wide(wide) if !wide.has_cells() => {
                run.transaction.drop_wide(wide.oid, *cascade).await?;
            }
            Relation::Wide(_) => {
                return Err(Error::unsupported("a Bigtable table is not dropped by SQL")
                    .with_hint("Delete it by Bigtable's API."));
            }
            _ => {
                let message = format!("\"{name}\" is not a foreign table");
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        }
    }
    Ok("DROP FOREIGN TABLE")
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Returns the option `table`, which a declaration needs and has no other beside.
fn table_of(options: &Options) -> Result<String> {
    if let Some((other, _)) = options.iter().find(|(name, _)| name != "table") {
        return Err(invalid(format!("invalid option \"{other}\""))
            .with_hint("The option of a Bigtable table is table."));
    }
    match options.as_slice() {
        [(_, table)] => Ok(table.clone()),
        _ => Err(invalid("a Bigtable table is declared with the option table, once")),
    }
}

/// Returns the full name of a table that is written as in the schema `bigtable`, or in full.
fn full_name(catalog: &relational::Catalog, written: &str) -> Result<String> {
    if written.starts_with("projects/") {
        return Ok(written.to_owned());
    }
    let missing = || {
        let message = format!("Bigtable table \"{written}\" does not exist");
        Error::new(SqlState::UNDEFINED_TABLE, message).with_hint(
            "Its name is one of the schema bigtable, or projects/…/instances/…/tables/….",
        )
    };
    match catalog.find(relational::catalog::BIGTABLE_SCHEMA, written) {
        Some(Relation::Wide(wide)) => Ok(wide.table.clone()),
        _ => Err(missing()),
    }
}

/// Returns the columns of a declaration.
fn columns_of(written: &[ForeignColumn]) -> Result<Vec<WideColumn>> {
    if written.len() > COLUMNS_MAX {
        let message = format!("a declared Bigtable table can have at most {COLUMNS_MAX} columns");
        return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
    }
    let columns: Vec<WideColumn> = written.iter().map(column_of).collect::<Result<_>>()?;
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].iter().any(|before| before.name == column.name) {
            let message = format!("column \"{}\" specified more than once", column.name);
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
    }
    let keys = columns.iter().filter(|column| column.source == WideSource::Key).count();
    if keys != 1 || columns.len() == 1 {
        let message = "a Bigtable table is declared with one column for the row key, and others";
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message)
            .with_hint("The column without the option column is the row key."));
    }
    Ok(columns)
}

fn column_of(written: &ForeignColumn) -> Result<WideColumn> {
    let name = name_of(&written.name);
    let data_type = data_type(&written.data_type)?;
    let (mut source, mut encoding) = (WideSource::Key, WideEncoding::Text);
    for (option, value) in &written.options {
        match (option.as_str(), value.as_str()) {
            ("column", column) => source = newest(column)?,
            ("encoding", "text") => encoding = WideEncoding::Text,
            ("encoding", "binary") if can_be_binary(&data_type) => encoding = WideEncoding::Binary,
            ("encoding", "binary") => {
                let message = format!("values of type {data_type} have no encoding 'binary'");
                return Err(Error::unsupported(message));
            }
            ("encoding", other) => {
                return Err(invalid(format!("unknown encoding '{other}'"))
                    .with_hint("Encodings are text and binary."));
            }
            (other, _) => {
                return Err(invalid(format!("invalid option \"{other}\""))
                    .with_hint("The options of a column are column and encoding."));
            }
        }
    }
    if matches!(data_type, DataType::Array(_)) {
        let message = format!("column \"{name}\" of a Bigtable table has an array type");
        return Err(Error::unsupported(message));
    }
    let is_key = source == WideSource::Key;
    if is_key && !is_bytewise(&data_type) {
        let message = format!("row key \"{name}\" is of type {data_type}");
        return Err(Error::unsupported(message).with_hint("Declare it as text or bytea."));
    }
    let not_null = written.not_null || is_key;
    Ok(WideColumn { name, data_type, source, encoding, not_null, comment: None })
}

/// Returns the column that `family:qualifier` names.
fn newest(written: &str) -> Result<WideSource> {
    match written.split_once(':') {
        Some((family, qualifier))
            if !family.is_empty() && qualifier.len() <= QUALIFIER_BYTES_MAX =>
        {
            let (family, qualifier) = (family.to_owned(), qualifier.as_bytes().to_vec());
            Ok(WideSource::Newest { family, qualifier })
        }
        _ => Err(invalid(format!("\"{written}\" is not family:qualifier"))),
    }
}

/// Fails if the table or a family of a declaration is not there.
async fn check_families(run: &Run<'_>, table: &str, columns: &[WideColumn]) -> Result<()> {
    let reads = run.shared.engine.bigtable().map(Arc::clone);
    let Some(reads) = reads else {
        return Err(Error::unsupported("this server does not read Bigtable tables in SQL"));
    };
    let name = TableName::new(table).map_err(|error| invalid(error.to_string()))?;
    let schema = reads.schema(&name).await.map_err(|error| match error {
        table::Error::NotFound { .. } => {
            let message = format!("Bigtable table \"{table}\" does not exist");
            Error::new(SqlState::UNDEFINED_TABLE, message)
        }
        error => error.into(),
    })?;
    for column in columns {
        let WideSource::Newest { family, .. } = &column.source else { continue };
        if !schema.families.contains_key(family.as_str()) {
            let message = format!("Bigtable table \"{table}\" has no family \"{family}\"");
            return Err(Error::new(SqlState::UNDEFINED_COLUMN, message));
        }
    }
    Ok(())
}
