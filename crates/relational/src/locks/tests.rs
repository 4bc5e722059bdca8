use super::*;
use bytes::Bytes;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn row(name: &str) -> LockKey {
    LockKey::Row(16, Bytes::copy_from_slice(name.as_bytes()))
}

/// Polls a future once, without a runtime.
fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn now<T>(future: impl Future<Output = T>) -> T {
    match poll(pin!(future)) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn modes_exclude_each_other_as_in_postgresql() {
    use Mode::*;
    let rows = [KeyShare, Share, NoKeyUpdate, Update];
    let want = [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]];
    for (held, want) in rows.iter().zip(want) {
        for (asked, want) in rows.iter().zip(want) {
            let table = Arc::<LockTable>::default();
            let (mut one, mut two) = (table.holder(), table.holder());
            assert!(now(one.take(row("a"), *held, Wait::Wait)).unwrap());
            let got = now(two.take(row("a"), *asked, Wait::Skip)).unwrap();
            assert_eq!(got, want == 1, "{asked:?} beside {held:?}");
            drop((one, two));
            assert_eq!(table.keys(), 0);
        }
    }
}

#[test]
fn waiters_are_served_in_their_order() {
    let table = Arc::<LockTable>::default();
    let (mut one, mut two, mut three) = (table.holder(), table.holder(), table.holder());
    assert!(now(one.take(row("a"), Mode::Share, Wait::Wait)).unwrap());
    let mut second = Box::pin(two.take(row("a"), Mode::Update, Wait::Wait));
    assert!(poll(second.as_mut()).is_pending());
    // It would fit beside the holder, but does not overtake.
    let mut third = Box::pin(three.take(row("a"), Mode::Share, Wait::Wait));
    assert!(poll(third.as_mut()).is_pending());
    drop(one);
    assert!(now(second).unwrap());
    assert!(poll(third.as_mut()).is_pending());
    drop(two);
    assert!(now(third).unwrap());
}

#[test]
fn a_lock_that_holds_up_no_waiter_is_granted_beside_waiters() {
    use Mode::{KeyShare, NoKeyUpdate, Update};
    let table = Arc::<LockTable>::default();
    let [mut one, mut two, mut three, mut four] = [0; 4].map(|_| table.holder());
    assert!(now(one.take(row("a"), NoKeyUpdate, Wait::Wait)).unwrap());
    let mut second = Box::pin(two.take(row("a"), NoKeyUpdate, Wait::Wait));
    assert!(poll(second.as_mut()).is_pending());
    // Neither change takes the key away.
    assert!(now(three.take(row("a"), KeyShare, Wait::Wait)).unwrap());
    drop(three);
    let mut third = table.holder();
    let mut deletes = Box::pin(third.take(row("a"), Update, Wait::Wait));
    assert!(poll(deletes.as_mut()).is_pending());
    let mut fourth = Box::pin(four.take(row("a"), KeyShare, Wait::Wait));
    assert!(poll(fourth.as_mut()).is_pending());
    // Once the delete gives up, only the change is waited for by the other change.
    drop(deletes);
    assert!(now(fourth).unwrap());
    assert!(poll(second.as_mut()).is_pending());
    drop(one);
    assert!(now(second).unwrap());
}

#[test]
fn a_waiter_that_gives_up_lets_the_next_one_in() {
    let table = Arc::<LockTable>::default();
    let (mut one, mut two, mut three) = (table.holder(), table.holder(), table.holder());
    assert!(now(one.take(row("a"), Mode::Share, Wait::Wait)).unwrap());
    let mut second = Box::pin(two.take(row("a"), Mode::Update, Wait::Wait));
    assert!(poll(second.as_mut()).is_pending());
    let mut third = Box::pin(three.take(row("a"), Mode::Share, Wait::Wait));
    assert!(poll(third.as_mut()).is_pending());
    drop(second);
    assert!(now(third).unwrap());
    drop((one, two, three));
    assert_eq!(table.keys(), 0);
}

#[test]
fn the_one_that_closes_a_circle_fails() {
    let table = Arc::<LockTable>::default();
    let (mut one, mut two, mut three) = (table.holder(), table.holder(), table.holder());
    assert!(now(one.take(row("a"), Mode::Update, Wait::Wait)).unwrap());
    assert!(now(two.take(row("b"), Mode::Update, Wait::Wait)).unwrap());
    assert!(now(three.take(row("c"), Mode::Update, Wait::Wait)).unwrap());
    let mut first = Box::pin(one.take(row("b"), Mode::Update, Wait::Wait));
    assert!(poll(first.as_mut()).is_pending());
    let mut second = Box::pin(two.take(row("c"), Mode::Update, Wait::Wait));
    assert!(poll(second.as_mut()).is_pending());
    let error = now(three.take(row("a"), Mode::Update, Wait::Wait)).unwrap_err();
    assert_eq!(error.state, SqlState::DEADLOCK_DETECTED);
    drop(three);
    assert!(now(second).unwrap());
}

