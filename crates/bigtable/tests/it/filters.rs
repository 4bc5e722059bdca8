//! Every kind of row filter, through the wire.

use crate::harness::{Clients, chain, filter, interleave, read_all, set, with_table};
use data::column_range::{EndQualifier, StartQualifier};
use data::row_filter::{Condition, Filter};
use data::value_range::{EndValue, StartValue};
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use tonic::Code;

async fn sample() -> Clients {
    let mut t = with_table().await;
    t.write("a1", vec![set("f:x", 2000, b"new"), set("f:x", 1000, b"old"), set("g:y", 1000, b"1")])
        .await;
    t.write("b2", vec![set("f:z", 3000, b"\xff\n"), set("g:y", 2000, b"2")]).await;
    t
}

#[tokio::test]
async fn each_filter_yields_its_cells() {
    let mut t = sample().await;
    let (a_new, a_old, a_y) = ("a1 f:x@2000=new", "a1 f:x@1000=old", "a1 g:y@1000=1");
    let (b_z, b_y) = ("b2 f:z@3000=\\xff\\n", "b2 g:y@2000=2");
    let column = |start, end| {
        Filter::ColumnRangeFilter(data::ColumnRange {
            family_name: "f".into(),
            start_qualifier: start,
            end_qualifier: end,
        })
    };
    let time = |start, end| {
        Filter::TimestampRangeFilter(data::TimestampRange {
            start_timestamp_micros: start,
            end_timestamp_micros: end,
        })
    };
    let value = |start, end| {
        Filter::ValueRangeFilter(data::ValueRange { start_value: start, end_value: end })
    };
    for (case, wanted, want) in [
        ("pass", Filter::PassAllFilter(true), vec![a_new, a_old, a_y, b_z, b_y]),
        ("block", Filter::BlockAllFilter(true), vec![]),
        ("row regex", Filter::RowKeyRegexFilter("a.".into()), vec![a_new, a_old, a_y]),
        ("row regex is anchored", Filter::RowKeyRegexFilter("a".into()), vec![]),
        ("family regex", Filter::FamilyNameRegexFilter("g|h".into()), vec![a_y, b_y]),
        (
            "qualifier regex",
            Filter::ColumnQualifierRegexFilter("[xz]".into()),
            vec![a_new, a_old, b_z],
        ),
        ("value regex", Filter::ValueRegexFilter("new|[0-9]".into()), vec![a_new, a_y, b_y]),
        ("value regex on raw bytes", Filter::ValueRegexFilter(r"\xff\C".into()), vec![b_z]),
        (
            "columns [x, z)",
            column(
                Some(StartQualifier::StartQualifierClosed("x".into())),
                Some(EndQualifier::EndQualifierOpen("z".into())),
            ),
            vec![a_new, a_old],
        ),
        (
            "columns (x, z]",
            column(
                Some(StartQualifier::StartQualifierOpen("x".into())),
                Some(EndQualifier::EndQualifierClosed("z".into())),
            ),
            vec![b_z],
        ),
        ("columns, no bounds", column(None, None), vec![a_new, a_old, b_z]),
        ("times from 2000", time(2000, 0), vec![a_new, b_z, b_y]),
        ("times below 2000", time(0, 2000), vec![a_old, a_y]),
        (
            "values [1, 2)",
            value(
                Some(StartValue::StartValueClosed("1".into())),
                Some(EndValue::EndValueOpen("2".into())),
            ),
            vec![a_y],
        ),
        (
            "values (1, new]",
            value(
                Some(StartValue::StartValueOpen("1".into())),
                Some(EndValue::EndValueClosed("new".into())),
            ),
            vec![a_new, b_y],
        ),
        ("row offset", Filter::CellsPerRowOffsetFilter(1), vec![a_old, a_y, b_y]),
        ("row limit", Filter::CellsPerRowLimitFilter(2), vec![a_new, a_old, b_z, b_y]),
        ("column limit", Filter::CellsPerColumnLimitFilter(1), vec![a_new, a_y, b_z, b_y]),
        (
            "strip",
            chain([Filter::RowKeyRegexFilter("b2".into()), Filter::StripValueTransformer(true)]),
            vec!["b2 f:z@3000=", "b2 g:y@2000="],
        ),
        (
            "label",
            chain([
                Filter::ValueRegexFilter("1".into()),
                Filter::ApplyLabelTransformer("one".into()),
            ]),
            vec!["a1 g:y@1000=1 [one]"],
        ),
        (
            "interleave keeps duplicates",
            interleave([
                Filter::ValueRegexFilter("new".into()),
                chain([
                    Filter::ColumnQualifierRegexFilter("x".into()),
                    Filter::ApplyLabelTransformer("all".into()),
                ]),
            ]),
            vec![a_new, "a1 f:x@2000=new [all]", "a1 f:x@1000=old [all]"],
        ),
        (
            "condition",
            Filter::Condition(Box::new(Condition {
                predicate_filter: Some(Box::new(filter(Filter::ValueRegexFilter("old".into())))),
                true_filter: Some(Box::new(filter(Filter::FamilyNameRegexFilter("g".into())))),
                false_filter: Some(Box::new(filter(Filter::FamilyNameRegexFilter("f".into())))),
            })),
            vec![a_y, b_z],
        ),
        (
            "sink",
            chain([
                interleave([
                    Filter::PassAllFilter(true),
                    chain([Filter::ValueRegexFilter("1".into()), Filter::Sink(true)]),
                ]),
                Filter::ValueRegexFilter("2".into()),
            ]),
            vec![a_y, b_y],
        ),
    ] {
        assert_eq!(t.filtered(wanted).await, want, "{case}");
    }
    let share = t.filtered(Filter::RowSampleFilter(0.999_999_999)).await;
    assert_eq!(share.len(), 5);
}

