//! A node of a cluster, put together from the other rooms: it joins by the directory, opens its replicas,
//! and serves the tables of the cluster.
//!
//! 1. The data directory is locked before its start is counted: a second process on it changes nothing. Its
//!    log is opened before, so that an older copy is known as one before it registers.
//! 2. A node that was a member before starts without the directory, from its own groups.
//! 3. What calls left behind is brought to an end by a task ([`tending`]).
//! 4. The engine is claimed before the replicas open, which apply at once what was not flushed.
//! 5. A node shows its sign of life when others reach it ([`reach`]).
//! 6. A failure of the node's log or state machine, or a later start of the same node, is told by
//!    [`Member::ended`]. The process must end then.

mod asks;
mod database;
mod hub;
mod peers;
mod place;
mod reach;
mod schemas;
mod status;
mod tending;

pub use database::DatabaseGroup;
pub use status::{
    ClusterStatus, NodeReadings, NodeStatus, ReplicaStatus, TABLETS_MAX, TabletStatus, Watcher,
    fuzz_status,
};

use crate::directory::{
    Directory, DirectoryMeta, Error as DirectoryError, Key, Mirror, NodePlace, Own, Presence,
    PresenceState, Used, follow, join,
};
use crate::group::{MemberReport, NodeId};
use crate::link::{self, Link, LinkOptions, serve};
use crate::node::{self, Node, NodeError, Parts, Tablets};
use crate::route::{Forwarded, Routed};
use base::env::Env;
use engine::group_log::GroupLog;
use engine::{Engine, Owner};
use hub::{Hub, News};
use peers::Others;
use reach::Reaching;
use schemas::Schemas;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use table::local::Replication;
use table::{Groups, Local, TableSchema, Versioned};
use tending::Tending;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Folder of the group log in the data directory.
const LOG: &str = "group-log";
/// Copy of the directory in the data directory.
const COPY: &str = "directory.copy";
/// Lock of the data directory.
const LOCK: &str = "node.lock";
/// Bytes of forwarded requests under way, as a part of the engine's memory.
const FORWARDED_PART: usize = 4;
/// Longest wait for the directory when a node leaves.
const LEAVE_MAX: Duration = Duration::from_secs(1);
/// Pause between two looks at a handover, and the looks after which another replica is tried.
const TRANSFER_LOOK: Duration = Duration::from_millis(50);
const TRANSFER_ROUNDS: usize = 20;
/// Longest wait for the driver at a handover.
const REPORT_MAX: Duration = Duration::from_secs(1);

/// Parts and settings that a node starts with.
pub struct MemberOptions {
    /// The machine that the node runs on.
    pub env: Env,
    /// Data directory of the node.
    pub dir: PathBuf,
    /// Options of the node's engine.
    pub engine: engine::Options,
    /// The directory of the node's cluster.
    pub directory: Arc<dyn Directory>,
    /// Address and place, by which other nodes find this one.
    pub place: NodePlace,
    /// Takes connections of other nodes.
    pub listener: TcpListener,
    /// Times, bounds and TLS of links.
    pub link: LinkOptions,
    /// Makes the random choices of this start differ from the choices of other nodes.
    pub seed: u64,
}

