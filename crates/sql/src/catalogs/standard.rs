//! The views of `information_schema`.

use relational::catalog::{Identity, KeyMatch, Privileges};
use relational::{Catalog, DataType, Row, Table, Value};

use super::definitions::{action_words, constraint_names};
use super::viewer::{BUT_SELECT, OF_COLUMNS, Viewer};
use super::{Definition, nothing, row};
use crate::expression::EvalContext;
use crate::values::{type_name, type_short_name};

pub(super) const TABLES: &[Definition] = &[
    (
        "schemata",
        "catalog_name name, schema_name name, schema_owner name, default_character_set_catalog name, \
         default_character_set_schema name, default_character_set_name name, sql_path text",
        schemata,
    ),
    (
        "tables",
        "table_catalog name, table_schema name, table_name name, table_type text, \
         self_referencing_column_name name, reference_generation text, user_defined_type_catalog name, \
         user_defined_type_schema name, user_defined_type_name name, is_insertable_into text, \
         is_typed text, commit_action text",
        tables,
    ),
    (
        "columns",
        "table_catalog name, table_schema name, table_name name, column_name name, \
         ordinal_position int4, column_default text, is_nullable text, data_type text, \
         character_maximum_length int4, character_octet_length int4, numeric_precision int4, \
         numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, udt_catalog name, \
         udt_schema name, udt_name name, is_identity text, identity_generation text, is_generated text, \
         generation_expression text, is_updatable text",
        columns,
    ),
    (
        "table_constraints",
        "constraint_catalog name, constraint_schema name, constraint_name name, table_catalog name, \
         table_schema name, table_name name, constraint_type text, is_deferrable text, \
         initially_deferred text, enforced text",
        constraints,
    ),
    (
        "key_column_usage",
        "constraint_catalog name, constraint_schema name, constraint_name name, table_catalog name, \
         table_schema name, table_name name, column_name name, ordinal_position int4, \
         position_in_unique_constraint int4",
        keys,
    ),
    (
        "constraint_column_usage",
        "table_catalog name, table_schema name, table_name name, column_name name, \
         constraint_catalog name, constraint_schema name, constraint_name name",
        constrained_columns,
    ),
    (
        "referential_constraints",
        "constraint_catalog name, constraint_schema name, constraint_name name, \
         unique_constraint_catalog name, unique_constraint_schema name, unique_constraint_name name, \
         match_option text, update_rule text, delete_rule text",
        references,
    ),
    (
        "views",
        "table_catalog name, table_schema name, table_name name, view_definition text",
        views,
    ),
    (
        "sequences",
        "sequence_catalog name, sequence_schema name, sequence_name name, data_type text, \
         start_value text, minimum_value text, maximum_value text, increment text, cycle_option text",
        sequences,
    ),
    (
        "routines",
        "routine_catalog name, routine_schema name, routine_name name, data_type text",
        nothing,
    ),
    ("triggers", "trigger_catalog name, trigger_schema name, trigger_name name", nothing),
];

fn schema_name(catalog: &Catalog, oid: u32) -> String {
    catalog.schema(oid).map(|schema| schema.name.clone()).unwrap_or_default()
}

fn yes(is: bool) -> &'static str {
    if is { "YES" } else { "NO" }
}

fn schemata(catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let database: &str = &context.database;
    let viewer = Viewer::of(catalog, context);
    let own = catalog.schemas().filter(|schema| viewer.sees_schema(schema));
    let own = own.map(|schema| schema.name.clone());
    let fixed = ["pg_catalog", "information_schema"].into_iter().map(str::to_owned);
    let all = fixed.chain(own);
    all.map(|name| {
        row![database, name, "stele", Value::Null, Value::Null, Value::Null, Value::Null]
    })
    .collect()
}

fn table_row(database: &str, schema: String, name: &str, kind: &str) -> Row {
    let insertable = yes(kind == "BASE TABLE");
    row![
        database,
        schema,
        name,
        kind,
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        insertable,
        "NO",
        Value::Null
    ]
}

fn tables(catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let database: &str = &context.database;
    let viewer = Viewer::of(catalog, context);
    let all = Privileges::ALL_OF_TABLE;
    let own = catalog.tables().filter(|table| viewer.sees_table(table, all)).map(|table| {
        table_row(database, schema_name(catalog, table.schema), &table.name, "BASE TABLE")
    });
    let views = catalog
        .views()
        .filter(|view| viewer.sees(view.owner, &view.grants, all))
        .map(|view| table_row(database, schema_name(catalog, view.schema), &view.name, "VIEW"));
    let wides = catalog
        .wides()
        .filter(|wide| viewer.sees(wide.owner, &wide.grants, all))
        .map(|wide| table_row(database, schema_name(catalog, wide.schema), &wide.name, "FOREIGN"));
    own.chain(views).chain(wides).collect()
}

