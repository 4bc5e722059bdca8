//! Reads: row sets, limits, order, chunking, statistics, samples.

use crate::assemble::Assembler;
use crate::harness::{TABLE, entry, filter, read_all, set, wants_progress, with_table};
use data::row_filter::Filter;
use data::row_range::{EndKey, StartKey};
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use tonic::Code;

fn keys(lines: &[String]) -> Vec<&str> {
    lines.iter().map(|line| line.split(' ').next().unwrap()).collect()
}

fn rows(keys: &[&str], ranges: Vec<data::RowRange>) -> Option<data::RowSet> {
    let row_keys = keys.iter().map(|key| key.as_bytes().to_vec().into()).collect();
    Some(data::RowSet { row_keys, row_ranges: ranges })
}

fn closed_open(start: &'static str, end: &'static str) -> data::RowRange {
    data::RowRange {
        start_key: Some(StartKey::StartKeyClosed(start.into())),
        end_key: Some(EndKey::EndKeyOpen(end.into())),
    }
}

fn open_closed(start: &'static str, end: &'static str) -> data::RowRange {
    data::RowRange {
        start_key: Some(StartKey::StartKeyOpen(start.into())),
        end_key: Some(EndKey::EndKeyClosed(end.into())),
    }
}

#[tokio::test]
async fn row_sets_limits_and_order() {
    let mut t = with_table().await;
    for row in ["a", "b", "c", "d", "e"] {
        t.write(row, vec![set("f:q", 1000, row.as_bytes())]).await;
    }
    for (case, row_set, reversed, limit, want) in [
        ("everything", None, false, 0, &["a", "b", "c", "d", "e"][..]),
        ("everything, backwards", None, true, 0, &["e", "d", "c", "b", "a"]),
        ("an empty set is everything", rows(&[], vec![]), false, 0, &["a", "b", "c", "d", "e"]),
        ("keys in any order, once", rows(&["d", "b", "d", "x"], vec![]), false, 0, &["b", "d"]),
        ("keys backwards", rows(&["b", "d"], vec![]), true, 0, &["d", "b"]),
        ("[b, d)", rows(&[], vec![closed_open("b", "d")]), false, 0, &["b", "c"]),
        ("(b, d]", rows(&[], vec![open_closed("b", "d")]), false, 0, &["c", "d"]),
        ("(b, d] backwards", rows(&[], vec![open_closed("b", "d")]), true, 0, &["d", "c"]),
        ("no end", rows(&[], vec![closed_open("d", "")]), false, 0, &["d", "e"]),
        (
            "overlapping",
            rows(&["c"], vec![closed_open("a", "c"), open_closed("a", "d")]),
            false,
            0,
            &["a", "b", "c", "d"],
        ),
        ("limit", None, false, 2, &["a", "b"]),
        ("limit backwards", None, true, 2, &["e", "d"]),
        ("limit over keys", rows(&["x", "c", "e", "d"], vec![]), false, 2, &["c", "d"]),
    ] {
        let request =
            data::ReadRowsRequest { rows: row_set, reversed, rows_limit: limit, ..read_all() };
        assert_eq!(keys(&t.lines(request).await), want, "{case}");
    }
}

#[tokio::test]
async fn wrong_reads_are_refused() {
    let mut t = with_table().await;
    let inverted = rows(&[], vec![closed_open("d", "b")]);
    let (code, message) = t.refused(data::ReadRowsRequest { rows: inverted, ..read_all() }).await;
    assert_eq!(code, Code::InvalidArgument, "{message}");
    let empty_key = rows(&[""], vec![]);
    let (code, message) = t.refused(data::ReadRowsRequest { rows: empty_key, ..read_all() }).await;
    assert_eq!(code, Code::InvalidArgument, "{message}");
    let negative = data::ReadRowsRequest { rows_limit: -1, ..read_all() };
    let (code, message) = t.refused(negative).await;
    assert_eq!((code, message.contains("rows_limit")), (Code::InvalidArgument, true), "{message}");
    let unknown = data::ReadRowsRequest {
        table_name: "projects/p/instances/other/tables/t".into(),
        ..Default::default()
    };
    let (code, message) = t.refused(unknown).await;
    assert_eq!((code, message.contains("instances/other")), (Code::NotFound, true), "{message}");
}

#[tokio::test]
async fn cells_come_by_family_qualifier_and_newest_first() {
    let mut t = with_table().await;
    let cells = vec![
        set("g:", 1000, b""),
        set("f:b", 1000, b"old"),
        set("f:b", 3000, b"new"),
        set("f:a", 0, b"zero"),
        set("f:", 2000, b"unnamed"),
    ];
    t.write("r", cells).await;
    let want =
        ["r f:@2000=unnamed", "r f:a@0=zero", "r f:b@3000=new", "r f:b@1000=old", "r g:@1000="];
    assert_eq!(t.lines(read_all()).await, want);
}

#[tokio::test]
async fn long_values_and_wide_rows_arrive_whole() {
    let mut t = with_table().await;
    let value = |len: usize| (0..len).map(|i| (i * 31 % 251) as u8).collect::<Vec<_>>();
    let lens = [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 << 20];
    for (i, len) in lens.into_iter().enumerate() {
        t.write("long", vec![set(&format!("f:{i}"), 1000, &value(len))]).await;
    }
    let wide: Vec<_> = (0..20_000).map(|i| set(&format!("g:{i:05}"), 1000, &[b'x'; 64])).collect();
    t.write("wide", wide).await;
    let got = t.try_read(read_all()).await.unwrap();
    assert_eq!(got.len(), 2);
    for (cell, len) in got[0].cells.iter().zip(lens) {
        assert!(cell.value == value(len), "{len}");
    }
    assert_eq!(got[1].cells.len(), 20_000);
    assert!(got[1].cells.is_sorted_by(|a, b| a.qualifier < b.qualifier));
}

