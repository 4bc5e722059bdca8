//! A read queue over io_uring: reads go into the kernel a few at a time, and one entry both begins
//! the last of them and waits for all that are wanted.
//!
//! 1. Each read in the ring has a slot, which owns its memory and keeps its file open. A slot is
//!    emptied only by the completion of its read, or with the ring if the kernel was not told of the
//!    read. So the kernel never writes into memory that is free or that anyone looks at.
//! 2. The ring never holds more reads than there are slots, and its completion queue has room for
//!    all of them: completions cannot overflow, submissions always fit.
//! 3. Dropping the queue waits for the reads in the ring (a read that a disk has begun cannot be
//!    called back). Where the kernel will not even let us wait, or the ring is given up, the memory
//!    of those that it was told of is leaked: it may still write there.
//! 4. What the ring does not do is done by `read_exact_at`: files without a descriptor, single
//!    reads that the kernel wants to be tried again, everything while there is no ring.
//! 5. A ring is given up when the kernel has had no memory for it for too long, and another is set
//!    up after some reads without one (`rest`). So a shortage that passes does not slow the thread
//!    for good, and one that stays costs little, in time and in memory: the number of reads doubles
//!    until a ring has lasted. A ring that fails in any other way is not replaced:
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
    /// Number of reads that the next rest lasts.
    next_rest: u32,
    /// Reads that a ring has yet to do until it has lasted.
    unproven: u32,
    /// As many as the queue is deep; a completion names its read by its place here.
    slots: Vec<Option<Slot>>,
    /// The places of empty slots.
    free: Vec<usize>,
    /// The places of the reads in the ring that the kernel has not been told of, in their order there.
    untold: VecDeque<usize>,
    backlog: VecDeque<Request>,
    done: Vec<Completed>,
    pool: Arc<BufferPool>,
    /// Times in a row that the kernel had no memory for what it was told, when a read was waited for
    /// or none was under way.
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
/// Reads without a ring before another is set up: after a ring that lasted, and at most. The number
/// doubles with each ring that did fewer reads than the first of these, so that tries that fail take
/// less and less of the time.
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
            unproven: 0,
            slots: std::iter::repeat_with(|| None).take(depth).collect(),
            free: (0..depth).rev().collect(),
            untold: VecDeque::with_capacity(depth),
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
            if taken && self.untold.len() >= READS_PER_ENTRY {
                taken = self.enter(0).is_ok();
            }
        }
    }

    /// Returns whether the next read goes through the ring, for which another may be set up.
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

    /// Goes on without a ring for a while, each time for longer until one has lasted; for good if
    /// `error` is no shortage.
    fn rest(&mut self, error: &io::Error) {
        (self.refusals, self.unproven) = (0, REST_MIN);
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
        self.untold.push_back(place);
    }

    fn read_now(&mut self, request: &Request) {
        let result = read_now(&self.pool, &*request.file, request.offset, request.len);
        self.done.push(Completed { tag: request.tag, result });
    }

    /// Takes in all completions that are there.
    fn reap(&mut self) {
        while let Ring::InUse(ring) = &mut self.ring {
            let Some(completion) = ring.completion().next() else { return };
            self.refusals = 0;
            self.unproven = self.unproven.saturating_sub(1);
            if self.unproven == 0 {
                self.next_rest = REST_MIN;
            }
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

    /// Returns whether the kernel has not yet been told of all reads in the ring, or asks to be entered.
    fn must_enter(&mut self) -> bool {
        let Ring::InUse(ring) = &mut self.ring else { return false };
        let submission = ring.submission();
        !submission.is_empty() || submission.taskrun() || submission.cq_overflow()
    }

    /// Tells the kernel of new reads and waits until `want` more are done. May return early. Fails if
    /// the kernel has no memory for what it is told; after any other failure the ring is given up.
    fn enter(&mut self, want: usize) -> io::Result<()> {
        let Ring::InUse(ring) = &mut self.ring else { return Ok(()) };
        let entered = (self.kernel.enter)(ring, want);
        // The kernel takes them in their order, and may refuse those behind.
        let told = self.untold.len() - ring.submission().len();
        self.untold.drain(..told);
        let Err(error) = entered else {
            self.refusals = 0;
            return Ok(());
        };
        match Errno::from_io_error(&error) {
            Some(Errno::INTR) => Ok(()),
            // Short of memory for requests; what is in flight gives some back.
            Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => Err(error),
            _ => {
                self.fail(&error);
                Ok(())
            }
        }
    }

    /// Enters the kernel for one who waits for `want` reads, or with 0 looks for what is done. If
    /// nothing that is under way can end the shortage, it is counted: each time it is waited for, and
    /// where the kernel was told of none of the reads, so that who only looks gets them, too.
    fn enter_to_reap(&mut self, want: usize) {
        let Err(error) = self.enter(want) else { return };
        if want > 0 {
            self.refused(&error);
            self.let_time_pass();
        } else if self.untold.len() == self.in_ring() {
            self.refused(&error);
        }
    }

    /// Counts a refusal; after too many the ring is given up, and what was in it is read without it.
    fn refused(&mut self, error: &io::Error) {
        self.refusals += 1;
        if self.refusals <= REFUSALS_MAX {
            return;
        }
        if self.dropped {
            return self.fail(error);
        }
        tracing::warn!(%error, reads = self.next_rest, "reading without io_uring for a while");
        self.rest(error);
        self.empty_slots().iter().for_each(|request| self.read_now(request));
    }

    /// Lets some time pass before the next try, if the last one was refused.
    fn let_time_pass(&self) {
        if self.refusals > REFUSALS_YIELDED {
            let log2 = (self.refusals - REFUSALS_YIELDED - 1).min(SLEEP_MAX_LOG2);
            std::thread::sleep(Duration::from_millis(1 << log2));
        } else if self.refusals > 0 {
            std::thread::yield_now();
        }
    }

    /// Gives the ring up for good: its reads end with `error`.
    fn fail(&mut self, error: &io::Error) {
        tracing::warn!(%error, "io_uring failed; reading without it");
        (self.ring, self.refusals) = (Ring::Failed, 0);
        for request in self.empty_slots() {
            let result = Err(io::Error::new(error.kind(), format!("io_uring failed: {error}")));
            self.done.push(Completed { tag: request.tag, result });
        }
    }

    /// Takes the reads out of a ring that is not used any more. The memory of those that the kernel
    /// was told of is never used again, because it may still write there.
    fn empty_slots(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        for place in std::mem::take(&mut self.untold) {
            let untold = self.slots[place].take().expect("the slot of a read in the ring");
            self.pool.put(untold.memory);
            self.free.push(place);
            requests.push(untold.request);
        }
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
            // If it refuses, whoever waits for the reads tries again.
            let _ = self.enter(0);
        }
    }

    fn wait(&mut self, at_least: usize, out: &mut Vec<Completed>) {
        let at_least = at_least.min(self.in_flight());
        self.reap();
        loop {
            self.fill_ring();
            let missing = at_least.saturating_sub(self.done.len()).min(self.in_ring());
            if missing > 0 || self.must_enter() {
                self.enter_to_reap(missing);
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
            self.enter_to_reap(self.in_ring());
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

/// Returns whether a ring could not be had, or was given up, for want of something that others may
/// give back.
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
mod tests;
