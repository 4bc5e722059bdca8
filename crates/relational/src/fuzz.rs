//! Bodies of fuzz targets: bytes of trees that may be anything.

use crate::catalog::record::Object;
use crate::catalog::{Catalog, Column, IndexPart, Layout, PrimaryKey, Table};
use crate::database::decode_state;
use crate::format::key::{KeyCodec, KeyPart};
use crate::format::row::{decode_row, encode_row};
use crate::types::{DataType, Value};

/// Returns every kind of type.
fn types() -> Vec<DataType> {
    use DataType::*;
    let plain = [
        Bool,
        Int2,
        Int4,
        Int8,
        Float4,
        Float8,
        Text,
        Bytea,
        Uuid,
        Date,
        Time,
        Timestamp,
        TimestampTz,
        Interval,
        Oid,
    ];
    let more = [Numeric(None), Char(3), Array(Box::new(Text)), Array(Box::new(Int4)), Jsonb];
    plain.into_iter().chain(more).collect()
}

/// Decodes bytes as keys of each type; a key that is read is written and read again as an equal one.
#[doc(hidden)]
pub fn fuzz_key(data: &[u8]) {
    let Some((flags, data)) = data.split_first() else { return };
    for data_type in types() {
        let part = KeyPart {
            data_type,
            descending: flags & 1 != 0,
            nulls_first: flags & 2 != 0,
            nullable: flags & 4 != 0,
        };
        let codec = KeyCodec::new(1, vec![part.clone(), part]);
        let Ok((values, _)) = codec.decode(data) else { continue };
        let Ok(key) = codec.encode(&values) else { continue };
        let again = codec.decode(&key).map(|(again, _)| again);
        assert_eq!(again.as_deref(), Ok(&values[..]), "a key that was read");
    }
}

/// Decodes bytes as the cell of a row with a column of each type. A row that is read is written and read
/// again as an equal one.
#[doc(hidden)]
pub fn fuzz_row(data: &[u8]) {
    let table = table();
    let mut row = vec![Value::Null; table.columns.len()];
    if decode_row(data, &table.layout, &table.columns, Some, &mut row).is_err() {
        return;
    }
    let cell = encode_row(&table.layout, &table.columns, &row);
    let mut again = vec![Value::Null; table.columns.len()];
    let read = decode_row(&cell, &table.layout, &table.columns, Some, &mut again);
    assert!(read.is_ok() && again == row, "a row that was read");
}

pub(crate) fn table() -> Table {
    let columns = types().into_iter().zip(1i16..).map(|(data_type, number)| Column {
        number,
        name: format!("c{number}"),
        data_type,
        not_null: false,
        default: None,
        identity: None,
        precision: None,
        generated: None,
        missing: Value::Null,
        comment: None,
    });
    let parts = vec![IndexPart::ascending(3)];
    let (name, comment) = ("k".to_owned(), None);
    let mut table = Table {
        oid: 1,
        schema: 2,
        name: "t".to_owned(),
        owner: 3,
        columns: columns.collect(),
        primary_key: Some(PrimaryKey { oid: 4, constraint: 5, name, parts, comment }),
        indexes: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        columnar: None,
        comment: None,
        grants: Vec::new(),
        next_column: 100,
        tree: 16,
        next_part: 2,
        layout: Layout::default(),
        storage: None,
        definition: Default::default(),
    };
    table.layout = Layout::of(&table);
    table
}

/// Decodes bytes as a row of the catalog's tree and its record. A record that is read makes a catalog.
#[doc(hidden)]
pub fn fuzz_catalog(data: &[u8]) {
    let _ = decode_state(data);
    let Some((row, record)) = data.split_at_checked(6) else { return };
    if let Ok(object) = Object::decode(row, record) {
        let again = object.encode().and_then(|record| Object::decode(row, &record));
        assert!(again.is_ok(), "a record that was read");
        Catalog::new("d", "o").put(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn random_bytes_are_harmless() {
        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..20_000 {
            let len = random.random_range(0..40);
            let mut data: Vec<u8> = (0..len).map(|_| random.random()).collect();
            fuzz_row(&data);
            if let Some(first) = data.first_mut() {
                *first = 1;
            }
            fuzz_row(&data);
            fuzz_catalog(&data);
            data.iter_mut().skip(1).zip([0, 1]).for_each(|(byte, want)| *byte = want);
            fuzz_key(&data);
        }
        let schema =
            b"on\x00\x00\x40\x00\x01{\"Schema\":{\"oid\":16384,\"name\":\"s\",\"owner\":10,\
                       \"comment\":null,\"grants\":[]}}";
        assert!(Object::decode(&schema[..6], &schema[6..]).is_ok());
        for at in 0..schema.len() {
            for bit in 0..8 {
                let mut schema = *schema;
                schema[at] ^= 1 << bit;
                fuzz_catalog(&schema);
            }
        }
    }
}
