//! Functions about the catalog, which clients call in their own queries.

use relational::catalog::Relation;
use relational::{Catalog, DataType, Error, Result, SqlState, Table, Value};

use super::privileges::{on_relation, on_role, on_schema, on_server};
use super::relations::role_name;
use super::sizes::{self, Size};
use super::{INFORMATION_SCHEMA, PG_CATALOG, definitions};
use crate::expression::functions::{format_type, quote_ident};
use crate::expression::registry::{Call, Definition};
use crate::values::{parse_type, type_oid};

/// Functions that tell about the catalog.
pub(crate) const FUNCTIONS: &[Definition] = &[
    ("pg_table_is_visible", "oid -> bool stable", visible),
    ("pg_type_is_visible", "oid -> bool stable", |_| Ok(Value::Bool(true))),
    ("pg_function_is_visible", "oid -> bool stable", |_| Ok(Value::Bool(true))),
    ("pg_operator_is_visible", "oid -> bool stable", |_| Ok(Value::Bool(true))),
    ("pg_opclass_is_visible", "oid -> bool stable", |_| Ok(Value::Bool(true))),
    ("pg_collation_is_visible", "oid -> bool stable", |_| Ok(Value::Bool(true))),
    ("pg_get_userbyid", "oid -> name stable", |call| {
        with(call, |catalog| Some(role_name(catalog, call.int(0) as u32)))
    }),
    ("pg_get_expr", "text,oid -> text", |call| Ok(call.value(0).clone())),
    ("pg_get_expr", "text,oid,bool -> text", |call| Ok(call.value(0).clone())),
    ("pg_get_indexdef", "oid -> text stable", |call| {
        with(call, |catalog| definitions::index(catalog, call.int(0) as u32))
    }),
    ("pg_get_indexdef", "oid,int4,bool -> text stable", |call| {
        with(call, |catalog| match call.int(1) {
            0 => definitions::index(catalog, call.int(0) as u32),
            at => definitions::index_column(catalog, call.int(0) as u32, at as usize),
        })
    }),
    ("pg_get_constraintdef", "oid -> text stable", constraint),
    ("pg_get_constraintdef", "oid,bool -> text stable", constraint),
    ("pg_get_viewdef", "oid -> text stable", view),
    ("pg_get_viewdef", "oid,bool -> text stable", view),
    ("pg_get_ruledef", "oid,bool -> text", |_| Ok(Value::Null)),
    ("pg_get_triggerdef", "oid,bool -> text", |_| Ok(Value::Null)),
    ("pg_get_partkeydef", "oid -> text", |_| Ok(Value::Null)),
    ("pg_get_statisticsobjdef_columns", "oid -> text", |_| Ok(Value::Null)),
    ("pg_get_function_result", "oid -> text", |_| Ok(Value::Null)),
    ("pg_get_function_arguments", "oid -> text", |_| Ok(Value::text(""))),
    ("pg_get_function_identity_arguments", "oid -> text", |_| Ok(Value::text(""))),
    ("pg_get_serial_sequence", "text,text -> text stable", serial_sequence),
    ("obj_description", "oid -> text stable", |call| comment(call, None)),
    ("obj_description", "oid,name -> text stable", |call| comment(call, None)),
    ("shobj_description", "oid,name -> text stable", |_| Ok(Value::Null)),
    ("col_description", "oid,int4 -> text stable", |call| comment(call, Some(call.int(1) as i16))),
    ("pg_conversion_is_visible", "oid -> bool", |_| Ok(Value::Bool(true))),
    ("pg_opfamily_is_visible", "oid -> bool", |_| Ok(Value::Bool(true))),
    ("pg_statistics_obj_is_visible", "oid -> bool", |_| Ok(Value::Bool(true))),
    ("pg_ts_config_is_visible", "oid -> bool", |_| Ok(Value::Bool(true))),
    ("pg_ts_dict_is_visible", "oid -> bool", |_| Ok(Value::Bool(true))),
    ("pg_ts_parser_is_visible", "oid -> bool", |_| Ok(Value::Bool(true))),
    ("pg_ts_template_is_visible", "oid -> bool", |_| Ok(Value::Bool(true))),
    ("pg_get_function_sqlbody", "oid -> text", |_| Ok(Value::Null)),
    ("pg_get_functiondef", "oid -> text", |_| Ok(Value::Null)),
    ("pg_get_function_arg_default", "oid,int4 -> text", |_| Ok(Value::Null)),
    ("pg_char_to_encoding", "name -> int4", |call| {
        let letters = call.text(0).chars().filter(char::is_ascii_alphanumeric);
        let is_known = letters.collect::<String>().eq_ignore_ascii_case("utf8");
        Ok(Value::Int4(if is_known { 6 } else { -1 }))
    }),
    ("pg_encoding_to_char", "int4 -> name", |call| {
        Ok(Value::text(if call.int(0) == 6 { "UTF8" } else { "" }))
    }),
    // Nothing counts the uses of an index.
    ("pg_stat_get_numscans", "oid -> int8 stable", |_| Ok(Value::Int8(0))),
    ("pg_tablespace_location", "oid -> text", |_| Ok(Value::text(""))),
    ("pg_relation_size", "any -> int8 stable", |call| sizes::of(call, Size::Own)),
    ("pg_relation_size", "any,text -> int8 stable", |call| sizes::of(call, Size::Own)),
    ("pg_table_size", "any -> int8 stable", |call| sizes::of(call, Size::Own)),
    ("pg_indexes_size", "any -> int8 stable", |call| sizes::of(call, Size::Indexes)),
    ("pg_total_relation_size", "any -> int8 stable", |call| sizes::of(call, Size::Whole)),
    ("pg_database_size", "any -> int8 stable", sizes::of_database),
    ("pg_tablespace_size", "any -> int8 stable", sizes::of_database),
    ("pg_size_pretty", "int8 -> text", sizes::pretty),
    ("pg_size_pretty", "numeric -> text", sizes::pretty),
    ("__option_texts", "text[] -> text[]", super::wide::option_texts),
    ("pg_relation_is_publishable", "oid -> bool", |_| Ok(Value::Bool(false))),
    ("pg_is_other_temp_schema", "oid -> bool", |_| Ok(Value::Bool(false))),
    ("pg_my_temp_schema", "-> oid", |_| Ok(Value::Oid(0))),
    ("has_table_privilege", "any,text -> bool stable", |call| on_relation(call, false)),
    ("has_table_privilege", "any,any,text -> bool stable", |call| on_relation(call, false)),
    ("has_sequence_privilege", "any,text -> bool stable", |call| on_relation(call, false)),
    ("has_sequence_privilege", "any,any,text -> bool stable", |call| on_relation(call, false)),
    ("has_any_column_privilege", "any,text -> bool stable", |call| on_relation(call, false)),
    ("has_column_privilege", "any,any,text -> bool stable", |call| on_relation(call, true)),
    ("has_column_privilege", "any,any,any,text -> bool stable", |call| on_relation(call, true)),
    ("has_schema_privilege", "any,text -> bool stable", on_schema),
    ("has_schema_privilege", "any,any,text -> bool stable", on_schema),
    ("has_database_privilege", "any,text -> bool stable", on_server),
    ("has_database_privilege", "any,any,text -> bool stable", on_server),
    ("has_tablespace_privilege", "any,text -> bool stable", on_server),
    ("has_tablespace_privilege", "any,any,text -> bool stable", on_server),
    ("has_language_privilege", "any,text -> bool stable", on_server),
    ("has_language_privilege", "any,any,text -> bool stable", on_server),
    ("has_function_privilege", "any,text -> bool stable", on_server),
    ("has_function_privilege", "any,any,text -> bool stable", on_server),
    ("pg_has_role", "any,text -> bool stable", on_role),
    ("pg_has_role", "any,any,text -> bool stable", on_role),
    // No table is a partition of another.
    ("__partition_ancestors", "oid -> oid[] stable", |_| {
        Ok(super::list(&DataType::Oid, Vec::new()))
    }),
    ("to_regclass", "text -> oid stable", |call| {
        let found = relation(call, call.text(0)).map(|found| found.oid());
        let found = found.or_else(|| own_table(call.text(0)));
        Ok(found.map_or(Value::Null, Value::Oid))
    }),
    ("to_regtype", "text -> oid", |call| {
        Ok(parse_type(call.text(0)).map_or(Value::Null, |found| Value::Oid(type_oid(&found))))
    }),
    ("__reg_oid", "text,text -> oid stable", reg_oid),
    ("__reg_oid", "oid,text -> oid", |call| Ok(call.value(0).clone())),
    ("__reg_name", "text,text -> text stable", |call| Ok(call.value(0).clone())),
    ("__reg_name", "oid,text -> text stable", reg_name),
    ("__reg_name", "int8,text -> text stable", reg_name),
];

