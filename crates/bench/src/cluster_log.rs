//! `bench cluster-log`: three nodes of one process, over connections in memory and a real disk. Prints
//! the syncs of a write and node, the bytes of the log for each byte written, and the CPU of groups
//! that sleep.

use crate::AnyError;
use base::env::Env;
use base::testing::block_on;
use bytes::Bytes;
use clap::Args;
use cluster::format::Descriptor;
use cluster::group::{GroupId, Member, Message, NodeId, ReplicaId};
use cluster::node::{Links, Node, Options, Parts, Tables};
use engine::group_log::GroupLog;
use engine::{ClusterId, Column, Engine, FamilyId, Timestamp, TreeId, WriteBatch};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use table::{GroupWrite, Term};

/// Options of the command `bench cluster-log`.
#[derive(Debug, Args)]
pub(crate) struct ClusterLogArgs {
    /// Writers, each with one write under way.
    #[arg(long, default_value_t = 64)]
    writers: usize,
    /// Groups that the writers write to.
    #[arg(long, default_value_t = 8)]
    groups: u32,
    /// Bytes of each written value.
    #[arg(long, default_value_t = 1024)]
    value_bytes: usize,
    /// Seconds of writing, and of looking at groups that sleep.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Groups that sleep beside them.
    #[arg(long, default_value_t = 1000)]
    idle_groups: u32,
    /// Directory under which data is made and removed again. Default: that for temporary files.
    #[arg(long)]
    dir: Option<PathBuf>,
}

const NODES: u64 = 3;

/// Connections of the nodes, which deliver at once.
#[derive(Default)]
struct Net(Mutex<BTreeMap<NodeId, Weak<Node>>>);

struct End {
    net: Arc<Net>,
    me: NodeId,
}

impl Links for End {
    fn send(&self, to: NodeId, messages: Vec<Message>) {
        let nodes = self.net.0.lock().unwrap_or_else(PoisonError::into_inner);
        let node = nodes.get(&to).and_then(Weak::upgrade);
        drop(nodes);
        if let Some(node) = node {
            node.receive(self.me, messages);
        }
    }
}

struct NoTables;

impl Tables for NoTables {
    fn schema_applied(&self, _: GroupId, _: u64, _: &Bytes) {}
}

#[expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
pub(crate) fn run(args: &ClusterLogArgs) -> Result<(), AnyError> {
    let dir = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let nodes = open(dir.path())?;
    for tree in 1..=args.groups {
        create(&nodes, TreeId(tree))?;
    }
    let before = syncs(&nodes);
    let span = Duration::from_secs_f64(args.seconds);
    let (writes, in_span) = write(&nodes, args, span);
    let synced = syncs(&nodes) - before;
    for node in &nodes {
        node.close();
    }
    drop(nodes);
    let mut written = 0;
    for id in 1..=NODES {
        written += log_bytes(&node_dir(dir.path(), id))?;
    }
    let payload = writes * args.value_bytes as u64 * NODES;
    println!("writes/s            {:.0}", in_span as f64 / span.as_secs_f64());
    println!("syncs/write/node    {:.3}", synced as f64 / (writes * NODES) as f64);
    println!("log bytes/payload   {:.3}", written as f64 / payload as f64);

    let nodes = open(dir.path())?;
    for tree in args.groups + 1..=args.groups + args.idle_groups {
        create(&nodes, TreeId(tree))?;
    }
    let before = wait_for_silence(&nodes);
    std::thread::sleep(span);
    let cpu = bench_core::process_cpu() - before;
    let groups = args.groups + args.idle_groups;
    println!(
        "CPU of a node with {groups} groups that sleep   {:.2} % of a core",
        100.0 * cpu.as_secs_f64() / span.as_secs_f64() / NODES as f64
    );
    nodes.iter().for_each(|node| node.close());
    Ok(())
}

fn node_dir(dir: &Path, id: u64) -> PathBuf {
    dir.join(id.to_string())
}

