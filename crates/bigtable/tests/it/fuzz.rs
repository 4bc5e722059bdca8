//! Row filters and queries of any bytes: seeded mutations of encoded filters, on the body of the fuzz target.

use crate::harness::{
    INSTANCE, TABLE, add, aggregate, chain, create_table, entry, filter, interleave, read_all, set,
    store,
};
use admin::r#type::aggregate::Aggregator;
use data::row_filter::{Condition, Filter};
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use prost::Message;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use table::mutate::WriteTime;
use table::{
    Bytes, CreateTable, FamilySpec, Local, RowMutation, RowMutations, Store, TableName, Timestamp,
};

const INPUTS: usize = 20_000;

/// One filter of each kind, and some of several.
fn corpus() -> Vec<Filter> {
    let column = data::ColumnRange {
        family_name: "f".into(),
        start_qualifier: Some(data::column_range::StartQualifier::StartQualifierOpen("a".into())),
        end_qualifier: Some(data::column_range::EndQualifier::EndQualifierClosed("z".into())),
    };
    let times = data::TimestampRange { start_timestamp_micros: 1_000, end_timestamp_micros: 9_000 };
    let values = data::ValueRange {
        start_value: Some(data::value_range::StartValue::StartValueClosed("a".into())),
        end_value: Some(data::value_range::EndValue::EndValueOpen("z".into())),
    };
    let condition = |inner: Filter| {
        Filter::Condition(Box::new(Condition {
            predicate_filter: Some(Box::new(filter(inner))),
            true_filter: Some(Box::new(filter(Filter::StripValueTransformer(true)))),
            false_filter: None,
        }))
    };
    let labelled = chain([Filter::PassAllFilter(true), Filter::ApplyLabelTransformer("l".into())]);
    vec![
        Filter::Sink(true),
        Filter::PassAllFilter(true),
        Filter::BlockAllFilter(true),
        Filter::RowKeyRegexFilter("r.*[0-9]{1,3}".into()),
        Filter::RowSampleFilter(0.5),
        Filter::FamilyNameRegexFilter("f|g".into()),
        Filter::ColumnQualifierRegexFilter(r"\C+|(?i)q\x00".into()),
        Filter::ColumnRangeFilter(column.clone()),
        Filter::TimestampRangeFilter(times),
        Filter::ValueRegexFilter("(a|b)*c?".into()),
        Filter::ValueRangeFilter(values),
        Filter::CellsPerRowOffsetFilter(1),
        Filter::CellsPerRowLimitFilter(2),
        Filter::CellsPerColumnLimitFilter(1),
        Filter::StripValueTransformer(true),
        Filter::ApplyLabelTransformer("label-1".into()),
        condition(Filter::ColumnRangeFilter(column)),
        interleave([
            labelled.clone(),
            condition(Filter::CellsPerRowOffsetFilter(1)),
            chain([Filter::Sink(true), Filter::CellsPerColumnLimitFilter(2)]),
        ]),
        (0..18).fold(labelled, |inner, _| chain([Filter::PassAllFilter(true), inner])),
    ]
}

/// Requests with filters, mutations and types in them.
fn requests() -> Vec<Vec<u8>> {
    let filters = corpus().into_iter().map(|kind| {
        data::ReadRowsRequest { filter: Some(filter(kind)), ..read_all() }.encode_to_vec()
    });
    let mutations = vec![set("f:q", 1_000, b"v"), add("sum:q", 0, 7)];
    let write = data::MutateRowRequest { mutations: mutations.clone(), ..Default::default() };
    let writes =
        data::MutateRowsRequest { entries: vec![entry("r", mutations)], ..Default::default() };
    let create = create_table("t", [("sum", aggregate(Aggregator::Sum(Default::default())))]);
    let others = [write.encode_to_vec(), writes.encode_to_vec(), create.encode_to_vec()];
    filters.chain(others).collect()
}

#[test]
fn any_bytes_are_walked_for_unknown_members() {
    let corpus = requests();
    for wire in &corpus {
        assert!(bigtable::fuzz::requests(wire) > 0);
    }
    let mut rng = StdRng::seed_from_u64(8);
    let taken: usize =
        (0..INPUTS).map(|_| bigtable::fuzz::requests(&mutate(&mut rng, &corpus))).sum();
    assert!(taken > INPUTS, "only {taken} requests were taken");
}

/// `bytes` as a length-delimited field.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    prost::encode_length_delimiter(bytes.len(), &mut out).unwrap();
    out.extend_from_slice(bytes);
    out
}

fn mutate(rng: &mut StdRng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = corpus.choose(rng).cloned().unwrap_or_default();
    for _ in 0..rng.random_range(0..4) {
        let at = rng.random_range(0..=bytes.len());
        match rng.random_range(0..5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.random()),
            2 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
            3 if at < bytes.len() => bytes[at] = *[0, 1, 0x7f, 0x80, 0xff].choose(rng).unwrap(),
            _ => {
                let other = corpus.choose(rng).cloned().unwrap_or_default();
                bytes.splice(at..at, other);
            }
        }
    }
    // Wrapped as the element of a chain or an interleave, many times over.
    for _ in 0..*[0, 0, 0, 1, 2, 30, 120].choose(rng).unwrap() {
        bytes = field(rng.random_range(1..=2), &field(1, &bytes));
    }
    bytes
}

