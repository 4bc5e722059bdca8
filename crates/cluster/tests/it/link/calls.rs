//! Calls, their answers and their failures.

use super::{pair, patient};
use bytes::Bytes;
use cluster::group::NodeId;
use cluster::link::{CallError, CallKind, FRAME_BYTES_MAX, Link};
use futures::StreamExt;
use std::time::Duration;

async fn answers(
    link: &Link,
    to: NodeId,
    kind: CallKind,
    request: Bytes,
) -> Result<Vec<Result<Bytes, CallError>>, CallError> {
    Ok(link.call(to, kind, request).await?.collect().await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_gets_all_answers_in_order_and_its_errors_as_they_are() {
    let (one, two) = pair(&patient()).await;
    let call = |kind, request: &'static str| answers(&one.link, two.id(), kind, request.into());
    let got = call(CallKind::Forward, "abcde").await.unwrap();
    assert_eq!(got, [Ok("ab".into()), Ok("cd".into()), Ok("e".into())]);
    assert_eq!(call(CallKind::Forward, "").await.unwrap(), []);
    let refused = call(CallKind::Leader, "").await.unwrap_err();
    assert_eq!(refused, CallError::NotDone("node 2: refused for node 1".into()));
    let broke = call(CallKind::Status, "").await.unwrap_err();
    assert_eq!(broke, CallError::Unknown("node 2: broke half-way".into()));
    let half = call(CallKind::SetSchema, "x").await.unwrap();
    let after = CallError::Unknown("node 2: broke after an answer".into());
    assert_eq!(half, [Ok("x".into()), Err(after)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_tells_if_it_may_have_been_made() {
    let (one, mut two) = pair(&patient()).await;
    let large = Bytes::from(vec![0; FRAME_BYTES_MAX + 1]);
    let error = answers(&one.link, two.id(), CallKind::Forward, large).await.unwrap_err();
    assert!(matches!(error, CallError::NotDone(_)), "{error}");
    // A node that goes while it works.
    let (link, to) = (one.link.clone(), two.id());
    let waiting =
        tokio::spawn(
            async move { answers(&link, to, CallKind::CreateReplica, Bytes::new()).await },
        );
    tokio::time::sleep(Duration::from_millis(300)).await;
    two.stop_serving().await;
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Unknown(_) | CallError::NotDone(_)), "{error}");
    // A node that is gone. A call that meets the end of its connection cannot tell.
    loop {
        let error = answers(&one.link, two.id(), CallKind::Forward, "x".into()).await.unwrap_err();
        if matches!(error, CallError::NotDone(_)) {
            break;
        }
    }
    two.serve_again().await;
    let got = answers(&one.link, two.id(), CallKind::Forward, "x".into()).await;
    assert_eq!(got.unwrap(), [Ok("x".into())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_dropped_half_way_break_no_connection() {
    let (one, two) = pair(&patient()).await;
    let request = Bytes::from(vec![7; 200]);
    // More of them than a connection remembers at a time, and more than its usual bound in all.
    let callers = (0..100).map(|_| {
        let (link, to, request) = (one.link.clone(), two.id(), request.clone());
        tokio::spawn(async move {
            for _ in 0..30 {
                let mut answers = link.call(to, CallKind::Forward, request.clone()).await.unwrap();
                assert_eq!(answers.next().await, Some(Ok(Bytes::from_static(&[7, 7]))));
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let whole = answers(&one.link, two.id(), CallKind::Forward, request).await.unwrap();
    assert_eq!(whole.len(), 100);
}