/// The reason why a node cannot start.
#[derive(Debug)]
#[non_exhaustive]
pub enum MemberError {
    /// The data directory cannot be used; the text says why.
    Dir(String),
    /// The cluster's directory refuses the node, or a new node cannot reach it.
    Directory(DirectoryError),
    /// The engine or the group log cannot be opened.
    Engine(engine::Error),
    /// The replicas cannot be opened.
    Node(NodeError),
    /// The tables cannot be opened.
    Table(table::Error),
    /// Other nodes do not reach the node; the text says why, and what to set.
    Address(String),
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dir(text) | Self::Address(text) => f.write_str(text),
            Self::Directory(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
            Self::Node(error) => error.fmt(f),
            Self::Table(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MemberError {}

/// A node of a cluster at work, until it is stopped or dropped.
pub struct Member {
    id: NodeId,
    node: Arc<Node>,
    engine: Engine,
    routed: Routed,
    watcher: Watcher,
    /// Taken when the node leaves.
    presence: Option<Presence>,
    standing: watch::Receiver<PresenceState>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
    tasks: Vec<JoinHandle<()>>,
    _lock: Box<dyn Send + Sync>,
}

impl Member {
    /// Starts the node whose data is in `options.dir`: a new one joins the cluster. `tune` sets options of
    /// its tables.
    pub async fn start(
        options: MemberOptions,
        tune: impl FnOnce(Local) -> Local + Send + 'static,
    ) -> Result<Self, MemberError> {
        let MemberOptions { env, dir, engine, directory, place, listener, link, seed } = options;
        let lock = lock(&env, &dir)?;
        let log = {
            let (env, dir, options) = (env.clone(), dir.join(LOG), engine.clone());
            let open = move || GroupLog::open(&env, &dir, &options).map_err(MemberError::Engine);
            blocking(open).await?
        };
        let joined = join(&*directory, &dir, &place, log.synced_end()).await;
        let joined = joined.map_err(MemberError::Directory)?;
        if let Some(error) = &joined.unregistered {
            tracing::warn!(%error, "started without the cluster's directory; registering later");
        }
        let (member, boot, start) = (joined.member, joined.boot, joined.start);
        let id = NodeId(member.node.0);
        let memory = engine.memory_bytes_max;
        let engine = {
            let (env, dir) = (env.clone(), dir.clone());
            blocking(move || {
                let engine = Engine::open_member(env, &dir, engine, member);
                let engine = engine.map_err(MemberError::Engine)?;
                engine.claim(Owner::Server).map_err(MemberError::Engine)?;
                Ok(engine)
            })
            .await?
        };
        let mirror =
            Mirror::start(Arc::clone(&directory), member.cluster, Some(dir.join(COPY))).await;
        let hub = Arc::new(Hub::default());
        let us = link::Local { cluster: member.cluster, node: id, boot, start };
        let book: Arc<dyn link::Book> = Arc::new(mirror.clone());
        let links = Link::new(us, link.clone(), Arc::clone(&book), hub.clone());
        let others = Arc::new(Others::new(links.clone(), mirror.clone()));
        let node = {
            let (env, engine, others, hub) =
                (env.clone(), engine.clone(), others.clone(), hub.clone());
            let parts = Parts { env, engine, log, links: others, tables: hub };
            blocking(move || {
                Node::open(node::Options::new(id, seed), parts).map_err(MemberError::Node)
            })
            .await?
        };
        hub.set_node(Arc::clone(&node));
        for (group, error) in node.damaged() {
            tracing::error!(group = group.0, ?error, "a replica of this node lost what it had");
        }
        let (stop, stopping) = oneshot::channel();
        let served = {
            let hub = hub.clone();
            async move {
                let stop = async {
                    let _ = stopping.await;
                };
                if let Err(error) = serve(listener, us, &link, book, hub, stop).await {
                    tracing::error!(%error, "connections of other nodes are served no more");
                }
            }
        };
        let server = tokio::spawn(served);
        let reaching = Reaching {
            links: links.clone(),
            mirror: mirror.clone(),
            me: id,
            address: place.address.clone(),
        };
        let hidden = Arc::new(AtomicBool::new(true));
        if node.largest_group().is_none() {
            if let Err(why) = reaching.of_new_node().await {
                server.abort();
                let closing = Arc::clone(&node);
                let _ = tokio::task::spawn_blocking(move || closing.close()).await;
                return Err(MemberError::Address(why));
            }
            hidden.store(false, Ordering::Release);
        }
        let groups: Arc<dyn Groups> = Arc::new(Tablets::new(Arc::clone(&node), others.clone()));
        let of_groups = Arc::clone(&node);
        let meta = Arc::new(DirectoryMeta::new(&mirror, id, move || used(&of_groups)));
        let local = {
            let (engine, clock, known) = (engine.clone(), Arc::clone(&env.clock), known(&node)?);
            let (groups, meta) = (Arc::clone(&groups), meta.clone());
            let replication = Replication { cluster: member.cluster, groups, meta, known };
            blocking(move || {
                let local = Local::over_groups(engine, clock, replication);
                local.map(tune).map_err(MemberError::Table)
            })
            .await?
        };
        hub.set_tables(local.clone(), Forwarded::new(local.clone(), memory / FORWARDED_PART));
        // The tables are told again of schemas that were applied meanwhile.
        known(&node)?
            .into_iter()
            .try_for_each(|known| local.learn(known))
            .map_err(MemberError::Table)?;
        let news = Arc::new(News::new(local.clone()));
        let tending = Tending {
            node: Arc::clone(&node),
            mirror: mirror.clone(),
            meta: meta.clone(),
            news: news.clone(),
        };
        let watched = mirror.clone();
        let schemas = Schemas {
            node: Arc::clone(&node),
            mirror: mirror.clone(),
            groups: Arc::clone(&groups),
        };
        let tasks = vec![
            tokio::spawn(reaching.run(Arc::clone(&hidden))),
            tokio::spawn(schemas.run()),
            follow(&mirror, meta, news),
            tokio::spawn(keep_streams(links, mirror, id)),
            tokio::spawn(tending.run()),
        ];
        let of_node = Arc::clone(&node);
        let own = move || Own {
            log_end: of_node.log_end(),
            used: used(&of_node),
            hidden: hidden.load(Ordering::Acquire),
        };
        let presence = Presence::start(directory, joined, place, own);
        let watcher = Watcher {
            cluster: member.cluster,
            node: Arc::clone(&node),
            mirror: watched,
            others: others.clone(),
        };
        let routed = Routed::new(id, local, groups, others);
        let stop = Some(stop);
        let (standing, presence) = (presence.state(), Some(presence));
        Ok(Self {
            id,
            node,
            engine,
            routed,
            watcher,
            presence,
            standing,
            stop,
            server,
            tasks,
            _lock: lock,
        })
    }

    /// Returns the id of the node in its cluster.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Returns the tables of the cluster.
    pub fn tables(&self) -> &Routed {
        &self.routed
    }

    /// Returns what tells the condition of the cluster.
    pub fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    /// Returns the engine of the node.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Waits until the node cannot go on, and returns the reason.
    pub async fn ended(&self) -> String {
        let (mut failed, mut presence) = (self.node.failed(), self.standing.clone());
        let replaced = async {
            let is_replaced = |state: &PresenceState| matches!(state, PresenceState::Replaced(_));
            match presence.wait_for(is_replaced).await.as_deref() {
                Ok(PresenceState::Replaced(error)) => error.to_string(),
                _ => std::future::pending().await,
            }
        };
        let failed = async {
            match failed.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(why)) => why.clone(),
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            why = replaced => why,
            why = failed => why,
        }
    }

    /// Hands the groups that the node leads to other replicas, so that no client has to wait for an
    /// election when it stops. Returns when it leads none that a node within reach could take, or after `bound`.
    pub async fn hand_over(&self, bound: Duration) {
        let until = Instant::now() + bound;
        for round in 0.. {
            if !self.leads_another_could() || Instant::now() >= until {
                return;
            }
            if round % TRANSFER_ROUNDS == 0 {
                self.begin_handover(round / TRANSFER_ROUNDS).await;
            }
            tokio::time::sleep(TRANSFER_LOOK).await;
        }
    }

    /// Returns true if the node leads a group that has a replica on a node within reach.
    fn leads_another_could(&self) -> bool {
        let reached = self.reached();
        self.node.descriptors().into_iter().any(|(group, descriptor)| {
            let leads = self.node.status(group).is_some_and(|status| status.borrow().leads);
            leads && descriptor.members.iter().any(|member| reached.contains(&member.node))
        })
    }

    /// Begins to hand each group to an heir within reach.
    async fn begin_handover(&self, turn: usize) {
        let (node, reached) = (Arc::clone(&self.node), self.reached());
        let reports = tokio::task::spawn_blocking(move || node.report(REPORT_MAX)).await;
        for report in reports.ok().flatten().unwrap_or_default() {
            let within_reach = |of: &MemberReport| reached.contains(&of.member.node);
            if let Some(heir) = node::heir(&report, self.id, turn, within_reach) {
                self.node.transfer(report.group, heir);
            }
        }
    }

    /// Returns the other nodes to which there is a stream.
    fn reached(&self) -> BTreeSet<NodeId> {
        let links = self.watcher.others.links().into_iter();
        links.filter(|(_, is_open, _)| *is_open).map(|(node, ..)| node).collect()
    }

    /// Stops the node: it takes no calls of others any more, and its replicas close. The engine stays
    /// open for its owner to close.
    pub async fn stop(mut self) {
        // Others need not wait for the end of the lease. A directory that is away keeps no node up.
        if let Some(presence) = self.presence.take() {
            let _ = tokio::time::timeout(LEAVE_MAX, presence.leave()).await;
        }
        self.tasks.iter().for_each(JoinHandle::abort);
        drop(self.stop.take());
        let node = Arc::clone(&self.node);
        // The threads of the node are waited for.
        let _ = tokio::task::spawn_blocking(move || node.close()).await;
        self.server.abort();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.server.abort();
    }
}

fn lock(env: &Env, dir: &std::path::Path) -> Result<Box<dyn Send + Sync>, MemberError> {
    let shown = dir.display();
    let made = std::fs::create_dir_all(dir);
    made.map_err(|error| MemberError::Dir(format!("cannot create {shown}: {error}")))?;
    env.fs.lock(&dir.join(LOCK)).map_err(|error| {
        MemberError::Dir(format!("cannot lock {shown}: another process may use it: {error}"))
    })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MemberError> + Send + 'static,
) -> Result<T, MemberError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(MemberError::Dir(format!("the start broke off: {error}"))))
}

