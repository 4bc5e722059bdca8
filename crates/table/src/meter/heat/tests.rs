//! Samples by a clock that is set by hand.

use super::*;

#[derive(Debug, Default)]
struct HandClock(Mutex<Duration>);

impl HandClock {
    fn advance(&self, by: Duration) {
        *self.0.lock() += by;
    }
}

impl Clock for HandClock {
    fn now_micros(&self) -> i64 {
        0
    }

    fn monotonic(&self) -> Duration {
        *self.0.lock()
    }
}

fn table() -> TableName {
    TableName::new("projects/p/instances/i/tables/t").unwrap()
}

/// Returns heat with its clock.
fn heat() -> (Heat, Arc<HandClock>) {
    let clock = Arc::new(HandClock::default());
    (Heat::new(clock.clone()), clock)
}

/// Returns the uses that the samples of a slice stand for, by key.
fn uses(slice: &Slice) -> BTreeMap<Vec<u8>, u64> {
    let mut uses = BTreeMap::new();
    for sample in &slice.samples {
        *uses.entry(sample.key.first.to_vec()).or_default() += u64::from(slice.weight);
    }
    uses
}

#[test]
fn few_uses_are_kept_one_by_one() {
    let (heat, clock) = heat();
    for at in 0..100u8 {
        heat.used(&table(), TreeId(7), Use::Read, &[at]);
    }
    heat.used(&table(), TreeId(8), Use::Write, &[b'x'; 1_000]);
    let slices = heat.slices().slices;
    assert_eq!((slices.len(), slices[0].weight, slices[0].samples.len()), (1, 1, 101));
    let last = slices[0].samples.last().unwrap();
    assert_eq!((last.tree, last.kind), (TreeId(8), Use::Write));
    assert_eq!((last.key.first.len(), last.key.len), (KEY_BYTES_MAX, 1_000));
    clock.advance(2 * SLICE);
    let Slices { slices, since, now } = heat.slices();
    assert_eq!(slices.len(), 1, "a time without uses has no slice");
    assert_eq!((slices[0].begin, slices[0].end), (Duration::ZERO, SLICE));
    assert_eq!((since, now), (Duration::ZERO, 2 * SLICE), "but it counts");
}

#[test]
fn long_keys_that_begin_alike_are_told_apart() {
    let (heat, _) = heat();
    let [a, b] = [1, 2].map(|last| [&[b'k'; KEY_BYTES_MAX][..], &[last]].concat());
    for key in [&a, &b, &a] {
        heat.used(&table(), TreeId(7), Use::Read, key);
    }
    let slices = heat.slices().slices;
    let [of_a, of_b, again] = &slices[0].samples[..] else { panic!("{slices:?}") };
    assert_eq!((&of_a.key, of_a.key.len), (&again.key, KEY_BYTES_MAX + 1));
    assert!(of_a.key != of_b.key && of_a.key.first == of_b.key.first);
}

#[test]
fn many_uses_are_sampled_in_proportion_and_in_bounded_memory() {
    let (heat, clock) = heat();
    let all = 2_000_000u64;
    for at in 0..all {
        let key = if at % 4 == 0 { b"hot".to_vec() } else { (at % 1_000).to_be_bytes().to_vec() };
        heat.used(&table(), TreeId(7), Use::Read, &key);
    }
    let slices = heat.slices().slices;
    let uses = uses(&slices[0]);
    assert!(slices[0].samples.len() <= SAMPLES_MAX && slices[0].weight >= 512);
    let sum: u64 = uses.values().sum();
    assert!(sum.abs_diff(all) < all / 7, "{sum}");
    let hot = uses[b"hot".as_slice()];
    assert!(hot.abs_diff(all / 4) < all / 10, "{hot}");
    // Later there is less to do, and the stride falls to one again.
    let weight = slices[0].weight;
    for slice in 1..=weight.ilog2() {
        clock.advance(SLICE);
        let slices = heat.slices().slices;
        assert_eq!(slices.len(), 1);
        assert_eq!(stride_of(heat.epoch.load(Ordering::Relaxed)), weight >> slice);
    }
    heat.used(&table(), TreeId(7), Use::Write, b"one");
    assert_eq!(heat.slices().slices.last().unwrap().samples.len(), 1);
}

#[test]
fn slices_of_a_quarter_of_an_hour_are_kept() {
    let (heat, clock) = heat();
    for _ in 0..100 {
        heat.used(&table(), TreeId(7), Use::Read, b"k");
        clock.advance(SLICE);
    }
    let slices = heat.slices().slices;
    assert_eq!(slices.len(), SLICES_MAX - 1);
    assert!(slices.iter().all(|slice| slice.samples.len() == 1));
    clock.advance(SLICE * SLICES_MAX as u32 + SLICE);
    assert!(heat.slices().slices.is_empty(), "old slices are not told");
}

#[test]
fn heat_that_is_off_keeps_nothing() {
    let (heat, _) = heat();
    heat.used(&table(), TreeId(7), Use::Read, b"k");
    heat.turn_off();
    heat.used(&table(), TreeId(7), Use::Read, b"k");
    assert!(heat.slices().slices.is_empty());
}

#[test]
fn the_hottest_tablets_are_those_of_the_last_minutes() {
    let (heat, clock) = heat();
    (0..1_000).for_each(|_| heat.used(&table(), TreeId(1), Use::Read, b"long ago"));
    clock.advance(10 * SLICE);
    for (tree, kind, count) in
        [(2, Use::Read, 100), (3, Use::Write, 300), (2, Use::Write, 50), (4, Use::Read, 10)]
    {
        (0..count).for_each(|_| heat.used(&table(), TreeId(tree), kind, b"k"));
    }
    clock.advance(Duration::from_secs(10));
    // Two minutes, most of them without any use.
    let hot = heat.hottest_tablets(2);
    let told: Vec<_> = hot.iter().map(|one| (one.tree.0, one.reads, one.writes)).collect();
    assert_eq!(told, [(3, 0.0, 2.5), (2, 100.0 / 120.0, 50.0 / 120.0)]);
    assert_eq!(hot[0].table, table());
}

#[test]
fn rates_of_a_young_store_are_over_its_age() {
    let (heat, clock) = heat();
    (0..300).for_each(|_| heat.used(&table(), TreeId(3), Use::Write, b"k"));
    clock.advance(Duration::from_secs(10));
    assert_eq!(heat.hottest_tablets(1)[0].writes, 30.0);
}