/// A small table of the families `f` and `g`.
async fn small_table() -> (Arc<Local>, TableName, tempfile::TempDir) {
    let (store, dir) = store();
    let name = TableName::new(TABLE).unwrap();
    let families = ["f", "g"].map(|name| (name.to_owned(), FamilySpec::default()));
    let table = CreateTable {
        name: name.clone(),
        families: families.into(),
        splits: Vec::new(),
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    };
    store.create_table(table).await.unwrap();
    for row in ["r1", "r22"] {
        let cell = |family: &str, qualifier: &'static str, micros, value: &'static [u8]| {
            RowMutation::SetCell {
                family: family.into(),
                qualifier: qualifier.into(),
                timestamp: WriteTime::At(Timestamp(micros)),
                value: Bytes::from_static(value),
            }
        };
        let mutations = vec![
            cell("f", "", 1_000, b"abc"),
            cell("f", "q\0", 3_000, b"\xff\n"),
            cell("f", "q\0", 2_000, b""),
            cell("g", "q", 0, b"z"),
        ];
        store.mutate_row(&name, RowMutations { row: row.into(), mutations }).await.unwrap();
    }
    (store, name, dir)
}

#[tokio::test]
async fn any_bytes_are_a_filter_or_refused() {
    let (store, name, _dir) = small_table().await;
    let corpus: Vec<_> = corpus().into_iter().map(|kind| filter(kind).encode_to_vec()).collect();
    for wire in &corpus {
        assert!(bigtable::fuzz::row_filter(store.as_ref(), &name, wire).await);
    }
    let mut rng = StdRng::seed_from_u64(7);
    let mut filters = 0;
    for _ in 0..INPUTS {
        let wire = mutate(&mut rng, &corpus);
        let is_filter = bigtable::fuzz::row_filter(store.as_ref(), &name, &wire).await;
        filters += usize::from(is_filter);
    }
    assert!(filters > INPUTS / 10, "only {filters} inputs went all the way");
}

/// Queries of each form that is served, and of some that are not.
const QUERIES: &[&str] = &[
    "SELECT * FROM `t`",
    "SELECT _key, f['q'] AS v, g FROM t AS x WHERE _key = 'r1' OR STARTS_WITH(x._key, b'r\\x32')",
    "SELECT CAST(f[''] AS STRING) FROM t(with_history => FALSE) WHERE _key BETWEEN 'a' AND 'z' LIMIT 3",
    "SELECT TO_INT64(f['q']) FROM t WHERE f['q'] IS NOT NULL AND NOT f['q'] LIKE '%a_'",
    "SELECT _key FROM t WHERE _key IN ('a', r'b', \"r1\") ORDER BY _key DESC LIMIT 10 OFFSET 1",
    "SELECT 'a\\n', b\"\\xff\", -1, 2.5e3, TRUE, NULL, [1, 2], STRUCT(1 AS a, 'b'), \"\"\"x\"\"\"",
    "SELECT IFNULL(SAFE_CAST(f['q'] AS STRING), 'x'), MAP_KEYS(f), DATE(2024, 1, 1) FROM t",
    "SELECT COUNT(*) FROM t GROUP BY _key HAVING COUNT(*) > 1 -- no",
    "SELECT CASE WHEN a THEN b ELSE c END, (SELECT 1), INTERVAL 1 DAY FROM t JOIN u USING (k)",
];

/// Words and signs, put together in any order.
fn soup(rng: &mut StdRng) -> Vec<u8> {
    let words: Vec<&str> = QUERIES.iter().flat_map(|query| query.split(' ')).collect();
    let signs =
        ["(", ")", "[", "]", ",", ".", "'", "NOT", "-", "<", "::", "@", ";", "=>", "DATE", "f"];
    let mut out = String::from("SELECT ");
    for _ in 0..rng.random_range(0..60) {
        out += if rng.random() { words.choose(rng).unwrap() } else { signs.choose(rng).unwrap() };
        out += " ";
    }
    out.into_bytes()
}

#[tokio::test]
async fn any_bytes_are_a_query_or_refused() {
    let (store, _, _dir) = small_table().await;
    let corpus: Vec<_> = QUERIES.iter().map(|query| query.as_bytes().to_vec()).collect();
    let mut rng = StdRng::seed_from_u64(9);
    let mut executed = 0;
    for turn in 0..INPUTS {
        let wire = match turn {
            turn if turn < corpus.len() => corpus[turn].clone(),
            turn if turn % 2 == 0 => soup(&mut rng),
            _ => mutate(&mut rng, &corpus),
        };
        let ran = bigtable::fuzz::query(Arc::clone(&store), INSTANCE, &wire).await;
        executed += usize::from(ran);
    }
    assert!(executed > INPUTS / 20, "only {executed} inputs were executed");
}
