//! From a group log and an engine to a node at work, and its end.

use super::applying::{self, TaskCount};
use super::counts::Counts;
use super::fetching::FailedReads;
use super::health::Health;
use super::hosted::{Committed, Hosted};
use super::inbox::{Event, Inbox};
use super::log_thread::{self, LogJobs};
use super::log_writes::{self, ReadError};
use super::peers::{Links, Tables};
use super::replicas::Replicas;
use super::requests::Requests;
use super::{driver_thread, upkeep};
use crate::format::{Descriptor, FormatError};
use crate::group::{self, Driver, GroupId, GroupReport, NodeId, OpenError};
use base::env::{Clock, Env, task};
use engine::group_log::{GroupLog, GroupState, ReplicaState};
use engine::{Engine, Tree, TreeId, TreeOptions};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};
use tokio::runtime::{Handle, Runtime};

/// Values of a node that do not change.
#[derive(Debug, Clone)]
pub struct Options {
    /// Values of the node's driver.
    pub driver: group::Options,
    /// Threads that apply committed entries. 1 to 64.
    pub apply_threads: usize,
    /// Longest time that a request waits for its outcome.
    pub wait_max: Duration,
    /// Longest time that a request waits here for a leader, before it is refused and may go to another
    /// node. Longer than an election, and well below `wait_max`.
    pub leader_wait_max: Duration,
    /// Time between two looks at what is flushed and how long the log is.
    pub upkeep_every: Duration,
    /// Segments of the group log beyond which entries go that only replicas lack which are away or do not get
    /// on. At twice as many nothing is kept for others. Larger: a node may be away for longer; smaller: less
    /// disk, and a shorter start.
    pub kept_segments_max: usize,
}

impl Options {
    /// Returns the options of a node. The driver has the ones of [`group::Options::new`].
    pub fn new(node: NodeId, seed: u64) -> Self {
        Self {
            driver: group::Options::new(node, seed),
            apply_threads: 2,
            wait_max: Duration::from_secs(10),
            leader_wait_max: Duration::from_secs(3),
            upkeep_every: Duration::from_secs(1),
            kept_segments_max: 128,
        }
    }
}

/// Parts that a node works with.
pub struct Parts {
    /// The machine, of which the clock is used.
    pub env: Env,
    /// The engine of the node ([`Engine::open_member`]).
    pub engine: Engine,
    /// The group log of the node.
    pub log: GroupLog,
    /// Connections to the other nodes.
    pub links: Arc<dyn Links>,
    /// The layer of tables above the node.
    pub tables: Arc<dyn Tables>,
}

/// Why a node cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeError {
    /// An option is out of range; the text names it.
    Options(String),
    /// The engine or the group log failed.
    Engine(engine::Error),
    /// A thread could not be started.
    Thread(io::Error),
    /// The descriptor of a group cannot be read.
    Descriptor {
        /// Group that the descriptor is of.
        group: GroupId,
        /// The fault that was found.
        error: FormatError,
    },
    /// A replica cannot be opened as the log has it; the text says why.
    Replica {
        /// Group that the replica belongs to.
        group: GroupId,
        /// The fault that was found.
        what: String,
    },
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(what) => write!(f, "options of a node: {what}"),
            Self::Engine(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "a thread cannot be started: {error}"),
            Self::Descriptor { group, error } => {
                write!(f, "descriptor of group {}: {error}", group.0)
            }
            Self::Replica { group, what } => write!(f, "replica of group {}: {what}", group.0),
        }
    }
}

impl std::error::Error for NodeError {}

impl From<engine::Error> for NodeError {
    fn from(error: engine::Error) -> Self {
        Self::Engine(error)
    }
}

/// State that all threads of a node share.
pub(super) struct Shared {
    pub(super) me: NodeId,
    pub(super) engine: Engine,
    pub(super) log: GroupLog,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) links: Arc<dyn Links>,
    pub(super) tables: Arc<dyn Tables>,
    pub(super) inbox: Inbox,
    pub(super) log_jobs: LogJobs,
    pub(super) requests: Requests,
    pub(super) replicas: Replicas,
    pub(super) damaged: Vec<(GroupId, OpenError)>,
    pub(super) health: Health,
    pub(super) counts: Counts,
    pub(super) failed_reads: FailedReads,
    pub(super) upkeep: Pause,
    pub(super) upkeep_every: Duration,
    pub(super) kept_segments_max: usize,
    pub(super) wait_max: Duration,
    pub(super) leader_wait_max: Duration,
    /// Longest time for which the driver hears of no read of a group that is read: well below the time after
    /// which the group would sleep.
    pub(super) read_told_every: Duration,
    /// Replicas are created and removed one after the other.
    pub(super) changing: tokio::sync::Mutex<()>,
    pub(super) runtime: Handle,
    pub(super) tasks: Arc<TaskCount>,
}

