use super::*;
use crate::catalog::{Catalog, IndexPart, PrimaryKey, Table};
use crate::types::{Array, DataType};
use std::sync::Arc;

fn column(number: i16, data_type: DataType, missing: Value) -> Column {
    Column {
        number,
        name: format!("c{number}"),
        data_type,
        not_null: false,
        default: None,
        identity: None,
        precision: None,
        generated: None,
        missing,
        comment: None,
    }
}

fn table(columns: Vec<Column>, key: &[i16]) -> Table {
    let parts = key.iter().map(|number| IndexPart::ascending(*number)).collect();
    let mut table = Table {
        oid: 1,
        schema: 2,
        name: "t".into(),
        owner: 3,
        primary_key: Some(PrimaryKey {
            oid: 4,
            constraint: 5,
            name: "k".into(),
            parts,
            comment: None,
        }),
        indexes: vec![],
        checks: vec![],
        foreign_keys: vec![],
        columnar: None,
        comment: None,
        grants: vec![],
        next_column: 100,
        tree: 16,
        next_part: 2,
        layout: Layout::default(),
        storage: None,
        definition: Default::default(),
        columns,
    };
    table.layout = Layout::of(&table);
    table
}

fn all() -> (Vec<Column>, Vec<Value>) {
    let array = Array::of(DataType::Text, vec![Value::text("x"), Value::Null]);
    let typed = [
        (DataType::Int4, Value::Int4(-5)),
        (DataType::Bool, Value::Bool(true)),
        (DataType::Int2, Value::Int2(i16::MIN)),
        (DataType::Int8, Value::Int8(i64::MAX)),
        (DataType::Float4, Value::Float4(1.5)),
        (DataType::Float8, Value::Float8(-0.0)),
        (DataType::Numeric(None), Value::Numeric("-1.500".parse().unwrap())),
        (DataType::Text, Value::text("naïve")),
        (DataType::Bytea, Value::Bytea(vec![0, 255].into())),
        (DataType::Uuid, Value::Uuid([7; 16])),
        (DataType::Date, Value::Date(i32::MIN)),
        (DataType::Time, Value::Time(1)),
        (DataType::Timestamp, Value::Timestamp(-1)),
        (DataType::TimestampTz, Value::TimestampTz(i64::MAX)),
        (DataType::Interval, Value::Interval { months: -1, days: 2, micros: 3 }),
        (DataType::Jsonb, Value::Jsonb("{\"a\": 1}".into())),
        (DataType::Oid, Value::Oid(u32::MAX)),
        (DataType::Array(Box::new(DataType::Text)), Value::Array(Arc::new(array))),
        (DataType::Bool, Value::Null),
    ];
    let columns = typed
        .iter()
        .zip(1i16..)
        .map(|((data_type, _), number)| column(number, data_type.clone(), Value::Null));
    (columns.collect(), typed.iter().map(|(_, value)| value.clone()).collect())
}

fn decode(table: &Table, cell: &[u8]) -> Result<Vec<Value>> {
    let mut row = vec![Value::Null; table.columns.len()];
    decode_row(cell, &table.layout, &table.columns, Some, &mut row)?;
    Ok(row)
}

#[test]
fn every_type_comes_back() {
    let (columns, mut row) = all();
    let table = table(columns, &[1]);
    let cell = encode_row(&table.layout, &table.columns, &row);
    row[0] = Value::Null; // The key has it.
    let back = decode(&table, &cell).unwrap();
    assert_eq!(back, row);
    // Equal is not enough where several texts are equal.
    assert_eq!(format!("{back:?}"), format!("{row:?}"));
}

#[test]
fn a_key_that_loses_digits_is_in_the_cell_too() {
    let (columns, row) = all();
    let table = table(columns, &[7]);
    let cell = encode_row(&table.layout, &table.columns, &row);
    assert_eq!(decode(&table, &cell).unwrap()[6].to_string(), "-1.500");
}