#[tokio::test]
async fn wrong_filters_are_refused_with_the_field() {
    let mut t = sample().await;
    let deep = (0..30)
        .fold(Filter::PassAllFilter(true), |inner, _| chain([Filter::PassAllFilter(true), inner]));
    let unset = Filter::Chain(data::row_filter::Chain {
        filters: vec![filter(Filter::PassAllFilter(true)), data::RowFilter::default()],
    });
    for (case, wanted) in [
        ("unparsable regex", Filter::RowKeyRegexFilter("(".into())),
        ("unparsable value regex", Filter::ValueRegexFilter("[z-a]".into())),
        ("pass false", Filter::PassAllFilter(false)),
        ("chain of one", chain([Filter::PassAllFilter(true)])),
        ("sample of all", Filter::RowSampleFilter(1.0)),
        ("no cells", Filter::CellsPerColumnLimitFilter(0)),
        ("negative offset", Filter::CellsPerRowOffsetFilter(-1)),
        ("long label", Filter::ApplyLabelTransformer("x".repeat(16))),
        ("capital label", Filter::ApplyLabelTransformer("X".into())),
        ("too deep", deep),
        ("too large", Filter::ValueRegexFilter(vec![b'a'; 21 << 10].into())),
        ("unset in a chain", unset),
        (
            "times of microseconds",
            Filter::TimestampRangeFilter(data::TimestampRange {
                start_timestamp_micros: 1,
                end_timestamp_micros: 0,
            }),
        ),
    ] {
        let request = data::ReadRowsRequest { filter: Some(filter(wanted)), ..read_all() };
        let (code, message) = t.refused(request).await;
        assert_eq!(code, Code::InvalidArgument, "{case}: {message}");
        assert!(message.contains("filter"), "{case}: {message}");
    }
    let empty = data::ReadRowsRequest { filter: Some(data::RowFilter::default()), ..read_all() };
    assert_eq!(t.lines(empty).await.len(), 5, "an empty filter filters nothing");
}

/// The borders of the limits: 20 levels and 1,300 patterns are served, 21 levels are refused, and the
/// server goes on.
#[tokio::test]
async fn filters_are_served_up_to_their_limits() {
    let mut t = sample().await;
    let levels = |count| {
        (1..count).fold(Filter::PassAllFilter(true), |inner, _| {
            chain([Filter::PassAllFilter(true), inner])
        })
    };
    assert_eq!(t.filtered(levels(20)).await.len(), 5);
    let request = data::ReadRowsRequest { filter: Some(filter(levels(21))), ..read_all() };
    let (code, message) = t.refused(request).await;
    assert_eq!(code, Code::InvalidArgument, "{message}");
    assert!(message.contains("filter"), "{message}");
    let patterns = (0..1_300).map(|_| filter(Filter::RowKeyRegexFilter("a.*[0-9]".into())));
    let patterns = Filter::Chain(data::row_filter::Chain { filters: patterns.collect() });
    assert_eq!(t.filtered(patterns).await.len(), 3);
    assert_eq!(t.filtered(levels(2)).await.len(), 5);
}
