//! Disks that fail or are full, state machines that lag, and logs that cannot be understood.

use super::*;
use base::env::sim::{Call, Fault, FaultPoint};

/// Longest wait of a request to a node that is alone.
const WAIT: Duration = Duration::from_secs(2);

/// A node that is alone in its group, on a simulated machine.
struct Alone {
    machine: SimEnv,
    node: Arc<Node>,
    engine: Engine,
    told: Arc<Told>,
}

impl Alone {
    fn open(machine: SimEnv) -> Self {
        let (engine, log) = open_parts(&machine.env(), Path::new("/data"), &small(), 1);
        let mut options = Options::new(NodeId(1), 1);
        options.wait_max = WAIT;
        options.driver.tick = Duration::from_millis(10);
        let told = Arc::<Told>::default();
        // The clock of the simulated machine stands still.
        let env = Env { clock: Arc::new(base::env::SystemClock), ..machine.env() };
        let links = Arc::new(End { net: Arc::default(), me: NodeId(1) });
        let parts = Parts { env, engine: engine.clone(), log, links, tables: told.clone() };
        let node = Node::open(options, parts).unwrap();
        Self { machine, node, engine, told }
    }

    fn new() -> Self {
        let alone = Self::open(SimEnv::new(1));
        let mut descriptor = descriptor(TREE);
        descriptor.members.truncate(1);
        block_on(alone.node.create(tablets::group_of(TREE), descriptor)).unwrap();
        wait_for("a first write", || write_to(&alone.node, TREE, "first").is_ok());
        alone
    }

    fn reopen(self, after: fn(SimEnv) -> SimEnv) -> Self {
        let Self { machine, node, engine, .. } = self;
        drop((node, engine));
        Self::open(after(machine))
    }
}

#[test]
fn a_failed_sync_ends_the_node_and_loses_nothing() {
    let alone = Alone::new();
    let mut failed = alone.node.failed();
    assert_eq!(*failed.borrow_and_update(), None);
    alone.machine.fs.inject(FaultPoint::Call(Call::SyncFile), 0, 1, Fault::Io);
    let written = write_to(&alone.node, TREE, "never acknowledged");
    assert!(
        matches!(&written, Err(Error::Unavailable(text)) if text.contains("sync")),
        "{written:?}"
    );
    let why = failed.borrow().clone().unwrap();
    assert!(why.contains("the group log failed"), "{why}");
    let read = block_on(alone.node.readable(TREE));
    assert!(matches!(&read, Err(Error::Unavailable(_))), "{read:?}");
    let alone = alone.reopen(SimEnv::power_loss);
    wait_for("a leader", || block_on(alone.node.readable(TREE)).is_ok());
    assert!(get(&alone.engine, TREE, "first").is_some());
}

#[test]
fn a_full_disk_is_waited_for() {
    let alone = Alone::new();
    alone.machine.fs.inject(FaultPoint::Call(Call::WriteAt), 0, 3, Fault::NoSpace);
    wait_for("a write when there is space", || write_to(&alone.node, TREE, "second").is_ok());
    assert!(alone.machine.fs.struck() > 0);
    assert_eq!(*alone.node.failed().borrow(), None);
    let alone = alone.reopen(SimEnv::kill);
    wait_for("a leader", || block_on(alone.node.readable(TREE)).is_ok());
    assert!(get(&alone.engine, TREE, "second").is_some());
}

#[test]
fn changes_of_replicas_are_refused_on_a_full_disk_and_do_not_pile_up() {
    let alone = Alone::new();
    let group = tablets::group_of(OTHER);
    let mut descriptor = descriptor(OTHER);
    descriptor.members.truncate(1);
    let create = || block_on(alone.node.create(group, descriptor.clone()));
    // The tree is there, so that only the log needs space.
    alone.engine.tree_or_create(OTHER, engine::TreeOptions::default()).unwrap();
    let running = || alone.node.shared.tasks.running();
    let before = running();
    alone.machine.fs.inject(FaultPoint::Call(Call::WriteAt), 0, u64::MAX, Fault::NoSpace);
    for _ in 0..2 {
        let refused = create();
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
        let refused = block_on(alone.node.remove(group, ReplicaId(1), 1));
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    }
    wait_for("the end of all changes but the one that waits for space", || running() <= before + 1);
    assert!(alone.machine.fs.clear_faults());
    wait_for("the replica", || create().is_ok());
    wait_for("a write", || write_to(&alone.node, OTHER, "row").is_ok());
}