/// Returns a text that the catalog gives.
fn with(call: &Call<'_>, text: impl FnOnce(&Catalog) -> Option<String>) -> Result<Value> {
    let found = call.context.catalog.as_ref().and_then(|catalog| text(catalog));
    Ok(found.map_or(Value::Null, Value::text))
}

/// Returns the schema and the name of a relation.
fn place(catalog: &Catalog, oid: u32) -> Option<(u32, String)> {
    Some(match catalog.relation(oid)? {
        Relation::Table(table) => (table.schema, table.name.clone()),
        Relation::View(view) => (view.schema, view.name.clone()),
        Relation::Sequence(found) => (found.schema, found.name.clone()),
        Relation::Wide(wide) => (wide.schema, wide.name.clone()),
        Relation::Index(..) => {
            let table = catalog.table_of_index(oid)?;
            let key = super::relations::keys(table).into_iter().find(|key| key.0 == oid)?;
            (table.schema, key.1.to_owned())
        }
    })
}

/// Returns whether a relation is found by its name alone.
fn is_visible(call: &Call<'_>, oid: u32) -> Option<bool> {
    let catalog = call.context.catalog.as_ref()?;
    let (_, name) = place(catalog, oid)?;
    let path = call.context.settings.search_path.iter();
    let mut found = path.filter_map(|schema| {
        catalog.schema_named(schema).and_then(|schema| catalog.find(schema.oid, &name))
    });
    Some(found.next().is_some_and(|first| first.oid() == oid))
}

