//! The stack of the thread that allocates.
//!
//! 1. The kernel copies the stack, piece by piece as far as unwinding asks for it. It returns an error
//!    where a plain read would fault, so unwind tables that are wrong do no harm.
#![allow(unsafe_code)]

use crate::signal::{copy, registers};
use crate::unwind::Unwinder;
use std::mem::MaybeUninit;

/// Bytes of a stack that are looked at, from its top. Callers beyond are not seen.
const STACK_BYTES: usize = 64 << 10;
/// Bytes that are copied at a time.
const PIECE_BYTES: usize = 4 << 10;

/// A copy of the top of a stack, as far as it was needed.
#[derive(Debug)]
pub(super) struct StackCopy {
    start: u64,
    len: usize,
    bytes: Box<[u8]>,
}

impl StackCopy {
    pub(super) fn new() -> Self {
        Self { start: 0, len: 0, bytes: vec![0; STACK_BYTES].into_boxed_slice() }
    }

    /// Begins a copy of the stack whose top is at `start`.
    fn begin(&mut self, start: u64) {
        (self.start, self.len) = (start, 0);
    }

    /// Returns the word at an address of the stack, if it can be read.
    fn word(&mut self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let end = at.checked_add(8).filter(|end| *end <= self.bytes.len())?;
        while self.len < end {
            let from = self.start.checked_add(self.len as u64)?;
            let piece = &mut self.bytes[self.len..];
            let most = piece.len().min(PIECE_BYTES);
            let copied = copy(from, &mut piece[..most]);
            if copied == 0 {
                return None;
            }
            self.len += copied;
        }
        self.bytes[at..end].try_into().ok().map(u64::from_ne_bytes)
    }
}

/// Returns an address within each function that this thread is in, this one first.
#[inline(never)]
pub(super) fn frames(unwinder: &mut Unwinder, stack: &mut StackCopy) -> Box<[u64]> {
    let mut context = MaybeUninit::<libc::ucontext_t>::zeroed();
    // SAFETY: the call writes the registers of this thread into the context, of which all bits may be
    // zero, and nothing else.
    let registers = unsafe {
        if libc::getcontext(context.as_mut_ptr()) != 0 {
            return Box::default();
        }
        registers(&context.assume_init())
    };
    stack.begin(registers.stack);
    unwinder.frames(&registers, |address| stack.word(address)).into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_copied_as_they_are_needed() {
        let from: Vec<u64> = (0..10_000).collect();
        let start = from.as_ptr() as u64;
        let mut stack = StackCopy::new();
        stack.begin(start);
        for (at, want) in [
            (0, Some(0)),
            (8, Some(1)),
            (STACK_BYTES as u64 - 8, Some(8_191)),
            (STACK_BYTES as u64, None),
        ] {
            assert_eq!(stack.word(start + at), want, "{at}");
        }
        assert_eq!([stack.word(start - 1), stack.word(0), stack.word(u64::MAX)], [None; 3]);
        stack.begin(8);
        assert_eq!(stack.word(8), None);
    }
}
