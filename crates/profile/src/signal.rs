//! Samples of the running threads, taken by the handler of SIGPROF.
//!
//! Invariants:
//! 1. The handler takes no lock, allocates nothing, and calls nothing of the C library but thin
//!    wrappers of system calls. It leaves `errno` as it was.
//! 2. The stack is copied by the kernel, which returns an error where a plain read would fault.
//! 3. `FREE → BUSY` of a slot is made by one handler, which alone may then write to it; `BUSY → FULL`
//!    publishes the sample (release, acquire); `FULL → FREE` is made by the thread that drains.
//! 4. The ring lives as long as a handler may use it: [`Sampling`] first takes the pointer away, and
//!    then waits until no handler is inside. Both sides use sequentially consistent operations, so a
//!    handler that got the pointer has been counted before it was taken away.
//! 5. The handler stays installed for good. The default action of a signal that is late would end the
//!    process.
//! 6. System calls that the signal interrupts are restarted (`SA_RESTART`), as far as the kernel does so.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Samples that wait for the thread that drains.
const SLOTS: usize = 64;
/// Bytes of a stack that are copied, from its top. Callers beyond are not seen.
const STACK_BYTES: usize = 64 << 10;
/// Pieces in which a stack is copied: the kernel copies a whole piece or nothing of it.
const PIECE_BYTES: usize = 4 << 10;
const PIECES: usize = STACK_BYTES / PIECE_BYTES + 1;

const FREE: u8 = 0;
const BUSY: u8 = 1;
const FULL: u8 = 2;

/// Ring of the profile that is recorded; null without one.
static RING: AtomicPtr<Ring> = AtomicPtr::new(ptr::null_mut());
/// Handlers that may use the ring.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// A thread as the handler saw it.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Number of the thread, as in `/proc/self/task`.
    pub(crate) thread: i32,
    pub(crate) registers: Registers,
    /// Bytes of `stack` that are of this sample.
    len: usize,
    stack: Box<[u8]>,
}

/// Registers with which unwinding begins.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Registers {
    /// Address of the instruction that runs next.
    pub(crate) instruction: u64,
    /// Address of the top of the stack.
    pub(crate) stack: u64,
    /// Base of the frame, or anything else that the function keeps there.
    pub(crate) frame: u64,
    /// Return address of a function that calls nothing.
    #[cfg(target_arch = "aarch64")]
    pub(crate) link: u64,
}

impl Sample {
    fn new() -> Self {
        let stack = vec![0; STACK_BYTES].into_boxed_slice();
        Self { thread: 0, registers: Registers::default(), len: 0, stack }
    }

    /// Returns the word at an address of the stack, if it was copied.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.registers.stack)?).ok()?;
        let bytes = self.stack[..self.len].get(at..at.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_ne_bytes)
    }

    /// Takes registers and stack of the calling thread out of what its signal interrupted.
    fn fill(&mut self, context: &libc::ucontext_t) {
        self.registers = registers(context);
        self.len = copy(self.registers.stack, &mut self.stack);
        // SAFETY: this call has no arguments and no effect.
        self.thread = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn registers(context: &libc::ucontext_t) -> Registers {
    let register = |name: c_int| context.uc_mcontext.gregs[name as usize] as u64;
    Registers {
        instruction: register(libc::REG_RIP),
        stack: register(libc::REG_RSP),
        frame: register(libc::REG_RBP),
    }
}

#[cfg(target_arch = "aarch64")]
pub(crate) fn registers(context: &libc::ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    Registers {
        instruction: machine.pc,
        stack: machine.sp,
        frame: machine.regs[29],
        link: machine.regs[30],
    }
}

/// Copies memory of this process from `start` on, as much as can be read; returns how much.
pub(crate) fn copy(start: u64, to: &mut [u8]) -> usize {
    let mut pieces = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; PIECES];
    let (mut at, mut left, mut count) = (start as usize, to.len(), 0);
    while left > 0 && count < PIECES {
        let len = (PIECE_BYTES - at % PIECE_BYTES).min(left);
        pieces[count] = libc::iovec { iov_base: at as *mut c_void, iov_len: len };
        (at, left, count) = (at.wrapping_add(len), left - len, count + 1);
    }
    let target = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    // SAFETY: the kernel writes at most `to.len()` bytes to `to`, and checks every address it reads.
    let copied = unsafe {
        let pid = libc::getpid();
        libc::process_vm_readv(pid, &raw const target, 1, pieces.as_ptr(), count as _, 0)
    };
    usize::try_from(copied).unwrap_or(0)
}

struct Slot {
    state: AtomicU8,
    sample: UnsafeCell<Sample>,
}

// SAFETY: invariant 3 gives the sample to one thread at a time.
unsafe impl Sync for Slot {}

struct Ring {
    slots: Box<[Slot]>,
    next: AtomicUsize,
    /// Samples that found no free slot. It publishes nothing.
    lost: AtomicU64,
}

