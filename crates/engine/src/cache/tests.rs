use super::*;
use crate::error::Error;
use crate::error::Result;
use crate::memory::budget::Use;
use base::testing::in_own_process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, LazyLock};

/// A block says which key it is of, so that every reader can check what it got.
type TestCache = Cache<CacheKey>;

const MIB: usize = 1 << 20;

const FILL: CacheFill = CacheFill::Insert;

/// Bytes of most blocks, and of a cache that is soon full of them: Miri takes tens of milliseconds to
/// load one, and the longer the more frames there are.
const LEN: usize = if cfg!(miri) { 10_000 } else { 1000 };
const SMALL: usize = if cfg!(miri) { 600_000 } else { MIB };
/// Bytes of a cache that is too small for an arena.
const ON_HEAP: usize = 100_000;

/// The bytes of the block `key`, which differ from those of the next 255 offsets. Of one sequence, so
/// that they are copied and compared as a whole.
fn contents(key: CacheKey, len: usize) -> &'static [u8] {
    const LEN_MAX: usize = MIB;
    static SEQUENCE: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..=u8::MAX).collect::<Vec<u8>>().repeat(LEN_MAX / 256 + 1));
    let from = key.offset as usize * 31 % 256;
    &SEQUENCE[from..from + len]
}

fn key(offset: u64) -> CacheKey {
    CacheKey { file: FileNumber(7), offset }
}

/// Ends a load ticket with the block that `check` knows.
fn end(
    ticket: LoadTicket<'_, CacheKey>,
    hint: &Hint,
    key: CacheKey,
    len: usize,
    priority: CachePriority,
) -> Result<PinnedBlock<CacheKey>> {
    let bytes = contents(key, len);
    ticket.end(hint, priority, Ok(Loaded { meta: key, bytes, hints: len % 5, prefetch_hint: 0 }))
}

fn check(block: BlockRef<'_, CacheKey>, key: CacheKey, len: usize) {
    assert_eq!(*block.meta, key);
    assert_eq!((block.bytes.len(), block.hints.len()), (len, len % 5));
    assert!(block.bytes == contents(key, len), "another block's bytes");
}

fn load(cache: &Arc<TestCache>, offset: u64, priority: CachePriority, fill: CacheFill) {
    load_of(cache, offset, LEN, priority, fill);
}

fn load_of(
    cache: &Arc<TestCache>,
    offset: u64,
    len: usize,
    priority: CachePriority,
    fill: CacheFill,
) {
    let hint = Hint::default();
    let load = |ticket: LoadTicket<'_, CacheKey>| end(ticket, &hint, key(offset), len, priority);
    let pin = cache.get_or_load(key(offset), &hint, fill, BlockKind::Data, load).unwrap();
    check(pin.get(), key(offset), len);
}

fn has(cache: &Arc<TestCache>, offset: u64) -> bool {
    cache.get(key(offset), &Hint::default()).is_some()
}

/// The same without a use.
fn has_untouched(cache: &Arc<TestCache>, offset: u64) -> bool {
    cache.warmth(key(offset), &Hint::default()).is_some()
}

#[test]
fn a_second_read_is_a_hit() {
    let cache = TestCache::new(1 << 20, CacheFeatures::PASSING);
    load(&cache, 1, CachePriority::Normal, FILL);
    let never = |_: LoadTicket<'_, CacheKey>| panic!("it is resident");
    let again = cache.get_or_load(key(1), &Hint::default(), FILL, BlockKind::Data, never);
    check(again.unwrap().get(), key(1), LEN);
    let counters = cache.counters();
    assert_eq!((counters.hits(), counters.misses(), counters.inserted), (1, 1, 1));
    let index = cache.load_ticket(key(1), &Hint::default(), FILL, BlockKind::Index);
    assert!(matches!(index, CacheLookup::Resident(_)));
    let counters = cache.counters();
    assert_eq!(counters.lookups[BlockKind::Index as usize], Lookups { hits: 1, misses: 0 });
    assert_eq!(counters.lookups[BlockKind::Data as usize], Lookups { hits: 1, misses: 1 });
}

