//! Members of a oneof that this server does not know.
//!
//! A newer client may send a member that the decoder drops, and the message then reads as if the
//! oneof was not set: a filter that filters nothing, a GC rule that keeps all. So a message whose
//! oneof has no known member, but which has an unknown field, is refused before it is decoded.
//!
//! Invariants:
//! 1. Only messages that can hold a oneof are walked, see `forms.rs`. The walk copies nothing.
//! 2. The walk is no deeper than the decoder goes, which refuses what is deeper.

use crate::wire::fields::{Field, Fields};
use crate::wire::forms::{Child, Form, Holds, bit};
use table::{Error, Result};

/// Messages in messages that the decoder takes.
const DEPTH_MAX: usize = 100;
/// Field of a map's entry that has the value.
pub(crate) const MAP_VALUE: u32 = 2;

/// Refuses an encoded message of `form` with an unknown member of a oneof, and names both.
pub(crate) fn check(form: &'static Form, message: &[u8]) -> Result<()> {
    if form.oneofs.is_empty() && form.children.is_empty() {
        return Ok(());
    }
    walk(form, message, DEPTH_MAX)
}

fn walk(form: &'static Form, message: &[u8], depth: usize) -> Result<()> {
    let Some(below) = depth.checked_sub(1) else { return Ok(()) };
    let (mut present, mut unknown) = (0, None);
    for field in Fields::of(message) {
        let bit = bit(field.number);
        present |= bit;
        if form.known & bit == 0 {
            unknown.get_or_insert(field.number);
        }
        if let (Some(child), Some(content)) = (form.child(bit), field.content)
            && let Err(error) = enter(child, content, below)
        {
            return Err(error.within(&path(child, &field, message)));
        }
    }
    let unset = || form.oneofs.iter().find(|oneof| oneof.members & present == 0);
    match unknown.zip(unset()) {
        Some((number, oneof)) => Err(refusal(form, oneof.name, number)),
        None => Ok(()),
    }
}

fn enter(child: &Child, content: &[u8], depth: usize) -> Result<()> {
    if child.holds != Holds::Map {
        return walk(child.form, content, depth);
    }
    let values = Fields::of(content).filter(|field| field.number == MAP_VALUE);
    values.filter_map(|field| field.content).try_for_each(|value| walk(child.form, value, depth))
}

#[cold]
fn refusal(form: &Form, oneof: &str, number: u32) -> Error {
    let message = format!("field {number} of {} is not known to this server", form.name);
    Error::invalid(oneof, message)
}