#[test]
fn two_that_share_and_want_more_are_a_circle() {
    let table = Arc::<LockTable>::default();
    let (mut one, mut two) = (table.holder(), table.holder());
    assert!(now(one.take(row("a"), Mode::Share, Wait::Wait)).unwrap());
    assert!(now(two.take(row("a"), Mode::Share, Wait::Wait)).unwrap());
    let mut first = Box::pin(one.take(row("a"), Mode::Update, Wait::Wait));
    assert!(poll(first.as_mut()).is_pending());
    let error = now(two.take(row("a"), Mode::Update, Wait::Wait)).unwrap_err();
    assert_eq!(error.state, SqlState::DEADLOCK_DETECTED);
    drop(two);
    assert!(now(first).unwrap());
}

#[test]
fn a_lock_that_is_not_waited_for_is_refused() {
    let table = Arc::<LockTable>::default();
    let (mut one, mut two) = (table.holder(), table.holder());
    assert!(now(one.take(LockKey::Table(1), Mode::TableWrite, Wait::Wait)).unwrap());
    let error = now(two.take(LockKey::Table(1), Mode::TableExclusive, Wait::NoWait)).unwrap_err();
    assert_eq!(error.state, SqlState::LOCK_NOT_AVAILABLE);
    assert!(now(two.take(LockKey::Table(1), Mode::TableWrite, Wait::NoWait)).unwrap());
    assert!(two.has(&LockKey::Table(1), Mode::TableWrite));
}

#[test]
fn a_mark_gives_back_later_locks_and_keeps_earlier_ones() {
    let table = Arc::<LockTable>::default();
    let (mut one, mut two) = (table.holder(), table.holder());
    assert!(now(one.take(row("a"), Mode::Share, Wait::Wait)).unwrap());
    let mark = one.mark();
    assert!(now(one.take(row("a"), Mode::Update, Wait::Wait)).unwrap());
    assert!(now(one.take(row("b"), Mode::Update, Wait::Wait)).unwrap());
    let mut waits = Box::pin(two.take(row("b"), Mode::Update, Wait::Wait));
    assert!(poll(waits.as_mut()).is_pending());
    one.undo_to(mark);
    assert!(now(waits).unwrap());
    assert!(one.has(&row("a"), Mode::Share) && !one.has(&row("a"), Mode::Update));
    assert!(!one.has(&row("b"), Mode::KeyShare));
    assert!(now(two.take(row("a"), Mode::Share, Wait::NoWait)).unwrap());
    assert!(!now(two.take(row("a"), Mode::NoKeyUpdate, Wait::Skip)).unwrap());
    drop((one, two));
    assert_eq!(table.keys(), 0);
}

#[test]
fn a_refused_lock_leaves_no_note() {
    let table = Arc::<LockTable>::default();
    let (mut one, mut two) = (table.holder(), table.holder());
    assert!(now(one.take(row("a"), Mode::Update, Wait::Wait)).unwrap());
    assert!(!now(two.take(row("a"), Mode::Update, Wait::Skip)).unwrap());
    assert_eq!(two.mark(), 0);
    assert!(two.would_fit(&row("b"), Mode::Update) && !two.would_fit(&row("a"), Mode::KeyShare));
    two.bytes_max = 1000;
    let taken = |name: usize| now(two.take(row(&name.to_string()), Mode::Update, Wait::Wait));
    let error = (0..9).map(taken).find_map(|taken| taken.err()).unwrap();
    assert_eq!(error.state, SqlState::OUT_OF_MEMORY);
    drop((one, two));
    assert_eq!(table.keys(), 0);
}

#[test]
fn a_dropped_request_that_was_granted_ends_with_its_transaction() {
    let table = Arc::<LockTable>::default();
    let (mut one, mut two, mut three) = (table.holder(), table.holder(), table.holder());
    assert!(now(one.take(row("a"), Mode::Update, Wait::Wait)).unwrap());
    let mut second = Box::pin(two.take(row("a"), Mode::Update, Wait::Wait));
    assert!(poll(second.as_mut()).is_pending());
    drop(one);
    drop(second);
    assert!(!now(three.take(row("a"), Mode::Update, Wait::Skip)).unwrap());
    two.undo_to(0);
    assert!(now(three.take(row("a"), Mode::Update, Wait::Skip)).unwrap());
    drop((two, three));
    assert_eq!(table.keys(), 0);
}
