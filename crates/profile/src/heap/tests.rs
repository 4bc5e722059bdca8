//! The allocator of this test program is the sampled one: every test of the crate runs on it.

use super::*;
use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::Mutex;

#[global_allocator]
static ALLOCATOR: SampledAllocator = SampledAllocator;

/// Mean of the bytes between two samples here.
const INTERVAL: u64 = 4 << 10;

/// One test makes a profile at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Begins to sample, with the allocator as the server has it.
fn begin() {
    base::allocator::give_back_what_is_freed();
    start(INTERVAL).unwrap();
}

fn profile() -> HeapProfile {
    let _alone = ALONE.lock().unwrap_or_else(|held| held.into_inner());
    begin();
    HeapProfile::take(&|| false).unwrap()
}

/// Returns objects and bytes in use that a function with this in its name allocated.
fn in_use(function: &str) -> (i64, i64) {
    let profile = profile();
    let is_of_function = |stack: &[u64]| {
        stack.iter().any(|at| profile.symbols.names(*at).iter().any(|name| name.contains(function)))
    };
    let found = profile.records.stacks.iter().filter(|(stack, _)| is_of_function(stack));
    found.fold((0, 0), |all, (_, sum)| (all.0 + sum.objects(), all.1 + sum.bytes()))
}

/// Asserts that an estimate is right but for chance, of which here are 3 %.
fn assert_about(have: i64, want: i64) {
    assert!((want * 3 / 4..want * 5 / 4).contains(&have), "{have}, not about {want}");
}

#[inline(never)]
fn many_small_pieces() -> Vec<Vec<u8>> {
    (0..50_000).map(|_| black_box(vec![1; 96])).collect()
}

#[test]
fn memory_in_use_is_told_by_its_stack_until_it_is_freed() {
    begin();
    let pieces = many_small_pieces();
    let (objects, bytes) = in_use("heap::tests::many_small_pieces");
    let vector = pieces.capacity() * size_of::<Vec<u8>>();
    assert_about(bytes, (50_000 * 96 + vector) as i64);
    assert_about(objects, 50_001);
    drop(pieces);
    assert_eq!(in_use("heap::tests::many_small_pieces"), (0, 0));
}

#[inline(never)]
fn a_vector_that_grows(to: usize) -> Vec<u64> {
    let mut grown = Vec::new();
    (0..to as u64).for_each(|number| grown.push(black_box(number)));
    grown
}

#[test]
fn memory_that_grows_is_told_in_its_last_size_and_keeps_its_bytes() {
    begin();
    // Each allocation of such sizes is sampled, so that the estimate is the truth.
    for (to, bytes) in [(16 << 10, 128 << 10), (1 << 20, 8 << 20)] {
        let grown = a_vector_that_grows(to);
        assert!(grown.iter().enumerate().all(|(at, number)| at as u64 == *number));
        assert_eq!(in_use("heap::tests::a_vector_that_grows"), (1, bytes));
        drop(grown);
        assert_eq!(in_use("heap::tests::a_vector_that_grows"), (0, 0));
    }
    let many: Vec<_> = (0..5_000).map(|_| a_vector_that_grows(100)).collect();
    assert!(many.iter().all(|one| one.iter().copied().eq(0..100)));
    assert_about(in_use("heap::tests::a_vector_that_grows").1, 5_000 * 128 * 8);
}

/// Returns what `work` gives on a thread of its own, which has ended then.
fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

#[inline(never)]
fn a_thread_that_ends() -> Vec<Vec<u8>> {
    (0..1_000).map(|_| black_box(vec![7; 4_000])).collect()
}

#[test]
fn memory_outlives_its_thread_and_is_freed_by_another() {
    begin();
    let kept = on_a_thread(a_thread_that_ends);
    assert_about(in_use("heap::tests::a_thread_that_ends").1, 4_000_000);
    on_a_thread(move || drop(kept));
    assert_eq!(in_use("heap::tests::a_thread_that_ends"), (0, 0));
}

