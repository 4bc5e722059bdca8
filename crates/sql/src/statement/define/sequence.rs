//! Sequences: CREATE SEQUENCE, and the ones of serial and identity columns.

use super::new_name;
use crate::statement::names::{data_type, wrong_kind};
use crate::statement::{AlterSequence, Environment, Restart, Run, name_of};
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, SequenceOptions, Statement};
use relational::catalog::{Relation, Sequence};
use relational::{Catalog, DataType, Error, NewSequence, Oid, Result, SequenceChange, SqlState};
use std::sync::Arc;

/// Longest name of an object, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// Carries out a CREATE SEQUENCE.
pub(super) async fn create(
    statement: &Statement,
    text: &str,
    run: &mut Run<'_>,
) -> Result<&'static str> {
    let Statement::CreateSequence {
        temporary,
        if_not_exists,
        name,
        data_type: written,
        sequence_options,
        owned_by,
    } = statement
    else {
        return Err(Error::internal("a CREATE SEQUENCE is none"));
    };
    if *temporary {
        return Err(Error::unsupported("temporary sequences are not supported"));
    }
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    let (schema, name) = new_name(&environment, name)?;
    if *if_not_exists && catalog.find(schema, &name).is_some() {
        run.notice(format!("relation \"{name}\" already exists, skipping"));
        return Ok("CREATE SEQUENCE");
    }
    let number_type = written.as_ref().map_or(Ok(DataType::Int8), data_type)?;
    let mut new = define(schema, name, run.role()?, number_type, sequence_options)?;
    if let Some(owner) = owned_by {
        new.owned_by = owner_of(&environment, owner, text)?;
    }
    run.transaction.create_sequence(new).await?;
    Ok("CREATE SEQUENCE")
}

/// Returns the column that a sequence goes with, or nothing for NONE.
fn owner_of(
    environment: &Environment<'_>,
    owner: &ObjectName,
    text: &str,
) -> Result<Option<(Oid, i16)>> {
    if owner.to_string().eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let mut parts = owner.0.clone();
    let column = parts.pop().and_then(|part| part.as_ident().map(name_of));
    let table = environment.table(&ObjectName(parts), text)?;
    // A default of the column would take its numbers from the sequence.
    environment.check_owner(&Relation::Table(Arc::clone(&table)))?;
    let column = column.unwrap_or_default();
    let (_, column) = table.column(&column).ok_or_else(|| {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
        Error::new(SqlState::UNDEFINED_COLUMN, message)
    })?;
    Ok(Some((table.oid, column.number)))
}

/// Carries out an ALTER SEQUENCE.
pub(super) async fn alter(alter: &AlterSequence, text: &str, run: &mut Run<'_>) -> Result<()> {
    let Statement::CreateSequence { name, data_type: written, sequence_options, owned_by, .. } =
        &alter.options
    else {
        return Err(Error::internal("an ALTER SEQUENCE has no options"));
    };
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    let found = match environment.find(name)? {
        None if alter.if_exists => {
            run.notice(format!("relation \"{name}\" does not exist, skipping"));
            return Ok(());
        }
        _ => environment.relation(name, text)?,
    };
    environment.check_owner(&found)?;
    let Relation::Sequence(sequence) = &found else {
        return Err(wrong_kind(name, &found, "a sequence"));
    };
    if written.is_some() {
        return Err(Error::unsupported("ALTER SEQUENCE AS another type is not supported"));
    }
    let mut change = SequenceChange::default();
    for option in sequence_options {
        match option {
            SequenceOptions::IncrementBy(value, _) => change.increment = Some(number(value)?),
            SequenceOptions::MinValue(Some(value)) => change.min = Some(number(value)?),
            SequenceOptions::MaxValue(Some(value)) => change.max = Some(number(value)?),
            SequenceOptions::MinValue(None) => change.min = Some(bounds_of(sequence)?.0),
            SequenceOptions::MaxValue(None) => change.max = Some(bounds_of(sequence)?.1),
            SequenceOptions::StartWith(value, _) => change.start = Some(number(value)?),
            SequenceOptions::Cache(_) => {}
            SequenceOptions::Cycle(is_off) => change.cycle = Some(!*is_off),
        }
    }
    if let Some(owner) = owned_by {
        change.owned_by = Some(owner_of(&environment, owner, text)?);
    }
    run.transaction.alter_sequence(sequence.oid, change).await?;
    let at = match alter.restart {
        Restart::No => return Ok(()),
        Restart::AtStart => None,
        Restart::At(number) => Some(number),
    };
    run.transaction.restart_sequence(sequence.oid, at).await
}

