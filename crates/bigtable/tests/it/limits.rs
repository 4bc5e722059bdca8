//! Every limit of a write is refused with its field and the limit; one less is taken.

use crate::harness::{entry, mutation, read_all, set, with_table};
use data::mutation::{DeleteFromColumn, Mutation};
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use tonic::Code;

#[tokio::test]
async fn oversized_writes_name_field_and_limit() {
    let mut t = with_table().await;
    let one = || vec![set("f:q", 1000, b"v")];
    let many = || (0..100_001).map(|_| set("f:q", 1000, b"v")).collect::<Vec<_>>();
    let long_qualifier = format!("f:{}", "q".repeat((16 << 10) + 1));
    let inverted = mutation(Mutation::DeleteFromColumn(DeleteFromColumn {
        family_name: "f".into(),
        column_qualifier: "q".into(),
        time_range: Some(data::TimestampRange {
            start_timestamp_micros: 3000,
            end_timestamp_micros: 2000,
        }),
    }));
    for (case, row, mutations, code, words) in [
        ("empty key", vec![], one(), Code::InvalidArgument, ["row_key", ""]),
        ("long key", vec![b'k'; (4 << 10) + 1], one(), Code::InvalidArgument, ["row_key", "4096"]),
        ("no mutations", b"r".to_vec(), vec![], Code::InvalidArgument, ["mutations", ""]),
        ("many mutations", b"r".to_vec(), many(), Code::InvalidArgument, ["mutations", "100000"]),
        (
            "long qualifier",
            b"r".to_vec(),
            vec![set(&long_qualifier, 1000, b"")],
            Code::InvalidArgument,
            ["qualifier", "16384"],
        ),
        (
            "granularity",
            b"r".to_vec(),
            vec![set("f:q", 1001, b"")],
            Code::InvalidArgument,
            ["timestamp", "1000"],
        ),
        (
            "negative timestamp",
            b"r".to_vec(),
            vec![set("f:q", -1000, b"")],
            Code::InvalidArgument,
            ["timestamp", ""],
        ),
        ("inverted range", b"r".to_vec(), vec![inverted], Code::InvalidArgument, ["range", ""]),
        (
            "unknown family",
            b"r".to_vec(),
            vec![set("nowhere:q", 1000, b"")],
            Code::NotFound,
            ["nowhere", "family"],
        ),
    ] {
        let status = t.try_write(&row, mutations).await.expect_err(case);
        assert_eq!(status.code(), code, "{case}: {status}");
        for word in words {
            assert!(status.message().contains(word), "{case}: {status}");
        }
    }
    assert_eq!(t.lines(read_all()).await.len(), 0);
    t.try_write(&vec![b'k'; 4 << 10], one()).await.unwrap();
}

#[tokio::test]
async fn values_up_to_100_mib_are_taken() {
    let mut t = with_table().await;
    let value = vec![b'v'; 100 << 20];
    t.write("r", vec![set("f:q", 1000, &value)]).await;
    let rows = t.try_read(read_all()).await.unwrap();
    assert!(rows[0].cells[0].value == value);
    let longer = vec![b'v'; (100 << 20) + 1];
    let status = t.try_write(b"r", vec![set("f:q", 1000, &longer)]).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("104857600"), "{status}");
}

#[tokio::test]
async fn a_batch_of_too_many_mutations_is_refused_whole() {
    let mut t = with_table().await;
    let entries = (0..100_001).map(|i| entry(&format!("{i}"), vec![set("f:q", 1000, b"")]));
    let status = t.write_rows(entries.collect()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("100000"), "{status}");
    assert_eq!(t.lines(read_all()).await.len(), 0);
}

#[tokio::test]
async fn a_row_of_a_million_columns_comes_whole() {
    let columns = if std::env::var_os("STELE_LIMITS").is_some() { 1_000_000 } else { 20_000 };
    let mut t = with_table().await;
    for part in 0..10 {
        let columns = part * columns / 10..(part + 1) * columns / 10;
        let cells =
            columns.map(|at| set(&format!("f:{at:07}"), 1000, &at.to_string().into_bytes()));
        t.write("wide", cells.collect()).await;
    }
    let rows = t.try_read(read_all()).await.unwrap();
    assert_eq!((rows.len(), rows[0].cells.len()), (1, columns));
    for (at, cell) in rows[0].cells.iter().enumerate() {
        assert_eq!(cell.value, at.to_string().into_bytes());
    }
}
