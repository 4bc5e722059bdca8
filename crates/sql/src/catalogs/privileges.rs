//! The functions that ask for privileges: `has_table_privilege` and those like it.

use super::functions::relation;
use crate::expression::Acting;
use crate::expression::registry::Call;
use crate::statement::privilege::{has, is_superuser, may_use, memberships_of, roles_of};
use relational::catalog::{Privileges, Relation};
use relational::{Catalog, DataType, Error, Oid, Result, SqlState, Value};
use std::sync::Arc;

/// Answers for a table, view or sequence, or a column of one: the last argument names the privileges, the
/// one before it the column if `has_column`, then the relation and the role, if that is given.
pub(super) fn on_relation(call: &Call<'_>, has_column: bool) -> Result<Value> {
    let count = call.arguments.len() - usize::from(has_column);
    let Some(wanted) = wanted(call)? else { return Ok(Value::Null) };
    let Some(user) = user(call, count == 3)? else { return Ok(Value::Null) };
    let Some(catalog) = &call.context.catalog else { return Ok(Value::Null) };
    let Some(relation) = relation_of(call, catalog, count - 2)? else { return Ok(Value::Null) };
    let (owner, grants) = match &relation {
        Relation::Table(table) | Relation::Index(_, table) => (table.owner, &table.grants),
        Relation::View(view) => (view.owner, &view.grants),
        Relation::Sequence(sequence) => (sequence.owner, &sequence.grants),
        Relation::Wide(wide) => (wide.owner, &wide.grants),
    };
    let may =
        |one: &Privileges| is_superuser(catalog, user) || has(catalog, user, owner, grants, *one);
    Ok(Value::Bool(wanted.iter().any(may)))
}

/// Answers what a role may do with a schema.
pub(super) fn on_schema(call: &Call<'_>) -> Result<Value> {
    let Some(wanted) = wanted(call)? else { return Ok(Value::Null) };
    let Some(user) = user(call, call.arguments.len() == 3)? else { return Ok(Value::Null) };
    let Some(catalog) = &call.context.catalog else { return Ok(Value::Null) };
    let schema = match &call.arguments[call.arguments.len() - 2] {
        Value::Null => return Ok(Value::Null),
        Value::Oid(oid) => catalog.schema(*oid),
        name => catalog.schema_named(&name.to_string()),
    };
    // The schemas of the system are for all to use.
    let Some(schema) = schema else {
        return Ok(Value::Bool(wanted.contains(&Privileges::USAGE)));
    };
    let may = |one: &Privileges| {
        is_superuser(catalog, user)
            || (*one == Privileges::USAGE && may_use(catalog, user, schema))
            || has(catalog, user, schema.owner, &schema.grants, *one)
    };
    Ok(Value::Bool(wanted.iter().any(may)))
}

/// Answers what a role may do with the database, a function or a language: to use them is for all.
pub(super) fn on_server(call: &Call<'_>) -> Result<Value> {
    let Some(text) = call.arguments.last().filter(|text| !text.is_null()) else {
        return Ok(Value::Null);
    };
    let Some(user) = user(call, call.arguments.len() == 3)? else { return Ok(Value::Null) };
    let Some(catalog) = &call.context.catalog else { return Ok(Value::Null) };
    let may = |one: &str| match one.trim().to_ascii_uppercase().as_str() {
        "CONNECT" | "EXECUTE" | "USAGE" => true,
        _ => is_superuser(catalog, user),
    };
    Ok(Value::Bool(text.to_string().split(',').any(may)))
}

/// Answers if a role is a member of another one, or for USAGE if it has the privileges of that.
pub(super) fn on_role(call: &Call<'_>) -> Result<Value> {
    let Some(wanted) = call.arguments.last().filter(|wanted| !wanted.is_null()) else {
        return Ok(Value::Null);
    };
    let wanted = wanted.to_string();
    let is_usage = wanted.split(',').all(|one| one.trim().eq_ignore_ascii_case("usage"));
    let Some(user) = user(call, call.arguments.len() == 3)? else { return Ok(Value::Null) };
    let Some(catalog) = &call.context.catalog else { return Ok(Value::Null) };
    let group = match &call.arguments[call.arguments.len() - 2] {
        Value::Null => return Ok(Value::Null),
        Value::Oid(oid) => Some(*oid),
        name => catalog.role_named(&name.to_string()).map(|role| role.oid),
    };
    let roles = if is_usage { roles_of(catalog, user) } else { memberships_of(catalog, user) };
    let is_member = group.is_some_and(|group| roles.contains(&group));
    Ok(Value::Bool(is_superuser(catalog, user) || is_member))
}

/// Returns the role that is asked for: the first argument if it is given, else the current one.
fn user(call: &Call<'_>, is_given: bool) -> Result<Option<Acting>> {
    if !is_given {
        return Ok(Some(call.context.acting));
    }
    let catalog = call.context.catalog.as_ref();
    let role = match &call.arguments[0] {
        Value::Null => return Ok(None),
        Value::Oid(oid) => catalog.and_then(|catalog| catalog.role(*oid)),
        name => {
            let name = name.to_string();
            let role = catalog.and_then(|catalog| catalog.role_named(&name));
            let Some(role) = role else {
                let message = format!("role \"{name}\" does not exist");
                return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
            };
            Some(role)
        }
    };
    Ok(role.map(|role| Acting::Role(role.oid)))
}

/// Returns the relation of the argument at a place; nothing if it is NULL, or a number that names none.
fn relation_of(call: &Call<'_>, catalog: &Arc<Catalog>, at: usize) -> Result<Option<Relation>> {
    let number = |oid: Oid| Ok(catalog.relation(oid));
    match (&call.arguments[at], &call.types[at]) {
        (Value::Null, _) => Ok(None),
        (Value::Oid(oid), _) => number(*oid),
        (Value::Int4(oid), DataType::Int4) => number(*oid as Oid),
        (name, _) => {
            let name = name.to_string();
            relation(call, &name).map(Some).ok_or_else(|| {
                let message = format!("relation \"{name}\" does not exist");
                Error::new(SqlState::UNDEFINED_TABLE, message)
            })
        }
    }
}

/// Returns the privileges of the last argument, one of which is enough; nothing if it is NULL.
fn wanted(call: &Call<'_>) -> Result<Option<Vec<Privileges>>> {
    let Some(text) = call.arguments.last().filter(|text| !text.is_null()) else {
        return Ok(None);
    };
    let text = text.to_string();
    let one = |name: &str| {
        let bare = name.trim().to_ascii_uppercase();
        Ok(match bare.strip_suffix(" WITH GRANT OPTION").unwrap_or(&bare) {
            "SELECT" => Privileges::SELECT,
            "INSERT" => Privileges::INSERT,
            "UPDATE" => Privileges::UPDATE,
            "DELETE" => Privileges::DELETE,
            "TRUNCATE" => Privileges::TRUNCATE,
            "REFERENCES" => Privileges::REFERENCES,
            "TRIGGER" => Privileges::TRIGGER,
            "USAGE" | "MEMBER" => Privileges::USAGE,
            "CREATE" => Privileges::CREATE,
            _ => {
                let message = format!("unrecognized privilege type: \"{}\"", name.trim());
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        })
    };
    text.split(',').map(one).collect::<Result<_>>().map(Some)
}
