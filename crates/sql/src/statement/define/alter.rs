//! ALTER TABLE.

use super::foreign_key::Home;
use super::table::{check_definition, define_column, define_constraint};
use super::{checks, rename, sequence, storage};
use crate::access::{Access, Condition};
use crate::statement::bind::{Binder, Bound, parse_expression};
use crate::statement::names::{data_type, wrong_kind};
use crate::statement::privilege::role_oid;
use crate::statement::select::{blocking, has_row};
use crate::statement::{Run, TO_SCHEMA, name_of};
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable as Written, AlterTableOperation, ColumnDef, DropBehavior,
    GeneratedAs, Ident, ObjectName, Owner, RenameTableNameKind,
};
use engine::Direction;
use relational::catalog::{Identity, Relation, Table};
use relational::{
    AlterColumn, AlterTable, Error, NewColumn, NewConstraint, Oid, Result, SequenceChange,
    SqlState, Value,
};
use std::sync::Arc;

/// Carries out an ALTER TABLE.
pub(super) async fn table(alter: &Written, text: &str, run: &mut Run<'_>) -> Result<&'static str> {
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    let relation = match environment.find(&alter.name)? {
        None if alter.if_exists => {
            run.notice(format!("relation \"{}\" does not exist, skipping", alter.name));
            return Ok("ALTER TABLE");
        }
        _ => environment.relation(&alter.name, text)?,
    };
    environment.check_owner(&relation)?;
    let oid = match &relation {
        Relation::Table(table) => table.oid,
        Relation::Sequence(found) => {
            rename_sequence(found.oid, alter, run).await?;
            return Ok("ALTER TABLE");
        }
        other => return Err(wrong_kind(&alter.name, other, "a table")),
    };
    for operation in &alter.operations {
        change(oid, operation, run).await?;
    }
    Ok("ALTER TABLE")
}

async fn rename_sequence(sequence: Oid, alter: &Written, run: &mut Run<'_>) -> Result<()> {
    for operation in &alter.operations {
        let table_name = match operation {
            AlterTableOperation::RenameTable { table_name } if schema_of(table_name).is_some() => {
                return Err(Error::unsupported("another schema of a sequence is not supported"));
            }
            AlterTableOperation::RenameTable { table_name } => table_name,
            AlterTableOperation::OwnerTo { new_owner: Owner::Ident(name) } => {
                let catalog = run.transaction.catalog();
                let owner = catalog.sequence(sequence).map(|sequence| sequence.owner);
                if owner == Some(role_oid(&catalog, &name_of(name))?) {
                    continue;
                }
                return Err(Error::unsupported("another owner of a sequence is not supported"));
            }
            operation => return Err(Error::unsupported(format!("{operation} of a sequence"))),
        };
        let name = Some(new_name(table_name));
        let change = SequenceChange { name, ..SequenceChange::default() };
        run.transaction.alter_sequence(sequence, change).await?;
    }
    Ok(())
}

/// Returns the schema of a `SET SCHEMA`, which comes as a renaming.
fn schema_of(name: &RenameTableNameKind) -> Option<String> {
    let (RenameTableNameKind::As(name) | RenameTableNameKind::To(name)) = name;
    let marker = name.0.first().and_then(|part| part.as_ident());
    let is_one = name.0.len() == 2 && marker.is_some_and(|marker| marker.value == TO_SCHEMA);
    is_one.then(|| last_name(name))
}

/// Returns the change that moves a table to a schema, in which the role may make objects; nothing if the table is
/// there.
fn set_schema(oid: Oid, schema: &str, run: &Run<'_>) -> Result<Option<AlterTable>> {
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    let schema = environment.schema_for(Some(schema))?;
    environment.check_create(schema)?;
    Ok((current(run, oid)?.schema != schema).then_some(AlterTable::SetSchema(schema)))
}

fn new_name(name: &RenameTableNameKind) -> String {
    let (RenameTableNameKind::As(name) | RenameTableNameKind::To(name)) = name;
    last_name(name)
}

fn last_name(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map(name_of).unwrap_or_default()
}

fn is_cascade(behavior: Option<DropBehavior>) -> bool {
    matches!(behavior, Some(DropBehavior::Cascade))
}

pub(super) fn current(run: &Run<'_>, oid: Oid) -> Result<Arc<Table>> {
    let catalog = run.transaction.catalog();
    catalog.table(oid).cloned().ok_or_else(|| Error::internal("the table is gone"))
}

async fn change(oid: Oid, operation: &AlterTableOperation, run: &mut Run<'_>) -> Result<()> {
    let change = match operation {
        AlterTableOperation::AddColumn { if_not_exists, column_def, .. } => {
            return add_column(oid, column_def, *if_not_exists, run).await;
        }
        AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
            for name in column_names {
                drop_column(oid, name, *if_exists, is_cascade(*drop_behavior), run).await?;
            }
            return Ok(());
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            let (from, to) = (name_of(old_column_name), name_of(new_column_name));
            return rename::column(oid, from, to, run).await;
        }
        AlterTableOperation::RenameTable { table_name } => match schema_of(table_name) {
            Some(schema) => match set_schema(oid, &schema, run)? {
                Some(change) => change,
                None => return Ok(()),
            },
            None => return rename::table(oid, new_name(table_name), run).await,
        },
        AlterTableOperation::RenameConstraint { old_name, new_name } => {
            AlterTable::RenameConstraint { from: name_of(old_name), to: name_of(new_name) }
        }
        AlterTableOperation::AddConstraint { constraint, not_valid } => {
            let (table, catalog) = (current(run, oid)?, run.transaction.catalog());
            let constraint = {
                let environment = run.environment(&catalog);
                let (schema, name) = (table.schema, table.name.as_str());
                define_constraint(constraint, &Home { environment: &environment, schema, name })?
            };
            if *not_valid {
                return Err(Error::unsupported("NOT VALID constraints are not supported"));
            }
            if let NewConstraint::Check { expression, name } = &constraint {
                check_rows(oid, expression, name.as_deref(), run).await?;
            }
            AlterTable::AddConstraint(constraint)
        }
        AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
            let table = current(run, oid)?;
            let name = name_of(name);
            if *if_exists && !has_constraint(&table, &name) {
                let table = &table.name;
                let message = format!(
                    "constraint \"{name}\" of relation \"{table}\" does not exist, skipping"
                );
                run.notice(message);
                return Ok(());
            }
            AlterTable::DropConstraint { name, cascade: is_cascade(*drop_behavior) }
        }
        AlterTableOperation::AlterColumn { column_name, op } => {
            return alter_column(oid, column_name, op, run).await;
        }
        AlterTableOperation::OwnerTo { new_owner } => {
            let catalog = run.transaction.catalog();
            let owner = match new_owner {
                Owner::Ident(name) => role_oid(&catalog, &name_of(name))?,
                _ => run.role()?,
            };
            let table = catalog.table(oid).filter(|table| table.owner != owner);
            let Some(table) = table else { return Ok(()) };
            run.environment(&catalog).check_new_owner(owner, table.schema)?;
            AlterTable::SetOwner(owner)
        }
        AlterTableOperation::ValidateConstraint { .. } => return Ok(()),
        AlterTableOperation::SetOptionsParens { options } => {
            if storage::of_parameters(options)?.is_some() {
                return Err(Error::unsupported("another storage of a table is not supported")
                    .with_hint(
                        "Make a table with that storage, and insert the rows of this one.",
                    ));
            }
            return Ok(());
        }
        other => return Err(Error::unsupported(format!("ALTER TABLE {other} is not supported"))),
    };
    run.transaction.alter_table(oid, change).await
}