/// Returns the schemas that the groups of a node have.
fn known(node: &Node) -> Result<Vec<Versioned>, MemberError> {
    let descriptors = node.descriptors().into_iter();
    let known = descriptors.map(|(_, descriptor)| {
        let schema = TableSchema::from_record(&descriptor.schema)?;
        Ok(Versioned { schema, version: descriptor.schema_version })
    });
    known.collect::<table::Result<_>>().map_err(MemberError::Table)
}

/// Returns the numbers that the groups of a node use, removed ones too: nothing may get them again.
fn used(node: &Node) -> Used {
    let tree = node.largest_group().map_or(0, |group| group.0);
    let mut used = Used { tree, version: 0, node: node.id().0 };
    for (_, descriptor) in node.descriptors() {
        let nodes = descriptor.members.iter().map(|member| member.node.0);
        used.node = used.node.max(nodes.max().unwrap_or(0));
        used.version = used.version.max(descriptor.schema_version);
    }
    used
}

/// Keeps a stream open to each node that is registered, by which both tell that the other is alive.
async fn keep_streams(links: Link, mirror: Mirror, me: NodeId) {
    let mut state = mirror.state();
    let mut kept = BTreeSet::new();
    loop {
        state.mark_unchanged();
        for item in mirror.below(Key::NODES) {
            if let Some(Key::Node(node)) = Key::parse(&item.key)
                && node != me
                && kept.insert(node)
            {
                links.keep(node);
            }
        }
        if state.changed().await.is_err() {
            return;
        }
    }
}
