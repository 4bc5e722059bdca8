//! Tests of the queue with calls into the kernel that are refused.

use super::super::fs::FileSystem;
use super::super::real::RealFileSystem;
use super::*;
use std::cell::Cell;
use std::collections::HashSet;
use std::path::Path;

const LEN: usize = 10_000;

fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

fn file(dir: &Path) -> Arc<dyn ReadFile> {
    let path = dir.join("file");
    std::fs::write(&path, (0..LEN).map(byte).collect::<Vec<u8>>()).unwrap();
    RealFileSystem.open_read(&path).unwrap()
}

/// Calls `check` with a queue and a file, unless this machine has no io_uring.
fn with_queue(check: impl FnOnce(UringQueue, Arc<dyn ReadFile>)) {
    let dir = tempfile::tempdir().unwrap();
    match UringQueue::new(4) {
        Ok(queue) => check(queue, file(dir.path())),
        Err(error) => eprintln!("not tested, io_uring is refused: {error}"),
    }
}

fn slot(queue: &UringQueue, file: &Arc<dyn ReadFile>, len: usize) -> Slot {
    let request = Request { tag: 7, file: Arc::clone(file), offset: 1, len };
    let read = AlignedRead::new(1, len, 1).unwrap();
    let mut memory = queue.pool.take(len);
    memory.bytes_mut().fill(255);
    Slot { request, memory, read }
}

fn one(queue: &mut UringQueue) -> io::Result<ReadBuffer> {
    let mut done = Vec::new();
    queue.wait(1, &mut done);
    assert_eq!((done.len(), done[0].tag, queue.in_flight()), (1, 7, 0));
    done.remove(0).result
}

#[test]
fn a_short_read_goes_on_where_it_ended() {
    with_queue(|mut queue, file| {
        let slot = slot(&queue, &file, 1000);
        queue.finish(slot, 10);
        let bytes = one(&mut queue).unwrap();
        assert_eq!(bytes[..10], [255; 10]);
        assert!(bytes[10..].iter().enumerate().all(|(at, b)| *b == byte(at + 11)));
        assert_eq!(bytes.len(), 1000);
    });
}

#[test]
fn a_read_that_the_ring_could_not_do_is_done_without_it() {
    for errno in [Errno::AGAIN, Errno::INTR, Errno::CANCELED] {
        with_queue(|mut queue, file| {
            let slot = slot(&queue, &file, 3);
            queue.finish(slot, -errno.raw_os_error());
            assert_eq!(*one(&mut queue).unwrap(), [1, 2, 3]);
        });
    }
}

#[test]
fn an_error_of_the_device_is_that_of_the_read() {
    with_queue(|mut queue, file| {
        let slot = slot(&queue, &file, 3);
        queue.finish(slot, -Errno::IO.raw_os_error());
        let error = one(&mut queue).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
    });
}

#[test]
fn a_ring_that_fails_ends_its_reads_and_the_queue_goes_on() {
    with_queue(|mut queue, file| {
        for tag in 0..7 {
            queue.submit(tag, &file, 1, 3);
        }
        queue.flush();
        queue.fail(&io::Error::from_raw_os_error(Errno::BADF.raw_os_error()));
        queue.submit(7, &file, 1, 3);
        let mut done = Vec::new();
        queue.wait(8, &mut done);
        assert_eq!(queue.in_flight(), 0);
        done.sort_by_key(|completed| completed.tag);
        assert_eq!(done.len(), 8);
        for (tag, completed) in done.into_iter().enumerate() {
            // Four were in the ring.
            match completed.result {
                Ok(bytes) => assert!(tag >= 4 && *bytes == [1, 2, 3]),
                Err(error) => assert!(tag < 4, "{tag}: {error}"),
            }
        }
    });
}

