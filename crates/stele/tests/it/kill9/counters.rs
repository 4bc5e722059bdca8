//! Counters that all writers increment. Each acknowledged increment answered with a value of its
//! own; after a kill a counter is at least at the number of acknowledged increments, and no
//! further than those that were in flight can have brought it.

use super::wire::{Client, integer};
use std::collections::BTreeSet;
use std::sync::Mutex;
use tonic::Status;

const COUNTERS: usize = 4;

#[derive(Default)]
pub(crate) struct Counters {
    /// Guards what is known of each counter.
    counters: Mutex<[Counter; COUNTERS]>,
}

#[derive(Default)]
struct Counter {
    /// Its value at the last check.
    base: u64,
    /// Values that increments since then answered.
    answers: BTreeSet<u64>,
    /// Increments since then without an answer.
    in_doubt: u64,
}

impl Counters {
    /// Increments one of the counters, chosen by `any`.
    pub(crate) async fn increment(&self, client: &mut Client, any: u64) -> Result<(), Status> {
        let index = any as usize % COUNTERS;
        let answer = client.increment(&key(index)).await;
        let counter = &mut self.counters.lock().unwrap()[index];
        match answer {
            Ok(value) => {
                assert!(value > counter.base, "{} went back to {value}", key(index));
                assert!(counter.answers.insert(value), "{} was {value} twice", key(index));
                Ok(())
            }
            Err(error) => {
                counter.in_doubt += 1;
                Err(error)
            }
        }
    }

    /// Compares the counters with what was answered. No writer runs meanwhile.
    pub(crate) async fn check(&self, client: &mut Client) {
        let rows = client.read("shared-").await;
        for (index, counter) in self.counters.lock().unwrap().iter_mut().enumerate() {
            let cells =
                rows.get(&key(index)).and_then(|row| row.get(&("count".into(), "n".into())));
            let value = cells.map_or(0, |cells| integer(&cells[0]));
            let least = counter.base + counter.answers.len() as u64;
            let most = least + counter.in_doubt;
            let highest = counter.answers.last().copied().unwrap_or_default();
            assert!(
                (least..=most).contains(&value) && highest <= value,
                "{} is {value}, not {least} to {most} (answered up to {highest})",
                key(index)
            );
            *counter = Counter { base: value, ..Counter::default() };
        }
    }
}

fn key(index: usize) -> String {
    format!("shared-{index}")
}
