//! Foreign keys: from the parser's tree to definitions of `relational`.

use crate::statement::{Environment, name_of};
use datafusion::sql::sqlparser::ast::{
    ConstraintCharacteristics, ConstraintReferenceMatchKind, DeferrableInitial,
    ForeignKeyConstraint, Ident, ObjectName, ReferentialAction,
};
use relational::catalog::{KeyAction, KeyMatch, Privileges, Relation};
use relational::{Error, NewConstraint, NewForeignKey, Oid, Result, SqlState};

/// The table that a constraint is of, and by what its names are resolved.
pub(super) struct Home<'a> {
    pub(super) environment: &'a Environment<'a>,
    pub(super) schema: Oid,
    pub(super) name: &'a str,
}

/// Returns the definition of a foreign key over columns of the table at home.
///
/// 42P01 and 42809 if it references no table, 42501 without the privilege REFERENCES, 0A000 for DEFERRABLE and MATCH
/// PARTIAL.
pub(super) fn define(
    home: &Home<'_>,
    name: Option<String>,
    key: &ForeignKeyConstraint,
    columns: Vec<String>,
) -> Result<NewConstraint> {
    key.characteristics.as_ref().map_or(Ok(()), refuse)?;
    let matching = match key.match_kind {
        None | Some(ConstraintReferenceMatchKind::Simple) => KeyMatch::Simple,
        Some(ConstraintReferenceMatchKind::Full) => KeyMatch::Full,
        Some(ConstraintReferenceMatchKind::Partial) => {
            return Err(Error::unsupported("MATCH PARTIAL not yet implemented"));
        }
    };
    Ok(NewConstraint::ForeignKey(NewForeignKey {
        name,
        columns,
        references: referenced(home, &key.foreign_table)?,
        referenced: key.referred_columns.iter().map(name_of).collect(),
        on_delete: action(key.on_delete),
        on_update: action(key.on_update),
        matching,
    }))
}

/// Refuses what a foreign key cannot be here.
fn refuse(characteristics: &ConstraintCharacteristics) -> Result<()> {
    let ConstraintCharacteristics { deferrable, initially, enforced } = characteristics;
    let is_deferred = matches!(initially, Some(DeferrableInitial::Deferred));
    if *deferrable == Some(true) || is_deferred {
        return Err(Error::unsupported("DEFERRABLE constraints are not supported")
            .with_hint("A foreign key is checked at the end of each statement."));
    }
    if *enforced == Some(false) {
        return Err(Error::unsupported("NOT ENFORCED constraints are not supported"));
    }
    Ok(())
}

fn action(written: Option<ReferentialAction>) -> KeyAction {
    match written {
        None | Some(ReferentialAction::NoAction) => KeyAction::NoAction,
        Some(ReferentialAction::Restrict) => KeyAction::Restrict,
        Some(ReferentialAction::Cascade) => KeyAction::Cascade,
        Some(ReferentialAction::SetNull) => KeyAction::SetNull,
        Some(ReferentialAction::SetDefault) => KeyAction::SetDefault,
    }
}

/// Returns the number of the referenced table; nothing for the table at home, which may not be there yet.
fn referenced(home: &Home<'_>, name: &ObjectName) -> Result<Option<Oid>> {
    let environment = home.environment;
    let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
    let is_home = match parts.as_slice() {
        [table] => name_of(table) == home.name,
        [.., schema, table] => {
            let schema = environment.catalog.schema_named(&name_of(schema));
            name_of(table) == home.name && schema.is_some_and(|found| found.oid == home.schema)
        }
        [] => false,
    };
    let relation = match environment.find(name)? {
        None if is_home => return Ok(None),
        _ => environment.relation(name, "")?,
    };
    let Relation::Table(table) = &relation else {
        let name = parts.last().map(|name| name_of(name)).unwrap_or_default();
        let message = format!("referenced relation \"{name}\" is not a table");
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
    };
    if table.schema == home.schema && table.name == home.name {
        return Ok(None);
    }
    environment.check(&relation, Privileges::REFERENCES)?;
    Ok(Some(table.oid))
}