#[test]
fn a_hint_leads_to_the_block_until_it_is_evicted() {
    let cache = TestCache::new(SMALL, CacheFeatures::PASSING);
    let hint = Hint::default();
    assert!(cache.look(key(1), &hint, &epoch::pin()).is_none());
    let load_it =
        |ticket: LoadTicket<'_, CacheKey>| end(ticket, &hint, key(1), LEN, CachePriority::Normal);
    cache.get_or_load(key(1), &hint, FILL, BlockKind::Data, load_it).unwrap();
    check(cache.look(key(1), &hint, &epoch::pin()).unwrap(), key(1), LEN);
    let other = Hint::default();
    check(cache.find(key(1), &other, &epoch::pin()).unwrap(), key(1), LEN);
    check(cache.look(key(1), &other, &epoch::pin()).unwrap(), key(1), LEN);
    assert!(cache.look(key(2), &hint, &epoch::pin()).is_none(), "a hint is not trusted");
    for offset in 2..if cfg!(miri) { 220 } else { 5000 } {
        load(&cache, offset, CachePriority::Normal, FILL);
    }
    assert!(cache.look(key(1), &hint, &epoch::pin()).is_none());
}

#[test]
fn never_holds_more_than_its_budget() {
    let (sizes, loads) = if cfg!(miri) { (2, 250) } else { (3, 10_000) };
    for bytes_max in [ON_HEAP, SMALL, 3 * MIB].into_iter().take(sizes) {
        let cache = TestCache::new(bytes_max, CacheFeatures::PASSING);
        for offset in 0..loads {
            let len = [1000, 300, 5000, 1000, 16_000][offset as usize % 5];
            load_of(&cache, offset, len, CachePriority::Normal, FILL);
        }
        let counters = cache.counters();
        assert!(counters.bytes <= bytes_max as u64);
        assert!(counters.bytes > bytes_max as u64 / 4, "{counters:?}");
    }
}

#[test]
fn what_is_larger_than_the_cache_is_lent_but_not_kept() {
    let cache = TestCache::new(ON_HEAP, CacheFeatures::PASSING);
    load_of(&cache, 1, 1 << 20, CachePriority::Normal, FILL);
    assert_eq!(cache.counters().bytes, 0);
    assert_eq!(cache.counters().not_kept, 1);
}

#[test]
fn blocks_in_use_and_index_blocks_outlive_a_scan() {
    for (bytes_max, len) in [(ON_HEAP, 1000), (SMALL, LEN)] {
        let cache = TestCache::new(bytes_max, CacheFeatures::PASSING);
        for offset in 0..10 {
            load_of(&cache, offset, len, CachePriority::High, FILL);
        }
        for offset in 10..20 {
            load_of(&cache, offset, len, CachePriority::Normal, FILL);
            assert!(has(&cache, offset));
        }
        let room = (bytes_max / (len * 6 / 5)) as u64;
        for offset in 1000..1000 + room {
            load_of(&cache, offset, len, CachePriority::Normal, FILL);
        }
        assert_eq!((0..20).filter(|offset| has(&cache, *offset)).count(), 20);
    }
}

#[test]
fn compaction_leaves_no_data_behind() {
    let cache = TestCache::new(1 << 20, CacheFeatures::PASSING);
    load(&cache, 1, CachePriority::Normal, CacheFill::Bypass);
    load(&cache, 2, CachePriority::High, CacheFill::Bypass);
    assert!(!has(&cache, 1) && has(&cache, 2));
}

#[test]
fn a_removed_file_leaves_nothing() {
    let large = if cfg!(miri) { 2 * SMALL } else { 64 * MIB };
    for (bytes_max, len) in [(ON_HEAP, 1000), (large, LEN)] {
        let cache = TestCache::new(bytes_max, CacheFeatures::PASSING);
        for offset in 0..50 {
            load_of(&cache, offset, len, CachePriority::Normal, FILL);
        }
        let pinned = cache.get(key(3), &Hint::default()).unwrap();
        cache.remove_file(FileNumber(7));
        assert!((0..50).all(|offset| !has(&cache, offset)));
        check(pinned.get(), key(3), len);
        drop(pinned);
        load_of(&cache, 3, len, CachePriority::Normal, FILL);
        assert!(has(&cache, 3));
    }
}

#[test]
fn a_held_block_stays_readable_whatever_is_evicted() {
    let cache = TestCache::new(SMALL, CacheFeatures::PASSING);
    load(&cache, 0, CachePriority::Normal, FILL);
    let pinned = cache.get(key(0), &Hint::default()).unwrap();
    let again = pinned.clone();
    for offset in 1..if cfg!(miri) { 100 } else { 5000 } {
        let len = LEN / 2 + offset as usize % 20 * 150 * (LEN / 1000);
        load_of(&cache, offset, len, CachePriority::Normal, FILL);
    }
    check(pinned.get(), key(0), LEN);
    drop(pinned);
    check(again.get(), key(0), LEN);
}