fn has_constraint(table: &Table, name: &str) -> bool {
    table.primary_key.as_ref().is_some_and(|key| key.name == name)
        || table.indexes.iter().any(|i| i.constraint.is_some() && i.name == name)
        || table.checks.iter().any(|check| check.name == name)
        || table.foreign_keys.iter().any(|key| key.name == name)
}

async fn add_column(
    oid: Oid,
    column: &ColumnDef,
    if_not_exists: bool,
    run: &mut Run<'_>,
) -> Result<()> {
    let table = current(run, oid)?;
    let mut defined = {
        let catalog = run.transaction.catalog();
        let environment = run.environment(&catalog);
        let (schema, name) = (table.schema, table.name.as_str());
        define_column(column, &Home { environment: &environment, schema, name })?
    };
    let name = defined.column.name.clone();
    if if_not_exists && table.column(&name).is_some() {
        let message =
            format!("column \"{name}\" of relation \"{}\" already exists, skipping", table.name);
        run.notice(message);
        return Ok(());
    }
    if table.is_columnar() {
        storage::check_type(&name, &defined.column.data_type)?;
    }
    let default = default_of(&defined.column, run)?;
    let is_volatile = default.as_ref().is_some_and(Bound::is_volatile);
    let needs_rows =
        is_volatile || defined.column.generated.is_some() || defined.sequence.is_some();
    if needs_rows && has_rows(oid, run).await? {
        let kinds = "a serial, identity or generated column, or one whose default is volatile,";
        let message = format!("adding {kinds} to a table with rows");
        let hint = match table.is_columnar() {
            true => "Make a table with the column, and insert the rows of this one.",
            false => "Add a plain column, UPDATE it, and set its default.",
        };
        return Err(Error::unsupported(message).with_hint(hint));
    }
    // All rows that are there get this value.
    let missing = match default {
        Some(default) if !is_volatile => {
            let value = default.value(&[], &run.eval())?;
            match defined.column.precision {
                Some(digits) => crate::values::round_moment(value, digits),
                None => value,
            }
        }
        _ => Value::Null,
    };
    let sequence = match defined.sequence.take() {
        None => None,
        Some(options) => {
            let catalog = run.transaction.catalog();
            let free = sequence::free_name(&catalog, table.schema, &table.name, &name, &[]);
            if defined.column.identity.is_none() {
                defined.column.default = Some(sequence::next_of(run, table.schema, &free));
            }
            Some((free, options))
        }
    };
    let checks = std::mem::take(&mut defined.constraints);
    let change = AlterTable::AddColumn { column: defined.column, missing };
    run.transaction.alter_table(oid, change).await?;
    if let Some((free, options)) = sequence {
        sequence::create_for_column(run, oid, &name, free, &options).await?;
    }
    for constraint in checks {
        if let NewConstraint::Check { expression, name } = &constraint {
            check_rows(oid, expression, name.as_deref(), run).await?;
        }
        run.transaction.alter_table(oid, AlterTable::AddConstraint(constraint)).await?;
    }
    check_definition(run, oid)
}

