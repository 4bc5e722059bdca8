//! The group of the SQL database: the one tablet of a table that no front lists.
//!
//! 1. The table is made by a node that serves SQL and finds it missing. Placement, elections and repair are as of any
//!    table.
//! 2. The node that leads the group has the database, for as long as its term lasts.
//! 3. Each node that serves SQL publishes the address of its door, at which other nodes reach it.

use super::peers::Others;
use super::{Member, Node};
use crate::directory::{Change, Key, Mirror, Write, decode_door, encode_door};
use crate::group::{GroupId, NodeId};
use crate::node::{Peers, Tablets};
use crate::route::Nodes;
use std::sync::Arc;
use std::time::Duration;
use table::{
    CreateTable, FamilySpec, Granularity, Groups, Local, Result, SQL_PREFIX, Store, TableName,
    Term, TreeId,
};
use tokio::time::Instant;

/// Id of the table, after the prefix of tables of SQL.
const TABLE: &str = "database";
/// The family of all its cells, which is the first one of the table.
const FAMILY: &str = "rows";
/// Pause between two looks for the table, and between two attempts of anything else.
const LOOK: Duration = Duration::from_secs(1);
/// Head start that each node has before the next one to make the table.
const TURN: Duration = Duration::from_secs(3);
/// Longest wait for a node that is asked who leads.
const ASK_MAX: Duration = Duration::from_secs(2);

/// The header of this file describes it. Cheap to clone.
#[derive(Clone)]
pub struct DatabaseGroup {
    node: Arc<Node>,
    local: Local,
    groups: Arc<dyn Groups>,
    others: Arc<Others>,
    mirror: Mirror,
}

impl Member {
    /// Returns the group of the SQL database.
    pub fn database(&self) -> DatabaseGroup {
        let (node, others) = (Arc::clone(&self.node), Arc::clone(&self.watcher.others));
        DatabaseGroup {
            groups: Arc::new(Tablets::new(Arc::clone(&node), others.clone())),
            node,
            local: self.routed.local().clone(),
            others,
            mirror: self.watcher.mirror.clone(),
        }
    }
}

fn group_of(tree: TreeId) -> GroupId {
    GroupId(tree.0.into())
}

impl DatabaseGroup {
    /// Returns the groups of this node.
    pub fn groups(&self) -> Arc<dyn Groups> {
        Arc::clone(&self.groups)
    }

    /// Returns the tables of this node.
    pub fn local(&self) -> &Local {
        &self.local
    }

    /// Returns the tree of the group, which is made if it is missing. Waits until there are nodes enough.
    pub async fn made(&self) -> Result<TreeId> {
        let name = TableName::new(format!("{SQL_PREFIX}{TABLE}"))?;
        let (begun, mut told) = (Instant::now(), String::new());
        loop {
            let found = self.local.get_table(&name).await.ok();
            if let Some(tablet) = found.as_ref().and_then(|table| table.tablets.first()) {
                return Ok(tablet.tree);
            }
            // By then the mirror shows the doors of other nodes.
            tokio::time::sleep(LOOK).await;
            if begun.elapsed() >= TURN * self.turn()
                && let Err(error) = self.make(&name).await
            {
                let why = error.to_string();
                if why != told {
                    tracing::info!(why, "the database of SQL cannot be made yet; trying again");
                    told = why;
                }
            }
        }
    }

    async fn make(&self, name: &TableName) -> Result<()> {
        let table = CreateTable {
            name: name.clone(),
            families: vec![(FAMILY.to_owned(), FamilySpec::default())],
            splits: Vec::new(),
            deletion_protection: true,
            granularity: Granularity::default(),
            row_key_schema: None,
        };
        self.local.create_table(table).await.map(drop)
    }

    /// Returns how many nodes that are alive and serve SQL come before this one.
    fn turn(&self) -> u32 {
        let doors = self.mirror.below(Key::DOORS).into_iter();
        let before = doors.filter(|item| match Key::parse(&item.key) {
            Some(Key::Door(node)) => {
                node < self.node.id() && self.mirror.get(&Key::Alive(node)).is_some()
            }
            _ => false,
        });
        before.count() as u32
    }

    /// Waits until this node leads the group and has all of earlier terms. Returns the term.
    pub async fn leads(&self, tree: TreeId) -> Term {
        loop {
            if let Some(mut status) = self.node.status(group_of(tree)) {
                let is_ready = status.wait_for(|status| status.ready().is_some()).await.is_ok();
                if is_ready && let Ok(term) = self.groups.readable(tree).await {
                    return term;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until this node does not lead the group in a term any more.
    pub async fn is_over(&self, tree: TreeId, term: Term) {
        if let Some(mut status) = self.node.status(group_of(tree)) {
            let number = term.number;
            let is_over =
                |ready: Option<crate::node::Ready>| ready.is_none_or(|ready| ready.term != number);
            // It also ends with the replica.
            let _ = status.wait_for(|status| is_over(status.ready())).await;
        }
    }

    /// Returns the address of the door of the node that leads the group, if another one is known to and serves
    /// SQL.
    pub async fn door(&self, tree: TreeId) -> Option<String> {
        let leader = match self.node.leader(group_of(tree)) {
            Some(leader) => leader,
            None => self.ask_for_leader(tree).await?,
        };
        if leader == self.node.id() {
            return None;
        }
        let item = self.mirror.get(&Key::Door(leader))?;
        decode_door(leader, &item.value).ok()
    }

    async fn ask_for_leader(&self, tree: TreeId) -> Option<NodeId> {
        let members = Nodes::members(&*self.others, tree).into_iter();
        for node in members.filter(|node| *node != self.node.id()) {
            let asked = Peers::leader(&*self.others, node, group_of(tree));
            if let Ok(Ok(Some(leader))) = tokio::time::timeout(ASK_MAX, asked).await {
                return Some(leader);
            }
        }
        None
    }

    /// Keeps the address of this node's door in the directory, until it is dropped. Without an address, at which
    /// other nodes could reach it, none is kept.
    pub async fn keep_door(&self, address: Option<&str>) {
        let key = Key::Door(self.node.id());
        let value = address.map(encode_door);
        let mut state = self.mirror.state();
        loop {
            state.mark_unchanged();
            let is_current = state.borrow().is_current;
            let known = self.mirror.get(&key).map(|item| item.value);
            let is_so = known.as_deref() == value.as_deref();
            if is_current && !is_so {
                let write = match &value {
                    Some(value) => Write::put(&key, value.clone()),
                    None => Write::remove(&key),
                };
                let change = Change::default().write(write);
                if let Err(error) = self.mirror.directory().change(change).await {
                    tracing::debug!(%error, "could not publish the address for SQL; trying again");
                }
                // The mirror shows it soon.
                tokio::time::sleep(LOOK).await;
                continue;
            }
            if state.changed().await.is_err() {
                return;
            }
        }
    }
}