#[test]
fn memory_follows_demand_from_one_size_to_another() {
    let (size, loads, last) = if cfg!(miri) { (SMALL, 100, 10) } else { (4 * MIB, 2000, 100) };
    let lens = if cfg!(miri) { [3000, 15_000, 6000, 3000] } else { [1000, 10_000, 2000, 1000] };
    let cache = TestCache::new(size, CacheFeatures::PASSING);
    for (round, len) in lens.into_iter().enumerate() {
        // Other tests' readers may be interrupted while pinned, so it may take some loads more.
        let mut resident = 0;
        for again in 0..50 {
            let from = 1_000_000 * round as u64 + loads * again;
            let offsets = || from..from + loads;
            offsets().for_each(|at| load_of(&cache, at, len, CachePriority::Normal, FILL));
            resident = offsets().rev().take(last).filter(|offset| has(&cache, *offset)).count();
            if resident >= last / 10 * 9 {
                break;
            }
        }
        assert!(resident >= last / 10 * 9, "{resident} of {last}: {:?}", cache.counters());
    }
}

#[test]
fn an_error_reaches_the_reader_and_is_not_remembered() {
    let cache = TestCache::new(1 << 20, CacheFeatures::PASSING);
    let hint = Hint::default();
    let failing = |ticket: LoadTicket<'_, CacheKey>| {
        ticket.end(&hint, CachePriority::Normal, Err(Error::Closed))
    };
    let failed = cache.get_or_load(key(1), &hint, FILL, BlockKind::Data, failing);
    assert!(matches!(failed.err(), Some(Error::Closed)));
    load(&cache, 1, CachePriority::Normal, FILL);
}

#[test]
fn readers_of_one_block_share_one_load() {
    let cache = TestCache::new(1 << 20, CacheFeatures::PASSING);
    let loads = AtomicUsize::new(0);
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                let hint = Hint::default();
                let load = |ticket: LoadTicket<'_, CacheKey>| {
                    loads.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    end(ticket, &hint, key(1), LEN, CachePriority::Normal)
                };
                let got = cache.get_or_load(key(1), &hint, FILL, BlockKind::Data, load);
                check(got.unwrap().get(), key(1), LEN);
            });
        }
    });
    assert_eq!(loads.load(Ordering::Relaxed), 1);
}

/// Threads that claim overlapping sets of keys in different orders load each key once at a time
/// and come to an end: each ends its own loads before it waits for others'.
#[test]
fn claims_of_overlapping_sets_never_wait_in_a_circle() {
    const KEYS: u64 = 12;
    let rounds = if cfg!(miri) { 5 } else { 2000 };
    let cache = TestCache::new(ON_HEAP, CacheFeatures::PASSING);
    let loading: Vec<AtomicBool> = (0..KEYS).map(|_| AtomicBool::new(false)).collect();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (cache, loading) = (&cache, &loading);
            scope.spawn(move || {
                for round in 0..rounds {
                    if thread == 0 && round % 3 == 0 {
                        cache.remove_file(FileNumber(7));
                    }
                    let hint = Hint::default();
                    let (mut own, mut others) = (Vec::new(), Vec::new());
                    // Some keys come twice.
                    for at in 0..8 {
                        let offset = (at * (thread + 1) * 5 + round) % KEYS;
                        match cache.load_ticket(key(offset), &hint, FILL, BlockKind::Data) {
                            CacheLookup::Resident(pin) => check(pin.get(), key(offset), 1000),
                            CacheLookup::Free(ticket) => {
                                let before = loading[offset as usize].swap(true, Ordering::SeqCst);
                                assert!(!before, "loaded by two");
                                own.push((ticket, offset));
                            }
                            CacheLookup::Loading(load) => others.push((load, offset)),
                        }
                    }
                    for (at, (ticket, offset)) in own.into_iter().enumerate() {
                        loading[offset as usize].store(false, Ordering::SeqCst);
                        if at == 3 {
                            drop(ticket);
                        } else {
                            end(ticket, &hint, key(offset), 1000, CachePriority::Normal).unwrap();
                        }
                    }
                    for (load, offset) in others {
                        if let Some(outcome) = load.wait() {
                            check(outcome.unwrap().get(), key(offset), 1000);
                        }
                    }
                }
            });
        }
    });
}