/// Marks of a column that its type does not tell.
struct Marks<'a> {
    default: Option<&'a str>,
    nullable: bool,
    identity: Option<Identity>,
    generated: Option<&'a str>,
}

/// Place of `datetime_precision` in the row of a column.
const DATETIME_PRECISION: usize = 13;

fn column_row(
    place: [&str; 3],
    name: &str,
    at: usize,
    data_type: &DataType,
    marks: &Marks<'_>,
) -> Row {
    let length = match data_type {
        DataType::Varchar(Some(length)) | DataType::Char(length) => Some(*length as i32),
        _ => None,
    };
    let (precision, radix, scale) = match data_type {
        DataType::Int2 => (Some(16), Some(2), Some(0)),
        DataType::Int4 => (Some(32), Some(2), Some(0)),
        DataType::Int8 => (Some(64), Some(2), Some(0)),
        DataType::Float4 => (Some(24), Some(2), None),
        DataType::Float8 => (Some(53), Some(2), None),
        DataType::Numeric(Some((precision, scale))) => {
            (Some(i32::from(*precision)), Some(10), Some(i32::from(*scale)))
        }
        DataType::Numeric(None) => (None, Some(10), None),
        _ => (None, None, None),
    };
    let moment = match data_type {
        DataType::Date => Some(0),
        DataType::Time | DataType::Timestamp | DataType::TimestampTz | DataType::Interval => {
            Some(6)
        }
        _ => None,
    };
    let shown = match data_type {
        DataType::Array(_) => "ARRAY".to_owned(),
        other => type_name(other).split('(').next().unwrap_or_default().to_owned(),
    };
    let generation = marks.identity.map(|identity| match identity {
        Identity::Always => "ALWAYS",
        Identity::ByDefault => "BY DEFAULT",
    });
    let [database, schema, table] = place;
    row![
        database,
        schema,
        table,
        name,
        at as i32 + 1,
        marks.default,
        yes(marks.nullable),
        shown,
        length,
        length.map(|length| length * 4),
        precision,
        radix,
        scale,
        moment,
        database,
        "pg_catalog",
        type_short_name(data_type),
        yes(marks.identity.is_some()),
        generation,
        if marks.generated.is_some() { "ALWAYS" } else { "NEVER" },
        marks.generated,
        yes(marks.generated.is_none()),
    ]
}

fn columns(catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let viewer = Viewer::of(catalog, context);
    let mut out = Vec::new();
    for table in catalog.tables().filter(|table| viewer.sees_table(table, OF_COLUMNS)) {
        let schema = schema_name(catalog, table.schema);
        for (at, column) in table.columns.iter().enumerate() {
            let marks = Marks {
                default: column.default.as_deref(),
                nullable: !column.not_null,
                identity: column.identity,
                generated: column.generated.as_deref(),
            };
            let place = [&context.database, schema.as_str(), table.name.as_str()];
            let mut row = column_row(place, &column.name, at, &column.data_type, &marks);
            if let Some(digits) = column.precision {
                row[DATETIME_PRECISION] = Value::Int4(i32::from(digits));
            }
            out.push(row);
        }
    }
    for wide in catalog.wides().filter(|wide| viewer.sees(wide.owner, &wide.grants, OF_COLUMNS)) {
        let schema = schema_name(catalog, wide.schema);
        for (at, column) in wide.columns.iter().enumerate() {
            let nullable = !column.not_null;
            let marks = Marks { default: None, nullable, identity: None, generated: None };
            let place = [&context.database, schema.as_str(), wide.name.as_str()];
            let mut row = column_row(place, &column.name, at, &column.data_type, &marks);
            if let Some(is_updatable) = row.last_mut() {
                *is_updatable = Value::text("NO");
            }
            out.push(row);
        }
    }
    for view in catalog.views().filter(|view| viewer.sees(view.owner, &view.grants, OF_COLUMNS)) {
        let schema = schema_name(catalog, view.schema);
        for (at, (name, data_type)) in view.columns.iter().enumerate() {
            let marks = Marks { default: None, nullable: true, identity: None, generated: None };
            let place = [&context.database, schema.as_str(), view.name.as_str()];
            out.push(column_row(place, name, at, data_type, &marks));
        }
    }
    out
}

