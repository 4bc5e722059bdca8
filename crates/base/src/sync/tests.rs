//! What the checks refuse ends the process, so each such test runs in one of its own.

use super::*;
use crate::env::SimEnv;
use crate::testing::in_own_process;
use std::path::Path;

crate::lock_order! {
    static LOCKS;
    /// The outer lock.
    Outer { Write: "a test writes", Sync: "nobody does" }
    /// Locks in the middle.
    Middle several { Wait: "a test waits" }
    /// The inner lock.
    Inner {}
}

/// What a process says that `test` ends.
fn end_of(test: impl FnOnce()) -> String {
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| in_own_process(test)));
    match ended {
        Ok(()) => "it went well".to_owned(),
        Err(failure) => failure.downcast_ref::<String>().expect("a message").clone(),
    }
}

#[track_caller]
fn refused(message: &str, expected: &str) {
    let refused = cfg!(debug_assertions) && message.contains(expected);
    let passed = !cfg!(debug_assertions) && message == "it went well";
    assert!(refused || passed, "{message}");
}

fn wait<C: LockClass>(lock: &Mutex<(), C>) {
    Condvar::new().wait_for(&mut lock.lock(), Duration::from_micros(1));
}

#[test]
fn a_lock_without_checks_is_the_plain_lock() {
    assert_eq!(size_of::<Mutex<u64, Outer>>(), size_of::<parking_lot::Mutex<u64>>());
    assert_eq!(size_of::<RwLock<u64, Outer>>(), size_of::<parking_lot::RwLock<u64>>());
    let guard = size_of::<MutexGuard<'_, u64, Outer>>();
    assert_eq!(guard, size_of::<parking_lot::MutexGuard<'_, u64>>());
    assert_eq!(std::mem::needs_drop::<Held<Outer>>(), cfg!(debug_assertions));
}

#[test]
fn locks_are_taken_from_the_outermost_inwards() {
    let (outer, middle) = (Mutex::<_, Outer>::new(1), RwLock::<_, Middle>::new(2));
    let (other, inner) = (Mutex::<_, Middle>::new(3), Mutex::<_, Inner>::new(4));
    {
        let (outer, middle) = (outer.lock(), middle.read());
        let (other, inner) = (other.lock(), inner.lock());
        assert_eq!(*outer + *middle + *other + *inner, 10);
        drop(outer);
    }
    // One that is tried for is not waited for.
    let (_inner, tried) = (inner.lock(), outer.try_lock());
    assert!(tried.is_some());
}

#[test]
fn a_lock_out_of_order_ends_the_process() {
    let end = end_of(|| {
        let (outer, inner) = (Mutex::<_, Outer>::new(()), RwLock::<_, Inner>::new(()));
        let _inner = inner.write();
        drop(outer.lock());
    });
    refused(&end, "the lock Outer is taken while Inner is held");
}

#[test]
fn a_second_lock_of_a_class_ends_the_process() {
    let end = end_of(|| {
        let (first, second) = (Mutex::<_, Outer>::new(()), Mutex::<_, Outer>::new(()));
        let _first = first.lock();
        drop(second.lock());
    });
    refused(&end, "the lock Outer is taken while Outer is held");
}

#[test]
fn the_list_has_the_locks_in_their_order() {
    let names: Vec<_> = LOCKS.iter().map(|lock| lock.name()).collect();
    assert_eq!(names, ["Outer", "Middle", "Inner"]);
}

#[test]
fn io_of_a_listed_kind_may_be_done_and_is_noted() {
    let machine = SimEnv::new(1);
    let mut file = machine.env().fs.create(Path::new("bread")).unwrap();
    let lock = Mutex::<_, Outer>::new(());
    let held = lock.lock();
    file.write_all_at(b"crumb", 0).unwrap();
    drop(held);
    file.sync().unwrap();
    let left = if cfg!(debug_assertions) { vec![Io::Sync] } else { vec![Io::Write, Io::Sync] };
    assert_eq!(Outer::class().not_met(), left);
}

#[test]
fn io_of_another_kind_ends_the_process() {
    let end = end_of(|| {
        let machine = SimEnv::new(1);
        let mut file = machine.env().fs.create(Path::new("bread")).unwrap();
        let lock = Mutex::<_, Middle>::new(());
        let _held = lock.lock();
        file.sync().unwrap();
    });
    refused(&end, "Sync while the lock Middle is held, which lists no reason: SyncFile of bread");
}

#[test]
fn who_waits_does_not_hold_the_lock_that_is_waited_with() {
    let (middle, inner) = (Mutex::<_, Middle>::new(()), Mutex::<_, Inner>::new(()));
    wait(&inner);
    let _held = middle.lock();
    wait(&inner);
}

#[test]
fn a_wait_under_another_lock_ends_the_process() {
    let end = end_of(|| {
        let (outer, inner) = (Mutex::<_, Outer>::new(()), Mutex::<_, Inner>::new(()));
        let _held = outer.lock();
        wait(&inner);
    });
    refused(&end, "Wait while the lock Outer is held, which lists no reason: a wait with Inner");
}

#[test]
fn after_a_wait_the_lock_is_held_again() {
    let end = end_of(|| {
        let inner = Mutex::<_, Inner>::new(());
        let mut held = inner.lock();
        Condvar::new().wait_for(&mut held, Duration::from_micros(1));
        MutexGuard::unlocked(&mut held, || before_io(Io::Read, || "allowed".to_owned()));
        before_io(Io::Read, || "crumbs".to_owned());
    });
    refused(&end, "Read while the lock Inner is held, which lists no reason: crumbs");
}