/// Returns the name of the child that `field` of `message` is, with its place among several.
#[cold]
fn path(child: &Child, field: &Field<'_>, message: &[u8]) -> String {
    if child.holds != Holds::Many {
        return child.name.to_owned();
    }
    let before = Fields::of(message).take_while(|other| !std::ptr::eq(other.whole, field.whole));
    let at = before.filter(|other| other.number == field.number).count();
    format!("{}[{at}]", child.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{admin, data};
    use crate::wire::fields::put_delimited;
    use crate::wire::forms::Formed;
    use crate::wire::mutations;
    use prost::Message;

    /// Returns `content` as the field `number`.
    fn field(number: u32, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_delimited(number, content, &mut out);
        out
    }

    /// `content` inside of the fields in `path`.
    fn within(path: &[u32], content: &[u8]) -> Vec<u8> {
        path.iter().rev().fold(content.to_vec(), |inner, number| field(*number, &inner))
    }

    fn refused<M: Formed>(message: &[u8]) -> String {
        check(M::FORM, message).expect_err("the message should be refused").to_string()
    }

    #[test]
    fn an_unknown_member_is_refused_by_name_wherever_it_stands() {
        let unknown = field(24, b"x");
        let filter = "field 24 of google.bigtable.v2.RowFilter is not known to this server";
        let refusal = refused::<data::ReadRowsRequest>(&within(&[3], &unknown));
        assert_eq!(refusal, format!("error in field 'filter.filter': {filter}"));
        // The second filter of a chain in an interleave in a condition's predicate.
        let pass = within(&[1], &[0x88, 0x01, 1]);
        let chain = within(&[1], &[pass, within(&[1], &unknown)].concat());
        let refusal = refused::<data::ReadRowsRequest>(&within(&[3, 3, 1, 2, 1], &chain));
        let path =
            "filter.condition.predicate_filter.interleave.filters[0].chain.filters[1].filter";
        assert_eq!(refusal, format!("error in field '{path}': {filter}"));
        for (refusal, path, name) in [
            (
                refused::<mutations::CheckAndMutateRowRequest>(&within(&[6], &unknown)),
                "predicate_filter.filter",
                "v2.RowFilter",
            ),
            (
                refused::<mutations::CheckAndMutateRowRequest>(&within(&[5], &unknown)),
                "false_mutations[0].mutation",
                "v2.Mutation",
            ),
            (
                refused::<mutations::MutateRowRequest>(&within(&[3], &unknown)),
                "mutations[0].mutation",
                "v2.Mutation",
            ),
            (
                refused::<mutations::MutateRowRequest>(&within(&[3, 5, 4], &unknown)),
                "mutations[0].add_to_cell.input.kind",
                "v2.Value",
            ),
            (
                refused::<mutations::MutateRowsRequest>(&within(&[2, 2], &unknown)),
                "entries[0].mutations[0].mutation",
                "v2.Mutation",
            ),
            (
                refused::<data::ReadModifyWriteRowRequest>(&within(&[3], &unknown)),
                "rules[0].rule",
                "v2.ReadModifyWriteRule",
            ),
            (
                refused::<data::ReadRowsRequest>(&within(&[2, 2], &unknown)),
                "rows.row_ranges[0].start_key",
                "v2.RowRange",
            ),
            (
                refused::<data::ReadRowsRequest>(&within(&[3, 7], &unknown)),
                "filter.column_range_filter.start_qualifier",
                "v2.ColumnRange",
            ),
            (
                refused::<admin::ModifyColumnFamiliesRequest>(&within(&[2], &unknown)),
                "modifications[0].mod",
                "admin.v2.ModifyColumnFamiliesRequest.Modification",
            ),
            (
                refused::<admin::ModifyColumnFamiliesRequest>(&within(&[2, 2, 1, 4, 1], &unknown)),
                "modifications[0].create.gc_rule.union.rules[0].rule",
                "admin.v2.GcRule",
            ),
            (
                refused::<admin::CreateTableRequest>(&within(&[3, 3, 2, 3], &unknown)),
                "table.column_families.value_type.kind",
                "admin.v2.Type",
            ),
            (
                refused::<admin::CreateTableRequest>(&within(&[3, 3, 2, 3, 6], &unknown)),
                "table.column_families.value_type.aggregate_type.aggregator",
                "admin.v2.Type.Aggregate",
            ),
            (
                refused::<admin::CheckConsistencyRequest>(&unknown),
                "mode",
                "admin.v2.CheckConsistencyRequest",
            ),
            (
                refused::<admin::DropRowRangeRequest>(&unknown),
                "target",
                "admin.v2.DropRowRangeRequest",
            ),
        ] {
            let want = format!(
                "error in field '{path}': field 24 of google.bigtable.{name} is not known to this server"
            );
            assert_eq!(refusal, want);
        }
    }

    #[test]
    fn unknown_fields_beside_a_known_member_are_left_alone() {
        let unknown = field(1_000, b"x");
        let pass = [0x88, 0x01, 1];
        for message in [
            within(&[3], &[&pass[..], &unknown].concat()),
            within(&[3], b""),
            unknown.clone(),
            within(&[2], &unknown),
        ] {
            assert_eq!(check(data::ReadRowsRequest::FORM, &message), Ok(()));
        }
    }

    #[test]
    fn depth_is_bounded() {
        let mut filter = field(24, b"x");
        for _ in 0..100_000 {
            filter = field(1, &filter);
            if filter.len() > 200_000 {
                break;
            }
        }
        assert_eq!(check(data::RowFilter::FORM, &filter), Ok(()));
        assert!(data::RowFilter::decode(&filter[..]).is_err(), "the decoder refuses it");
    }
}