#[test]
fn columns_come_and_go_without_a_change_of_cells() {
    let text = |number, missing| column(number, DataType::Text, missing);
    let old = table(
        vec![column(1, DataType::Int4, Value::Null), text(2, Value::Null), text(3, Value::Null)],
        &[1],
    );
    let row = [Value::Int4(1), Value::text("b"), Value::text("c")];
    let cell = encode_row(&old.layout, &old.columns, &row);
    let columns = vec![
        column(1, DataType::Int4, Value::Null),
        text(3, Value::Null),
        text(4, Value::Null),
        text(5, Value::text("default")),
    ];
    let new = table(columns, &[1]);
    let back = decode(&new, &cell).unwrap();
    assert_eq!(back[1..], [Value::text("c"), Value::Null, Value::text("default")]);
    // NULL is not the value that the column was added with.
    let row = [Value::Int4(1), Value::Null, Value::Null, Value::Null];
    let cell = encode_row(&new.layout, &new.columns, &row);
    assert_eq!(decode(&new, &cell).unwrap()[1..], row[1..]);
    // A reader with the catalog of before skips what it does not know.
    let row = [Value::Int4(1), Value::text("c"), Value::text("d"), Value::text("e")];
    let cell = encode_row(&new.layout, &new.columns, &row);
    assert_eq!(decode(&old, &cell).unwrap()[1..], [Value::Null, Value::text("c")]);
}

#[test]
fn only_wanted_columns_are_decoded() {
    let (columns, row) = all();
    let table = table(columns, &[1]);
    let cell = encode_row(&table.layout, &table.columns, &row);
    let mut wanted = vec![Value::Null; 2];
    let places = |place| match place {
        16 => Some(0),
        7 => Some(1),
        _ => None,
    };
    decode_row(&cell, &table.layout, &table.columns, places, &mut wanted).unwrap();
    assert_eq!(wanted, [row[16].clone(), row[7].clone()]);
}

#[test]
fn cells_are_frozen() {
    let columns = vec![
        column(1, DataType::Int4, Value::Null),
        column(2, DataType::Text, Value::Null),
        column(4, DataType::Int8, Value::Null),
        column(5, DataType::Numeric(None), Value::Null),
        column(6, DataType::Bool, Value::Null),
    ];
    let table = table(columns, &[1]);
    let numeric = Value::Numeric("-1.50".parse().unwrap());
    let row = [Value::Int4(1), Value::text("ab"), Value::Int8(-2), numeric, Value::Bool(true)];
    let cell = encode_row(&table.layout, &table.columns, &row);
    let hex: String = cell.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "01 17026162 1303 0f03010296 0a".replace(' ', ""));
}

#[test]
fn damaged_cells_are_errors_or_rows() {
    let (columns, row) = all();
    let table = table(columns, &[1]);
    let cell = encode_row(&table.layout, &table.columns, &row);
    for at in 0..cell.len() {
        let _ = decode(&table, &cell[..at]);
        for bit in 0..8 {
            let mut cell = cell.clone();
            cell[at] ^= 1 << bit;
            let _ = decode(&table, &cell);
        }
    }
    assert!(decode(&table, &[]).is_err());
    assert!(decode(&table, &[2]).is_err());
}

#[test]
fn records_of_the_catalog_come_back() {
    use crate::catalog::record::Object;
    let (mut columns, _) = all();
    columns[7].missing = Value::text("kept");
    columns[6].missing = Value::Numeric("2.50".parse().unwrap());
    let table = table(columns, &[1, 2]);
    let object = Object::Table(Box::new(table));
    let record = object.encode().unwrap();
    let back = Object::decode(&object.row(), &record).unwrap();
    assert_eq!(back.encode().unwrap(), record);
    let mut catalog = Catalog::new("d", "o");
    catalog.put(back);
    assert_eq!(catalog.table(1).unwrap().columns[6].missing.to_string(), "2.50");
    for at in 0..record.len() {
        assert!(Object::decode(&object.row(), &record[..at]).is_err());
    }
}
