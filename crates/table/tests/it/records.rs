//! Records of a front: they last, change together, and are bounded.

use crate::harness::Harness;
use table::limits::{RECORD_BYTES_MAX, RECORDS_BYTES_MAX};
use table::*;

fn record(name: &str, value: &'static str) -> (String, Bytes) {
    (name.to_owned(), Bytes::from(value))
}

#[tokio::test]
async fn records_last_and_are_listed_by_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let h = Harness::open(dir.path());
    let put = |name: &str, value: &'static str| RecordChange::put(name, value);
    let changes = vec![put("a/1", "one"), put("a/2", "two"), put("b", ""), put("a", "root")];
    h.local.change_records(changes).await.unwrap();
    let changes = vec![RecordChange::remove("a/1"), put("a/2", "second"), put("a/3", "three")];
    h.local.change_records(changes).await.unwrap();
    let want = [record("a", "root"), record("a/2", "second"), record("a/3", "three")];
    assert_eq!(h.local.records("a"), want);
    h.engine.close().unwrap();
    drop(h);

    let h = Harness::open(dir.path());
    assert_eq!(h.local.records("a"), want);
    assert_eq!(h.local.records("a/"), want[1..]);
    assert_eq!(h.local.record("b"), Some(Bytes::new()));
    assert_eq!(h.local.record("a/1"), None);
}

#[tokio::test]
async fn records_are_bounded_and_changes_are_all_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let h = Harness::open(dir.path());
    let large = |name: String| RecordChange::put(name, vec![b'x'; RECORD_BYTES_MAX]);
    let over = RecordChange::put("over", vec![b'x'; RECORD_BYTES_MAX + 1]);
    let refused = h.local.change_records(vec![RecordChange::put("small", "s"), over]).await;
    assert!(matches!(&refused, Err(Error::InvalidArgument { .. })), "{refused:?}");
    assert!(refused.unwrap_err().to_string().contains("the record of over"));
    assert_eq!(h.local.record("small"), None);
    let count = RECORDS_BYTES_MAX / RECORD_BYTES_MAX;
    let changes = (0..count - 1).map(|i| large(format!("r/{i}"))).collect();
    h.local.change_records(changes).await.unwrap();
    let full = h.local.change_records(vec![large("last".into())]).await;
    assert!(matches!(&full, Err(Error::ResourceExhausted(_))), "{full:?}");
    // A removal makes room.
    h.local.change_records(vec![RecordChange::remove("r/0")]).await.unwrap();
    h.local.change_records(vec![large("last".into())]).await.unwrap();
    // So do a removal in the same change, and a record that is replaced.
    let changes = vec![RecordChange::remove("r/1"), large("next".into())];
    h.local.change_records(changes).await.unwrap();
    h.local.change_records(vec![large("next".into())]).await.unwrap();
}
