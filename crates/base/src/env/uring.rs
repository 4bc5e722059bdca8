//! A read queue over io_uring: reads go into the kernel a few at a time, and one entry both begins
//! the last of them and waits for all that are wanted.
//!
//! 1. Each read in the ring has a slot, which owns its memory and keeps its file open. A slot is
//!    emptied only by the completion of its read, so the kernel never writes into memory that is
//!    free or that anyone looks at.
//! 2. The ring never holds more reads than there are slots, and its completion queue has room for
//!    all of them: completions cannot overflow, submissions always fit.
//! 3. Dropping the queue waits for the reads in the ring (a read that a disk has begun cannot be
//!    called back). Where the kernel will not even let us wait, their memory is leaked.
//! 4. What the ring does not do is done by `read_exact_at`: files without a descriptor, single
//!    reads that the kernel wants to be tried again, everything while there is no ring.
//! 5. A ring is given up when the kernel has had no memory for it for too long, and another is set
//!    up after some reads without one (`rest`). So a shortage that passes does not slow the thread
//!    for good, and one that stays costs little. A ring that fails in any other way is not replaced:
//!    that is no shortage but a kernel or a sandbox that refuses, and each try would end reads with
//!    an error.
//!
//! No polling threads, and nothing is registered with the ring: docs/decisions/0007 has figures.

#![allow(unsafe_code, reason = "the kernel writes into memory it is given by address")]

use super::aligned::{AlignedBuffer, AlignedRead};
use super::fs::{Descriptor, ReadFile};
use super::read_buffer::{BufferPool, ReadBuffer};
use super::read_queue::{Completed, DEPTH_MAX, QueueKind, ReadQueue, pool_for, read_now};
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

/// Reads that go into the kernel together. With more the disk would idle while they are prepared,
/// with fewer each would pay more for the entry.
const READS_PER_ENTRY: usize = 8;

/// A read that waits for a slot.
struct Request {
    tag: u64,
    file: Arc<dyn ReadFile>,
    offset: u64,
    len: usize,
}

/// A read in the ring.
struct Slot {
    request: Request,
    memory: AlignedBuffer,
    read: AlignedRead,
}

/// The queue's way into the kernel.
#[expect(clippy::large_enum_variant, reason = "a queue has one of them")]
enum Ring {
    InUse(IoUring),
    /// There is none; another is set up after so many reads.
    Resting(u32),
    /// There is none for good.
    Failed,
}

/// The calls into the kernel, which tests replace.
#[derive(Clone, Copy)]
struct Kernel {
    set_up: fn(u32) -> io::Result<IoUring>,
    /// Tells of new reads, and waits until so many are done.
    enter: fn(&IoUring, usize) -> io::Result<usize>,
}

const KERNEL: Kernel = Kernel { set_up, enter: IoUring::submit_and_wait };

/// A [`ReadQueue`] over io_uring.
pub(super) struct UringQueue {
    ring: Ring,
    kernel: Kernel,
    /// How many reads the next rest lasts.
    next_rest: u32,
    /// As many as the queue is deep; a completion names its read by its place here.
    slots: Vec<Option<Slot>>,
    /// The places of empty slots.
    free: Vec<usize>,
    backlog: VecDeque<Request>,
    done: Vec<Completed>,
    pool: Arc<BufferPool>,
    /// Times in a row that the kernel had no memory for what it was told when a read was waited for.
    refusals: u32,
    /// The queue is being dropped: nobody wants its reads.
    dropped: bool,
}

/// Refusals for want of memory after which the other thread goes first; after more of them the
/// thread sleeps between two tries.
const REFUSALS_YIELDED: u32 = 16;
/// Refusals in a row, about a quarter of a second of sleep, after which the ring is given up.
const REFUSALS_MAX: u32 = REFUSALS_YIELDED + 18;
/// Longest sleep between two tries, in milliseconds, as a power of two.
const SLEEP_MAX_LOG2: u32 = 4;
/// Reads without a ring before another is set up: after a ring was in use, and at most. The number
/// doubles with each ring that was of no use, so that tries that fail take less and less of the time.
const REST_MIN: u32 = 1 << 10;
const REST_MAX: u32 = 1 << 20;

