//! The storage of a table: access method and storage parameters of CREATE TABLE.
//!
//! PostgreSQL's parameters, such as fillfactor, are taken and mean nothing here. `storage` is this server's own.

use crate::statement::{Run, name_of};
use datafusion::sql::sqlparser::ast::{
    CreateTable, CreateTableOptions, Expr, HiveFormat, HiveIOFormat, SqlOption, Value as Literal,
};
use relational::{DataType, Error, Result, SqlState};

/// The setting that names the access method of tables that name none.
const DEFAULT_METHOD: &str = "default_table_access_method";
/// PostgreSQL's parameters of tables; the ones of autovacuum begin with its name.
const PARAMETERS: [&str; 8] = [
    "fillfactor",
    "log_autovacuum_min_duration",
    "oids",
    "parallel_workers",
    "toast_tuple_target",
    "user_catalog_table",
    "vacuum_index_cleanup",
    "vacuum_truncate",
];

/// Returns whether a CREATE TABLE makes a columnar table.
///
/// 42704 for an access method that is not there, 22023 for a parameter or a value of it that is not there, 42601 if
/// both say different things.
pub(super) fn is_columnar(create: &CreateTable, run: &Run<'_>) -> Result<bool> {
    let by_method = method(create)?.map(|name| is_columnar_method(&name)).transpose()?;
    let by_parameter = match &create.table_options {
        CreateTableOptions::With(options) => of_parameters(options)?,
        _ => None,
    };
    match (by_method, by_parameter) {
        (Some(one), Some(other)) if one != other => {
            Err(Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"))
        }
        (Some(is_columnar), _) | (None, Some(is_columnar)) => Ok(is_columnar),
        (None, None) => is_columnar_method(&run.settings.show(DEFAULT_METHOD)?),
    }
}

/// Returns the access method that a CREATE TABLE names.
fn method(create: &CreateTable) -> Result<Option<String>> {
    match &create.hive_formats {
        None => Ok(None),
        Some(HiveFormat {
            storage: Some(HiveIOFormat::Using { format }),
            row_format: None,
            serde_properties: None,
            location: None,
        }) => Ok(Some(name_of(format))),
        Some(_) => Err(Error::new(SqlState::SYNTAX_ERROR, "this form of CREATE TABLE is not SQL")),
    }
}

/// Returns whether tables of an access method are columnar. 42704 for one that is not there.
fn is_columnar_method(name: &str) -> Result<bool> {
    match name {
        "heap" => Ok(false),
        "columnar" => Ok(true),
        _ => {
            let message = format!("access method \"{name}\" does not exist");
            Err(Error::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}

/// Returns whether storage parameters want a columnar table; nothing if they do not say. 22023 for unknown ones.
pub(super) fn of_parameters(options: &[SqlOption]) -> Result<Option<bool>> {
    let mut found = None;
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(unrecognized(&option.to_string()));
        };
        let name = name_of(key);
        match name.as_str() {
            "storage" => found = Some(is_columnar_storage(value)?),
            known if PARAMETERS.contains(&known) || known.starts_with("autovacuum_") => {}
            other => return Err(unrecognized(other)),
        }
    }
    Ok(found)
}

/// Returns whether a value of the parameter `storage` wants a columnar table.
fn is_columnar_storage(value: &Expr) -> Result<bool> {
    let word = match value {
        Expr::Identifier(name) => name_of(name),
        Expr::Value(value) => match &value.value {
            Literal::SingleQuotedString(text) => text.to_lowercase(),
            other => other.to_string(),
        },
        other => other.to_string(),
    };
    match word.as_str() {
        "columnar" => Ok(true),
        "rows" => Ok(false),
        _ => {
            let message = format!("invalid value for enum option \"storage\": {word}");
            let detail = "Valid values are \"columnar\" and \"rows\".";
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message).with_detail(detail))
        }
    }
}

fn unrecognized(name: &str) -> Error {
    let message = format!("unrecognized parameter \"{name}\"");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Fails with 0A000 if column segments cannot have values of a type.
pub(super) fn check_type(column: &str, data_type: &DataType) -> Result<()> {
    if crate::query::stored_type(data_type).is_ok() {
        return Ok(());
    }
    let message =
        format!("column \"{column}\" of type {data_type}: columnar tables cannot have it yet");
    Err(Error::unsupported(message).with_hint("Arrays can be kept as jsonb or text."))
}
