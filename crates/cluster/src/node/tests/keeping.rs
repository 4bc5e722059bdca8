//! Replicas and schemas: made, changed, removed, and found again.

use super::*;

#[test]
fn a_schema_reaches_all_replicas_and_outlives_a_restart() {
    let mut cluster = Cluster::new();
    cluster.create(TREE);
    let group = tablets::group_of(TREE);
    let set = |cluster: &Cluster, version: u64, record: &[u8]| {
        wait_for("a leader that takes the schema", || {
            let set = |node: &Arc<Node>| block_on(node.set_schema(group, version, record)).is_ok();
            cluster.nodes.values().any(set)
        });
    };
    cluster.write(TREE, "before");
    set(&cluster, 5, b"fifth");
    set(&cluster, 3, b"too late");
    cluster.write(TREE, "after");
    let has = |node: &Arc<Node>| {
        let descriptors = node.descriptors();
        let (_, descriptor) = &descriptors[0];
        (descriptor.schema_version, &descriptor.schema[..]) == (5, b"fifth")
    };
    for node in cluster.nodes.values() {
        wait_for("the schema", || has(node));
    }
    wait_for("the tables to be told", || {
        let told = cluster.told.schemas.lock();
        assert!(told.iter().all(|told| *told == (group, 5, Bytes::from_static(b"fifth"))));
        told.len() == 3
    });
    // Flushed or not: the log may have the command or the descriptor.
    cluster.engines[&1].tree(TREE).unwrap().flush().unwrap();
    (1..=3).for_each(|node| cluster.stop(node));
    (1..=3).for_each(|node| cluster.start(node));
    cluster.write(TREE, "restarted");
    for node in cluster.nodes.values() {
        assert!(has(node));
    }
    cluster.expect_rows(TREE, &["after", "before", "restarted"].map(str::to_owned));
    assert_eq!(cluster.told.schemas.lock().len(), 3, "told once each");
}

#[test]
fn a_removed_replica_takes_its_data_along_and_never_comes_back() {
    let mut cluster = Cluster::new();
    cluster.create(TREE);
    cluster.create(OTHER);
    cluster.write(TREE, "row");
    cluster.write(OTHER, "row");
    let group = tablets::group_of(TREE);
    for node in cluster.nodes.values() {
        block_on(node.remove(group, ReplicaId(4), 2)).unwrap();
        block_on(node.remove(group, ReplicaId(4), 2)).unwrap();
        let again = block_on(node.create(group, descriptor(TREE)));
        assert!(matches!(again, Err(Error::FailedPrecondition(_))), "{again:?}");
        assert_eq!(block_on(node.readable(TREE)), Err(Error::NotLeader { leader: None }));
    }
    assert!(cluster.engines.values().all(|engine| engine.trees() == [OTHER]));
    (1..=3).for_each(|node| cluster.stop(node));
    (1..=3).for_each(|node| cluster.start(node));
    for node in cluster.nodes.values() {
        assert_eq!(node.descriptors().len(), 1);
        let again = block_on(node.create(group, descriptor(TREE)));
        assert!(matches!(again, Err(Error::FailedPrecondition(_))), "{again:?}");
    }
    cluster.write(OTHER, "more");
    cluster.expect_rows(OTHER, &["more", "row"].map(str::to_owned));
}