impl UringQueue {
    /// A queue of `depth`, brought into 1..=4096. Fails where the kernel has no io_uring with
    /// plain reads (before 5.6), or does not let this process use it.
    pub(super) fn new(depth: usize) -> io::Result<Self> {
        Self::over(KERNEL, depth)
    }

    /// The same over `kernel`.
    fn over(kernel: Kernel, depth: usize) -> io::Result<Self> {
        let depth = depth.clamp(1, DEPTH_MAX);
        let (ring, next_rest) = match (kernel.set_up)(depth as u32) {
            Ok(ring) => (Ring::InUse(ring), REST_MIN),
            Err(error) if may_pass(&error) => (Ring::Resting(REST_MIN), 2 * REST_MIN),
            Err(error) => return Err(error),
        };
        Ok(Self {
            ring,
            kernel,
            next_rest,
            slots: std::iter::repeat_with(|| None).take(depth).collect(),
            free: (0..depth).rev().collect(),
            backlog: VecDeque::new(),
            done: Vec::new(),
            pool: pool_for(depth),
            refusals: 0,
            dropped: false,
        })
    }

    /// Reads that the kernel has or is about to get.
    fn in_ring(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Puts waiting reads into the ring as far as there are slots, and those of a full batch
    /// into the kernel. If that refuses, whoever waits for the reads tries again.
    fn fill_ring(&mut self) {
        let mut taken = true;
        while !self.free.is_empty() {
            let Some(request) = self.backlog.pop_front() else { return };
            self.start(request);
            if taken && self.untold() >= READS_PER_ENTRY {
                taken = self.enter(0);
            }
        }
    }

    /// Reads in the ring that the kernel has not been told of.
    fn untold(&mut self) -> usize {
        let Ring::InUse(ring) = &mut self.ring else { return 0 };
        ring.submission().len()
    }

    /// Whether the next read goes through the ring, for which another may be set up.
    fn uses_ring(&mut self) -> bool {
        match &mut self.ring {
            Ring::InUse(_) => true,
            Ring::Failed => false,
            Ring::Resting(0) => match (self.kernel.set_up)(self.slots.len() as u32) {
                Ok(ring) => {
                    self.ring = Ring::InUse(ring);
                    true
                }
                Err(error) => {
                    self.rest(&error);
                    false
                }
            },
            Ring::Resting(reads) => {
                *reads -= 1;
                false
            }
        }
    }

    /// Goes on without a ring for a while, each time for longer until a read through one is done;
    /// for good if `error` is no shortage.
    fn rest(&mut self, error: &io::Error) {
        self.refusals = 0;
        if !may_pass(error) {
            self.ring = Ring::Failed;
            return;
        }
        self.ring = Ring::Resting(self.next_rest);
        self.next_rest = self.next_rest.saturating_mul(2).min(REST_MAX);
    }

    fn start(&mut self, mut request: Request) {
        match request.file.opened() {
            Ok(None) => {}
            Ok(Some(open)) => request.file = open,
            Err(error) => {
                return self.done.push(Completed { tag: request.tag, result: Err(error) });
            }
        }
        let align = request.file.descriptor().map(|Descriptor { align, .. }| align);
        let Some(align) = align.filter(|_| request.len > 0 && self.uses_ring()) else {
            return self.read_now(&request);
        };
        match AlignedRead::new(request.offset, request.len, align) {
            Ok(read) => {
                let memory = self.pool.take(read.len());
                self.push(Slot { request, memory, read });
            }
            Err(error) => self.done.push(Completed { tag: request.tag, result: Err(error) }),
        }
    }

    /// Puts the next transfer of a read into the ring.
    fn push(&mut self, slot: Slot) {
        let (Some(descriptor), Ring::InUse(ring)) =
            (slot.request.file.descriptor(), &mut self.ring)
        else {
            return self.read_now(&slot.request);
        };
        let fd = types::Fd(descriptor.fd.as_raw_fd());
        let place = self.free.pop().expect("a read begins only where a slot is free");
        let slot = self.slots[place].insert(slot);
        let (from, to) = slot.read.next();
        let target = &mut slot.memory.bytes_mut()[to];
        let entry = opcode::Read::new(fd, target.as_mut_ptr(), target.len() as u32)
            .offset(from)
            .build()
            .user_data(place as u64);
        // SAFETY: the entry points at `target.len()` bytes that the slot owns. The slot stays as
        // it is until the read completes (invariant 1), and keeps the descriptor open.
        let pushed = unsafe { ring.submission().push(&entry) };
        pushed.expect("the submission queue has room for all slots");
    }

    fn read_now(&mut self, request: &Request) {
        let result = read_now(&self.pool, &*request.file, request.offset, request.len);
        self.done.push(Completed { tag: request.tag, result });
    }

    /// Takes in all completions that are there.
    fn reap(&mut self) {
        while let Ring::InUse(ring) = &mut self.ring {
            let Some(completion) = ring.completion().next() else { return };
            (self.refusals, self.next_rest) = (0, REST_MIN);
            let place = completion.user_data() as usize;
            let slot = self.slots[place].take().expect("only reads in the ring complete");
            self.free.push(place);
            self.finish(slot, completion.result());
        }
    }

    /// Handles the end of a transfer: a count of bytes, or an error negated.
    fn finish(&mut self, mut slot: Slot, outcome: i32) {
        let tag = slot.request.tag;
        let advanced = match usize::try_from(outcome) {
            Ok(count) => slot.read.advance(count),
            Err(_) if wants_another_try(-outcome) => return self.read_now(&slot.request),
            Err(_) => Err(io::Error::from_raw_os_error(-outcome)),
        };
        let result = match advanced {
            Ok(false) => return self.push(slot),
            Ok(true) => Ok(ReadBuffer::new(slot.memory, slot.read.wanted(), &self.pool)),
            Err(error) => Err(error),
        };
        self.done.push(Completed { tag, result });
    }

    /// Whether the kernel has not yet been told of all reads in the ring, or asks to be entered.
    fn must_enter(&mut self) -> bool {
        let Ring::InUse(ring) = &mut self.ring else { return false };
        let submission = ring.submission();
        !submission.is_empty() || submission.taskrun() || submission.cq_overflow()
    }

    /// Tells the kernel of new reads and waits until `want` more are done. May return early. Whether
    /// the kernel has taken what it was told. If it has no memory for it, that is counted only where
    /// somebody waits: only then there is nothing else to do.
    fn enter(&mut self, want: usize) -> bool {
        let Ring::InUse(ring) = &self.ring else { return false };
        let Err(error) = (self.kernel.enter)(ring, want) else {
            self.refusals = 0;
            return true;
        };
        match Errno::from_io_error(&error) {
            Some(Errno::INTR) => return true,
            // Short of memory for requests; what is in flight gives some back.
            Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) if want == 0 => {}
            Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => self.refused(&error),
            _ => self.fail(&error),
        }
        false
    }

