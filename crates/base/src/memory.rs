//! A large region of memory that asks the system for huge pages, and what the process has in all.
//!
//! A random read of a region on 4 KiB pages mostly misses the TLB as well; on 2 MiB pages it does
//! not, which measures 1.4 to 1.7 times faster here (docs/decisions/0006-read-path.md).
#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes of a huge page; regions are aligned to it.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Memory of a fixed size whose content is not defined, given back with the value. Pages are taken
/// from the system when they are first written. It comes from the system itself where there is
/// such a call: what an allocator does with memory that is freed, and what it asks for beside, is
/// nothing that a cache should depend on.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the region is plain memory that it alone owns; who reads and writes it through the
// pointer answers for that.
unsafe impl Send for Region {}
// SAFETY: as above; `&Region` gives out nothing but the pointer and lengths.
unsafe impl Sync for Region {}

impl Region {
    /// A region of `bytes` bytes, on huge pages as far as the system has them and `huge` asks for
    /// them. Aborts when there is no address space left, as every allocation does.
    pub fn new(bytes: usize, huge: bool) -> Self {
        let layout = Layout::from_size_align(bytes.max(1), HUGE_PAGE_BYTES);
        let layout = layout.expect("a cache is smaller than the address space");
        let start = take(layout).unwrap_or_else(|| handle_alloc_error(layout));
        let region = Self { start, layout };
        if huge {
            region.advise_huge();
        }
        region
    }

    /// Returns the start of the region.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Gives the memory of `bytes` bytes from `offset` on back to the system as far as it makes up
    /// whole pages. The address space stays, and memory is taken again when it is next written;
    /// until then what is there is not defined. Where the system has no such call, nothing happens.
    ///
    /// # Safety
    /// The range is within the region, and nobody reads or writes it meanwhile, nor counts on what
    /// it held.
    pub unsafe fn release(&self, offset: usize, bytes: usize) {
        debug_assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes()));
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            use rustix::mm::{Advice, madvise};
            // SAFETY: the caller says that nobody has to do with the range, which is ours.
            let released = unsafe {
                let start = self.start.as_ptr().add(offset);
                madvise(start.cast(), bytes, Advice::LinuxDontNeed)
            };
            if let Err(error) = released {
                tracing::debug!(%error, "could not return memory of the block cache to the system");
            }
        }
        // SAFETY: as above.
        unsafe { undefine(self.start.as_ptr().add(offset), bytes) }
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn advise_huge(&self) {
        use rustix::mm::{Advice, madvise};
        // SAFETY: the advice changes how the region's own pages are backed, not what they hold.
        let advised = unsafe {
            madvise(self.start.as_ptr().cast(), self.layout.size(), Advice::LinuxHugepage)
        };
        if let Err(error) = advised {
            tracing::debug!(%error, "no huge pages for the block cache; reads are slower");
        }
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn advise_huge(&self) {}

    /// Bytes of the region that lie on huge pages now; `None` where the system does not tell.
    pub fn huge_bytes(&self) -> Option<u64> {
        if cfg!(miri) {
            // What Miri takes for addresses is nothing that the system knows of.
            return None;
        }
        let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let start = self.start.as_ptr() as u64;
        Some(huge_bytes_within(&smaps, start, start + self.bytes() as u64))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `start` was taken with this layout and is given back once.
        unsafe { give_back(self.start, self.layout) }
    }
}

/// Bytes of whole huge pages that `layout` takes.
#[cfg(all(target_os = "linux", not(miri)))]
fn mapped_bytes(layout: Layout) -> usize {
    layout.pad_to_align().size()
}

/// Address space for `layout`; `None` if there is none left.
#[cfg(all(target_os = "linux", not(miri)))]
fn take(layout: Layout) -> Option<NonNull<u8>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    let (bytes, align) = (mapped_bytes(layout), layout.align());
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the system chooses a place where nothing is, and what is cut off at both ends is whole
    // pages of this mapping, of which nobody was told.
    unsafe {
        let mapped = bytes.checked_add(align)?;
        let start = mmap_anonymous(std::ptr::null_mut(), mapped, protection, flags).ok()?;
        let before = start.align_offset(align);
        let aligned = start.byte_add(before);
        // What stays mapped costs address space alone.
        let _ = (before > 0).then(|| munmap(start, before));
        let _ = munmap(aligned.byte_add(bytes), align - before);
        NonNull::new(aligned.cast())
    }
}

/// # Safety
/// `start` was taken with `layout`, and nobody uses the memory any more.
#[cfg(all(target_os = "linux", not(miri)))]
unsafe fn give_back(start: NonNull<u8>, layout: Layout) {
    // SAFETY: as the caller says.
    let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), mapped_bytes(layout)) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn take(layout: Layout) -> Option<NonNull<u8>> {
    // SAFETY: the layout is not of size 0.
    NonNull::new(unsafe { std::alloc::alloc(layout) })
}

/// # Safety
/// `start` was taken with `layout`, and nobody uses the memory any more.
#[cfg(not(all(target_os = "linux", not(miri))))]
unsafe fn give_back(start: NonNull<u8>, layout: Layout) {
    // SAFETY: as the caller says.
    unsafe { std::alloc::dealloc(start.as_ptr(), layout) }
}