#[test]
fn a_kernel_that_stays_without_memory_is_asked_a_few_times_only() {
    let no_memory = io::Error::from_raw_os_error(Errno::NOMEM.raw_os_error());
    with_queue(|mut queue, file| {
        for tag in 0..4 {
            queue.submit(tag, &file, 1, 3);
        }
        for _ in 0..REFUSALS_MAX {
            queue.refused(&no_memory);
            assert_eq!(queue.kind(), QueueKind::Uring, "it may pass");
        }
        queue.refused(&no_memory);
        assert_eq!(queue.kind(), QueueKind::Pread);
        queue.submit(4, &file, 1, 3);
        let mut done = Vec::new();
        queue.wait(5, &mut done);
        assert_eq!((done.len(), queue.in_flight()), (5, 0));
        assert!(done.iter().all(|completed| **completed.result.as_ref().unwrap() == [1, 2, 3]));
    });
    with_queue(|mut queue, file| {
        (0..REFUSALS_MAX).for_each(|_| queue.refused(&no_memory));
        queue.submit(7, &file, 1, 3);
        one(&mut queue).unwrap();
        queue.refused(&no_memory);
        let counts = "refusals count as long as nothing is done between them";
        assert_eq!(queue.kind(), QueueKind::Uring, "{counts}");
    });
}

thread_local! {
    /// Number of calls the kernel refuses from now on.
    static REFUSED: Cell<u32> = const { Cell::new(0) };
}

/// A kernel that refuses some calls with `NOMEM`.
const SHORT: Kernel = Kernel {
    set_up: |depth| refuse().and_then(|()| set_up(depth)),
    enter: |ring, want| refuse().and_then(|()| ring.submit_and_wait(want)),
};

fn refuse() -> io::Result<()> {
    let left = REFUSED.get();
    REFUSED.set(left.saturating_sub(1));
    if left == 0 { Ok(()) } else { Err(Errno::NOMEM.into()) }
}

/// Reads once, without another read in flight.
fn read(queue: &mut UringQueue, file: &Arc<dyn ReadFile>) {
    queue.submit(7, file, 1, 3);
    assert_eq!(*one(queue).unwrap(), [1, 2, 3]);
}

/// Reads so often that a rest of this length ends; the next read is the first after it.
fn rest(queue: &mut UringQueue, file: &Arc<dyn ReadFile>, reads: u32) {
    for _ in 0..reads {
        read(queue, file);
        assert_eq!(queue.kind(), QueueKind::Pread);
    }
}

#[test]
fn many_reads_submitted_amid_a_shortage_are_done_by_the_ring_once_it_has_passed() {
    with_queue(|_, file| {
        let mut queue = UringQueue::over(SHORT, 64).unwrap();
        REFUSED.set(u32::MAX);
        for tag in 0..64 {
            queue.submit(tag, &file, 1, 3);
            queue.flush();
        }
        let mut done = Vec::new();
        queue.wait(0, &mut done);
        assert!(done.is_empty());
        REFUSED.set(REFUSALS_YIELDED);
        queue.wait(64, &mut done);
        assert_eq!((done.len(), queue.kind()), (64, QueueKind::Uring));
        assert!(done.iter().all(|completed| **completed.result.as_ref().unwrap() == [1, 2, 3]));
    });
}

#[test]
fn a_ring_that_was_given_up_is_set_up_again_after_some_reads_and_ever_more_of_them() {
    with_queue(|_, file| {
        let mut queue = UringQueue::over(SHORT, 4).unwrap();
        REFUSED.set(REFUSALS_MAX + 1);
        read(&mut queue, &file);
        rest(&mut queue, &file, REST_MIN);
        // The next ring is refused, and so is the one after.
        REFUSED.set(2);
        rest(&mut queue, &file, 1 + 2 * REST_MIN);
        rest(&mut queue, &file, 1 + 4 * REST_MIN);
        read(&mut queue, &file);
        assert_eq!(queue.kind(), QueueKind::Uring);
        // A read through it does not show that it lasts, as many as the shortest rest do.
        REFUSED.set(REFUSALS_MAX + 1);
        read(&mut queue, &file);
        rest(&mut queue, &file, 8 * REST_MIN);
        (0..REST_MIN).for_each(|_| read(&mut queue, &file));
        assert_eq!(queue.kind(), QueueKind::Uring);
        REFUSED.set(REFUSALS_MAX + 1);
        read(&mut queue, &file);
        rest(&mut queue, &file, REST_MIN);
        read(&mut queue, &file);
        assert_eq!(queue.kind(), QueueKind::Uring);
    });
}

