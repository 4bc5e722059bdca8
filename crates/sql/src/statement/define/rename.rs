//! New names of tables and columns, also in the texts that the catalog keeps of expressions.
//!
//! Invariants:
//! 1. A CHECK and a generated column mean the same before and after.
//! 2. A view keeps the text of its query, so the name of a column that it may use is not changed. The tables
//!    that it reads are known to it under the names of then.

use super::alter::current;
use super::table::check_definition;
use crate::query::Dialect;
use crate::statement::bind::parse_expression;
use crate::statement::{Run, name_of};
use datafusion::sql::sqlparser::ast::{Expr, Ident, visit_expressions_mut};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use relational::catalog::Table;
use relational::{AlterTable, Error, Oid, Result};
use std::ops::ControlFlow;

/// Gives a column another name.
pub(super) async fn column(oid: Oid, from: String, to: String, run: &mut Run<'_>) -> Result<()> {
    let table = current(run, oid)?;
    refuse_in_views(run, oid, &from)?;
    let rename = |parts: &mut [Ident]| {
        let is_own = match parts {
            [_] => true,
            [.., owner, _] => name_of(owner) == table.name,
            [] => false,
        };
        if let Some(last) = parts.last_mut().filter(|last| is_own && name_of(last) == from) {
            *last = Ident::with_quote('"', to.as_str());
        }
    };
    let mut texts = renamed(&table, rename)?;
    for (name, _) in texts.1.iter_mut().filter(|(name, _)| *name == from) {
        name.clone_from(&to);
    }
    run.transaction.alter_table(oid, AlterTable::RenameColumn { from, to: to.clone() }).await?;
    set(oid, texts, run).await
}

/// Gives a table another name.
pub(super) async fn table(oid: Oid, to: String, run: &mut Run<'_>) -> Result<()> {
    let table = current(run, oid)?;
    let rename = |parts: &mut [Ident]| {
        if let [.., owner, _] = parts
            && name_of(owner) == table.name
        {
            *owner = Ident::with_quote('"', to.as_str());
        }
    };
    let texts = renamed(&table, rename)?;
    run.transaction.alter_table(oid, AlterTable::Rename(to.clone())).await?;
    set(oid, texts, run).await
}

/// Texts of CHECK constraints and of generated columns, by their names.
type Texts = (Vec<(String, String)>, Vec<(String, String)>);

async fn set(oid: Oid, (checks, generated): Texts, run: &mut Run<'_>) -> Result<()> {
    if !checks.is_empty() || !generated.is_empty() {
        let change = AlterTable::SetExpressions { checks, generated };
        run.transaction.alter_table(oid, change).await?;
    }
    check_definition(run, oid)
}

/// Returns the texts of a table after the names in them were changed.
fn renamed(table: &Table, rename: impl Fn(&mut [Ident])) -> Result<Texts> {
    let rewrite = |text: &str| -> Result<String> {
        let mut expression = parse_expression(text)?;
        let _ = visit_expressions_mut(&mut expression, |expression| {
            match expression {
                Expr::Identifier(name) => rename(std::slice::from_mut(name)),
                Expr::CompoundIdentifier(parts) => rename(parts),
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        });
        Ok(expression.to_string())
    };
    let checks = table.checks.iter().map(|check| {
        let text = rewrite(&check.expression)?;
        Ok((check.name.clone(), text))
    });
    let generated = table.columns.iter().filter_map(|column| {
        let text = column.generated.as_ref()?;
        Some(rewrite(text).map(|text| (column.name.clone(), text)))
    });
    Ok((checks.collect::<Result<_>>()?, generated.collect::<Result<_>>()?))
}

/// Fails with 0A000 if the query of a view over the table has a word that is the name.
fn refuse_in_views(run: &Run<'_>, table: Oid, name: &str) -> Result<()> {
    let catalog = run.transaction.catalog();
    for view in catalog.views().filter(|view| view.reads.contains(&table)) {
        let dialect = Dialect::for_length(view.query.len());
        let tokens = Tokenizer::new(&dialect, &view.query).tokenize().unwrap_or_default();
        let is_name = |token: &Token| match token {
            Token::Word(word) => match word.quote_style {
                Some(_) => word.value == name,
                None => word.value.to_lowercase() == name,
            },
            _ => false,
        };
        if tokens.iter().any(is_name) {
            let message = format!("renaming \"{name}\", which view \"{}\" may use", view.name);
            return Err(Error::unsupported(message)
                .with_hint("Drop the view, rename, and create the view again."));
        }
    }
    Ok(())
}
