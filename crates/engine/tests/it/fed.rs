//! An engine of a node of a cluster: its trees take batches with positions of a group's log, and have
//! after a restart what was flushed. The group's log is a list here.

use base::env::{Rng, SimEnv};
use engine::check::check_dir;
use engine::{
    ClusterId, Column, ColumnOf, Engine, Error, FamilyId, Fed, IngestOptions, LogPosition, Member,
    NodeId, Options, ReadyBatch, Timestamp, TreeId, TreeOptions, WriteBatch,
};
use std::collections::BTreeMap;
use std::path::Path;

const FAMILY: FamilyId = FamilyId(1);
const TREES: [TreeId; 2] = [TreeId(16), TreeId(17)];
const MEMBER: Member = Member { cluster: ClusterId(7), node: NodeId(3) };

fn dir() -> &'static Path {
    Path::new("/data")
}

fn open(machine: &SimEnv) -> engine::Result<Engine> {
    open_as(machine, MEMBER)
}

fn open_as(machine: &SimEnv, member: Member) -> engine::Result<Engine> {
    let options = Options { memtable_bytes_max: 64 << 10, ..Options::default() };
    Engine::open_member(machine.env(), dir(), options, member)
}

/// The change that an entry makes in one tree: a row is put, or deleted.
type Change = Option<(u8, Option<Vec<u8>>)>;

/// An entry of the group's log. One without any change is of consensus itself.
#[derive(Debug, Clone, Default)]
struct Entry([Change; 2]);

fn draw(rng: &mut Rng) -> Entry {
    if rng.chance(20) {
        return Entry::default();
    }
    let mut change = || {
        let value = rng.chance(75).then(|| vec![7; 1 + rng.index(9000)]);
        Some((rng.below(12) as u8, value)).filter(|_| rng.chance(70))
    };
    Entry([change(), change()])
}

fn batch(change: &Change) -> Option<WriteBatch> {
    let (row, value) = change.as_ref()?;
    let mut batch = WriteBatch::new();
    match value {
        Some(value) => batch.put(&[*row], Column::of(FAMILY, b"q"), Timestamp(1), value),
        None => batch.delete_row(&[*row]),
    };
    Some(batch)
}

/// Feeds the entries from index `first` on to the trees, each with its own call or all with one.
fn feed(engine: &Engine, log: &[Entry], first: usize) -> engine::Result<()> {
    for (at, entry) in log.iter().enumerate().skip(first - 1) {
        let ready = |batch: WriteBatch| batch.ready().unwrap();
        let batches = entry.0.each_ref().map(|change| batch(change).map(ready));
        let fed = [0, 1].map(|which| Fed {
            tree: TREES[which],
            position: LogPosition(at as u64 + 1),
            batch: batches[which].as_ref(),
        });
        engine.apply(&fed)?;
    }
    Ok(())
}

fn flushed(engine: &Engine) -> [u64; 2] {
    TREES.map(|tree| engine.tree(tree).unwrap().flushed().unwrap().0)
}

fn compare(engine: &Engine, log: &[Entry], case: &str) {
    for (which, tree) in TREES.into_iter().enumerate() {
        let mut rows = BTreeMap::new();
        for (row, value) in log.iter().filter_map(|entry| entry.0[which].clone()) {
            rows.insert(row, value);
        }
        let tree = engine.tree(tree).unwrap();
        for row in 0..12 {
            let found = tree.get(ColumnOf::new(&[row], FAMILY, b"q"), None).unwrap();
            let wanted = rows.get(&row).cloned().flatten();
            assert_eq!(found.map(|(_, value)| value), wanted, "{case}: row {row} of tree {which}");
        }
        let (applied, flushed) = (tree.applied().unwrap(), tree.flushed().unwrap());
        assert_eq!((applied.0, flushed <= applied), (log.len() as u64, true), "{case}");
    }
}