/// Readers look, hold and load blocks of several sizes in a cache far too small for them, while
/// files are removed; nobody ever sees a byte of another block.
#[test]
fn no_reader_sees_another_block() {
    let (blocks, rounds, larger) = if cfg!(miri) { (40, 30, 3) } else { (600, 20_000, 1) };
    let len = |offset: u64| larger * [900, 3000, 12_000][offset as usize % 3] + offset as usize;
    // Between removals blocks are evicted, too.
    let pause = if cfg!(miri) { 1000 } else { 1 };
    let cache = TestCache::new(SMALL, CacheFeatures::PASSING);
    let hints: Vec<Hint> = (0..blocks).map(|_| Hint::default()).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3u64)
            .map(|reader| {
                let (cache, hints) = (&cache, &hints);
                scope.spawn(move || {
                    let mut state = reader + 1;
                    let mut kept = Vec::new();
                    for _ in 0..rounds {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                        let offset = (state >> 33) % blocks;
                        let (key, hint) = (key(offset), &hints[offset as usize]);
                        {
                            let pinned = epoch::pin();
                            if let Some(found) = cache.look(key, hint, &pinned) {
                                check(found, key, len(offset));
                            }
                        }
                        let load = |ticket: LoadTicket<'_, CacheKey>| {
                            end(ticket, hint, key, len(offset), CachePriority::Normal)
                        };
                        let pin =
                            cache.get_or_load(key, hint, FILL, BlockKind::Data, load).unwrap();
                        check(pin.get(), key, len(offset));
                        kept.push((pin, offset));
                        if kept.len() > 5 {
                            let (pin, offset) = kept.swap_remove((state >> 20) as usize % 5);
                            check(pin.get(), super::tests::key(offset), len(offset));
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                cache.remove_file(FileNumber(7));
                (0..pause).for_each(|_| std::thread::yield_now());
            }
        });
        let done: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(done.iter().all(|done| done.is_ok()));
        assert!(cache.counters().evicted > 0, "{:?}", cache.counters());
    });
}

