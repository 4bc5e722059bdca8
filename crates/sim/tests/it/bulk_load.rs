//! A bulk load of rows that come in any order: sorted externally, written into SSTables of two
//! trees, ingested. Power fails, or the disk does, at every step of it: afterwards both trees have
//! the load or neither has, what was acknowledged stays, no file is left that nobody knows, and the
//! same load can be made again.

use base::env::sim::{Fault, FaultPoint};
use engine::internals::SORT_MEMORY_BYTES_MIN;
use engine::{
    Column, Engine, Error, FamilyId, IngestOptions, ScanRequest, SortOptions, Timestamp, TreeId,
    WriteBatch,
};
use engine::{Durability, TreeOptions};
use sim::machine::Machine;
use sim::points::{Point, try_all};
use sim::workload::small_options;
use std::path::Path;

const DIR: &str = "/data/store";
const TREES: [TreeId; 2] = [TreeId(1), TreeId(2)];
/// Rows of each tree.
const ROWS: u32 = 6;
/// What is sorted of each row, so that few rows fill the memory of the sort.
const PAYLOAD_BYTES: usize = 300 << 10;
/// What is kept of it.
const VALUE_BYTES: usize = 12_000;

fn open(machine: &Machine) -> engine::Result<Engine> {
    Engine::open_with_env(machine.env(), Path::new(DIR), small_options(Durability::Sync))
}

fn column() -> Column<'static> {
    Column::of(FamilyId(1), b"q")
}

fn row(number: u32) -> String {
    format!("row-{number:03}")
}

/// Makes both trees, with a row of the load's in the memtable of one and in a file of the other.
fn begin(engine: &Engine) -> engine::Result<()> {
    for tree in TREES {
        engine.create_tree(tree, TreeOptions::default())?;
        let mut batch = WriteBatch::new();
        for number in 0..ROWS {
            batch.put(row(number).as_bytes(), column(), Timestamp(1), &[0; VALUE_BYTES / 10]);
        }
        engine.tree(tree)?.write(&batch)?;
    }
    engine.tree(TREES[0]).and_then(|tree| tree.flush())
}

/// The whole load: what it writes is `value`.
fn load(engine: &Engine, value: u8) -> engine::Result<()> {
    let options = SortOptions { memory_bytes: SORT_MEMORY_BYTES_MIN };
    let mut sorter = engine.row_sorter(&options)?;
    for number in 0..ROWS {
        sorter.add(row(number * 5 % ROWS).as_bytes(), &vec![value; PAYLOAD_BYTES])?;
    }
    assert!(sorter.runs() > 1, "{} runs", sorter.runs());
    let mut sorted = sorter.finish()?;
    let writers = TREES
        .map(|tree| engine.tree(tree).and_then(|tree| tree.sst_writer(&IngestOptions::default())));
    let [mut first, mut second] = writers;
    while let Some((row, payload)) = sorted.next_row()? {
        for writer in [&mut first, &mut second] {
            let writer = writer.as_mut().map_err(|error| error.clone())?;
            writer.put(row, column(), Timestamp(1), &payload[..VALUE_BYTES])?;
        }
    }
    drop(sorted);
    let mut files = first?.finish()?;
    files.append(second?.finish()?)?;
    engine.ingest(&mut files).map(|_| ())
}

/// The value that all rows of both trees have: `None` before `begin` is done.
fn loaded(engine: &Engine) -> Result<Option<u8>, String> {
    let mut values = Vec::new();
    for tree in engine.trees() {
        let text = |error: Error| error.to_string();
        let mut scan = engine
            .tree(tree)
            .and_then(|tree| tree.scan(&ScanRequest::default(), None))
            .map_err(text)?;
        while scan.next_row().map_err(text)?.is_some() {
            while let Some(cell) = scan.next_cell().map_err(text)? {
                values.push(cell.value[0]);
            }
        }
    }
    match values.first() {
        None => Ok(None),
        Some(_) if values.len() < TREES.len() * ROWS as usize => Ok(None),
        Some(first) if values.iter().all(|value| value == first) => Ok(Some(*first)),
        Some(_) => Err(format!("a load is there in part: {values:?}")),
    }
}

/// Returns the number of steps that were acknowledged: the trees, the first load, the second.
fn go_on(engine: &Engine, acknowledged: &mut u8) -> engine::Result<()> {
    if *acknowledged == 0 {
        begin(engine)?;
        *acknowledged = 1;
    }
    for value in *acknowledged..=2 {
        load(engine, value)?;
        *acknowledged = value + 1;
    }
    Ok(())
}

/// The load is there as far as it was acknowledged, or one step further.
fn is_kept(engine: &Engine, acknowledged: u8) -> Result<(), String> {
    let done = loaded(engine)?.map_or(0, |value| value + 1);
    if done == acknowledged || done == acknowledged + 1 {
        return Ok(());
    }
    Err(format!("{acknowledged} steps were acknowledged, {done} are there"))
}

