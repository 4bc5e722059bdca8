//! Columns and their defaults, comments.

use relational::catalog::Identity;
use relational::{Catalog, DataType, Row, Value};

use super::relations::keys;
use super::{Definition, nothing, row, wide};
use crate::expression::EvalContext;
use crate::values::{modifier_of_precision, type_len, type_modifier, type_oid};

pub(super) const TABLES: &[Definition] = &[
    (
        "pg_attribute",
        "attrelid oid, attname name, atttypid oid, attstattarget int4, attlen int2, attnum int2, \
         attndims int4, attcacheoff int4, atttypmod int4, attbyval bool, attalign text, \
         attstorage text, attcompression text, attnotnull bool, atthasdef bool, atthasmissing bool, \
         attidentity text, attgenerated text, attisdropped bool, attislocal bool, attinhcount int4, \
         attcollation oid, attacl text[], attoptions text[], attfdwoptions text[]",
        attributes,
    ),
    ("pg_attrdef", "oid oid, adrelid oid, adnum int2, adbin text", defaults),
    ("pg_description", "objoid oid, classoid oid, objsubid int4, description text", descriptions),
    ("pg_shdescription", "objoid oid, classoid oid, description text", nothing),
];

/// Number of the collation by bytes, which all text has.
const COLLATION: u32 = 100;

fn collation(data_type: &DataType) -> u32 {
    if data_type.is_textual() && *data_type != DataType::Json { COLLATION } else { 0 }
}

/// Place of the modifier in the row of a column.
const MODIFIER: usize = 8;

/// Returns the row of one column.
fn attribute(table: u32, name: &str, number: i16, data_type: &DataType, marks: Marks<'_>) -> Row {
    let dimensions = i32::from(data_type.element().is_some());
    row![
        table,
        name,
        type_oid(data_type),
        -1_i32,
        type_len(data_type),
        number,
        dimensions,
        -1_i32,
        type_modifier(data_type),
        type_len(data_type) > 0,
        "i",
        "p",
        "",
        marks.not_null,
        marks.default,
        false,
        marks.identity,
        marks.generated,
        false,
        true,
        0_i32,
        collation(data_type),
        Value::Null,
        Value::Null,
        Value::Null,
    ]
}

#[derive(Default)]
struct Marks<'a> {
    not_null: bool,
    default: bool,
    identity: &'a str,
    generated: &'a str,
}

fn attributes(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let mut out = Vec::new();
    for table in catalog.tables() {
        for column in &table.columns {
            let marks = Marks {
                not_null: column.not_null,
                default: column.default.is_some() || column.generated.is_some(),
                identity: match column.identity {
                    Some(Identity::Always) => "a",
                    Some(Identity::ByDefault) => "d",
                    None => "",
                },
                generated: if column.generated.is_some() { "s" } else { "" },
            };
            let mut row =
                attribute(table.oid, &column.name, column.number, &column.data_type, marks);
            if let Some(digits) = column.precision {
                row[MODIFIER] = Value::Int4(modifier_of_precision(&column.data_type, digits));
            }
            out.push(row);
        }
        for (oid, _, parts) in keys(table) {
            for (at, part) in parts.iter().enumerate() {
                let Some(place) = table.place(part.column) else { continue };
                let column = &table.columns[place];
                let number = at as i16 + 1;
                out.push(attribute(oid, &column.name, number, &column.data_type, Marks::default()));
            }
        }
    }
    for wide in catalog.wides() {
        for (at, column) in wide.columns.iter().enumerate() {
            let marks = Marks { not_null: column.not_null, ..Marks::default() };
            let number = at as i16 + 1;
            let mut row = attribute(wide.oid, &column.name, number, &column.data_type, marks);
            if let Some(options) = row.last_mut() {
                *options = wide::column_options(column);
            }
            out.push(row);
        }
    }
    for found in super::numbered() {
        for (at, (name, data_type)) in found.table.columns.iter().enumerate() {
            let marks = Marks { not_null: at == 0, ..Marks::default() };
            out.push(attribute(found.oid, name, at as i16 + 1, data_type, marks));
        }
    }
    for view in catalog.views() {
        for (at, (name, data_type)) in view.columns.iter().enumerate() {
            out.push(attribute(view.oid, name, at as i16 + 1, data_type, Marks::default()));
        }
    }
    out
}

fn defaults(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let mut out = Vec::new();
    for table in catalog.tables() {
        for column in &table.columns {
            let Some(text) = column.default.as_ref().or(column.generated.as_ref()) else {
                continue;
            };
            let oid = table.oid.wrapping_mul(1600).wrapping_add(column.number as u32);
            out.push(row![oid, table.oid, column.number, text.as_str()]);
        }
    }
    out
}

fn descriptions(catalog: &Catalog, _context: &EvalContext) -> Vec<Row> {
    let mut out = Vec::new();
    let mut add = |oid: u32, class: u32, part: i32, comment: &Option<String>| {
        if let Some(comment) = comment {
            out.push(row![oid, class, part, comment.as_str()]);
        }
    };
    for table in catalog.tables() {
        add(table.oid, 1259, 0, &table.comment);
        table.columns.iter().for_each(|column| {
            add(table.oid, 1259, i32::from(column.number), &column.comment);
        });
        table.indexes.iter().for_each(|index| add(index.oid, 1259, 0, &index.comment));
    }
    catalog.views().for_each(|view| add(view.oid, 1259, 0, &view.comment));
    catalog.wides().for_each(|wide| add(wide.oid, 1259, 0, &wide.comment));
    catalog.sequences().for_each(|found| add(found.oid, 1259, 0, &found.comment));
    catalog.schemas().for_each(|schema| add(schema.oid, 2615, 0, &schema.comment));
    out
}
