use super::*;
use crate::error::Error;
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;

struct Blob(usize);

impl CacheCharge for Blob {
    fn charge(&self) -> usize {
        self.0
    }
}

fn key(offset: u64) -> CacheKey {
    CacheKey { file: FileNumber(7), offset }
}

fn load(cache: &Cache<Blob>, offset: u64, priority: CachePriority, fill: CacheFill) {
    cache.get_or_load(key(offset), priority, fill, || Ok(Blob(1000))).unwrap();
}

#[test]
fn a_second_read_is_a_hit() {
    let cache = Cache::new(1 << 20);
    load(&cache, 1, CachePriority::Normal, CacheFill::Insert);
    let again = cache
        .get_or_load(key(1), CachePriority::Normal, CacheFill::Insert, || panic!("it is resident"));
    assert_eq!(again.unwrap().0, 1000);
    let counters = cache.counters();
    assert_eq!((counters.hits, counters.misses, counters.inserted), (1, 1, 1));
}

#[test]
fn never_holds_more_than_its_budget() {
    let cache = Cache::new(100_000);
    for offset in 0..10_000 {
        load(&cache, offset, CachePriority::Normal, CacheFill::Insert);
        assert!(cache.counters().bytes <= 100_000);
    }
    let counters = cache.counters();
    assert_eq!(counters.inserted - counters.evicted, counters.bytes / (1000 + 96));
}

#[test]
fn what_is_larger_than_the_cache_is_lent_but_not_kept() {
    let cache = Cache::new(100_000);
    let fill = CacheFill::Insert;
    let huge = cache.get_or_load(key(1), CachePriority::Normal, fill, || Ok(Blob(1 << 20)));
    assert_eq!(huge.unwrap().0, 1 << 20);
    assert_eq!(cache.counters().bytes, 0);
}

#[test]
fn blocks_in_use_and_index_blocks_outlive_a_scan() {
    let cache = Cache::new(100_000);
    for offset in 0..10 {
        load(&cache, offset, CachePriority::High, CacheFill::Insert);
    }
    for offset in 10..20 {
        load(&cache, offset, CachePriority::Normal, CacheFill::Insert);
        assert!(cache.get(key(offset)).is_some());
    }
    for offset in 1000..1100 {
        load(&cache, offset, CachePriority::Normal, CacheFill::Insert);
    }
    let resident = (0..20).filter(|offset| cache.get(key(*offset)).is_some()).count();
    assert_eq!(resident, 20);
}

#[test]
fn compaction_leaves_no_data_behind() {
    let cache = Cache::new(1 << 20);
    load(&cache, 1, CachePriority::Normal, CacheFill::Bypass);
    load(&cache, 2, CachePriority::High, CacheFill::Bypass);
    assert!(cache.get(key(1)).is_none());
    assert!(cache.get(key(2)).is_some());
}

#[test]
fn a_removed_file_leaves_nothing() {
    let cache = Cache::new(64 << 20);
    for offset in 0..100 {
        load(&cache, offset, CachePriority::Normal, CacheFill::Insert);
    }
    cache.remove_file(FileNumber(7));
    assert_eq!(cache.counters().bytes, 0);
    load(&cache, 3, CachePriority::Normal, CacheFill::Insert);
    assert!(cache.get(key(3)).is_some());
}

#[test]
fn an_error_reaches_the_reader_and_is_not_remembered() {
    let cache = Cache::<Blob>::new(1 << 20);
    let fill = CacheFill::Insert;
    let failed = cache.get_or_load(key(1), CachePriority::Normal, fill, || Err(Error::Closed));
    assert!(matches!(failed.err(), Some(Error::Closed)));
    load(&cache, 1, CachePriority::Normal, fill);
}

#[test]
fn readers_of_one_block_share_one_load() {
    let cache = Cache::<Blob>::new(1 << 20);
    let loads = AtomicUsize::new(0);
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                let load = || {
                    loads.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    Ok(Blob(10))
                };
                let fill = CacheFill::Insert;
                cache.get_or_load(key(1), CachePriority::Normal, fill, load).unwrap();
            });
        }
    });
    assert_eq!(loads.into_inner(), 1);
}

#[test]
fn a_panic_in_a_load_does_not_strand_the_next_reader() {
    let cache = Cache::<Blob>::new(1 << 20);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let fill = CacheFill::Insert;
        let _ = cache.get_or_load(key(1), CachePriority::Normal, fill, || panic!("on purpose"));
    }));
    assert!(panicked.is_err());
    load(&cache, 1, CachePriority::Normal, CacheFill::Insert);
}