#[test]
fn a_replica_is_created_once_and_only_where_it_belongs() {
    let cluster = Cluster::new();
    cluster.create(TREE);
    cluster.create(TREE);
    let node = &cluster.nodes[&1];
    let refused = |group: GroupId, descriptor: Descriptor, case: &str| {
        let error = block_on(node.create(group, descriptor));
        assert!(matches!(error, Err(Error::FailedPrecondition(_))), "{case}: {error:?}");
    };
    refused(tablets::group_of(OTHER), descriptor(TREE), "another group");
    let mut elsewhere = descriptor(OTHER);
    elsewhere.members.retain(|member| member.node != NodeId(1));
    refused(tablets::group_of(OTHER), elsewhere, "other nodes");
    let mut renamed = descriptor(TREE);
    renamed.members[0].replica = ReplicaId(9);
    refused(tablets::group_of(TREE), renamed, "another replica lives");
    let mut large = descriptor(OTHER);
    large.schema = vec![0; crate::format::SCHEMA_BYTES_MAX + 1].into();
    refused(tablets::group_of(OTHER), large, "a record that is too long");
    let mut others = descriptor(TREE);
    others.members.pop();
    refused(tablets::group_of(TREE), others, "other members");
    // An id that was given twice.
    let mut other = descriptor(TREE);
    other.table = "tables/other".to_owned();
    let mut anew = descriptor(TREE);
    anew.schema = Bytes::from_static(b"of a table that was created anew");
    for taken in [other, anew] {
        let error = block_on(node.create(tablets::group_of(TREE), taken));
        assert!(matches!(error, Err(Error::AlreadyExists { .. })), "{error:?}");
    }
    cluster.write(TREE, "row");
    cluster.expect_rows(TREE, &["row".to_owned()]);
}

#[test]
fn a_table_gets_no_group_that_is_anothers_on_any_node() {
    use table::Groups;
    let cluster = Cluster::new();
    let nodes = cluster.nodes.values().map(|node| (node.id(), Arc::clone(node)));
    let peers = Arc::new(AllThree(nodes.collect()));
    let tablets = |id: u64| {
        let peers: Arc<dyn Peers> = peers.clone();
        Tablets::new(Arc::clone(&cluster.nodes[&id]), peers)
    };
    let old = schema(&[TREE]);
    block_on(tablets(1).create(&old, 1)).unwrap();
    cluster.write(TREE, "row");
    assert_eq!(cluster.nodes[&1].largest_group(), Some(tablets::group_of(TREE)));
    let new = table::TableSchema { created_micros: 99, ..old };
    let error = block_on(tablets(2).create(&new, 2));
    assert!(matches!(error, Err(Error::AlreadyExists { .. })), "{error:?}");
    assert_eq!(rows(&cluster.engines[&1], TREE), [b"row"]);
    drop(peers);
}

/// The tables of a real schema, through the seam of crate `table`.
struct AllThree(BTreeMap<NodeId, Arc<Node>>);

#[async_trait::async_trait]
impl Peers for AllThree {
    async fn place(&self, _: GroupId) -> Result<Vec<Member>> {
        Ok(members())
    }
    async fn create(&self, node: NodeId, group: GroupId, descriptor: &Descriptor) -> Result<()> {
        self.0[&node].create(group, descriptor.clone()).await
    }
    async fn may_remove(&self, node: NodeId, group: GroupId, version: u64) -> Result<()> {
        self.0[&node].may_remove(group, version).await
    }
    async fn remove(
        &self,
        node: NodeId,
        group: GroupId,
        least: ReplicaId,
        version: u64,
    ) -> Result<()> {
        self.0[&node].remove(group, least, version).await
    }
    async fn set_schema(
        &self,
        node: NodeId,
        group: GroupId,
        version: u64,
        record: Bytes,
    ) -> Result<()> {
        self.0[&node].set_schema(group, version, &record).await
    }
    async fn leader(&self, node: NodeId, group: GroupId) -> Result<Option<NodeId>> {
        Ok(self.0[&node].leader(group))
    }
    async fn members(&self, group: GroupId) -> Result<Vec<Member>> {
        let has = |node: &Arc<Node>| node.descriptors().iter().any(|(found, _)| *found == group);
        Ok(if self.0.values().any(has) { members() } else { Vec::new() })
    }
}