    /// Lets some time pass before the next try; after too many the ring is given up, and what was
    /// in it is read without it.
    fn refused(&mut self, error: &io::Error) {
        self.refusals += 1;
        if self.refusals <= REFUSALS_YIELDED {
            std::thread::yield_now();
        } else if self.refusals <= REFUSALS_MAX {
            let log2 = (self.refusals - REFUSALS_YIELDED - 1).min(SLEEP_MAX_LOG2);
            std::thread::sleep(Duration::from_millis(1 << log2));
        } else if self.dropped {
            self.fail(error);
        } else {
            tracing::warn!(%error, reads = self.next_rest, "reads go on without io_uring for a while");
            self.rest(error);
            self.empty_slots().iter().for_each(|request| self.read_now(request));
        }
    }

    /// Gives the ring up for good: its reads end with `error`.
    fn fail(&mut self, error: &io::Error) {
        tracing::warn!(%error, "io_uring failed; reads go on without it");
        self.ring = Ring::Failed;
        for request in self.empty_slots() {
            let result = Err(io::Error::new(error.kind(), format!("io_uring failed: {error}")));
            self.done.push(Completed { tag: request.tag, result });
        }
    }

    /// Takes the reads out of a ring that is not used any more. Their memory is never used again,
    /// because the kernel may still write there.
    fn empty_slots(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        for (place, slot) in self.slots.iter_mut().enumerate() {
            let Some(Slot { request, memory, .. }) = slot.take() else { continue };
            std::mem::forget(memory);
            self.free.push(place);
            requests.push(request);
        }
        requests
    }
}

