//! A map of bytes (`engine::kv`) in small worlds, against a map of the standard library.

use base::env::Rng;
use engine::kv::{Kv, KvBatch};
use engine::{Direction, IngestOptions, RowRange, Snapshot};
use sim::machine::Machine;
use sim::{names, small};
use std::collections::BTreeMap;
use std::path::Path;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Lives through the history of `seed`.
pub(crate) fn run(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed ^ 0x3a95);
    let machine = Machine::new(seed);
    let dir = Path::new("/data/map");
    let mut kv = Kv::open_with_env(machine.env(), dir, small::options(&mut rng)).map_err(show)?;
    let mut map = Map::new();
    let mut kept: Option<(Snapshot, Map)> = None;
    for step in 0..40 {
        let said = step_once(&mut kv, &mut map, &machine, &mut rng).map_err(show);
        said.map_err(|error| format!("map, step {step}: {error}"))?;
        match rng.below(12) {
            0 => kept = Some((kv.snapshot(), map.clone())),
            1 => {
                kept = None;
                kv.close().map_err(show)?;
                drop(kv);
                let options = small::options(&mut rng);
                kv = Kv::open_with_env(machine.env(), dir, options).map_err(show)?;
            }
            _ => {}
        }
        let asked = ask(&kv, &map, None, &mut rng);
        asked.map_err(|what| format!("map, step {step}, now: {what}"))?;
        if let Some((snapshot, map)) = &kept {
            let asked = ask(&kv, map, Some(snapshot), &mut rng);
            asked.map_err(|what| format!("map, step {step}, at a snapshot: {what}"))?;
        }
    }
    Ok(())
}

fn show(error: engine::Error) -> String {
    error.to_string()
}

fn step_once(kv: &mut Kv, map: &mut Map, machine: &Machine, rng: &mut Rng) -> engine::Result<()> {
    let tree = kv.engine().trees()[0];
    match rng.below(12) {
        0 => kv.engine().tree(tree)?.flush()?,
        1 => kv.engine().tree(tree)?.compact_range(&names::rows(rng))?,
        2 => machine.work(),
        3 => {
            let mut sorted = Map::new();
            (0..rng.below(20)).for_each(|_| {
                sorted.insert(names::row(rng), names::value(rng, 200));
            });
            let mut writer = kv.sorted_writer(&IngestOptions::default())?;
            for (key, value) in &sorted {
                writer.put(key, value)?;
            }
            writer.ingest()?;
            map.append(&mut sorted);
        }
        _ => {
            let mut batch = KvBatch::default();
            for _ in 0..1 + rng.below(8) {
                change(&mut batch, map, rng);
            }
            kv.write(&batch)?;
        }
    }
    Ok(())
}

fn change(batch: &mut KvBatch, map: &mut Map, rng: &mut Rng) {
    let key = names::row(rng);
    match rng.below(12) {
        0 | 1 => {
            batch.delete(&key);
            map.remove(&key);
        }
        2 => {
            let RowRange { start, end } = names::rows(rng);
            batch.delete_range(&start, end.as_deref());
            let range = RowRange { start, end };
            map.retain(|key, _| !range.contains(key));
        }
        _ => {
            let value = names::value(rng, 200);
            batch.put(&key, &value);
            map.insert(key, value);
        }
    }
}

fn ask(kv: &Kv, map: &Map, at: Option<&Snapshot>, rng: &mut Rng) -> Result<(), String> {
    let keys: Vec<Vec<u8>> = (0..10).map(|_| names::row(rng)).collect();
    for key in &keys {
        let found = kv.get_at(key, at).map_err(show)?;
        same("a get", key, found.as_deref(), map)?;
    }
    let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut outcome = Ok(());
    let mut lent = 0;
    let many = kv.multi_get_with(&wanted, at, |index, value| {
        lent += 1;
        let compared = same("a multi-get", &keys[index], value, map);
        outcome = outcome.clone().and(compared);
    });
    many.map_err(show)?;
    outcome?;
    let mut gets = kv.in_flight(1 + rng.index(8), at);
    (0..).zip(&keys).for_each(|(tag, key)| gets.submit(tag, key));
    while let Some((tag, found)) = gets.wait() {
        lent += 1;
        same("a get in flight", &keys[tag as usize], found.map_err(show)?.as_deref(), map)?;
    }
    if lent != 2 * keys.len() {
        return Err(format!("{lent} answers to {} questions", 2 * keys.len()));
    }
    let range = names::rows(rng);
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut scan = kv.scan(range.clone(), direction, at).map_err(show)?;
        let mut found = Vec::new();
        while let Some((key, value)) = scan.lend_next().map_err(show)? {
            found.push((key.to_vec(), value.to_vec()));
        }
        let inside = map.iter().filter(|(key, _)| range.contains(key));
        let mut expected: Vec<_> = inside.map(|(k, v)| (k.clone(), v.clone())).collect();
        if direction == Direction::Reverse {
            expected.reverse();
        }
        if found != expected {
            let (found, expected) = (found.len(), expected.len());
            return Err(format!("a scan {direction:?} of {range:?}: {found}, not {expected}"));
        }
    }
    Ok(())
}

fn same(how: &str, key: &[u8], found: Option<&[u8]>, map: &Map) -> Result<(), String> {
    let expected = map.get(key).map(Vec::as_slice);
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (found.map(<[u8]>::len), expected.map(<[u8]>::len));
    Err(format!("{how} of \"{}\": {found:?}, expected {expected:?}", key.escape_ascii()))
}
