//! Requests that are costly to look at, or that must not be served.

use crate::AnyError;
use crate::hostile::attacker::Field;
use crate::hostile::tables::{BROAD, FAMILY, NARROW, WIDE, row_key};
use crate::hostile::wire::{CHECK_AND_MUTATE_ROW, Peer, READ_ROWS};
use bytes::Bytes;
use data::row_filter::{Chain, Condition, Filter, Interleave};
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use tonic::Code;

const WINDOW: u32 = 1 << 20;
const PATTERNS: usize = 1_300;

fn filter(filter: Filter) -> data::RowFilter {
    data::RowFilter { filter: Some(filter) }
}

/// Reads a row through a filter of many regular expressions.
pub(super) async fn patterns(field: &Field) -> Result<(), AnyError> {
    let peer = Peer::connect(field, WINDOW).await?;
    let pattern = |number: usize| {
        let text = format!(r"(\pL|{number}|[^a-f]){{1,40}}.*\C{{0,20}}{number}");
        filter(Filter::ValueRegexFilter(text.into_bytes().into()))
    };
    let filters = (0..PATTERNS).map(pattern).collect();
    let rows = data::RowSet { row_keys: vec![row_key(0).into()], row_ranges: vec![] };
    let request = data::ReadRowsRequest {
        table_name: NARROW.to_owned(),
        rows: Some(rows),
        filter: Some(filter(Filter::Interleave(Interleave { filters }))),
        ..Default::default()
    };
    loop {
        field.sent(1);
        field.answered(peer.call(READ_ROWS, &request, None).await?);
    }
}

/// Reads wide rows through a condition whose predicate looks at every cell.
pub(super) async fn wide_condition(field: &Field) -> Result<(), AnyError> {
    let peer = Peer::connect(field, WINDOW).await?;
    let pass = || Box::new(filter(Filter::PassAllFilter(true)));
    let never = filter(Filter::ValueRegexFilter(Bytes::from_static(b"never")));
    let first = filter(Filter::CellsPerRowLimitFilter(1));
    let condition = filter(Filter::Condition(Box::new(Condition {
        predicate_filter: Some(Box::new(never)),
        true_filter: Some(pass()),
        false_filter: Some(pass()),
    })));
    let chain = Filter::Chain(Chain { filters: vec![condition, first] });
    let rows = (0..4).map(|row| format!("{WIDE}{row}").into()).collect();
    let request = data::ReadRowsRequest {
        table_name: BROAD.to_owned(),
        rows: Some(data::RowSet { row_keys: rows, row_ranges: vec![] }),
        filter: Some(filter(chain)),
        ..Default::default()
    };
    loop {
        field.sent(1);
        field.answered(peer.call(READ_ROWS, &request, None).await?);
    }
}

/// Asks with filters that only a later version of the API knows.
pub(super) async fn unknown_oneof(field: &Field) -> Result<(), AnyError> {
    let peer = Peer::connect(field, WINDOW).await?;
    // Field 99 of `RowFilter`, a string.
    let unknown = Bytes::from_static(b"\x9a\x06\x01x");
    let read = ReadLike { table_name: NARROW.to_owned(), filter: unknown.clone() };
    let check = CheckLike {
        table_name: NARROW.to_owned(),
        row_key: Bytes::from(row_key(0)),
        predicate_filter: unknown,
        true_mutations: vec![delete_from_row()],
    };
    loop {
        for code in [
            peer.call(READ_ROWS, &read, None).await?,
            peer.call(CHECK_AND_MUTATE_ROW, &check, None).await?,
        ] {
            field.sent(1);
            field.answered(code);
            if code != Code::InvalidArgument {
                field.let_in(format!("an unknown filter: {code:?}"));
            }
        }
    }
}

/// A `ReadRowsRequest` whose filter is any bytes.
#[derive(Clone, PartialEq, prost::Message)]
struct ReadLike {
    #[prost(string, tag = "1")]
    table_name: String,
    #[prost(bytes = "bytes", tag = "3")]
    filter: Bytes,
}

/// A `CheckAndMutateRowRequest` whose predicate is any bytes.
#[derive(Clone, PartialEq, prost::Message)]
struct CheckLike {
    #[prost(string, tag = "1")]
    table_name: String,
    #[prost(bytes = "bytes", tag = "2")]
    row_key: Bytes,
    #[prost(message, repeated, tag = "4")]
    true_mutations: Vec<data::Mutation>,
    #[prost(bytes = "bytes", tag = "6")]
    predicate_filter: Bytes,
}

/// Returns a mutation that would remove a family if a predicate let it.
fn delete_from_row() -> data::Mutation {
    let family_name = FAMILY.to_owned();
    let delete = data::mutation::DeleteFromFamily { family_name };
    data::Mutation { mutation: Some(data::mutation::Mutation::DeleteFromFamily(delete)) }
}
