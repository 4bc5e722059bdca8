use super::flame::{Legend, Node, draw, samples};
use super::*;
use flate2::read::GzDecoder;
use prost::Message;
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// One test records at a time, since a process has one timer.
static ALONE: Mutex<()> = Mutex::new(());
static SINK: AtomicU64 = AtomicU64::new(0);

/// Uses CPU until it is told to end.
#[inline(never)]
fn a_function_that_is_busy(end: &AtomicBool) {
    while !end.load(Ordering::Relaxed) {
        let work = (0..10_000_u64).fold(1, |a: u64, b| std::hint::black_box(a.wrapping_mul(b | 1)));
        SINK.fetch_add(work, Ordering::Relaxed);
    }
}

#[inline(never)]
fn its_caller(end: &AtomicBool) {
    a_function_that_is_busy(end);
    std::hint::black_box(());
}

/// Calls `check` with profiles, made while a thread is busy, until it returns true. A machine with much
/// else to do may give that thread nothing for a while.
fn profiles_of_busy_thread(check: impl Fn(&Profile) -> bool) {
    let _alone = ALONE.lock().unwrap_or_else(|held| held.into_inner());
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("busy-bee".to_owned())
            .spawn_scoped(scope, || its_caller(&end))
            .unwrap();
        let record = |_| Profile::record(Duration::from_millis(500), &|| false).unwrap();
        let found = (0..100).map(record).any(|profile| check(&profile));
        end.store(true, Ordering::Relaxed);
        assert!(found, "no sample of the busy function");
    });
}

#[test]
fn a_busy_function_and_its_caller_are_in_the_profile() {
    profiles_of_busy_thread(|profile| {
        let mut bytes = Vec::new();
        GzDecoder::new(&profile.to_pprof()[..]).read_to_end(&mut bytes).unwrap();
        let message = pprof::message::Profile::decode(&bytes[..]).unwrap();
        let text = |index: i64| message.string_table[usize::try_from(index).unwrap()].as_str();
        let names = |id: &u64| -> Vec<&str> {
            let place = message.location.iter().find(|place| place.id == *id).unwrap();
            let function = |line: &pprof::message::Line| {
                let id = line.function_id;
                text(message.function.iter().find(|known| known.id == id).unwrap().name)
            };
            place.line.iter().map(function).collect()
        };
        assert_eq!((text(0), text(message.sample_type[1].r#type)), ("", "cpu"));
        assert_eq!(message.period, 10_000_000);
        assert!(message.duration_nanos >= 500_000_000 && message.time_nanos > 0);
        message.sample.iter().any(|sample| {
            let stack: Vec<_> = sample.location_id.iter().flat_map(names).collect();
            let at = |name| stack.iter().position(|have: &&str| have.contains(name));
            let (inner, outer) = (at("a_function_that_is_busy"), at("its_caller"));
            assert!(sample.value[0] > 0 && sample.value[1] == sample.value[0] * message.period);
            inner.is_some() && outer > inner && text(sample.label[0].str) == "busy-bee"
        })
    });
}

#[test]
fn a_flame_graph_shows_the_busy_function() {
    profiles_of_busy_thread(|profile| {
        let svg = profile.to_svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        svg.contains("a_function_that_is_busy") && svg.contains("<title>busy-bee: ")
    });
}

#[test]
fn one_profile_is_recorded_at_a_time_and_one_that_is_given_up_ends() {
    let _alone = ALONE.lock().unwrap_or_else(|held| held.into_inner());
    let second = std::cell::Cell::new(None);
    let cancelled = || {
        second.set(Some(Profile::record(Duration::from_secs(1), &|| false)));
        true
    };
    let first = Profile::record(Duration::from_secs(3_600), &cancelled);
    assert!(matches!(first, Err(Error::Cancelled)), "{first:?}");
    let second = second.take().unwrap();
    assert!(matches!(second, Err(Error::Running)), "{second:?}");
    Profile::record(Duration::ZERO, &|| false).unwrap();
}

#[test]
fn names_are_escaped_and_narrow_boxes_are_left_out() {
    let mut root = Node::default();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    root.add(names(&["main", "<T as \"a&b\">::\u{1}f"]).into_iter(), 99_999);
    root.add(names(&["main", "rare"]).into_iter(), 1);
    let legend = Legend { title: "CPU", about: "all & more", amount: samples };
    let svg = draw(&root, &legend);
    assert!(svg.contains("&lt;T as &quot;a&amp;b&quot;&gt;::?f: 100.00 %, 99999 samples"), "{svg}");
    assert!(svg.contains("all &amp; more") && !svg.contains("rare"), "{svg}");
    assert!(draw(&Node::default(), &legend).ends_with("</svg>\n"));
}

#[test]
fn many_cores_give_no_more_samples_than_a_few() {
    for (cores, millis) in [(1, 10), (4, 10), (5, 20), (64, 160), (u32::MAX, 107_374_190)] {
        assert_eq!(interval(cores).as_millis(), millis, "{cores}");
    }
}