fn constraints(catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let database: &str = &context.database;
    let viewer = Viewer::of(catalog, context);
    let mut out = Vec::new();
    for table in catalog.tables().filter(|table| viewer.sees_table(table, BUT_SELECT)) {
        let schema = schema_name(catalog, table.schema);
        for found in constraint_names(table) {
            let kind = match found.kind {
                "p" => "PRIMARY KEY",
                "u" => "UNIQUE",
                "f" => "FOREIGN KEY",
                _ => "CHECK",
            };
            out.push(row![
                database,
                schema.clone(),
                found.name,
                database,
                schema.clone(),
                table.name.as_str(),
                kind,
                "NO",
                "NO",
                "YES"
            ]);
        }
    }
    out
}

fn keys(catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let database: &str = &context.database;
    let viewer = Viewer::of(catalog, context);
    let mut out = Vec::new();
    for table in catalog.tables().filter(|table| viewer.sees_table(table, OF_COLUMNS)) {
        let schema = schema_name(catalog, table.schema);
        for found in constraint_names(table) {
            for (at, column) in found.columns.iter().enumerate() {
                let position = found.foreign.and_then(|key| {
                    let parts = catalog.table(key.references)?.index_parts(key.index)?;
                    let place = parts.iter().position(|part| part.column == key.referenced[at])?;
                    i32::try_from(place + 1).ok()
                });
                out.push(row![
                    database,
                    schema.clone(),
                    found.name,
                    database,
                    schema.clone(),
                    table.name.as_str(),
                    name_of(table, *column),
                    at as i32 + 1,
                    position
                ]);
            }
        }
    }
    out
}

/// Columns that a key is over, or that a foreign key references.
fn constrained_columns(catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let database: &str = &context.database;
    let viewer = Viewer::of(catalog, context);
    let mut out = Vec::new();
    for table in catalog.tables() {
        let schema = schema_name(catalog, table.schema);
        for found in constraint_names(table) {
            let (of, mut columns) = match found.foreign {
                Some(key) => (catalog.table(key.references), key.referenced.clone()),
                None => (Some(table), found.columns.clone()),
            };
            let Some(of) = of.filter(|of| viewer.owns(of.owner)) else { continue };
            if let Some(expression) = found.expression {
                let names = crate::statement::names_in(expression);
                let read = table.columns.iter().filter(|column| names.contains(&column.name));
                columns.extend(read.map(|column| column.number));
            }
            for column in columns {
                out.push(row![
                    database,
                    schema_name(catalog, of.schema),
                    of.name.as_str(),
                    name_of(of, column),
                    database,
                    schema.clone(),
                    found.name
                ]);
            }
        }
    }
    out
}

fn references(catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let database: &str = &context.database;
    let viewer = Viewer::of(catalog, context);
    let mut out = Vec::new();
    for table in catalog.tables().filter(|table| viewer.sees_table(table, BUT_SELECT)) {
        for key in &table.foreign_keys {
            let Some(other) = catalog.table(key.references) else { continue };
            // A unique index that no constraint has is no unique constraint.
            let unique = constraint_names(other)
                .into_iter()
                .find(|found| found.index == key.index && matches!(found.kind, "p" | "u"));
            let schema = unique.as_ref().map(|_| schema_name(catalog, other.schema));
            let matching = if key.matching == KeyMatch::Full { "FULL" } else { "NONE" };
            out.push(row![
                database,
                schema_name(catalog, table.schema),
                key.name.as_str(),
                unique.as_ref().map(|_| database),
                schema,
                unique.as_ref().map(|found| found.name),
                matching,
                action_words(key.on_update),
                action_words(key.on_delete)
            ]);
        }
    }
    out
}

fn name_of(table: &Table, number: i16) -> Option<&str> {
    table.place(number).map(|place| table.columns[place].name.as_str())
}

fn views(catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let database: &str = &context.database;
    let viewer = Viewer::of(catalog, context);
    let all = catalog.views();
    let all = all.filter(|view| viewer.sees(view.owner, &view.grants, Privileges::ALL_OF_TABLE));
    all.map(|view| {
        let query = viewer.owns(view.owner).then_some(view.query.as_str());
        row![database, schema_name(catalog, view.schema), view.name.as_str(), query]
    })
    .collect()
}

fn sequences(catalog: &Catalog, context: &EvalContext) -> Vec<Row> {
    let database: &str = &context.database;
    let viewer = Viewer::of(catalog, context);
    let any = Privileges::ALL_OF_SEQUENCE;
    let all = catalog.sequences().filter(|found| viewer.sees(found.owner, &found.grants, any));
    all.map(|found| {
        row![
            database,
            schema_name(catalog, found.schema),
            found.name.as_str(),
            found.data_type.to_string(),
            found.start.to_string(),
            found.min.to_string(),
            found.max.to_string(),
            found.increment.to_string(),
            yes(found.cycle)
        ]
    })
    .collect()
}