/// Opens the engine with its trees.
fn begin(machine: &SimEnv) -> engine::Result<Engine> {
    let engine = open(machine)?;
    for tree in TREES {
        engine.tree_or_create(tree, TreeOptions::default())?;
    }
    Ok(engine)
}

/// Feeds and flushes until the machine fails or the script ends. `log` holds all entries that were fed, or
/// may have been.
fn run(machine: &SimEnv, log: &mut Vec<Entry>, rng: &mut Rng, steps: u64) -> engine::Result<()> {
    let engine = begin(machine)?;
    feed(&engine, log, 1)?;
    let mut before = flushed(&engine);
    for _ in 0..steps {
        if rng.chance(80) {
            log.push(draw(rng));
            feed(&engine, log, log.len())?;
        } else {
            let tree = *rng.pick(&TREES);
            engine.tree(tree)?.flush()?;
            let now = flushed(&engine);
            assert!(now[0] >= before[0] && now[1] >= before[1]);
            let which = usize::from(tree == TREES[1]);
            assert_eq!(now[which], log.len() as u64, "positions without batches too");
            before = now;
        }
    }
    Ok(())
}

#[test]
fn a_restart_and_the_entries_after_the_flushed_ones_give_the_same_state() {
    for seed in 0..2 {
        let machine = SimEnv::new(seed);
        let mut log = Vec::new();
        run(&machine, &mut log, &mut Rng::new(seed), 40).unwrap();
        let operations = machine.fs.operations();
        assert!(operations > 60, "{operations}");
        for at in 1..=operations {
            let case = format!("seed {seed}, power off at {at}");
            let machine = SimEnv::new(seed);
            let mut log = Vec::new();
            machine.fs.power_off_at(at);
            let _ = run(&machine, &mut log, &mut Rng::new(seed), 40);
            let machine = if at % 2 == 0 { machine.power_loss() } else { machine.kill() };
            machine.fs.power_off_at(u64::MAX);
            let engine = begin(&machine).unwrap_or_else(|error| panic!("{case}: {error}"));
            let kept = flushed(&engine);
            assert!(kept.iter().all(|position| *position <= log.len() as u64), "{case}");
            // Entries that a tree has are passed over.
            feed(&engine, &log, 1 + *kept.iter().min().unwrap() as usize).unwrap();
            compare(&engine, &log, &case);
            feed(&engine, &log, 1).unwrap();
            compare(&engine, &log, &case);
            TREES.iter().for_each(|tree| engine.tree(*tree).unwrap().flush().unwrap());
            drop(engine);
            let machine = machine.power_loss();
            let engine = begin(&machine).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(flushed(&engine), [log.len() as u64; 2], "{case}");
            compare(&engine, &log, &case);
        }
    }
}

#[test]
fn a_call_is_seen_whole_and_nothing_is_logged() {
    let machine = SimEnv::new(1);
    let engine = begin(&machine).unwrap();
    let entry = Entry([Some((1, Some(vec![1]))), Some((2, Some(vec![2])))]);
    let before = engine.snapshot();
    feed(&engine, std::slice::from_ref(&entry), 1).unwrap();
    compare(&engine, &[entry], "after one call");
    let row = ColumnOf::new(&[1], FAMILY, b"q");
    assert_eq!(engine.tree(TREES[0]).unwrap().get(row, Some(&before)).unwrap(), None);
    let names = machine.env().fs.list(dir()).unwrap();
    assert!(names.iter().all(|name| name.extension() != Some("log".as_ref())), "{names:?}");
    engine.close().unwrap();
    let refused = feed(&engine, &[Entry::default()], 1);
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    drop((engine, before));
    assert!(check_dir(&machine.env(), dir(), &mut |_| ()).unwrap().is_clean());
}