impl Shared {
    /// Ends the node for a reason that it cannot mend.
    pub(super) fn fail(&self, why: String) {
        self.health.fail(why);
        self.stop();
    }

    /// Returns the condition of all groups, as [`super::Node::report`] does. Blocks.
    pub(super) fn report(&self, bound: Duration) -> Option<Vec<GroupReport>> {
        let (asked, answer) = std::sync::mpsc::channel();
        self.inbox.push(Event::Report(asked));
        answer.recv_timeout(bound).ok()
    }

    /// Waits for this time to pass.
    pub(super) async fn pause(&self, time: Duration) {
        let pause = {
            let _timers = self.runtime.enter();
            tokio::time::sleep(time)
        };
        pause.await;
    }

    /// Lets all threads and tasks end.
    fn stop(&self) {
        self.health.end();
        self.inbox.close();
        self.log_jobs.close();
        self.upkeep.end();
        self.requests.close();
        for hosted in self.replicas.all() {
            let _ = hosted.committed.send(Vec::new());
        }
    }

    /// Waits for a future; None if the node ends before.
    pub(super) async fn unless_ended<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = future => Some(done),
            () = self.health.until_end() => None,
        }
    }

    /// Starts the task that applies the entries of a replica.
    pub(super) fn start_applying(self: &Arc<Self>, hosted: &Arc<Hosted>, committed: Committed) {
        let counted = self.tasks.begin();
        let (shared, hosted) = (Arc::clone(self), Arc::clone(hosted));
        self.runtime.spawn(async move {
            let owner = Arc::clone(&shared);
            let work = AssertUnwindSafe(applying::run(shared, hosted, committed));
            if futures::FutureExt::catch_unwind(work).await.is_err() {
                owner.fail("the state machine of a group panicked".to_owned());
            }
            drop(owner);
            drop(counted);
        });
    }
}

/// A pause that ends early when there is nothing more to do.
#[derive(Default)]
pub(super) struct Pause {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Pause {
    /// Waits; returns true at the end.
    pub(super) fn pause(&self, longest: Duration) -> bool {
        let mut ended = self.ended.lock();
        if !*ended {
            let _ = self.changed.wait_for(&mut ended, longest);
        }
        *ended
    }