/// Leaves what `bytes` bytes from `start` on held undefined where Miri looks on, so that it tells of
/// whoever reads them yet, by a race or a stale reference. Does nothing elsewhere.
///
/// # Safety
/// Nobody reads or writes the bytes meanwhile, nor counts on what they held.
#[inline(always)]
pub unsafe fn undefine(start: *mut u8, bytes: usize) {
    #[cfg(miri)]
    {
        let nothing = Box::<[u8]>::new_uninit_slice(bytes);
        // SAFETY: as the caller says.
        unsafe { nothing.as_ptr().cast::<u8>().copy_to_nonoverlapping(start, bytes) };
    }
    #[cfg(not(miri))]
    let _ = (start, bytes);
}

/// Sums `AnonHugePages` over the mappings that overlap `start..end`.
fn huge_bytes_within(smaps: &str, start: u64, end: u64) -> u64 {
    let (mut within, mut kib) = (false, 0);
    for line in smaps.lines() {
        if let Some((from, to)) = mapping(line) {
            within = from < end && to > start;
        } else if within && let Some(rest) = line.strip_prefix("AnonHugePages:") {
            kib += rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
        }
    }
    (kib << 10).min(end - start)
}

/// The address range of a line that begins a mapping: `55d0-66e0 rw-p ...`.
fn mapping(line: &str) -> Option<(u64, u64)> {
    let (from, to) = line.split_whitespace().next()?.split_once('-')?;
    Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
}

/// Bytes of memory that belong to this process alone and are backed by no file (`RssAnon`): what it
/// has allocated and touched, without the program's own text. `None` where the system does not tell.
pub fn process_bytes() -> Option<usize> {
    anonymous_bytes(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn anonymous_bytes(status: &str) -> Option<usize> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: usize = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1 << 10)
}

/// Asks the processor to fetch the cache lines of `bytes`, which it does while the program goes
/// on. Never faults and changes nothing.
#[inline(always)]
pub fn prefetch(start: *const u8, bytes: usize) {
    prefetch_lines(start, (start.addr() % 64 + bytes).div_ceil(64));
}

/// The same without the line that the first byte lies in, unless it begins there: for whoever asks
/// for the bytes before them as well.
#[inline(always)]
pub fn prefetch_rest(start: *const u8, bytes: usize) {
    let into = start.addr().wrapping_neg() % 64;
    prefetch_lines(start.wrapping_add(into), bytes.saturating_sub(into).div_ceil(64));
}

#[inline(always)]
fn prefetch_lines(start: *const u8, lines: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in 0..lines {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address has no effect that a program could observe.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * 64).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (start, lines);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_aligned_and_writable_to_its_end() {
        let region = Region::new(3 << 20, true);
        assert_eq!(region.start().as_ptr() as usize % HUGE_PAGE_BYTES, 0);
        // SAFETY: both bytes are within the region.
        unsafe {
            region.start().as_ptr().write(1);
            region.start().as_ptr().add(region.bytes() - 1).write(2);
            assert_eq!(region.start().as_ptr().read(), 1);
        }
    }

    #[test]
    fn a_region_that_goes_leaves_no_address_space_behind() {
        let mapped = || {
            let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
            status.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0)
        };
        let before = mapped();
        for round in 0..64 {
            drop(Region::new((1 << 30) + round * 1000, false));
        }
        // Other tests map memory meanwhile, but no 64 GiB.
        assert!(mapped() * 4096 < before * 4096 + (8 << 30));
    }

    #[test]
    fn what_was_released_can_be_written_again() {
        let region = Region::new(4 << 20, true);
        let at = |offset: usize| region.start().as_ptr().wrapping_add(offset);
        // SAFETY: all bytes are within the region, which nobody else knows of.
        unsafe {
            at((2 << 20) - 1).write(1);
            at(2 << 20).write(2);
            region.release(2 << 20, 2 << 20);
            assert_eq!(at((2 << 20) - 1).read(), 1, "what lies before stays");
            at(2 << 20).write(3);
            assert_eq!(at(2 << 20).read(), 3);
        }
    }

    #[test]
    fn memory_that_is_touched_belongs_to_the_process() {
        let before = process_bytes().unwrap();
        let memory = std::hint::black_box(vec![1u8; 256 << 20]);
        let with = process_bytes().unwrap();
        // Other tests let go of no more than this meanwhile.
        assert!(with > before + (192 << 20), "{before} {with}");
        drop(memory);
        assert_eq!(anonymous_bytes("VmRSS:\t9 kB\nRssAnon:\t    12 kB\n"), Some(12 << 10));
        for damaged in ["", "RssAnon:", "RssAnon: x kB", "RssAnon: 12", "RssAnon: -1 kB"] {
            assert_eq!(anonymous_bytes(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn huge_pages_are_summed_over_the_region_alone() {
        let smaps = "1000-2000 rw-p 0 00:00 0\nAnonHugePages:      2 kB\n\
                     2000-4000 rw-p 0 00:00 0\nSize: 8 kB\nAnonHugePages:      4 kB\n\
                     8000-9000 rw-p 0 00:00 0\nAnonHugePages:      4 kB\n";
        assert_eq!(huge_bytes_within(smaps, 0x1000, 0x4000), 6 << 10);
        assert_eq!(huge_bytes_within(smaps, 0x5000, 0x6000), 0);
    }
}