/// Lets all grace periods end, and gives what has to go back to the system. For tests in a process of
/// their own: a reader of another test may be stopped while it is pinned.
fn settle(cache: &Arc<TestCache>) {
    for _ in 0..60_000 {
        cache.balance();
        epoch::pin().flush();
        if cache.counters().memory_bytes <= cache.counters().bytes_max {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("memory stays: {:?}", cache.counters());
}

/// Loads blocks until the cache has evicted as much as it holds.
fn fill_it(cache: &Arc<TestCache>, from: u64) {
    let len = 16_000;
    let blocks = 2 * cache.budget().blocks_limit() / len;
    for offset in from..from + blocks as u64 {
        load_of(cache, offset, len, CachePriority::Normal, FILL);
    }
}

#[test]
fn memory_is_given_up_for_others_and_taken_back() {
    in_own_process(|| {
        let size = if cfg!(miri) { MIB } else { 16 * MIB };
        let budget = Budget::new(size, None);
        let cache = TestCache::within(Arc::clone(&budget), CacheFeatures::PASSING);
        let memory = || cache.counters().memory_bytes as usize;
        fill_it(&cache, 0);
        assert!(memory() > size / 4 * 3 && memory() <= size, "{}", memory());
        let mut charge = budget.charge(Use::Active);
        for others in [size / 8, size / 2, size / 4 * 3, 2 * size] {
            charge.set(others);
            settle(&cache);
            fill_it(&cache, 10_000);
            assert!(memory() <= (size - others.min(size / 8 * 7)), "{} beside {others}", memory());
        }
        assert!(memory() > size / 32, "blocks keep a part");
        charge.set(size / 2);
        fill_it(&cache, 20_000);
        assert!(memory() > size / 4 && memory() <= size / 2, "{}", memory());
        drop(charge);
        fill_it(&cache, 30_000);
        assert!(memory() > size / 4 * 3 && memory() <= size, "{}", memory());
    });
}

#[test]
fn the_size_changes_by_steps_and_not_back_and_forth() {
    in_own_process(|| {
        let (size, steps, turns) =
            if cfg!(miri) { (2 * MIB, 200, 10) } else { (16 * MIB, 1600, 100) };
        let budget = Budget::new(size, None);
        let cache = TestCache::within(Arc::clone(&budget), CacheFeatures::PASSING);
        let mut sizes = vec![cache.counters().bytes_max];
        let mut charge = budget.charge(Use::Active);
        let mut look = |cache: &Arc<TestCache>, loads: u64| {
            cache.balance();
            for offset in 0..loads {
                load_of(cache, offset, 16_000, CachePriority::Normal, FILL);
            }
            let size = cache.counters().bytes_max;
            if sizes.last() != Some(&size) {
                sizes.push(size);
            }
            sizes.len()
        };
        for bytes in (0..size / 2).step_by(size / steps) {
            charge.set(bytes);
            look(&cache, 1);
        }
        let down = look(&cache, 0);
        assert!((10..=17).contains(&down), "{down} sizes");
        for _ in 0..turns {
            charge.set(size / 2 - size / 80);
            look(&cache, 1);
            charge.set(size / 2);
            assert_eq!(look(&cache, 1), down, "less than a step changes nothing");
        }
        charge.set(0);
        assert_eq!(look(&cache, 0), down, "nothing is taken back that nobody misses");
    });
}

#[test]
fn what_is_held_stays_until_it_is_let_go() {
    in_own_process(|| {
        let size = if cfg!(miri) { MIB } else { 4 * MIB };
        let budget = Budget::new(size, None);
        let cache = TestCache::within(Arc::clone(&budget), CacheFeatures::PASSING);
        let hint = Hint::default();
        let len = 16_000;
        let load = |offset: u64| {
            let load = |ticket: LoadTicket<'_, CacheKey>| {
                end(ticket, &hint, key(offset), len, CachePriority::Normal)
            };
            cache.get_or_load(key(offset), &hint, FILL, BlockKind::Data, load).unwrap()
        };
        let holds: Vec<_> =
            (0..(size / 2 / len) as u64).map(|offset| (load(offset), offset)).collect();
        fill_it(&cache, 1000);
        let charge = budget.charge(Use::Metadata).of(2 * size);
        for _ in 0..10 {
            cache.balance();
            epoch::pin().flush();
        }
        assert!(cache.counters().memory_bytes as usize > size / 3, "held frames keep their slabs");
        for (pin, offset) in &holds {
            check(pin.get(), key(*offset), len);
            check(pin.clone().get(), key(*offset), len);
        }
        drop(holds);
        settle(&cache);
        assert!(cache.counters().memory_bytes as usize <= size / 8);
        drop(charge);
        fill_it(&cache, 5000);
        assert!(cache.counters().memory_bytes as usize > size / 2);
    });
}

/// Readers look, hold and load while the cache shrinks to its least and grows again.
#[test]
fn no_reader_sees_memory_go() {
    in_own_process(|| {
        let (blocks, rounds, larger) = if cfg!(miri) { (30, 20, 3) } else { (400, 20_000, 1) };
        let len = |offset: u64| larger * [900, 3000, 12_000][offset as usize % 3] + offset as usize;
        let budget = Budget::new(2 * MIB, None);
        let cache = TestCache::within(Arc::clone(&budget), CacheFeatures::PASSING);
        let hints: Vec<Hint> = (0..blocks).map(|_| Hint::default()).collect();
        let reading = AtomicUsize::new(3);
        std::thread::scope(|scope| {
            for reader in 0..3u64 {
                let (cache, hints, reading) = (&cache, &hints, &reading);
                scope.spawn(move || {
                    let mut state = reader + 1;
                    let mut kept = Vec::new();
                    for _ in 0..rounds {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                        let offset = (state >> 33) % blocks;
                        let (wanted, hint) = (key(offset), &hints[offset as usize]);
                        {
                            let pinned = epoch::pin();
                            if let Some(found) = cache.find(wanted, hint, &pinned) {
                                check(found, wanted, len(offset));
                                std::thread::yield_now();
                                check(found, wanted, len(offset));
                            }
                        }
                        let load = |ticket: LoadTicket<'_, CacheKey>| {
                            end(ticket, hint, wanted, len(offset), CachePriority::Normal)
                        };
                        let pin =
                            cache.get_or_load(wanted, hint, FILL, BlockKind::Data, load).unwrap();
                        kept.push((pin, offset));
                        if kept.len() > 5 {
                            let (pin, offset) = kept.swap_remove((state >> 20) as usize % 5);
                            check(pin.get(), key(offset), len(offset));
                        }
                    }
                    reading.fetch_sub(1, Ordering::SeqCst);
                });
            }
            scope.spawn(|| {
                let mut charge = budget.charge(Use::Active);
                let mut at = 0;
                while reading.load(Ordering::SeqCst) > 0 {
                    charge.set([0, MIB, 2 * MIB, MIB / 2, 0][at % 5]);
                    cache.balance();
                    at += 1;
                    std::thread::yield_now();
                }
            });
        });
        let charge = budget.charge(Use::Active).of(2 * MIB);
        settle(&cache);
        drop(charge);
    });
}