fn open(dir: &Path) -> Result<Vec<Arc<Node>>, AnyError> {
    let net = Arc::new(Net::default());
    let mut nodes = Vec::new();
    for id in 1..=NODES {
        let mut engine_options = engine::Options::default();
        engine_options.shape.log_segments_max = 1 << 10;
        let env = Env::real(1);
        let member = engine::Member { cluster: ClusterId(1), node: engine::NodeId(id) };
        let dir = node_dir(dir, id);
        let engine = Engine::open_member(env.clone(), &dir, engine_options.clone(), member)?;
        let log = GroupLog::open(&env, &dir.join("group-log"), &engine_options)?;
        let links = Arc::new(End { net: Arc::clone(&net), me: NodeId(id) });
        let parts = Parts { env, engine, log, links, tables: Arc::new(NoTables) };
        let node = Node::open(Options::new(NodeId(id), id), parts)?;
        let mut all = net.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(NodeId(id), Arc::downgrade(&node));
        drop(all);
        nodes.push(node);
    }
    Ok(nodes)
}

fn create(nodes: &[Arc<Node>], tree: TreeId) -> Result<(), AnyError> {
    let member = |id| Member { replica: ReplicaId(id), node: NodeId(id) };
    for node in nodes {
        let descriptor = Descriptor {
            members: (1..=NODES).map(member).collect(),
            trees: vec![tree],
            table: "t".to_owned(),
            schema_version: 1,
            schema: Bytes::new(),
        };
        block_on(node.create(GroupId(tree.0.into()), descriptor))?;
    }
    Ok(())
}

fn syncs(nodes: &[Arc<Node>]) -> u64 {
    nodes.iter().map(|node| node.log_syncs()).sum()
}

/// Writes with all writers. Returns how often they did, in all and within `span`.
fn write(nodes: &[Arc<Node>], args: &ClusterLogArgs, span: Duration) -> (u64, u64) {
    let (done, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    let in_span = std::thread::scope(|scope| {
        for writer in 0..args.writers {
            let (done, ends) = (&done, &ends);
            let tree = TreeId(1 + writer as u32 % args.groups);
            scope.spawn(move || {
                let mut count = 0_u64;
                while !ends.load(Ordering::Relaxed) {
                    let row = format!("{writer:04}{count:012}");
                    if nodes.iter().any(|node| write_row(node, tree, &row, args.value_bytes)) {
                        count += 1;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        // Until all groups have leaders.
        std::thread::sleep(Duration::from_secs(4));
        let begun = done.load(Ordering::Relaxed);
        std::thread::sleep(span);
        let in_span = done.load(Ordering::Relaxed) - begun;
        ends.store(true, Ordering::Relaxed);
        in_span
    });
    (done.into_inner(), in_span)
}

fn write_row(node: &Node, tree: TreeId, row: &str, value_bytes: usize) -> bool {
    let mut batch = WriteBatch::with_capacity(value_bytes + 100);
    let value = vec![7; value_bytes];
    batch.put(row.as_bytes(), Column::of(FamilyId(1), b"q"), Timestamp(1000), &value);
    let written = async {
        let ready = node.writable(tree).await.ok()?;
        let term = Term { number: ready.term, floor: ready.floor };
        let batch = batch.ready().ok()?;
        let write = GroupWrite { tree, term, batch, newest_micros: 1000, kept: Box::new(()) };
        node.commit(write).await.ok()
    };
    block_on(written).is_some()
}

/// Returns the bytes of the log that were written: segments end with zeros.
fn log_bytes(dir: &Path) -> Result<u64, AnyError> {
    let mut sum = 0;
    for entry in std::fs::read_dir(dir.join("group-log"))? {
        let bytes = std::fs::read(entry?.path())?;
        sum += bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
    }
    Ok(sum)
}

/// Waits until a second costs little CPU, or a minute is over. Returns the CPU time then.
fn wait_for_silence(nodes: &[Arc<Node>]) -> Duration {
    let begun = Instant::now();
    let mut before = syncs(nodes);
    loop {
        std::thread::sleep(Duration::from_secs(8));
        let now = syncs(nodes);
        if now == before || begun.elapsed() > Duration::from_secs(90) {
            return bench_core::process_cpu();
        }
        before = now;
    }
}