/// Returns the default of a column that is not in its table yet.
fn default_of(column: &NewColumn, run: &Run<'_>) -> Result<Option<Bound>> {
    let Some(text) = &column.default else { return Ok(None) };
    let expression = parse_expression(text)?;
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    let mut none = Vec::new();
    let mut binder = Binder::without_columns(&environment, "", &mut none);
    binder.bind_to(&expression, &column.data_type, &column.name).map(Some)
}

/// Returns whether a table has rows. From here on no other transaction writes to it.
async fn has_rows(oid: Oid, run: &mut Run<'_>) -> Result<bool> {
    let view = run.transaction.view_to_check(oid).await?;
    blocking(move || view.has_rows(oid)).await?
}

async fn drop_column(
    oid: Oid,
    name: &Ident,
    if_exists: bool,
    cascade: bool,
    run: &mut Run<'_>,
) -> Result<()> {
    let (table, name) = (current(run, oid)?, name_of(name));
    if if_exists && table.column(&name).is_none() {
        let message =
            format!("column \"{name}\" of relation \"{}\" does not exist, skipping", table.name);
        run.notice(message);
        return Ok(());
    }
    for check in checks::reading(&table, &name)? {
        let change = AlterTable::DropConstraint { name: check, cascade: false };
        run.transaction.alter_table(oid, change).await?;
    }
    run.transaction.alter_table(oid, AlterTable::DropColumn { name, cascade }).await?;
    check_definition(run, oid)
}