/// A block of a size that no other has costs the others a slab, not all that was used but once.
#[test]
fn a_rare_size_finds_room_at_the_cost_of_a_slab() {
    in_own_process(|| {
        let (size, len, loads) =
            if cfg!(miri) { (2 * MIB, 12_000, 200) } else { (16 * MIB, 4000, 20_000) };
        let cache = TestCache::new(size, CacheFeatures::PASSING);
        let common = 0..loads;
        for offset in common.clone() {
            load_of(&cache, offset, len, CachePriority::Normal, FILL);
        }
        let resident = || common.clone().filter(|offset| has_untouched(&cache, *offset)).count();
        // Something in each slab is used.
        let used = common.clone().step_by(3).filter(|offset| has(&cache, *offset)).count();
        let fit = size / len * 5 / 7;
        assert!(used > fit / 3, "{used} blocks are used again");
        let before = resident();
        assert!(before > fit, "{before} blocks fit");
        load_of(&cache, 1_000_000, 30_000, CachePriority::High, FILL);
        assert!(has(&cache, 1_000_000));
        let lost = before - resident();
        // The hand evicts some others on its way to the slab that it clears.
        let part = if cfg!(miri) { 2 } else { 20 };
        assert!(lost < before / part, "{lost} of {before} blocks went for one");
    });
}

#[test]
fn while_there_is_room_every_block_is_worth_keeping_and_then_what_comes_again() {
    in_own_process(|| {
        let cache = TestCache::new(SMALL, CacheFeatures::PASSING);
        let (few, many) = ((SMALL / LEN / 2) as u64, (SMALL / LEN * 2) as u64);
        for offset in 0..few {
            assert!(cache.is_worth_keeping(key(offset), LEN));
            load(&cache, offset, CachePriority::Normal, FILL);
        }
        (few..many).for_each(|offset| load(&cache, offset, CachePriority::Normal, FILL));
        // Frames come free several at a time.
        let rejected = (3000..4000).find(|offset| {
            let kept = cache.is_worth_keeping(key(*offset), LEN);
            if kept {
                load(&cache, *offset, CachePriority::Normal, FILL);
            }
            !kept
        });
        let rejected = rejected.expect("others would have to go");
        assert!(cache.is_worth_keeping(key(rejected), LEN), "it came again");
        assert!(cache.is_worth_keeping(key(5001), 4 << 20), "it takes no frame's place");
        cache.remove_file(FileNumber(7));
        // Frames come free after a grace period.
        let comes_free = |offset| {
            epoch::pin().flush();
            std::thread::sleep(std::time::Duration::from_millis(5));
            cache.is_worth_keeping(key(offset), LEN)
        };
        assert!((6000..7000).any(comes_free), "all frames are free");
    });
}

#[test]
fn a_cache_that_grows_has_room_again() {
    in_own_process(|| {
        let size = if cfg!(miri) { 2 * MIB } else { 8 * MIB };
        let budget = Budget::new(size, None);
        let cache = TestCache::within(Arc::clone(&budget), CacheFeatures::PASSING);
        let mut others = budget.charge(Use::Building).of(size / 4 * 3);
        cache.balance();
        let rejected = (0..8000).find(|offset| {
            load(&cache, *offset, CachePriority::Normal, FILL);
            !cache.is_worth_keeping(key(10_000 + offset), LEN)
        });
        assert!(rejected.is_some(), "it is full");
        others.set(0);
        // It grows when so much was turned away that it would use the room.
        let grows = || {
            cache.rejected(LEN);
            cache.bytes_max() == size
        };
        assert!((0..60_000).any(|_| grows()), "{cache:?}");
        assert!(cache.is_worth_keeping(key(70_000), LEN), "there are slabs to cut");
    });
}