fn visible(call: &Call<'_>) -> Result<Value> {
    let oid = call.int(0) as u32;
    if let Some(own) = super::numbered().find(|own| own.oid == oid) {
        return Ok(Value::Bool(own.schema == PG_CATALOG));
    }
    Ok(is_visible(call, call.int(0) as u32).map_or(Value::Null, Value::Bool))
}

fn constraint(call: &Call<'_>) -> Result<Value> {
    with(call, |catalog| {
        let name = |table: &Table| match is_visible(call, table.oid) {
            Some(true) => quote_ident(&table.name),
            _ => {
                let schema = catalog.schema(table.schema).map(|schema| quote_ident(&schema.name));
                format!("{}.{}", schema.unwrap_or_default(), quote_ident(&table.name))
            }
        };
        definitions::constraint(catalog, call.int(0) as u32, name)
    })
}

fn view(call: &Call<'_>) -> Result<Value> {
    with(call, |catalog| {
        catalog
            .view(call.int(0) as u32)
            .map(|view| format!(" {};", view.query.trim_end_matches(';')))
    })
}

fn comment(call: &Call<'_>, column: Option<i16>) -> Result<Value> {
    let oid = call.int(0) as u32;
    with(call, |catalog| match (catalog.relation(oid), column) {
        (Some(Relation::Table(table)), Some(number)) => {
            table.place(number).and_then(|place| table.columns[place].comment.clone())
        }
        (Some(Relation::Table(table)), None) => table.comment.clone(),
        (Some(Relation::View(view)), None) => view.comment.clone(),
        (Some(Relation::Sequence(found)), None) => found.comment.clone(),
        (Some(Relation::Wide(wide)), None) => wide.comment.clone(),
        (Some(Relation::Wide(wide)), Some(number)) => {
            let column = usize::try_from(number - 1).ok().and_then(|at| wide.columns.get(at));
            column.and_then(|column| column.comment.clone())
        }
        (Some(Relation::Index(..)), None) => catalog
            .table_of_index(oid)
            .and_then(|table| table.index(oid))
            .and_then(|index| index.comment.clone()),
        (None, None) => catalog.schema(oid).and_then(|schema| schema.comment.clone()),
        _ => None,
    })
}

