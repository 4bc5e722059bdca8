//! Three nodes of one process: their tables are real, their groups agree at once, and their calls are
//! cut as tests wish.

use async_trait::async_trait;
use base::env::{Clock, Env, SystemClock};
use cluster::directory::{ClusterRecord, DirectoryMeta, LocalDirectory, Mirror, Used, found};
use cluster::group::NodeId;
use cluster::link::{Answers, CallError};
use cluster::route::{Forwarded, Nodes, Routed};
use engine::{ClusterId, Engine, Fed, LogPosition, Member, Options, TreeOptions};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use table::local::Replication;
use table::{
    Bytes, Error, GroupWrite, Groups, Local, Removal, Result, TableSchema, Term, TreeId, Versioned,
};

pub(super) const NODES: std::ops::RangeInclusive<u64> = 1..=3;

/// A clock that stands still.
pub(super) struct StillClock(AtomicI64);

impl Clock for StillClock {
    fn now_micros(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.now_micros() as u64)
    }
}

pub(super) fn still() -> Arc<StillClock> {
    Arc::new(StillClock(AtomicI64::new(1_000_000)))
}

pub(super) fn env(clock: &Arc<StillClock>) -> Env {
    Env { clock: clock.clone(), ..Env::real(1) }
}

/// A group: who leads it, and what was agreed.
struct Group {
    leader: Option<u64>,
    term: u64,
    floor: u64,
    newest: u64,
    position: u64,
}

/// State that all nodes share.
#[derive(Default)]
pub(super) struct World {
    groups: Mutex<BTreeMap<TreeId, Group>>,
    engines: Mutex<BTreeMap<u64, Engine>>,
    locals: Mutex<BTreeMap<u64, Local>>,
    forwarded: Mutex<BTreeMap<u64, Forwarded>>,
    /// Nodes that take no calls.
    gone: Mutex<BTreeSet<u64>>,
    /// Node and number of frames after which its next answer breaks.
    breaks: Mutex<Option<(u64, usize)>>,
    /// Tablets of which only these nodes know the leader.
    pub(super) members: Mutex<Vec<u64>>,
    /// Streams of answers that were dropped before their end.
    pub(super) cancelled: Arc<Mutex<usize>>,
    /// Calls that came to each node.
    pub(super) calls: Mutex<BTreeMap<u64, usize>>,
}

impl World {
    /// Makes a node lead a tablet; `None` leaves it without a leader.
    pub(super) fn lead(&self, tree: TreeId, leader: Option<u64>) {
        let mut groups = self.groups.lock();
        let group = groups.get_mut(&tree).unwrap();
        if group.leader != leader {
            (group.leader, group.term, group.floor) = (leader, group.term + 1, group.newest);
        }
    }

    pub(super) fn trees(&self) -> Vec<TreeId> {
        self.groups.lock().keys().copied().collect()
    }

    /// Makes a node unreachable for calls, or reachable again.
    pub(super) fn set_gone(&self, node: u64, gone: bool) {
        let mut all = self.gone.lock();
        if gone {
            all.insert(node)
        } else {
            all.remove(&node)
        };
    }

    /// Breaks the next answer of a node after some frames.
    pub(super) fn break_next(&self, node: u64, frames: usize) {
        *self.breaks.lock() = Some((node, frames));
    }
}

/// The groups as one node has them. All replicas apply what is agreed before anybody hears of it.
struct Side {
    world: Arc<World>,
    me: u64,
}

impl Side {
    fn term(&self, tree: TreeId) -> Result<Term> {
        match self.world.groups.lock().get(&tree) {
            Some(group) if group.leader == Some(self.me) => {
                Ok(Term { number: group.term, floor: group.floor })
            }
            Some(group) => Err(Error::NotLeader { leader: group.leader }),
            None => Err(Error::NotLeader { leader: None }),
        }
    }
}

#[async_trait]
impl Groups for Side {
    async fn readable(&self, tree: TreeId) -> Result<Term> {
        self.term(tree)
    }

    async fn writable(&self, tree: TreeId) -> Result<Term> {
        self.term(tree)
    }

