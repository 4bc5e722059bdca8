//! What a program that keeps to a budget of memory asks of the system's allocator at its start. Here
//! since no room above may have unsafe code for it.
#![allow(unsafe_code)]

/// Allocations of this many bytes and more go back to the system as soon as they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
const GIVEN_BACK_BYTES: i32 = 1 << 20;

/// Has large allocations go back to the system when they are freed, for as long as the process lives.
/// glibc would raise what it takes for large with each one that is freed, up to 32 MiB, and keep twice
/// that at the end of a heap: memory of memtables that were flushed. To be called by a program, first
/// thing; never by a library, whose process is not its own. Where there is another allocator nothing
/// happens.
pub fn give_back_what_is_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: both calls change numbers of the allocator, under its own lock.
    unsafe {
        // Setting one of them also ends that glibc adapts both by itself.
        libc::mallopt(libc::M_MMAP_THRESHOLD, GIVEN_BACK_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, GIVEN_BACK_BYTES);
    }
}

/// Gives the free memory that the allocator keeps back to the system, pages between pieces in use too.
/// Changes nothing where there is another allocator. Takes milliseconds, with its locks held.
pub fn give_back_free() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: the call may come at any time, and moves nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