    fn end(&self) {
        *self.ended.lock() = true;
        self.changed.notify_all();
    }
}

/// Threads of a node at work.
pub(super) struct Running {
    threads: Vec<JoinHandle<()>>,
    runtime: Runtime,
}

impl Running {
    /// Ends all work, and waits for its end.
    pub(super) fn end(self, shared: &Shared) {
        shared.stop();
        let this = std::thread::current().id();
        for thread in self.threads.into_iter().filter(|thread| thread.thread().id() != this) {
            // A panic in it was told of as a failure.
            let _ = thread.join();
        }
        // Replicas that the driver thread opened meanwhile are told as well.
        shared.stop();
        shared.tasks.wait();
        shared.replicas.clear();
        if let Err(error) = shared.log.close() {
            tracing::debug!("the group log was not closed cleanly: {error}");
        }
        self.runtime.shutdown_background();
    }
}

/// Opens a node; see [`super::Node::open`].
pub(super) fn open(options: Options, parts: Parts) -> Result<(Arc<Shared>, Running), NodeError> {
    options.driver.check().map_err(NodeError::Options)?;
    if !(1..=64).contains(&options.apply_threads) {
        return Err(NodeError::Options("apply_threads must be 1 to 64".to_owned()));
    }
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(options.apply_threads).max_blocking_threads(4).enable_time();
    let runtime = builder.thread_name("stele-apply").build().map_err(NodeError::Thread)?;
    let Parts { env, engine, log, links, tables } = parts;
    let me = options.driver.node;
    let now = group::Time(u64::try_from(env.clock.boot_time().as_nanos()).unwrap_or(u64::MAX));
    let mut driver = Driver::new(&options.driver, now);
    let mut found = Vec::new();
    let mut damaged = Vec::new();
    for (group, state) in log.groups() {
        let group = GroupId(group.0);
        match state {
            GroupState::Removed { .. } => drop_tree_of(&engine, group)?,
            GroupState::Alive(state) => {
                let (hosted, committed, saved) = read(&engine, &log, me, group, &state)?;
                match driver.open(&saved, now) {
                    Ok(()) => found.push((hosted, committed)),
                    Err(error @ (OpenError::LogLost { .. } | OpenError::FlushLost { .. })) => {
                        tracing::error!("group {} lost what it had: {error:?}", group.0);
                        damaged.push((group, error));
                    }
                    Err(error) => {
                        return Err(NodeError::Replica { group, what: format!("{error:?}") });
                    }
                }
            }
        }
    }
    let sleep_ticks = u32::try_from(options.driver.sleep_ticks).unwrap_or(u32::MAX);
    let log_jobs = LogJobs::new(Arc::clone(&env.clock));
    let shared = Arc::new(Shared {
        me,
        engine,
        log,
        clock: env.clock,
        links,
        tables,
        inbox: Inbox::default(),
        log_jobs,
        requests: Requests::default(),
        replicas: Replicas::default(),
        damaged,
        health: Health::new(),
        counts: Counts::default(),
        failed_reads: FailedReads::default(),
        kept_segments_max: options.kept_segments_max,
        upkeep: Pause::default(),
        upkeep_every: options.upkeep_every,
        wait_max: options.wait_max,
        leader_wait_max: options.leader_wait_max,
        read_told_every: options.driver.tick * sleep_ticks / 4,
        changing: tokio::sync::Mutex::new(()),
        runtime: runtime.handle().clone(),
        tasks: Arc::default(),
    });
    for (hosted, committed) in found {
        shared.replicas.add(&hosted);
        shared.start_applying(&hosted, committed);
    }
    let mut running = Running { threads: Vec::new(), runtime };
    match start(&shared, driver, &mut running.threads) {
        Ok(()) => Ok((shared, running)),
        Err(error) => {
            running.end(&shared);
            Err(NodeError::Thread(error))
        }
    }
}

/// Work of a thread until the node ends.
type Work = Box<dyn FnOnce(&Arc<Shared>) + Send>;

fn start(
    shared: &Arc<Shared>,
    driver: Driver,
    threads: &mut Vec<JoinHandle<()>>,
) -> io::Result<()> {
    let mut thread = |name: &'static str, run: Work| {
        let shared = Arc::clone(shared);
        let run = move || {
            if catch_unwind(AssertUnwindSafe(|| run(&shared))).is_err() {
                shared.fail(format!("the thread {name} panicked"));
            }
        };
        task::start_thread(name, run).map(|started| threads.push(started))
    };
    thread("stele-driver", Box::new(|shared: &Arc<Shared>| driver_thread::run(shared, driver)))?;
    thread("stele-group-log", Box::new(|shared: &Arc<Shared>| log_thread::run(shared)))?;
    thread("stele-upkeep", Box::new(upkeep::run))
}

/// Drops the tree of a removed replica, if a crash left it behind.
fn drop_tree_of(engine: &Engine, group: GroupId) -> Result<(), NodeError> {
    let Ok(tree) = u32::try_from(group.0).map(TreeId) else { return Ok(()) };
    match engine.drop_tree(tree) {
        Ok(()) | Err(engine::Error::UnknownTree(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

type Found = (Arc<Hosted>, Committed, group::SavedReplica);

fn read(
    engine: &Engine,
    log: &GroupLog,
    me: NodeId,
    group: GroupId,
    state: &ReplicaState,
) -> Result<Found, NodeError> {
    let descriptor = Descriptor::decode(&state.descriptor);
    let descriptor = descriptor.map_err(|error| NodeError::Descriptor { group, error })?;
    let wrong = |what: String| NodeError::Replica { group, what };
    let replica = descriptor.replica_on(me).filter(|replica| replica.0 == state.replica);
    let Some(replica) = replica else {
        return Err(wrong("the descriptor names another replica of this node".to_owned()));
    };
    let (trees, flushed) = open_trees(engine, &descriptor)?;
    let saved = log_writes::read_replica(log, group, state, descriptor.members.clone(), flushed);
    let saved = saved.map_err(|error| match error {
        ReadError::Log(error) => error.into(),
        ReadError::Kind(index) => wrong(format!(
            "entry {index} is of a kind that this Stele does not know; use a newer Stele"
        )),
    })?;
    let (hosted, committed) = Hosted::new(group, replica, trees, descriptor, flushed);
    Ok((hosted, committed, saved))
}

/// Opens the trees of a group, which are made if they are missing, and tells up to which position all
/// are flushed.
pub(super) fn open_trees(
    engine: &Engine,
    descriptor: &Descriptor,
) -> engine::Result<(Vec<Tree>, u64)> {
    let mut trees = Vec::new();
    let mut flushed = u64::MAX;
    for id in &descriptor.trees {
        let tree = engine.tree_or_create(*id, TreeOptions::default())?;
        flushed = flushed.min(tree.flushed()?.0);
        trees.push(tree);
    }
    Ok((trees, flushed))
}