async fn alter_column(
    oid: Oid,
    name: &Ident,
    operation: &AlterColumnOperation,
    run: &mut Run<'_>,
) -> Result<()> {
    let name = name_of(name);
    let mut sequence = None;
    let change = match operation {
        AlterColumnOperation::SetNotNull => AlterColumn::SetNotNull(true),
        AlterColumnOperation::DropNotNull => AlterColumn::SetNotNull(false),
        AlterColumnOperation::SetDefault { value } => {
            AlterColumn::SetDefault(Some(value.to_string()))
        }
        AlterColumnOperation::DropDefault => AlterColumn::SetDefault(None),
        AlterColumnOperation::SetDataType { using: Some(_), .. } => {
            return Err(Error::unsupported("ALTER COLUMN TYPE with USING is not supported"));
        }
        AlterColumnOperation::SetDataType { data_type: written, .. } => {
            AlterColumn::SetType(data_type(written)?)
        }
        AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
            sequence = Some(sequence_options.clone().unwrap_or_default());
            AlterColumn::SetIdentity(Some(match generated_as {
                Some(GeneratedAs::ByDefault) => Identity::ByDefault,
                _ => Identity::Always,
            }))
        }
    };
    let change = AlterTable::Column { name: name.clone(), change };
    run.transaction.alter_table(oid, change).await?;
    if let Some(options) = sequence {
        let (table, catalog) = (current(run, oid)?, run.transaction.catalog());
        let free = sequence::free_name(&catalog, table.schema, &table.name, &name, &[]);
        sequence::create_for_column(run, oid, &name, free, &options).await?;
    }
    check_definition(run, oid)
}

/// Fails if a row that is there violates a new check, and with 0A000 if a columnar table has rows.
async fn check_rows(
    oid: Oid,
    expression: &str,
    name: Option<&str>,
    run: &mut Run<'_>,
) -> Result<()> {
    let table = current(run, oid)?;
    if table.is_columnar() {
        if !has_rows(oid, run).await? {
            return Ok(());
        }
        let message = "a new CHECK of a columnar table with rows is not supported yet";
        return Err(Error::unsupported(message)
            .with_hint("Say it when the table is made, or when it is empty."));
    }
    // From here on no other transaction writes to the table, so a row that passes here stays as it is.
    let view = run.transaction.view_to_check(oid).await?;
    let table = current(run, oid)?;
    let violated = {
        let catalog = run.transaction.catalog();
        let environment = run.environment(&catalog);
        let parsed = parse_expression(&format!("({expression}) IS FALSE"))?;
        let mut none = Vec::new();
        let mut binder = Binder::of_table(&environment, "", &table, &table.name, &mut none);
        binder.bind_condition(&parsed)?
    };
    let access = Access::choose(&table, &Condition::default());
    let (way, eval) = ((oid, &access, Direction::Forward), run.eval());
    if !has_row(view, way, &violated, &eval, &run.flag).await? {
        return Ok(());
    }
    let fallback = format!("{}_check", table.name);
    let name = name.unwrap_or(&fallback);
    let message = format!(
        "check constraint \"{name}\" of relation \"{}\" is violated by some row",
        table.name
    );
    Err(Error::new(SqlState::CHECK_VIOLATION, message).of_constraint(name))
}
