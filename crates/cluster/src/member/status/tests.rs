use super::*;
use crate::directory::Revision;
use crate::group::{Member, MemberReport, ReplicaId};
use table::schema::Tablet;
use table::{Granularity, TableName, TableSchema, TreeId};

fn report(group: u64, leads: bool, matched: [u64; 3]) -> GroupReport {
    let member = |node: u64| Member { replica: ReplicaId(node), node: NodeId(node) };
    let of = |node: u64| MemberReport {
        member: member(node),
        matched: leads.then_some(matched[node as usize - 1]),
        is_behind: leads && matched[node as usize - 1] < 5,
    };
    GroupReport {
        group: GroupId(group),
        term: 3,
        leads,
        leader: Some(member(1)),
        start: 5,
        last: 20,
        committed: 20,
        applied: 18,
        members: (1..=3).map(of).collect(),
    }
}

#[test]
fn what_a_node_tells_has_its_documented_bytes_and_reads_back() {
    let led = Led::of(&[report(16, true, [20, 19, 2]), report(17, false, [0; 3])]);
    let bytes = led.encode();
    assert_eq!(bytes, &b"\x01\x01\x01\x10\x03\x03\x01\x01\0\x02\x02\0\x03\x13\x01"[..]);
    assert_eq!(Led::decode(&bytes), Ok(led.clone()));
    fuzz_status(&bytes);
    for len in 0..bytes.len() {
        fuzz_status(&bytes[..len]);
        assert!(Led::decode(&bytes[..len]).is_err(), "{len} bytes");
    }
    assert!(Led::decode(&[&bytes[..], b"x"].concat()).is_err());
    assert!(Led::decode(b"\x02\0\0").is_err());
    assert!(Led::decode(b"\x01\0\xff\xff\xff\xff\x0f").is_err(), "too many");
    // A node with many groups tells of some, and counts all.
    let many: Vec<_> = (0..1500).map(|group| report(group, true, [20; 3])).collect();
    let many = Led::of(&many);
    assert_eq!((many.count, many.groups.len()), (1500, LED_MAX));
}

fn items(tablets: u32) -> BTreeMap<String, Item> {
    let start = |tree| if tree == 16 { String::new() } else { format!("{tree:06}") };
    let tablet = |tree: u32| Tablet { start: start(tree).into(), tree: TreeId(tree) };
    let schema = TableSchema {
        name: TableName::new("projects/p/instances/i/tables/t").unwrap(),
        families: BTreeMap::new(),
        next_family: 1,
        tablets: (16..16 + tablets).map(tablet).collect(),
        deletion_protection: false,
        created_micros: 0,
        granularity: Granularity::Millis,
        row_key_schema: None,
    };
    let table = Key::Table(schema.name.as_str().to_owned());
    let mut items = vec![(table, TableRecord { version: 1, schema }.encode())];
    for node in 1..=3 {
        let record = NodeRecord {
            boot: 1,
            start: 1,
            address: format!("n{node}:1"),
            region: "r".into(),
            zone: "z".into(),
        };
        items.push((Key::Node(NodeId(node)), record.encode()));
    }
    let members = (1..=3).map(|id| Member { replica: ReplicaId(id), node: NodeId(id) }).collect();
    items.push((Key::Placement(GroupId(16)), Placement { members }.encode()));
    items.push((Key::Alive(NodeId(1)), Vec::new()));
    let item = |(key, value): (Key, Vec<u8>)| {
        let item = Item { key: key.to_string(), value: value.into(), revision: Revision(1) };
        (key.to_string(), item)
    };
    items.into_iter().map(item).collect()
}

#[test]
fn a_status_tells_lags_leaders_and_what_it_leaves_out() {
    let of = (ClusterId(7), NodeId(1), None);
    let leader = Led::of(&[report(16, true, [20, 19, 2])]);
    let led = BTreeMap::from([(NodeId(1), leader)]);
    let status = assemble(&items(2), of.clone(), &[], &led);
    let nodes: Vec<_> =
        status.nodes.iter().map(|at| (at.is_alive, at.leaders, at.replicas)).collect();
    assert_eq!(nodes, [(true, Some(1), 1), (false, None, 1), (false, None, 1)]);
    let [first, second] = &status.tablets[..] else { panic!("{status:?}") };
    assert_eq!((first.tree, first.leader, first.term), (16, Some(NodeId(1)), 3));
    let lags: Vec<_> = first.members.iter().map(|at| (at.lag, at.is_behind)).collect();
    assert_eq!(lags, [(Some(0), false), (Some(1), false), (Some(18), true)]);
    assert_eq!((second.leader, second.members.len()), (None, 0));
    // The leader does not answer: a replica here knows it, and lags are not known.
    let status = assemble(&items(1), of.clone(), &[report(16, false, [0; 3])], &BTreeMap::new());
    let [only] = &status.tablets[..] else { panic!("{status:?}") };
    assert_eq!((only.leader, only.term, only.members[2].lag), (Some(NodeId(1)), 0, None));
    let status = assemble(&items(1003), of, &[], &BTreeMap::new());
    assert_eq!((status.tablets.len(), status.tablets_left_out), (TABLETS_MAX, 3));
}

#[test]
fn readings_add_up_what_groups_report() {
    let mut readings = NodeReadings::default();
    readings.add(&report(16, true, [20, 19, 2]));
    readings.add(&GroupReport { leader: None, ..report(17, false, [0; 3]) });
    let want = NodeReadings {
        replicas: 2,
        leaders: 1,
        leaderless: 1,
        lag_entries_max: 18,
        behind: 1,
        unapplied_entries_max: 2,
        ..NodeReadings::default()
    };
    assert_eq!(readings, want);
}
