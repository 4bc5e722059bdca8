//! Values of maps that are written though they are empty.
//!
//! The encoder leaves the value out of a map's entry when it is the default message. Google's
//! servers write it always, and clients of protobuf.js read null where it is missing.

use crate::wire::fields::{Fields, put_delimited};
use crate::wire::forms::{Form, Formed, Holds, bit};
use crate::wire::members::MAP_VALUE;

/// Returns `message`, encoded, with a value in every entry of every map.
pub(crate) fn encode<M: Formed>(message: &M) -> Vec<u8> {
    let encoded = message.encode_to_vec();
    if M::FORM.children.is_empty() {
        return encoded;
    }
    let mut out = Vec::with_capacity(encoded.len() + encoded.len() / 8);
    complete(M::FORM, &encoded, &mut out);
    out
}

/// Appends `message` to `out`. Goes as deep as replies of ours do.
fn complete(form: &'static Form, message: &[u8], out: &mut Vec<u8>) {
    for field in Fields::of(message) {
        let (Some(child), Some(content)) = (form.child(bit(field.number)), field.content) else {
            out.extend_from_slice(field.whole);
            continue;
        };
        let mut completed = Vec::with_capacity(content.len() + 2);
        if child.holds == Holds::Map {
            entry(child.form, content, &mut completed);
        } else {
            complete(child.form, content, &mut completed);
        }
        put_delimited(field.number, &completed, out);
    }
}

/// Appends an entry of a map: its key and its value, which is there even if empty.
fn entry(values: &'static Form, content: &[u8], out: &mut Vec<u8>) {
    let mut value = Vec::new();
    for field in Fields::of(content) {
        match field.content.filter(|_| field.number == MAP_VALUE) {
            Some(content) => complete(values, content, &mut value),
            None => out.extend_from_slice(field.whole),
        }
    }
    put_delimited(MAP_VALUE, &value, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::admin;
    use prost::Message;
    use std::collections::BTreeMap;

    #[test]
    fn empty_values_of_maps_are_written() {
        let (empty, full) = (
            admin::ColumnFamily::default(),
            admin::ColumnFamily {
                gc_rule: Some(admin::GcRule {
                    rule: Some(admin::gc_rule::Rule::MaxNumVersions(1)),
                }),
                ..Default::default()
            },
        );
        let families = [("f".to_owned(), empty), ("g".to_owned(), full)];
        let table = admin::Table {
            name: "t".into(),
            column_families: BTreeMap::from(families),
            cluster_states: BTreeMap::from([("c".to_owned(), Default::default())]),
            ..Default::default()
        };
        let encoded = encode(&table);
        let entry = |bytes: &[u8]| encoded.windows(bytes.len()).any(|window| window == bytes);
        assert!(entry(&[3 << 3 | 2, 5, 0x0a, 1, b'f', 0x12, 0]));
        assert!(entry(&[2 << 3 | 2, 5, 0x0a, 1, b'c', 0x12, 0]));
        assert_eq!(admin::Table::decode(&encoded[..]), Ok(table.clone()));
        let list = admin::ListTablesResponse { tables: vec![table], ..Default::default() };
        let listed = encode(&list);
        assert_eq!(admin::ListTablesResponse::decode(&listed[..]), Ok(list));
        assert!(listed.windows(encoded.len()).any(|window| window == encoded));
    }
}