impl Ring {
    fn new() -> Self {
        let slot = || Slot { state: AtomicU8::new(FREE), sample: UnsafeCell::new(Sample::new()) };
        let slots = std::iter::repeat_with(slot).take(SLOTS).collect();
        Self { slots, next: AtomicUsize::new(0), lost: AtomicU64::new(0) }
    }

    /// Takes a sample of the calling thread.
    fn take(&self, context: &libc::ucontext_t) {
        let slot = &self.slots[self.next.fetch_add(1, Ordering::Relaxed) % SLOTS];
        let mine = slot.state.compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed);
        if mine.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // SAFETY: the slot was free, and belongs to this handler (invariant 3).
        unsafe { &mut *slot.sample.get() }.fill(context);
        slot.state.store(FULL, Ordering::Release);
    }
}

extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let ring = RING.load(Ordering::SeqCst);
    if !ring.is_null() && !context.is_null() {
        // SAFETY: the ring lives while a handler is inside (invariant 4); the kernel gives a handler
        // with SA_SIGINFO the context of its thread; each thread has an `errno` of its own.
        unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            (*ring).take(&*context.cast::<libc::ucontext_t>());
            *errno = before;
        }
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

/// Samples the threads of this process until it is dropped. There is one at a time.
pub(crate) struct Sampling {
    ring: *mut Ring,
}

impl Sampling {
    /// Takes a sample each time that the process has used `interval` of CPU.
    pub(crate) fn start(interval: Duration) -> io::Result<Self> {
        can_copy()?;
        install()?;
        let ring = Box::into_raw(Box::new(Ring::new()));
        let before = RING.swap(ring, Ordering::SeqCst);
        assert!(before.is_null(), "one profile is recorded at a time");
        let sampling = Self { ring };
        set_timer(interval)?;
        Ok(sampling)
    }

    fn ring(&self) -> &Ring {
        // SAFETY: only the end of `self` frees it.
        unsafe { &*self.ring }
    }

    /// Hands on all samples that were taken, and frees their places.
    pub(crate) fn drain(&self, mut take: impl FnMut(&Sample)) {
        for slot in &self.ring().slots {
            if slot.state.load(Ordering::Acquire) == FULL {
                // SAFETY: a full slot belongs to this thread, which alone drains (invariant 3).
                take(unsafe { &*slot.sample.get() });
                slot.state.store(FREE, Ordering::Release);
            }
        }
    }

    /// Returns the number of samples for which there was no place.
    pub(crate) fn lost(&self) -> u64 {
        self.ring().lost.load(Ordering::Relaxed)
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        // A timer that goes on finds no ring; the next start sets it again.
        let _ = set_timer(Duration::ZERO);
        RING.store(ptr::null_mut(), Ordering::SeqCst);
        while INSIDE.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        // SAFETY: it came from a box, and no handler has it any more (invariant 4).
        drop(unsafe { Box::from_raw(self.ring) });
    }
}

/// Fails where a process may not copy its own memory, as under some filters of system calls.
pub(crate) fn can_copy() -> io::Result<()> {
    let (word, mut copied) = (0x5715_u64.to_ne_bytes(), [0; 8]);
    if copy(word.as_ptr() as u64, &mut copied) == copied.len() && copied == word {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(io::Error::new(error.kind(), format!("process_vm_readv of the process itself: {error}")))
}

fn install() -> io::Result<()> {
    // SAFETY: all fields may be zero; the handler has the type that SA_SIGINFO wants.
    let done = unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGPROF, &raw const action, ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_timer(interval: Duration) -> io::Result<()> {
    let micros = interval.subsec_micros();
    let time = libc::timeval { tv_sec: interval.as_secs() as _, tv_usec: micros.into() };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: the kernel reads the timer, and returns none.
    let done = unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, ptr::null_mut()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_copied_as_far_as_it_can_be_read() {
        let from: Vec<u8> = (0..9_999).map(|at| at as u8).collect();
        let mut to = vec![0; from.len()];
        assert_eq!(copy(from.as_ptr() as u64, &mut to), from.len());
        assert_eq!(from, to);
        for nowhere in [0, 8, u64::MAX - 7, !0xfff] {
            assert_eq!(copy(nowhere, &mut to), 0, "{nowhere:#x}");
        }
    }

    #[test]
    fn words_are_read_only_from_what_was_copied() {
        let mut sample = Sample::new();
        sample.registers.stack = 1_000;
        sample.stack[8..16].copy_from_slice(&7_u64.to_ne_bytes());
        sample.len = 17;
        for (address, want) in [
            (1_000, Some(0)),
            (1_008, Some(7)),
            (1_009, Some(0)),
            (1_010, None),
            (999, None),
            (0, None),
            (u64::MAX, None),
        ] {
            assert_eq!(sample.word(address), want, "{address}");
        }
    }
}