#[tokio::test]
async fn a_fruitless_scan_says_how_far_it_came() {
    let mut t = with_table().await;
    let cells = || (0..80).map(|i| set(&format!("f:{i}"), 1000, b"v")).collect::<Vec<_>>();
    let entries = (0..500).map(|i| entry(&format!("{i:04}"), cells())).collect();
    t.write_rows(entries).await.unwrap();
    let never = Filter::ValueRegexFilter("never".into());
    // The engine skips every row for it.
    let absent = Filter::ColumnQualifierRegexFilter("none".into());
    for (filter_of_rows, reversed) in
        [never, absent].into_iter().flat_map(|filter| [(filter.clone(), false), (filter, true)])
    {
        let request =
            data::ReadRowsRequest { filter: Some(filter(filter_of_rows)), reversed, ..read_all() };
        for wants in [false, true] {
            let request = match wants {
                true => wants_progress(request.clone()),
                false => tonic::Request::new(request.clone()),
            };
            let mut stream = t.data.read_rows(request).await.unwrap().into_inner();
            let mut assembler = Assembler::default();
            while let Some(message) = stream.message().await.unwrap() {
                assembler.message(message);
            }
            let mut keys = std::mem::take(&mut assembler.last_scanned);
            assert_eq!(assembler.finish(), []);
            assert_eq!(!keys.is_empty(), wants);
            let last = if reversed { "0000" } else { "0499" };
            assert!(!wants || keys.last().unwrap() == last.as_bytes(), "{keys:?}");
            if reversed {
                keys.reverse();
            }
            assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        }
    }
}

#[tokio::test]
async fn statistics_count_what_was_read() {
    let mut t = with_table().await;
    for row in ["a", "b", "c"] {
        t.write(row, vec![set("f:p", 1000, b"1"), set("f:q", 1000, b"2")]).await;
    }
    let request = data::ReadRowsRequest {
        filter: Some(filter(Filter::CellsPerRowLimitFilter(1))),
        request_stats_view: data::read_rows_request::RequestStatsView::RequestStatsFull as i32,
        rows_limit: 2,
        ..read_all()
    };
    let mut stream = t.data.read_rows(request).await.unwrap().into_inner();
    let mut stats = None;
    while let Some(message) = stream.message().await.unwrap() {
        assert!(stats.is_none(), "statistics come last");
        stats = message.request_stats;
    }
    let Some(data::request_stats::StatsView::FullReadStatsView(view)) = stats.unwrap().stats_view
    else {
        panic!("no statistics")
    };
    let counts = view.read_iteration_stats.unwrap();
    assert_eq!((counts.rows_returned_count, counts.cells_returned_count), (2, 2));
    assert!(counts.rows_seen_count >= 2 && counts.cells_seen_count >= 2, "{counts:?}");
    assert!(view.request_latency_stats.unwrap().frontend_server_latency.is_some());
}

#[tokio::test]
async fn statistics_count_rows_that_have_no_wanted_column() {
    let mut t = with_table().await;
    for row in ["a", "b", "c"] {
        t.write(row, vec![set("f:p", 1000, b"1"), set("f:q", 1000, b"2")]).await;
    }
    let request = data::ReadRowsRequest {
        filter: Some(filter(Filter::ColumnQualifierRegexFilter("none".into()))),
        request_stats_view: data::read_rows_request::RequestStatsView::RequestStatsFull as i32,
        ..read_all()
    };
    let mut stream = t.data.read_rows(request).await.unwrap().into_inner();
    let message = stream.message().await.unwrap().unwrap();
    let Some(data::request_stats::StatsView::FullReadStatsView(view)) =
        message.request_stats.unwrap().stats_view
    else {
        panic!("no statistics")
    };
    let counts = view.read_iteration_stats.unwrap();
    assert_eq!((counts.rows_seen_count, counts.rows_returned_count), (3, 0));
    assert!(counts.cells_seen_count >= 3, "{counts:?}");
}

#[tokio::test]
async fn samples_end_with_the_empty_key() {
    let mut t = with_table().await;
    t.write("r", vec![set("f:q", 1000, b"v")]).await;
    let request = data::SampleRowKeysRequest { table_name: TABLE.into(), ..Default::default() };
    let mut stream = t.data.sample_row_keys(request).await.unwrap().into_inner();
    let mut samples = Vec::new();
    while let Some(sample) = stream.message().await.unwrap() {
        samples.push(sample);
    }
    assert!(samples.last().unwrap().row_key.is_empty());
    assert!(samples.is_sorted_by_key(|sample| sample.offset_bytes));
}

#[tokio::test]
async fn ping_and_warm_takes_any_instance() {
    let mut t = with_table().await;
    let ping =
        data::PingAndWarmRequest { name: "projects/x/instances/y".into(), ..Default::default() };
    t.data.ping_and_warm(ping).await.unwrap();
    let status = t.data.ping_and_warm(data::PingAndWarmRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}