fn address(bytes: &[u8]) -> usize {
    bytes.as_ptr().addr()
}

/// Memory that is forgotten is never given again: were any of it lost, later reads would have other.
#[test]
fn a_ring_that_is_given_up_again_and_again_loses_no_memory_the_kernel_was_not_told_of() {
    with_queue(|_, file| {
        let mut queue = UringQueue::over(SHORT, 4).unwrap();
        let mut addresses = HashSet::new();
        for cycle in 0..5 {
            REFUSED.set(REFUSALS_MAX + 1);
            (0..4).for_each(|tag| queue.submit(tag, &file, 1, 3));
            let mut done = Vec::new();
            queue.wait(4, &mut done);
            assert_eq!((done.len(), queue.kind()), (4, QueueKind::Pread));
            addresses.extend(done.iter().map(|read| address(read.result.as_ref().unwrap())));
            drop(done);
            assert_eq!(addresses.len(), 4, "cycle {cycle}");
            while queue.kind() == QueueKind::Pread {
                read(&mut queue, &file);
            }
        }
    });
}

#[test]
fn memory_that_the_kernel_was_told_of_is_not_used_again() {
    with_queue(|_, file| {
        let mut queue = UringQueue::over(SHORT, 4).unwrap();
        REFUSED.set(0);
        (0..2).for_each(|tag| queue.submit(tag, &file, 1, 3));
        queue.flush();
        let of = |queue: &UringQueue| -> HashSet<usize> {
            let slots = queue.slots.iter().flatten();
            slots.map(|slot| address(slot.memory.bytes())).collect()
        };
        let told = of(&queue);
        (2..4).for_each(|tag| queue.submit(tag, &file, 1, 3));
        let untold = &of(&queue) - &told;
        let no_memory = io::Error::from(Errno::NOMEM);
        (0..=REFUSALS_MAX).for_each(|_| queue.refused(&no_memory));
        let mut done = Vec::new();
        queue.wait(4, &mut done);
        let used: HashSet<usize> =
            done.iter().map(|read| address(read.result.as_ref().unwrap())).collect();
        assert_eq!((done.len(), told.len(), untold.len()), (4, 2, 2));
        assert!(used.is_disjoint(&told) && used.is_superset(&untold), "{told:?} {used:?}");
    });
}

#[test]
fn who_only_looks_for_reads_gets_them_while_the_shortage_stays() {
    with_queue(|_, file| {
        let mut queue = UringQueue::over(SHORT, 4).unwrap();
        REFUSED.set(u32::MAX);
        queue.submit(7, &file, 1, 3);
        let mut done = Vec::new();
        for _ in 0..=REFUSALS_MAX {
            assert!(done.is_empty());
            queue.flush();
            queue.wait(0, &mut done);
        }
        assert_eq!(done.len(), 1, "it is read without the ring");
        assert_eq!(**done[0].result.as_ref().unwrap(), [1, 2, 3]);
    });
}

#[test]
fn a_queue_that_got_no_ring_for_want_of_memory_gets_one_later() {
    with_queue(|_, file| {
        REFUSED.set(1);
        let mut queue = UringQueue::over(SHORT, 4).unwrap();
        rest(&mut queue, &file, REST_MIN);
        read(&mut queue, &file);
        assert_eq!(queue.kind(), QueueKind::Uring);
    });
}