impl ReadQueue for UringQueue {
    fn submit(&mut self, tag: u64, file: &Arc<dyn ReadFile>, offset: u64, len: usize) {
        self.backlog.push_back(Request { tag, file: Arc::clone(file), offset, len });
        self.fill_ring();
    }

    fn flush(&mut self) {
        if self.must_enter() {
            self.enter(0);
        }
    }

    fn wait(&mut self, at_least: usize, out: &mut Vec<Completed>) {
        let at_least = at_least.min(self.in_flight());
        self.reap();
        loop {
            self.fill_ring();
            let missing = at_least.saturating_sub(self.done.len()).min(self.in_ring());
            if missing > 0 || self.must_enter() {
                self.enter(missing);
                self.reap();
            }
            if self.done.len() >= at_least {
                break;
            }
        }
        out.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.backlog.len() + self.in_ring() + self.done.len()
    }

    fn depth(&self) -> usize {
        self.slots.len()
    }

    fn kind(&self) -> QueueKind {
        match self.ring {
            Ring::InUse(_) => QueueKind::Uring,
            Ring::Resting(_) | Ring::Failed => QueueKind::Pread,
        }
    }
}

impl Drop for UringQueue {
    fn drop(&mut self) {
        self.backlog.clear();
        self.dropped = true;
        while self.in_ring() > 0 {
            self.enter(self.in_ring());
            self.reap();
        }
    }
}

/// Errors of a read that say nothing about the file: the thread that submitted it was
/// interrupted or ended, or the kernel could not do it in the way of the ring.
fn wants_another_try(errno: i32) -> bool {
    let errno = Errno::from_raw_os_error(errno);
    matches!(errno, Errno::AGAIN | Errno::INTR | Errno::CANCELED | Errno::OPNOTSUPP)
}

/// Whether a ring could not be had, or was given up, for want of something that others may give back.
fn may_pass(error: &io::Error) -> bool {
    let passing = [Errno::AGAIN, Errno::BUSY, Errno::NOMEM, Errno::MFILE, Errno::NFILE];
    Errno::from_io_error(error).is_some_and(|errno| passing.contains(&errno))
}

/// A ring for `depth` reads that is known to work.
fn set_up(depth: u32) -> io::Result<IoUring> {
    // Completions then wait for the next entry into the kernel instead of interrupting the
    // thread; kernels before 5.19 do not know it.
    let cooperative = IoUring::builder().setup_coop_taskrun().setup_taskrun_flag().build(depth);
    let mut ring = cooperative.or_else(|_| IoUring::new(depth))?;
    // This feature came with plain reads, in 5.6; completions that are never dropped before it.
    if !ring.params().is_feature_rw_cur_pos() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // A filter of system calls may allow setting up and refuse what follows.
    let nothing = opcode::Nop::new().build();
    // SAFETY: the entry points at nothing.
    let pushed = unsafe { ring.submission().push(&nothing) };
    pushed.expect("a new ring is empty");
    while ring.completion().is_empty() {
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    ring.completion().next();
    Ok(ring)
}

#[cfg(test)]
mod tests {
    use super::super::fs::FileSystem;
    use super::super::real::RealFileSystem;
    use super::*;
    use std::cell::Cell;
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
        /// How many calls the kernel refuses from now on.
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
            // It works, so that the next rest is short again.
            REFUSED.set(REFUSALS_MAX + 1);
            read(&mut queue, &file);
            rest(&mut queue, &file, REST_MIN);
            read(&mut queue, &file);
            assert_eq!(queue.kind(), QueueKind::Uring);
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
}