/// Returns the parts of a name as SQL writes it, with dots between; nothing for another form.
fn name_parts(text: &str) -> Option<Vec<String>> {
    let (mut parts, mut rest) = (Vec::new(), text.trim());
    loop {
        let mut part = String::new();
        if let Some(mut quoted) = rest.strip_prefix('"') {
            loop {
                let end = quoted.find('"')?;
                part.push_str(&quoted[..end]);
                quoted = &quoted[end + 1..];
                // Two quotes are one of the name.
                match quoted.strip_prefix('"') {
                    Some(more) => {
                        part.push('"');
                        quoted = more;
                    }
                    None => break,
                }
            }
            rest = quoted.trim_start();
        } else {
            let end = rest.find(['.', '"']).unwrap_or(rest.len());
            part = rest[..end].trim().to_ascii_lowercase();
            rest = &rest[end..];
        }
        if part.is_empty() {
            return None;
        }
        parts.push(part);
        match rest.strip_prefix('.') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() => return Some(parts),
            None => return None,
        }
    }
}

/// Returns a relation by a name as SQL writes it.
pub(super) fn relation(call: &Call<'_>, name: &str) -> Option<Relation> {
    let catalog = call.context.catalog.as_ref()?;
    let (schema, table) = match name_parts(name)?.as_slice() {
        [table] => (None, table.clone()),
        [schema, table] => (Some(schema.clone()), table.clone()),
        [database, schema, table] if *database == catalog.database => {
            (Some(schema.clone()), table.clone())
        }
        _ => return None,
    };
    let path = &call.context.settings.search_path;
    let schemas: Vec<&String> =
        schema.as_ref().map_or_else(|| path.iter().collect(), |one| vec![one]);
    let mut found = schemas.into_iter().filter_map(|schema| {
        catalog.schema_named(schema).and_then(|schema| catalog.find(schema.oid, &table))
    });
    found.next()
}

/// Returns the number of a table that is made from the catalog, by its name.
fn own_table(name: &str) -> Option<u32> {
    let parts = name_parts(name)?;
    let (schema, table) = match parts.as_slice() {
        [table] => ("pg_catalog", table),
        [.., schema, table] if parts.len() <= 3 => (schema.as_str(), table),
        _ => return None,
    };
    let schema = match schema {
        "pg_catalog" => PG_CATALOG,
        "information_schema" => INFORMATION_SCHEMA,
        _ => return None,
    };
    super::numbered().find(|own| own.schema == schema && own.name() == *table).map(|own| own.oid)
}

/// Returns whether a name is of an object of another database.
fn is_elsewhere(call: &Call<'_>, name: &str) -> bool {
    let parts = name_parts(name).unwrap_or_default();
    parts.len() == 3 && *parts[0] != *call.context.database
}

