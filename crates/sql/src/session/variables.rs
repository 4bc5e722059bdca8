//! SET and SHOW.

use super::Session;
use super::block::isolation;
use super::command::setting_name;
use super::settings::{Span, checked_by_name};
use crate::statement::{Column, Output, Rows};
use datafusion::sql::sqlparser::ast::{ContextModifier, Expr, Ident, Set, ValueWithSpan};
use relational::{DataType, Error, Result, Row, SqlState, Value};
use std::sync::Arc;

impl Session {
    /// Begins the transaction without a block with which a change of settings is taken back, if the messages
    /// of the client fail later on.
    pub(super) fn settle_settings(&mut self) {
        // A session whose settings no transaction can have must be able to change them.
        let _ = self.block.for_statement(&self.shared.database, &self.settings);
    }

    pub(super) fn set(&mut self, set: Set) -> Result<()> {
        let (scope, name, values) = match set {
            Set::SingleAssignment { scope, variable, values, .. } => {
                (scope, setting_name(&variable), values)
            }
            Set::SetTimeZone { local, value } => {
                let scope = if local { ContextModifier::Local } else { ContextModifier::Session };
                (Some(scope), "TimeZone".into(), vec![value])
            }
            Set::SetNames { charset_name, .. } => {
                let value = charset_name.value;
                return self.settings.set("client_encoding", &value, Span::Session);
            }
            Set::SetNamesDefault {} => return self.settings.reset("client_encoding"),
            Set::SetRole { role_name: None, .. } => return Ok(()),
            other => return Err(Error::unsupported(format!("{other} is not supported"))),
        };
        let span = match scope {
            Some(ContextModifier::Local) => Span::Local,
            _ => Span::Session,
        };
        if span == Span::Local && !self.block.is_open() {
            let message = "SET LOCAL can only be used in transaction blocks";
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
            return Ok(());
        }
        let is_path = name.eq_ignore_ascii_case("search_path");
        let texts: Vec<_> = values.iter().map(|value| setting_text(value, is_path)).collect();
        match texts.as_slice() {
            [text] if text.eq_ignore_ascii_case("default") => self.settings.reset(&name),
            texts => self.assign(&name, &texts.join(", "), span),
        }
    }

    /// Gives a setting a value. The ones of the transaction change the block that is open; there is nothing to change
    /// without one.
    pub(super) fn assign(&mut self, name: &str, value: &str, span: Span) -> Result<()> {
        let is_level = name.eq_ignore_ascii_case("transaction_isolation");
        if !is_level && !name.eq_ignore_ascii_case("transaction_read_only") {
            return self.settings.set(name, value, span);
        }
        let value = checked_by_name(name, value)?;
        let level = if is_level { Some(isolation(&value)?) } else { None };
        let Some(mut mode) = self.block.mode().filter(|_| self.block.is_open()) else {
            return Ok(());
        };
        match level {
            Some(level) => mode.isolation = level,
            None => mode.is_read_only = value == "on",
        }
        self.block.change_mode(mode)
    }

    pub(super) fn show(&self, variable: &[Ident]) -> Result<Output> {
        let columns = columns_of_show(variable);
        let name = shown_name(variable);
        let rows: Vec<Row> = if name == "all" {
            let rows = self.settings.all().into_iter();
            rows.map(|(name, value)| vec![text(name), text(&value), text("")]).collect()
        } else {
            let value = match (name.as_str(), self.block.mode()) {
                ("transaction_isolation", Some(mode)) => match mode.isolation {
                    relational::Isolation::ReadCommitted => "read committed".into(),
                    relational::Isolation::RepeatableRead => "repeatable read".into(),
                },
                ("transaction_read_only", Some(mode)) => {
                    if mode.is_read_only { "on" } else { "off" }.into()
                }
                ("transaction_isolation", None) => {
                    self.settings.show("default_transaction_isolation")?
                }
                _ => self.settings.show(&name)?,
            };
            vec![vec![text(&value)]]
        };
        Ok(Output::Rows(Box::new(Rows::ready(columns, rows, "SHOW"))))
    }
}

fn text(value: &str) -> Value {
    Value::Text(value.into())
}

/// Returns the text of a value in `SET`.
fn setting_text(value: &Expr, is_path: bool) -> String {
    use datafusion::sql::sqlparser::ast::Value as Literal;
    let quoted = |name: &str| match is_path {
        true => format!("\"{name}\""),
        false => name.to_owned(),
    };
    match value {
        Expr::Value(ValueWithSpan { value: Literal::SingleQuotedString(text), .. })
            if is_path && !text.is_empty() && !text.contains(['"', ',']) =>
        {
            quoted(text)
        }
        Expr::Value(ValueWithSpan { value: Literal::SingleQuotedString(text), .. }) => text.clone(),
        Expr::Identifier(name) if name.quote_style.is_some() => quoted(&name.value),
        other => other.to_string(),
    }
}

fn shown_name(variable: &[Ident]) -> String {
    let words: Vec<_> = variable.iter().map(|word| word.value.to_lowercase()).collect();
    match words.join(" ").as_str() {
        "transaction isolation level" => "transaction_isolation".into(),
        "time zone" => "timezone".into(),
        "session authorization" => "session_authorization".into(),
        _ => words.join("."),
    }
}

/// Returns the columns of the rows that SHOW gives.
pub(super) fn columns_of_show(variable: &[Ident]) -> Arc<[Column]> {
    let name = shown_name(variable);
    let column = |name: &str| Column::computed(name, DataType::Text);
    match name.as_str() {
        "all" => [column("name"), column("setting"), column("description")].into(),
        name => {
            let known = super::known::find(name).map_or(name, |known| known.name);
            [column(known)].into()
        }
    }
}
