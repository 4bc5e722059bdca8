//! The system's allocator, of whose allocations some are sampled.
#![allow(unsafe_code)]

use super::countdown::{is_over, is_sampled};
use super::records::{forget, may_be_known, remember};
use std::alloc::{GlobalAlloc, Layout, System};

/// Alignment that brings a sample to an address that tells.
const SAMPLE_ALIGN: usize = 4 << 10;
/// Bytes from which glibc may map memory for an allocation, which then begins 16 bytes after a page: see
/// `base::allocator`. It needs no alignment to tell, which would touch it and cost it the growth in place.
const MAPPED_BYTES: usize = 1 << 20;
/// Alignment that glibc gives to all memory.
const USUAL_ALIGN: usize = 16;

/// Returns whether memory of `layout` is likely at an address that tells by itself.
fn is_mapped(layout: Layout) -> bool {
    layout.size() >= MAPPED_BYTES && layout.align() <= USUAL_ALIGN
}

/// Returns the layout that brings memory of `layout` to an address that tells.
fn telling(layout: Layout) -> Layout {
    layout.align_to(SAMPLE_ALIGN).unwrap_or(layout)
}

/// The system's allocator, with samples for heap profiles once [`start`](super::start) was called.
#[derive(Debug, Clone, Copy, Default)]
pub struct SampledAllocator;

// SAFETY: each call hands its own contract on to the system's allocator, whose memory it returns. glibc
// frees memory whatever its alignment, so that `dealloc` and `realloc` need not know the one of samples.
// Nothing here unwinds: see `remember`.
unsafe impl GlobalAlloc for SampledAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_over(layout.size()) && is_sampled(layout.size()) {
            // SAFETY: the size is that of the caller's layout.
            return unsafe { sample(layout) };
        }
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_over(layout.size()) && is_sampled(layout.size()) {
            // SAFETY: the size is that of the caller's layout.
            return unsafe { sample_zeroed(layout) };
        }
        // SAFETY: the caller's layout.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if may_be_known(memory.addr()) {
            forget(memory.addr());
        }
        // SAFETY: the caller's memory came from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // The new size counts whole, as if it was allocated: the sample of the old one is gone.
        if may_be_known(memory.addr()) {
            forget(memory.addr());
        }
        if is_over(size) && is_sampled(size) {
            // SAFETY: the caller's memory, layout and size.
            return unsafe { resample(memory, layout, size) };
        }
        // SAFETY: the caller's memory came from the system's allocator; layout and size are the caller's.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// Allocates memory that is sampled.
#[cold]
unsafe fn sample(layout: Layout) -> *mut u8 {
    // SAFETY: the size is that of the caller's layout, and the alignment not lower.
    unsafe { sample_by(layout, |layout| System.alloc(layout)) }
}

/// Allocates zeroed memory that is sampled. Memory that is mapped is zero, and is not touched.
#[cold]
unsafe fn sample_zeroed(layout: Layout) -> *mut u8 {
    // SAFETY: the size is that of the caller's layout, and the alignment not lower.
    unsafe { sample_by(layout, |layout| System.alloc_zeroed(layout)) }
}

/// Allocates memory that is sampled by `allocate`, a call of the system's allocator.
unsafe fn sample_by(layout: Layout, allocate: impl Fn(Layout) -> *mut u8) -> *mut u8 {
    if is_mapped(layout) {
        let memory = allocate(layout);
        if memory.is_null() || may_be_known(memory.addr()) {
            return noted(memory, layout.size());
        }
        // It came from memory that glibc had.
        // SAFETY: the memory was allocated just now.
        unsafe { System.dealloc(memory, layout) };
    }
    noted(allocate(telling(layout)), layout.size())
}

/// Remembers memory, if there is any, and returns it.
fn noted(memory: *mut u8, bytes: usize) -> *mut u8 {
    if !memory.is_null() {
        remember(memory.addr(), bytes);
    }
    memory
}

/// Changes the size of memory, which is sampled then.
#[cold]
unsafe fn resample(memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    // SAFETY: the contract of `realloc`: the size fits the alignment of the layout.
    let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
    let (mut memory, mut before) = (memory, layout);
    if is_mapped(wanted) {
        // SAFETY: the caller's memory, layout and size.
        let grown = unsafe { System.realloc(memory, layout, size) };
        if grown.is_null() || may_be_known(grown.addr()) {
            return noted(grown, size);
        }
        (memory, before) = (grown, wanted);
    }
    // SAFETY: the contract of `realloc`: the size is not 0.
    let new = unsafe { System.alloc(telling(wanted)) };
    if new.is_null() {
        // Memory that has grown is good without a sample.
        return if before.size() == size { memory } else { new };
    }
    // SAFETY: both have as many bytes, and are different memory; the old one is not used any more.
    unsafe {
        new.copy_from_nonoverlapping(memory, before.size().min(size));
        System.dealloc(memory, before);
    }
    noted(new, size)
}