#[test]
fn tables_are_created_changed_and_removed_from_any_node() {
    use table::Groups;
    let cluster = Cluster::new();
    let nodes = cluster.nodes.values().map(|node| (node.id(), Arc::clone(node)));
    let peers = Arc::new(AllThree(nodes.collect()));
    let tablets: Vec<Tablets> = cluster
        .nodes
        .values()
        .map(|node| Tablets::new(Arc::clone(node), Arc::clone(&peers) as Arc<dyn Peers>))
        .collect();
    let mut schema = schema(&[TREE, OTHER]);
    block_on(tablets[0].create(&schema, 1)).unwrap();
    block_on(tablets[1].create(&schema, 1)).unwrap();
    cluster.write(TREE, "row");
    cluster.write(OTHER, "row");
    let leader = cluster.leader(OTHER);
    wait_for("all to know the leader", || {
        tablets.iter().all(|tablets| tablets.leader(OTHER) == Some(leader))
    });
    schema.deletion_protection = true;
    block_on(tablets[2].set_schema(&schema, 2)).unwrap();
    for tree in [TREE, OTHER] {
        let group = super::super::tablets::group_of(tree);
        let of_leader = cluster.nodes[&cluster.leader(tree)].descriptors();
        let (_, descriptor) = of_leader.iter().find(|(found, _)| *found == group).unwrap();
        let read = table::TableSchema::from_record(&descriptor.schema).unwrap();
        assert_eq!((descriptor.schema_version, read), (2, schema.clone()));
    }
    let removal = table::Removal { trees: vec![TREE, OTHER], version: 3 };
    block_on(tablets[1].remove(&removal)).unwrap();
    block_on(tablets[0].remove(&removal)).unwrap();
    assert!(cluster.engines.values().all(|engine| engine.trees().is_empty()));
    drop((tablets, peers));
}

#[test]
fn a_removal_that_is_not_newer_than_the_table_takes_no_acknowledged_row_along() {
    use table::{Groups, Removal};
    let cluster = Cluster::new();
    cluster.create(TREE);
    cluster.create(OTHER);
    let nodes = cluster.nodes.values().map(|node| (node.id(), Arc::clone(node)));
    let peers = Arc::new(AllThree(nodes.collect()));
    let remove = |trees: &[TreeId], version| {
        let peers: Arc<dyn Peers> = peers.clone();
        let removal = Removal { trees: trees.to_vec(), version };
        block_on(Tablets::new(Arc::clone(&cluster.nodes[&1]), peers).remove(&removal))
    };
    // A replica that does not have the row yet stays too.
    cluster.cut(3);
    cluster.write(TREE, "row");
    let taken = remove(&[TREE], 1);
    assert!(matches!(taken, Err(Error::AlreadyExists { .. })), "{taken:?}");
    for engine in cluster.engines.values() {
        assert!(engine.trees().contains(&TREE));
    }
    // Groups without rows are of a creation that came to nothing.
    remove(&[OTHER], 1).unwrap();
    assert!(cluster.engines.values().all(|engine| engine.trees() == [TREE]));
    cluster.connect();
    cluster.write(TREE, "more");
    cluster.expect_rows(TREE, &["more", "row"].map(str::to_owned));
    let of_one = block_on(cluster.nodes[&3].remove(tablets::group_of(TREE), ReplicaId(4), 1));
    assert!(matches!(of_one, Err(Error::AlreadyExists { .. })), "{of_one:?}");
    // A deletion is newer.
    remove(&[TREE], 2).unwrap();
    assert!(cluster.engines.values().all(|engine| engine.trees().is_empty()));
    drop(peers);
}

fn schema(trees: &[TreeId]) -> table::TableSchema {
    let starts = ["", "m"].map(|start| Bytes::from_static(start.as_bytes()));
    let tablet = |(start, tree): (Bytes, &TreeId)| table::schema::Tablet { start, tree: *tree };
    table::TableSchema {
        name: table::TableName::new("projects/p/instances/i/tables/t").unwrap(),
        families: BTreeMap::new(),
        next_family: 1,
        tablets: starts.into_iter().zip(trees).map(tablet).collect(),
        deletion_protection: false,
        created_micros: 0,
        granularity: table::Granularity::Millis,
        row_key_schema: None,
    }
}