/// Closes `engine` and looks for files that nobody knows.
fn nothing_is_left(machine: &Machine, engine: Engine) -> Result<(), String> {
    engine.close().map_err(|error| error.to_string())?;
    drop(engine);
    let report = engine::check::check_dir(&machine.env(), Path::new(DIR), &mut |_| ());
    let report = report.map_err(|error| error.to_string())?;
    if report.is_clean() && report.notes.is_empty() {
        return Ok(());
    }
    Err(format!("{:?} {:?}", report.findings, report.notes))
}

/// Loads twice more, whatever was there, and looks at the outcome.
fn again(machine: &Machine) -> Result<(), String> {
    let text = |error: Error| format!("once more: {error}");
    let engine = open(machine).map_err(text)?;
    if engine.trees().len() == TREES.len() && loaded(&engine)?.is_some() {
        load(&engine, 3).map_err(text)?;
        load(&engine, 4).map_err(text)?;
        let found = loaded(&engine)?;
        if found != Some(4) {
            return Err(format!("loaded {found:?}, not 4"));
        }
    }
    nothing_is_left(machine, engine)
}

#[test]
fn power_loss_at_every_operation_of_a_bulk_load() {
    let operations = {
        let machine = Machine::new(1);
        let engine = open(&machine).unwrap();
        go_on(&engine, &mut 0).unwrap();
        nothing_is_left(&machine, engine).unwrap();
        machine.operations()
    };
    let points: Vec<Point> = (0..operations).map(|at| Point { seed: 1, at }).collect();
    try_all("power_loss_at_every_operation_of_a_bulk_load", &points, |Point { seed, at }| {
        let mut machine = Machine::new(seed << 32 | at);
        machine.lose_power_at(at);
        let mut acknowledged = 0;
        if let Ok(engine) = open(&machine) {
            let went = go_on(&engine, &mut acknowledged);
            if !machine.power_is_out() {
                went.map_err(|error| error.to_string())?;
                machine.lose_power();
            }
        }
        machine.restore_power();
        let engine = open(&machine).map_err(|error| error.to_string())?;
        is_kept(&engine, acknowledged)?;
        nothing_is_left(&machine, engine)?;
        again(&machine)
    });
}

/// Names of files that a load writes and that nothing counts among.
fn temporary(machine: &Machine) -> usize {
    let names = machine.env().fs.list(Path::new(DIR)).unwrap();
    names.iter().filter(|name| name.extension().is_some_and(|ext| ext == "sort")).count()
}

#[test]
fn the_disk_fails_at_every_call_of_a_bulk_load() {
    let faults = [
        (FaultPoint::Read, Fault::Io),
        (FaultPoint::Write, Fault::Io),
        (FaultPoint::Write, Fault::NoSpace),
        (FaultPoint::Sync, Fault::Io),
        (FaultPoint::Sync, Fault::NoSpace),
        (FaultPoint::Name, Fault::Io),
        (FaultPoint::Name, Fault::NoSpace),
    ];
    // Calls of a load at each point, and some more, which the fault then never meets.
    let points: Vec<Point> = (0..faults.len() as u64)
        .flat_map(|which| (0..70).map(move |at| Point { seed: which, at }))
        .collect();
    try_all("the_disk_fails_at_every_call_of_a_bulk_load", &points, |Point { seed, at }| {
        let (point, fault) = faults[seed as usize];
        let mut machine = Machine::new(seed << 32 | at);
        let engine = open(&machine).map_err(|error| error.to_string())?;
        begin(&engine).map_err(|error| error.to_string())?;
        machine.fail(point, at, fault);
        let first = load(&engine, 1);
        let met = !machine.heal();
        // A disk that is full stops nothing, unless it is a sync that finds it so.
        let latches = fault == Fault::Io || point == FaultPoint::Sync;
        let found = loaded(&engine)?;
        match &first {
            Ok(()) if found == Some(1) => {}
            Err(Error::Io { .. } | Error::NoSpace { .. }) if met && found == Some(0) => {}
            // What failed was a mark in the manifest that a flush of the load wrote.
            Err(Error::WritesStopped(_)) if met && latches && found == Some(0) => {}
            other => return Err(format!("{other:?} while {found:?} is there")),
        }
        // One that could not be removed stays until the next open.
        if temporary(&machine) > usize::from(met && point == FaultPoint::Name) {
            return Err("files of the sort are left".to_owned());
        }
        match load(&engine, 2) {
            Ok(()) if loaded(&engine)? == Some(2) => {}
            Err(Error::WritesStopped(_)) if met && latches => {}
            other => return Err(format!("the next load: {other:?} after {first:?}")),
        }
        let acknowledged = loaded(&engine)?;
        drop(engine);
        machine.lose_power();
        machine.restore_power();
        let engine = open(&machine).map_err(|error| error.to_string())?;
        let found = loaded(&engine)?;
        if found != acknowledged && (first.is_ok() || found != Some(1)) {
            return Err(format!("{acknowledged:?} was there, then {found:?}"));
        }
        drop(engine);
        again(&machine)
    });
}