#[test]
fn a_damaged_record_ends_a_node_that_has_to_read_it_for_others() {
    let machines: BTreeMap<_, _> = (1..=3).map(|id| (id, SimEnv::new(id))).collect();
    let mut shape = crate::Shape::DEFAULT;
    (shape.cached_bytes_max, shape.append_bytes_max) = (0, 2000);
    let mut cluster = Cluster::on(machines, small(), shape);
    cluster.create(TREE);
    cluster.write(TREE, "first");
    let leader = cluster.leader(TREE);
    let away = leader % 3 + 1;
    cluster.stop(away);
    let mut all = vec!["first".to_owned()];
    for row in 0..40 {
        all.push(format!("{row:04}{}", "x".repeat(100)));
        cluster.write(TREE, all.last().unwrap());
    }
    // Whichever of the two leads when the third one is back has to read the record.
    let both: Vec<u64> = (1..=3).filter(|id| *id != away).collect();
    both.iter().for_each(|id| flip_row(&cluster.machines[id].fs, &all[20]));
    cluster.start(away);
    let why_of = |cluster: &Cluster, id: &u64| cluster.nodes[id].failed().borrow().clone();
    wait_for("the end of a node", || both.iter().any(|id| why_of(&cluster, id).is_some()));
    let ended = *both.iter().find(|id| why_of(&cluster, id).is_some()).unwrap();
    let why = why_of(&cluster, &ended).unwrap();
    assert!(why.contains("entries of group 16 cannot be read") && why.contains(".glog"), "{why}");
    cluster.stop(ended);
    // Another node leads, and its log is whole. It may have met the damage before that.
    let other = *both.iter().find(|id| **id != ended).unwrap();
    cluster.stop(other);
    flip_row(&cluster.machines[&other].fs, &all[20]);
    cluster.start(other);
    cluster.write(TREE, "after");
    all.push("after".to_owned());
    cluster.expect_rows(TREE, &all);
}

/// Flips a bit of a row in the group log of a machine, or flips it back.
fn flip_row(disk: &base::env::sim::SimFs, row: &str) {
    let (row, mut flipped) = (row.as_bytes(), row.as_bytes().to_vec());
    flipped[0] ^= 1;
    for (path, _) in disk.files() {
        let bytes = disk.read(&path).unwrap();
        let found = bytes.windows(row.len()).position(|part| part == row || part == flipped);
        if let Some(at) = found.filter(|_| path.extension() == Some("glog".as_ref())) {
            disk.flip(&path, at, 1).unwrap();
        }
    }
}

#[test]
fn a_state_machine_that_lags_stops_no_other_group() {
    let cluster = Cluster::new();
    cluster.create(TREE);
    cluster.create(OTHER);
    let group = tablets::group_of(TREE);
    cluster.write(OTHER, "0");
    let leader = cluster.leader(TREE);
    *cluster.told.held.lock() = Some(group);
    let node = Arc::clone(&cluster.nodes[&leader]);
    let set = std::thread::Builder::new()
        .spawn(move || block_on(node.set_schema(group, 2, b"held up")))
        .unwrap();
    (1..20).for_each(|row| cluster.write(OTHER, &row.to_string()));
    assert!(cluster.told.schemas.lock().is_empty(), "the other group is still held up");
    *cluster.told.held.lock() = None;
    // The caller may have been told that it took too long.
    let outcome = set.join().unwrap();
    assert!(matches!(outcome, Ok(()) | Err(Error::Unavailable(_))), "{outcome:?}");
    wait_for("the schema", || cluster.told.schemas.lock().len() == 3);
    cluster.write(TREE, "after");
}

#[test]
fn a_command_that_is_not_understood_ends_the_node_by_name() {
    let alone = Alone::new();
    let ready = block_on(alone.node.writable(TREE)).unwrap();
    let hosted = alone.node.shared.replicas.of_tree(TREE).unwrap();
    let command = Bytes::from_static(&[9, 1]);
    let _answer = alone.node.propose(&hosted, Some(ready.term), command, None);
    let failed = alone.node.failed();
    wait_for("the end", || failed.borrow().is_some());
    let why = failed.borrow().clone().unwrap();
    assert!(why.contains("group 16") && why.contains("command of version 9"), "{why}");
    assert!(alone.told.schemas.lock().is_empty());
}

#[test]
fn a_leader_whose_disk_is_full_hands_its_groups_over() {
    let machines: BTreeMap<_, _> = (1..=3).map(|id| (id, SimEnv::new(id))).collect();
    let cluster = Cluster::on(machines, small(), crate::Shape::DEFAULT);
    cluster.create(TREE);
    cluster.write(TREE, "before");
    let full = cluster.leader(TREE);
    let disk = &cluster.machines[&full].fs;
    disk.inject(FaultPoint::Call(Call::WriteAt), 0, u64::MAX, Fault::NoSpace);
    wait_for("a full log", || {
        let _ = write_to(&cluster.nodes[&full], TREE, "during");
        cluster.nodes[&full].waits_for_space()
    });
    wait_for("another leader", || cluster.leader(TREE) != full);
    cluster.write(TREE, "during");
    cluster.write(TREE, "after");
    assert!(disk.clear_faults());
    let rows = ["after", "before", "during"].map(str::to_owned);
    cluster.expect_rows(TREE, &rows);
    assert!(cluster.nodes.values().all(|node| node.failed().borrow().is_none()));
}