#[test]
fn alignment_zeroes_and_contents_are_as_the_system_gives_them() {
    begin();
    for round in 0..2_000_usize {
        let align = 1 << (round % 15);
        let size = 1 + (round * 7_919) % if round % 50 == 0 { 3 << 20 } else { 20_000 };
        let layout = Layout::from_size_align(size, align).unwrap();
        let larger = size + round * 3;
        // SAFETY: sizes are not 0; each call gets the memory and the layout of the one before it.
        #[allow(unsafe_code)]
        unsafe {
            let memory = ALLOCATOR.alloc_zeroed(layout);
            assert!(memory.addr().is_multiple_of(align), "{layout:?}");
            let bytes = std::slice::from_raw_parts_mut(memory, size);
            assert!(bytes.iter().all(|byte| *byte == 0), "{layout:?}");
            bytes.fill(round as u8 | 1);
            let memory = ALLOCATOR.realloc(memory, layout, larger);
            assert!(memory.addr().is_multiple_of(align), "{layout:?}");
            let bytes = std::slice::from_raw_parts(memory, size);
            assert!(bytes.iter().all(|byte| *byte == round as u8 | 1), "{layout:?}");
            let smaller = 1 + size / 2;
            let layout = Layout::from_size_align(larger, align).unwrap();
            let memory = ALLOCATOR.realloc(memory, layout, smaller);
            let bytes = std::slice::from_raw_parts(memory, smaller);
            assert!(bytes.iter().all(|byte| *byte == round as u8 | 1), "{layout:?}");
            ALLOCATOR.dealloc(memory, Layout::from_size_align(smaller, align).unwrap());
        }
    }
}

#[inline(never)]
fn memory_in_motion(seed: usize, kept: &mut Vec<Vec<u8>>) {
    for round in 0..20_000_usize {
        let bits = (round + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (at, len) = (bits >> 40, (bits >> 20) % 2_000);
        match kept.len() {
            held if held < 200 || bits & 1 == 0 && held < 400 => kept.push(vec![len as u8; len]),
            held if bits & 2 == 0 => drop(kept.swap_remove(at % held)),
            held => {
                let one = &mut kept[at % held];
                let fill = one.first().copied().unwrap_or(9);
                one.resize(len, fill);
            }
        }
    }
}

#[test]
fn threads_that_allocate_side_by_side_leave_no_record_behind() {
    begin();
    let (sender, receiver) = std::sync::mpsc::channel::<Vec<Vec<u8>>>();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let sender = sender.clone();
            scope.spawn(move || {
                let mut kept = Vec::new();
                memory_in_motion(seed << 32, &mut kept);
                sender.send(kept).unwrap();
            });
        }
        drop(sender);
        for kept in receiver {
            let is_whole = |one: &Vec<u8>| one.iter().all(|byte| *byte == one[0]);
            assert!(kept.iter().all(is_whole));
        }
        let _ = profile();
    });
    assert_eq!(in_use("heap::tests::memory_in_motion"), (0, 0));
}

#[inline(never)]
fn what_the_forms_show() -> Vec<Vec<u8>> {
    (0..100).map(|_| black_box(vec![3; 30_000])).collect()
}

#[test]
fn both_forms_name_functions_and_leave_the_allocator_out() {
    begin();
    let kept = what_the_forms_show();
    let profile = profile();
    let message = profile.message();
    let text = |index: i64| message.string_table[usize::try_from(index).unwrap()].as_str();
    let types: Vec<_> =
        message.sample_type.iter().map(|of| (text(of.r#type), text(of.unit))).collect();
    assert_eq!(types, [("inuse_objects", "count"), ("inuse_space", "bytes")]);
    assert_eq!(text(message.default_sample_type), "inuse_space");
    assert_eq!(message.period, INTERVAL as i64);
    let svg = profile.to_svg();
    assert!(svg.contains(">Heap profile<") && svg.contains("what_the_forms_show"), "{svg}");
    assert!(!svg.contains("heap::allocator"), "{svg}");
    assert!(!profile.to_pprof().is_empty());
    let _alone = ALONE.lock().unwrap_or_else(|held| held.into_inner());
    assert!(matches!(HeapProfile::take(&|| true), Err(Error::Cancelled)));
    drop(kept);
}
