//! Whole clusters in one thread ([`sim::world`]): histories of clients under every fault, and planted
//! defects, each of which must be noticed.
//!
//! `STELE_SEEDS` says how many worlds, `STELE_FIRST` from which seed on. A failure prints the line that
//! repeats it; with it `STELE_TELL=1` tells everything that happened. One test runs at a time, for the
//! first one looks at its end whether its own worlds have hit every coverage mark.

mod marks;

use sim::points::{Point, number, try_all, wanted};
use sim::world::{self, Defect};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Worlds of one usual run.
const WORLDS: u64 = 400;
/// Worlds that suit a planted defect, in which it must be noticed.
const DEFECT_WORLDS: usize = 2000;

static TURN: Mutex<()> = Mutex::new(());

/// Waits for the end of other tests. One that failed makes no other fail.
fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn clusters_are_right_whatever_befalls_them() {
    let _turn = turn();
    let worlds = number("STELE_SEEDS").unwrap_or(WORLDS);
    let first = number("STELE_FIRST").unwrap_or(0u64);
    let tell = wanted().is_some() && number("STELE_TELL") == Some(1u64);
    let points: Vec<Point> = (first..first + worlds).map(|seed| Point { seed, at: 0 }).collect();
    let (begin, before) = (Instant::now(), marks::hits());
    try_all("--test cluster clusters", &points, |Point { seed, .. }| {
        world::live(seed, None, tell).map(|_| ())
    });
    if wanted().is_none() {
        let hits = marks::since(&before);
        marks::print(&hits, worlds, begin.elapsed());
        if worlds >= WORLDS {
            marks::check(&hits);
        }
    }
}

#[test]
fn a_world_is_the_same_each_time() {
    let _turn = turn();
    for seed in 0..5 {
        assert_eq!(world::live(seed, None, false), world::live(seed, None, true), "seed {seed}");
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "defects are in builds with debug assertions only")]
fn every_planted_defect_is_noticed() {
    let _turn = turn();
    let defects = Defect::all();
    let points: Vec<Point> = (0..defects.len() as u64).map(|at| Point { seed: 0, at }).collect();
    try_all("--test cluster every_planted", &points, |Point { at, .. }| {
        let defect = defects[at as usize];
        let suitable = (0..).filter(|seed| world::suits(*seed, defect));
        let noticed = suitable.take(DEFECT_WORLDS).find(|seed| is_noticed(*seed, defect));
        let text = format!("{defect:?} is not noticed in {DEFECT_WORLDS} worlds");
        if let (Some(seed), true) = (noticed, number("STELE_TELL") == Some(1u64)) {
            marks::tell(&format!("{defect:?} is noticed in world {seed}"));
        }
        noticed.map(|_| ()).ok_or(text)
    });
}

/// Returns true if the world goes wrong, or its driver or log panics.
fn is_noticed(seed: u64, defect: Defect) -> bool {
    let lived = || world::live(seed, Some(defect), false);
    !catch_unwind(AssertUnwindSafe(lived)).is_ok_and(|lived| lived.is_ok())
}
