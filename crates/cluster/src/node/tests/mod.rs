//! Tests of nodes at work: three nodes of one process, over connections in memory and real files.
//!
//! Nothing here asserts speed. What must happen in the end is waited for, long.

mod failures;
mod keeping;
mod logs;
mod stranding;
mod writes;

use super::*;
use crate::group::Member;
use base::env::Env;
use base::env::sim::SimEnv;
use base::testing::block_on;
use bytes::Bytes;
use engine::group_log::GroupLog;
use engine::{ClusterId, Column, ColumnOf, Engine, FamilyId, Timestamp, TreeId, WriteBatch};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use table::{Error, GroupWrite, Result, Term};

const TREE: TreeId = TreeId(16);
const OTHER: TreeId = TreeId(17);
const FAMILY: FamilyId = FamilyId(1);
/// Longest wait for what must happen in the end.
const LONG: Duration = Duration::from_secs(120);

/// Waits until `met` returns true.
fn wait_for(what: &str, mut met: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !met() {
        assert!(begun.elapsed() < LONG, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Connections of all nodes of a process.
#[derive(Default)]
struct Net {
    nodes: Mutex<BTreeMap<NodeId, Weak<Node>>>,
    /// Nodes from which and to which nothing comes.
    cut: Mutex<BTreeSet<NodeId>>,
    sent: AtomicU64,
}

/// The end of all connections at one node.
struct End {
    net: Arc<Net>,
    me: NodeId,
}

impl Links for End {
    fn send(&self, to: NodeId, messages: Vec<Message>) {
        let cut = self.net.cut.lock();
        if cut.contains(&to) || cut.contains(&self.me) {
            return;
        }
        drop(cut);
        self.net.sent.fetch_add(messages.len() as u64, Ordering::Relaxed);
        let node = self.net.nodes.lock().get(&to).and_then(Weak::upgrade);
        // As the messages come from the wire.
        let frames = crate::format::encode_frames(&messages, 1 << 16);
        for frame in frames {
            let read = crate::format::decode_frame(&frame).unwrap();
            if let Some(node) = &node {
                node.receive(self.me, read);
            }
        }
    }
}

/// Schemas that the replicas applied.
#[derive(Default)]
struct Told {
    schemas: Mutex<Vec<(GroupId, u64, Bytes)>>,
    /// A group whose task is held up.
    held: Mutex<Option<GroupId>>,
}

impl Tables for Told {
    fn schema_applied(&self, group: GroupId, version: u64, record: &Bytes) {
        while *self.held.lock() == Some(group) {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.schemas.lock().push((group, version, record.clone()));
    }
}

/// Nodes 1 to 3, each with a directory.
struct Cluster {
    dir: PathBuf,
    net: Arc<Net>,
    told: Arc<Told>,
    options: engine::Options,
    nodes: BTreeMap<u64, Arc<Node>>,
    engines: BTreeMap<u64, Engine>,
    shape: crate::Shape,
    kept_segments_max: usize,
    starts: u64,
    /// Simulated machines of nodes that have one; the others are on this machine.
    machines: BTreeMap<u64, SimEnv>,
    /// Dropped last, when no node uses it.
    _dirs: tempfile::TempDir,
}

fn small() -> engine::Options {
    engine::Options { log_segment_bytes: 64 << 10, ..engine::Options::default() }
}

impl Cluster {
    fn new() -> Self {
        Self::with(small(), crate::Shape::DEFAULT)
    }

    fn with(options: engine::Options, shape: crate::Shape) -> Self {
        Self::on(BTreeMap::new(), options, shape)
    }

    fn on(machines: BTreeMap<u64, SimEnv>, options: engine::Options, shape: crate::Shape) -> Self {
        Self::keeping(128, machines, options, shape)
    }

    /// Starts nodes that keep so many segments for others.
    fn keeping(
        kept_segments_max: usize,
        machines: BTreeMap<u64, SimEnv>,
        options: engine::Options,
        shape: crate::Shape,
    ) -> Self {
        let dirs = tempfile::tempdir().unwrap();
        let mut cluster = Self {
            dir: dirs.path().to_owned(),
            _dirs: dirs,
            net: Arc::default(),
            told: Arc::default(),
            options,
            nodes: BTreeMap::new(),
            engines: BTreeMap::new(),
            shape,
            kept_segments_max,
            starts: 0,
            machines,
        };
        (1..=3).for_each(|node| cluster.start(node));
        cluster
    }

    fn start(&mut self, id: u64) {
        self.starts += 1;
        let dir = self.dir.join(id.to_string());
        let env = match self.machines.get(&id) {
            // The clock of a simulated machine stands still.
            Some(machine) => Env { clock: Arc::new(base::env::SystemClock), ..machine.env() },
            None => Env::real(1),
        };
        let (engine, log) = open_parts(&env, &dir, &self.options, id);
        let mut options = Options::new(NodeId(id), self.starts * 1000 + id);
        options.driver.tick = Duration::from_millis(40);
        options.driver.sleep_ticks = 20;
        options.driver.shape = self.shape;
        options.upkeep_every = Duration::from_millis(50);
        options.kept_segments_max = self.kept_segments_max;
        let links = Arc::new(End { net: Arc::clone(&self.net), me: NodeId(id) });
        let parts = Parts { env, engine: engine.clone(), log, links, tables: self.told.clone() };
        let node = Node::open(options, parts).unwrap();
        self.net.nodes.lock().insert(NodeId(id), Arc::downgrade(&node));
        self.nodes.insert(id, node);
        self.engines.insert(id, engine);
    }

    /// Stops a node without a flush, as far as a process can do that to a part of itself.
    fn stop(&mut self, id: u64) {
        self.net.nodes.lock().remove(&NodeId(id));
        self.engines.remove(&id);
        self.nodes.remove(&id).unwrap().close();
        self.nodes.values().for_each(|node| node.lost(NodeId(id)));
    }

    fn cut(&self, id: u64) {
        self.net.cut.lock().insert(NodeId(id));
        for (other, node) in &self.nodes {
            let gone = self.nodes.keys().filter(|gone| *gone != other);
            gone.filter(|gone| **gone == id || *other == id)
                .for_each(|gone| node.lost(NodeId(*gone)));
        }
    }

    fn connect(&self) {
        self.net.cut.lock().clear();
    }

    /// Creates the group of a tree on all nodes.
    fn create(&self, tree: TreeId) {
        for node in self.nodes.values() {
            block_on(node.create(tablets::group_of(tree), descriptor(tree))).unwrap();
        }
    }

    fn write(&self, tree: TreeId, row: &str) {
        let begun = Instant::now();
        loop {
            for node in self.nodes.values() {
                if write_to(node, tree, row).is_ok() {
                    return;
                }
            }
            assert!(begun.elapsed() < LONG, "nobody takes a write");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns a leader that may serve.
    fn leader(&self, tree: TreeId) -> u64 {
        let mut found = None;
        wait_for("a leader", || {
            let leads = |(_, node): &(&u64, &Arc<Node>)| block_on(node.readable(tree)).is_ok();
            found = self.nodes.iter().find(leads).map(|(id, _)| *id);
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until each node that runs has these rows and no others.
    fn expect_rows(&self, tree: TreeId, rows: &[String]) {
        let wanted: BTreeSet<&[u8]> = rows.iter().map(String::as_bytes).collect();
        for (id, engine) in &self.engines {
            wait_for(&format!("{} rows on node {id}", rows.len()), || {
                let found = self::rows(engine, tree);
                let found: BTreeSet<&[u8]> = found.iter().map(Vec::as_slice).collect();
                assert!(found.is_subset(&wanted), "rows that nobody wrote");
                found.len() == wanted.len()
            });
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        *self.told.held.lock() = None;
    }
}

fn open_parts(env: &Env, dir: &Path, options: &engine::Options, node: u64) -> (Engine, GroupLog) {
    let member = engine::Member { cluster: ClusterId(7), node: engine::NodeId(node) };
    let engine = Engine::open_member(env.clone(), dir, options.clone(), member).unwrap();
    let log = GroupLog::open(env, &dir.join("group-log"), options).unwrap();
    (engine, log)
}

fn members() -> Vec<Member> {
    (1..=3).map(|id| Member { replica: ReplicaId(id), node: NodeId(id) }).collect()
}

fn descriptor(tree: TreeId) -> Descriptor {
    Descriptor {
        members: members(),
        trees: vec![tree],
        table: "tables/t".to_owned(),
        schema_version: 1,
        schema: Bytes::from_static(b"first"),
    }
}

fn batch(row: &str) -> engine::ReadyBatch {
    let mut batch = WriteBatch::new();
    batch.put(row.as_bytes(), Column::of(FAMILY, b"q"), Timestamp(1000), row.as_bytes());
    batch.ready().unwrap()
}

/// Writes to a node, if it leads.
fn write_to(node: &Node, tree: TreeId, row: &str) -> Result<()> {
    let ready = block_on(node.writable(tree))?;
    let term = Term { number: ready.term, floor: ready.floor };
    let write =
        GroupWrite { tree, term, batch: batch(row), newest_micros: 1000, kept: Box::new(()) };
    block_on(node.commit(write))
}

fn get(engine: &Engine, tree: TreeId, row: &str) -> Option<Vec<u8>> {
    let column = ColumnOf::new(row.as_bytes(), FAMILY, b"q");
    engine.tree(tree).unwrap().get(column, None).unwrap().map(|(_, value)| value)
}

fn rows(engine: &Engine, tree: TreeId) -> Vec<Vec<u8>> {
    let Ok(tree) = engine.tree(tree) else { return Vec::new() };
    let request = engine::ScanRequest::rows(engine::RowRange::ALL);
    let mut scan = tree.scan(&request, None).unwrap();
    let mut rows = Vec::new();
    while let Some(row) = scan.next_row().unwrap() {
        rows.push(row.to_vec());
    }
    rows
}