fn reg_oid(call: &Call<'_>) -> Result<Value> {
    let (name, kind) = (call.text(0), call.text(1));
    if let Ok(number) = name.parse::<u32>() {
        return Ok(Value::Oid(number));
    }
    let catalog = call.context.catalog.as_ref();
    let missing =
        |what: &str, state| Error::new(state, format!("{what} \"{name}\" does not exist"));
    match kind {
        "regclass" if is_elsewhere(call, name) => {
            let message = format!("cross-database references are not implemented: \"{name}\"");
            Err(Error::unsupported(message))
        }
        "regclass" => relation(call, name)
            .map(|found| found.oid())
            .or_else(|| own_table(name))
            .map(Value::Oid)
            .ok_or_else(|| missing("relation", SqlState::UNDEFINED_TABLE)),
        "regtype" => parse_type(name)
            .map(|found| Value::Oid(type_oid(&found)))
            .ok_or_else(|| missing("type", SqlState::UNDEFINED_OBJECT)),
        "regproc" | "regprocedure" => super::types::function_number(name)
            .map(Value::Oid)
            .ok_or_else(|| missing("function", SqlState::UNDEFINED_FUNCTION)),
        "regnamespace" => catalog
            .and_then(|catalog| catalog.schema_named(name))
            .map(|schema| Value::Oid(schema.oid))
            .ok_or_else(|| missing("schema", SqlState::INVALID_SCHEMA_NAME)),
        "regrole" => catalog
            .and_then(|catalog| catalog.role_named(name))
            .map(|role| Value::Oid(role.oid))
            .ok_or_else(|| missing("role", SqlState::UNDEFINED_OBJECT)),
        other => Err(Error::unsupported(format!("type {other} is not supported"))),
    }
}

fn reg_name(call: &Call<'_>) -> Result<Value> {
    let (oid, kind) = (call.int(0) as u32, call.text(1));
    let number = || Value::text(oid.to_string());
    let Some(catalog) = call.context.catalog.as_ref() else { return Ok(number()) };
    Ok(match kind {
        "regtype" => Value::text(format_type(oid, -1)),
        "regproc" | "regprocedure" if oid == 0 => Value::text("-"),
        "regproc" | "regprocedure" => {
            super::types::function_name(oid).map_or_else(number, Value::text)
        }
        "regclass" => match place(catalog, oid) {
            Some((_, name)) if is_visible(call, oid) == Some(true) => {
                Value::text(quote_ident(&name))
            }
            Some((schema, name)) => {
                let schema = catalog.schema(schema).map(|schema| quote_ident(&schema.name));
                Value::text(format!("{}.{}", schema.unwrap_or_default(), quote_ident(&name)))
            }
            None if oid == 0 => Value::text("-"),
            None => {
                super::numbered().find(|own| own.oid == oid).map_or_else(number, |own| {
                    match own.schema {
                        INFORMATION_SCHEMA => {
                            Value::text(format!("information_schema.{}", own.name()))
                        }
                        _ => Value::text(own.name()),
                    }
                })
            }
        },
        "regnamespace" => {
            catalog.schema(oid).map_or_else(number, |schema| Value::text(quote_ident(&schema.name)))
        }
        "regrole" => {
            catalog.role(oid).map_or_else(number, |role| Value::text(quote_ident(&role.name)))
        }
        _ => number(),
    })
}

fn serial_sequence(call: &Call<'_>) -> Result<Value> {
    let Some(Relation::Table(table)) = relation(call, call.text(0)) else {
        let message = format!("relation \"{}\" does not exist", call.text(0));
        return Err(Error::new(SqlState::UNDEFINED_TABLE, message));
    };
    let column = table.column(call.text(1)).map(|(_, column)| column.number);
    with(call, |catalog| {
        let found = catalog.sequence_of(table.oid, column?)?;
        let schema = catalog.schema(found.schema)?;
        Some(format!("{}.{}", quote_ident(&schema.name), quote_ident(&found.name)))
    })
}
