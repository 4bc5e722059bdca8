//! Tables whose tablets are replicated: the tests of the contract again, over groups in memory, and
//! what groups add to it.

mod directory;
mod groups;
#[expect(clippy::duplicate_mod, reason = "it opens the store of the module around it")]
#[allow(dead_code, reason = "not all of it is needed over groups")]
#[path = "../harness.rs"]
pub(crate) mod harness;
mod leaders;
#[expect(clippy::duplicate_mod, reason = "the same promises, over groups")]
#[path = "../once.rs"]
mod once;
mod schema;
#[expect(clippy::duplicate_mod, reason = "the same promises, over groups")]
#[path = "../store.rs"]
mod store;

use base::env::{Clock, Env};
use directory::Directory;
use engine::{ClusterId, Engine, Member, NodeId, Options};
use groups::MemoryGroups;
use std::path::Path;
use std::sync::Arc;
use table::Local;
use table::local::Replication;

/// See the constant of this name in `main.rs`.
const OVER_GROUPS: bool = true;

fn open_store(env: Env, dir: &Path, options: Options) -> (Engine, Local) {
    let clock = env.clock.clone();
    let node = Node::open(env, dir, options, &Arc::default(), clock);
    (node.engine, node.local)
}

/// A node with groups of its own.
struct Node {
    engine: Engine,
    groups: Arc<MemoryGroups>,
    local: Local,
}

impl Node {
    /// The tables of the node as another directory has them.
    fn over(&self, directory: &Arc<Directory>) -> Local {
        let replication = Replication {
            cluster: ClusterId(7),
            groups: self.groups.clone(),
            meta: directory.clone(),
            known: Vec::new(),
        };
        let clock = Env::real(1).clock;
        Local::over_groups(self.engine.clone(), clock, replication).unwrap()
    }

    fn open(
        env: Env,
        dir: &Path,
        options: Options,
        directory: &Arc<Directory>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let cluster = ClusterId(7);
        let member = Member { cluster, node: NodeId(1) };
        let engine = Engine::open_member(env, dir, options, member).unwrap();
        let groups = Arc::new(MemoryGroups::new(engine.clone()));
        let replication = Replication {
            cluster,
            groups: groups.clone(),
            meta: directory.clone(),
            known: Vec::new(),
        };
        let local = Local::over_groups(engine.clone(), clock, replication).unwrap();
        Self { engine, groups, local }
    }
}