#[test]
fn nothing_else_writes_to_the_trees_of_a_node() {
    let machine = SimEnv::new(1);
    let engine = begin(&machine).unwrap();
    let tree = engine.tree(TREES[0]).unwrap();
    let one = batch(&Some((1, Some(vec![1])))).unwrap();
    let refused = |what: engine::Result<()>, case: &str| {
        let text = match what {
            Err(Error::InvalidArgument(text)) => text,
            other => panic!("{case}: {other:?}"),
        };
        assert!(text.contains("node 3 of cluster"), "{case}: {text}");
    };
    refused(tree.write(&one).map(drop), "write");
    refused(engine.checkpoint(Path::new("/copy")), "checkpoint");
    refused(tree.copy_to(TreeId(30)), "copy");
    let retention = std::time::Duration::from_secs(9);
    refused(engine.keep_changes(&TREES, retention).map(drop), "changes");
    let mut writer = tree.sst_writer(&IngestOptions::default()).unwrap();
    writer.put(&[1], Column::of(FAMILY, b"q"), Timestamp(1), b"x").unwrap();
    refused(engine.ingest(&mut writer.finish().unwrap()).map(drop), "ingest");
    let one = one.ready().unwrap();
    let fed = |tree, position| engine.apply(&[Fed { tree, position, batch: Some(&one) }]);
    for position in [LogPosition(0), LogPosition(1 << 56), LogPosition(u64::MAX)] {
        let error = fed(TREES[0], position);
        assert!(matches!(error, Err(Error::InvalidArgument(_))), "{position:?}: {error:?}");
    }
    assert!(matches!(fed(TreeId(99), LogPosition(1)), Err(Error::UnknownTree(_))));
    let mut timed = WriteBatch::new();
    timed.put_timed(&[1], Column::of(FAMILY, b"q"), b"x");
    let mut timed = timed.ready().unwrap();
    let error =
        engine.apply(&[Fed { tree: TREES[0], position: LogPosition(1), batch: Some(&timed) }]);
    assert!(matches!(error, Err(Error::InvalidArgument(_))), "{error:?}");
    compare(&engine, &[], "nothing was applied");
    let (newest, ()) = timed.set_times(|times| times.set(0..1, Timestamp(5)));
    assert_eq!((newest, timed.open_times()), (5, 0));
    assert_eq!(ReadyBatch::decode(timed.encoding()).unwrap(), timed);
    assert!(ReadyBatch::decode(&timed.encoding()[1..]).is_err());
    // And an engine of no cluster takes no batches with positions.
    let machine = SimEnv::new(2);
    let alone = Engine::open_with_env(machine.env(), dir(), Options::default()).unwrap();
    alone.create_tree(TREES[0], TreeOptions::default()).unwrap();
    let error = alone.apply(&[Fed { tree: TREES[0], position: LogPosition(1), batch: None }]);
    assert!(matches!(error, Err(Error::InvalidArgument(_))), "{error:?}");
}

#[test]
fn a_directory_is_opened_only_as_what_it_is() {
    let text = |opened: engine::Result<Engine>| match opened {
        Err(Error::Unusable { what, .. }) => what,
        other => panic!("{:?}", other.map(|_| "it opened")),
    };
    let machine = SimEnv::new(1);
    drop(begin(&machine).unwrap());
    let alone = || Engine::open_with_env(machine.env(), dir(), Options::default());
    let what = text(alone());
    assert!(
        what.contains("the directory of node 3 of cluster") && what.contains("start"),
        "{what}"
    );
    for other in [Member { node: NodeId(4), ..MEMBER }, Member { cluster: ClusterId(8), ..MEMBER }]
    {
        let what = text(open_as(&machine, other));
        assert!(what.contains(&format!("not of {other}")) && what.contains("empty"), "{what}");
    }
    assert_eq!(open(&machine).unwrap().trees(), TREES);
    let machine = SimEnv::new(2);
    let alone = Engine::open_with_env(machine.env(), dir(), Options::default()).unwrap();
    alone.create_tree(TREES[0], TreeOptions::default()).unwrap();
    drop(alone);
    let what = text(open(&machine));
    assert!(what.contains("data of a single server"), "{what}");
    assert!(Engine::open_with_env(machine.env(), dir(), Options::default()).is_ok());
}