/// Returns the smallest and the largest number of a sequence whose definition names none.
fn bounds_of(sequence: &Sequence) -> Result<(i64, i64)> {
    let (low, high) = range_of(&sequence.data_type)?;
    Ok(if sequence.increment > 0 { (1, high) } else { (low, -1) })
}

/// Creates the sequence of a serial or identity column.
pub(super) async fn create_for_column(
    run: &mut Run<'_>,
    table: Oid,
    column: &str,
    name: String,
    options: &[SequenceOptions],
) -> Result<()> {
    let catalog = run.transaction.catalog();
    let missing = || Error::internal("a table that was created is gone");
    let table = catalog.table(table).ok_or_else(missing)?;
    let (_, column) = table.column(column).ok_or_else(missing)?;
    let owner = run.role()?;
    let mut new = define(table.schema, name, owner, column.data_type.clone(), options)?;
    new.owned_by = Some((table.oid, column.number));
    run.transaction.create_sequence(new).await?;
    Ok(())
}

/// Returns a free name for the sequence of a column.
pub(super) fn free_name(
    catalog: &Catalog,
    schema: Oid,
    table: &str,
    column: &str,
    taken: &[String],
) -> String {
    let mut number = 0;
    loop {
        let tail = match number {
            0 => "_seq".to_owned(),
            number => format!("_seq{number}"),
        };
        let mut stem = format!("{table}_{column}");
        stem.truncate(stem.floor_char_boundary(NAME_BYTES_MAX - tail.len()));
        let name = stem + &tail;
        if catalog.find(schema, &name).is_none() && !taken.contains(&name) {
            return name;
        }
        number += 1;
    }
}

/// Returns the default of a serial column.
pub(super) fn next_of(run: &Run<'_>, schema: Oid, sequence: &str) -> String {
    let catalog = run.transaction.catalog();
    let plain = |name: &str| {
        let mut bytes = name.bytes();
        let is_first = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
        is_first && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let quoted = |name: &str| match plain(name) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    };
    let schema = catalog.schema(schema).map_or("public", |schema| schema.name.as_str());
    let name = match schema {
        "public" => quoted(sequence),
        schema => format!("{}.{}", quoted(schema), quoted(sequence)),
    };
    format!("nextval('{}'::regclass)", name.replace('\'', "''"))
}

fn define(
    schema: Oid,
    name: String,
    owner: Oid,
    data_type: DataType,
    options: &[SequenceOptions],
) -> Result<NewSequence> {
    let (low, high) = range_of(&data_type)?;
    let (mut increment, mut min, mut max, mut start, mut cycle) = (1, None, None, None, false);
    for option in options {
        match option {
            SequenceOptions::IncrementBy(value, _) => increment = number(value)?,
            SequenceOptions::MinValue(value) => min = value.as_ref().map(number).transpose()?,
            SequenceOptions::MaxValue(value) => max = value.as_ref().map(number).transpose()?,
            SequenceOptions::StartWith(value, _) => start = Some(number(value)?),
            // Numbers are reserved in blocks anyway; gaps after a crash are PostgreSQL's too.
            SequenceOptions::Cache(_) => {}
            SequenceOptions::Cycle(is_off) => cycle = !*is_off,
        }
    }
    let invalid = |message: String| Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
    if increment == 0 {
        return invalid("INCREMENT must not be zero".into());
    }
    let is_up = increment > 0;
    let min = min.unwrap_or(if is_up { 1 } else { low });
    let max = max.unwrap_or(if is_up { high } else { -1 });
    if min >= max || min < low || max > high {
        return invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})"));
    }
    let start = start.unwrap_or(if is_up { min } else { max });
    if start < min || start > max {
        return invalid(format!("START value ({start}) must be between {min} and {max}"));
    }
    let owned_by = None;
    Ok(NewSequence { schema, name, owner, data_type, start, increment, min, max, cycle, owned_by })
}

/// Returns the smallest and the largest number of a type.
fn range_of(data_type: &DataType) -> Result<(i64, i64)> {
    match data_type {
        DataType::Int2 => Ok((i64::from(i16::MIN), i64::from(i16::MAX))),
        DataType::Int4 => Ok((i64::from(i32::MIN), i64::from(i32::MAX))),
        DataType::Int8 => Ok((i64::MIN, i64::MAX)),
        _ => {
            let message = "sequence type must be smallint, integer, or bigint";
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

fn number(value: &Expr) -> Result<i64> {
    value.to_string().replace(' ', "").parse().map_err(|_| {
        let message = format!("invalid number for a sequence: {value}");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })
}