    fn commit(&self, write: GroupWrite) -> BoxFuture<'static, Result<()>> {
        let GroupWrite { tree, term, batch, newest_micros, kept } = write;
        let mut groups = self.world.groups.lock();
        let outcome = match groups.get_mut(&tree) {
            Some(group) if group.leader == Some(self.me) && group.term == term.number => {
                group.position += 1;
                group.newest = group.newest.max(newest_micros);
                let position = LogPosition(group.position);
                let fed = [Fed { tree, position, batch: Some(&batch) }];
                let engines = self.world.engines.lock();
                engines.values().try_for_each(|engine| engine.apply(&fed)).map_err(Error::from)
            }
            group => Err(Error::NotLeader { leader: group.and_then(|group| group.leader) }),
        };
        drop(groups);
        drop(kept);
        std::future::ready(outcome).boxed()
    }

    async fn create(&self, schema: &TableSchema, _: u64) -> Result<()> {
        for (at, tablet) in schema.tablets.iter().enumerate() {
            for engine in self.world.engines.lock().values() {
                engine.create_tree(tablet.tree, TreeOptions::default())?;
            }
            let leader = Some(at as u64 % 3 + 1);
            let group = Group { leader, term: 1, floor: 0, newest: 0, position: 0 };
            self.world.groups.lock().insert(tablet.tree, group);
        }
        Ok(())
    }

    async fn remove(&self, removal: &Removal) -> Result<()> {
        for tree in &removal.trees {
            self.world.groups.lock().remove(tree);
            for engine in self.world.engines.lock().values() {
                engine.drop_tree(*tree)?;
            }
        }
        Ok(())
    }

    async fn set_schema(&self, schema: &TableSchema, version: u64) -> Result<()> {
        let locals: Vec<_> = self.world.locals.lock().values().cloned().collect();
        locals
            .into_iter()
            .try_for_each(|local| local.learn(Versioned { schema: schema.clone(), version }))
    }

    fn leader(&self, tree: TreeId) -> Option<u64> {
        let members = self.world.members.lock();
        if !members.is_empty() && !members.contains(&self.me) {
            return None;
        }
        self.world.groups.lock().get(&tree)?.leader
    }
}

/// The calls of a node.
struct Calls(Arc<World>);

#[async_trait]
impl Nodes for Calls {
    async fn forward(&self, to: NodeId, request: Bytes) -> Result<Answers, CallError> {
        let gone = || CallError::NotDone(format!("node {} takes no calls", to.0));
        let forwarded = self.0.forwarded.lock().get(&to.0).cloned().ok_or_else(gone)?;
        if self.0.gone.lock().contains(&to.0) {
            return Err(gone());
        }
        *self.0.calls.lock().entry(to.0).or_default() += 1;
        let answers = forwarded.answer(request).await;
        let breaks = {
            let mut breaks = self.0.breaks.lock();
            breaks.take_if(|(node, _)| *node == to.0).map(|(_, frames)| frames)
        };
        let answers = match breaks {
            None => answers,
            Some(frames) => {
                let broke = Err(CallError::Unknown(format!("node {} broke off", to.0)));
                answers.take(frames).chain(stream::iter([broke])).boxed()
            }
        };
        let watched = Watched { done: false, cancelled: Arc::clone(&self.0.cancelled) };
        Ok(stream::unfold((answers, watched), |(mut answers, mut watched)| async {
            let next = answers.next().await;
            watched.done = next.is_none();
            next.map(|next| (next, (answers, watched)))
        })
        .boxed())
    }

    fn members(&self, _: TreeId) -> Vec<NodeId> {
        let members = self.0.members.lock();
        match members.is_empty() {
            true => NODES.map(NodeId).collect(),
            false => members.iter().copied().map(NodeId).collect(),
        }
    }
}

/// Counts answers that were dropped before their end.
struct Watched {
    done: bool,
    cancelled: Arc<Mutex<usize>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.done {
            *self.cancelled.lock() += 1;
        }
    }
}

/// The nodes of a test.
pub(super) struct Cluster {
    pub(super) world: Arc<World>,
    pub(super) nodes: BTreeMap<u64, Routed>,
    _mirror: Mirror,
}

impl Cluster {
    pub(super) async fn open(dir: &Path, clock: &Arc<StillClock>, options: &Options) -> Self {
        let world = Arc::<World>::default();
        let directory = LocalDirectory::new(dir.join("directory"), Arc::new(SystemClock));
        let cluster = ClusterId(7);
        let record = ClusterRecord { id: cluster, replicas: 3, founded_micros: 1 };
        found(&directory, &record).await.unwrap();
        let mirror = Mirror::start(Arc::new(directory), cluster, None).await;
        let mut nodes = BTreeMap::new();
        for id in NODES {
            let member = Member { cluster, node: engine::NodeId(id) };
            let place = dir.join(id.to_string());
            let engine = Engine::open_member(env(clock), &place, options.clone(), member).unwrap();
            world.engines.lock().insert(id, engine.clone());
            let groups: Arc<dyn Groups> = Arc::new(Side { world: Arc::clone(&world), me: id });
            let meta = Arc::new(DirectoryMeta::new(&mirror, NodeId(id), Used::default));
            let replication =
                Replication { cluster, groups: Arc::clone(&groups), meta, known: Vec::new() };
            let local = Local::over_groups(engine, clock.clone(), replication).unwrap();
            world.locals.lock().insert(id, local.clone());
            world.forwarded.lock().insert(id, Forwarded::new(local.clone(), 64 << 20));
            let calls = Arc::new(Calls(Arc::clone(&world)));
            nodes.insert(id, Routed::new(NodeId(id), local, groups, calls));
        }
        Self { world, nodes, _mirror: mirror }
    }
}
