//! Messages and disks that no correct node has.

use super::*;

fn entry(term: u64, index: u64) -> Entry {
    Entry { id: EntryId { term, index }, command: Bytes::from_static(b"x") }
}

#[test]
fn messages_that_break_rules_are_dropped_with_their_reason() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    let node = leader % 3 + 1;
    let term = nodes.roles[&leader].term;
    let last = nodes.saved[&node].entries.last().unwrap().id;
    let huge = u64::MAX;
    let append = |previous, entries| Body::Append { previous, entries, commit: 0, sent: nodes.now };
    let zero = EntryId::default();
    let cases = [
        ("a gap", term, append(zero, vec![entry(1, 1), entry(1, 3)])),
        ("not after the previous", term, append(last, vec![entry(term, last.index + 2)])),
        ("a term that falls", term, append(last, vec![entry(last.term - 1, last.index + 1)])),
        ("a term to come", term, append(last, vec![entry(term + 1, last.index + 1)])),
        ("index overflow", term, append(EntryId { term, index: huge }, vec![entry(1, 0)])),
        ("no term", 0, Body::TimeoutNow),
        ("huge term", huge, Body::TimeoutNow),
        ("huge commit", term, Body::Heartbeat { commit: huge, read: None, sent: nodes.now }),
        (
            "a candidate behind its own log",
            term,
            Body::RequestVote {
                kind: VoteKind::Real,
                last: EntryId { term, index: 9 },
                commit: zero,
            },
        ),
    ];
    for (case, term, body) in cases {
        let (from, to) = (ReplicaId(leader), ReplicaId(node));
        let message = Message { group: GROUP, from, to, term, body };
        nodes.step(node, [Input::Message { from: NodeId(leader), message }]);
        let rejected = nodes.rejected.pop();
        assert!(matches!(rejected, Some(Rejected::Malformed(_))), "{case}: {rejected:?}");
    }
    nodes.propose(leader, 1, None, b"one");
    nodes.settle();
    assert!(nodes.is_applied(1), "the group goes on");
}

#[test]
fn an_acknowledgement_of_what_the_leader_lacks_commits_nothing() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    let (from, to) = (ReplicaId(leader % 3 + 1), ReplicaId(leader));
    let term = nodes.roles[&leader].term;
    let body = Body::Appended { index: 1000, commit: 0, refused: None, heard: nodes.now };
    let message = Message { group: GROUP, from, to, term, body };
    nodes.step(leader, [Input::Message { from: NodeId(from.0), message }]);
    assert!(matches!(nodes.rejected[..], [Rejected::Malformed(_)]));
}

#[test]
fn only_members_on_their_nodes_are_heard() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    for (group, node, from, to, why) in [
        (GROUP, 2, 3, 1, Rejected::WrongMember),
        (GROUP, 2, 2, 3, Rejected::WrongMember),
        (GROUP, 9, 9, 1, Rejected::WrongMember),
        (GROUP, 1, 1, 1, Rejected::WrongMember),
        (GroupId(8), 2, 2, 1, Rejected::UnknownGroup),
    ] {
        let (from, to) = (ReplicaId(from), ReplicaId(to));
        let message = Message { group, from, to, term: 5, body: Body::TimeoutNow };
        nodes.step(1, [Input::Message { from: NodeId(node), message }]);
        assert_eq!(nodes.rejected.pop(), Some(why));
    }
}

#[test]
fn a_replica_that_lost_what_it_acknowledged_takes_part_in_nothing() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    nodes.propose(leader, 1, None, b"one");
    nodes.settle();
    nodes.ticks(3);
    let robbed = leader % 3 + 1;
    let empty = SavedReplica::new(GROUP, members(3));
    nodes.saved.insert(robbed, empty);
    nodes.start(robbed);
    nodes.ticks(10);
    assert_eq!(nodes.rejected, [Rejected::LogLost]);
    nodes.cut.insert(leader);
    nodes.ticks(100);
    assert_eq!(nodes.leader(), None, "the robbed replica gives no vote");
}

#[test]
fn replicas_that_cannot_be_sound_do_not_open() {
    let sound = || {
        let mut saved = SavedReplica::new(GROUP, members(3));
        saved.start = EntryId { term: 2, index: 5 };
        saved.entries = vec![entry(2, 6), entry(3, 7)];
        saved.state = HardState { term: 3, vote: None, commit: 6 };
        saved.flushed = 6;
        saved
    };
    type Change = fn(&mut SavedReplica);
    let log = OpenError::Log;
    let cases: [(&str, Change, OpenError); 11] = [
        ("no member here", |saved| saved.members.remove(0).replica.0 = 1, OpenError::Members),
        ("a member twice", |saved| saved.members[1].replica.0 = 1, OpenError::Members),
        ("a node twice", |saved| saved.members[1].node.0 = 1, OpenError::Members),
        ("a replica 0", |saved| saved.members[1].replica.0 = 0, OpenError::Members),
        ("a gap", |saved| saved.entries[1].id.index = 8, log),
        ("a term that falls", |saved| saved.entries[1].id.term = 1, log),
        ("an entry of a later term", |saved| saved.state.term = 2, log),
        ("a start without a term", |saved| saved.start.term = 0, log),
        (
            "a commit after the log",
            |saved| saved.state.commit = 8,
            OpenError::LogLost { last: 7, committed: 8 },
        ),
        (
            "a flush after the log",
            |saved| saved.flushed = 9,
            OpenError::LogLost { last: 7, committed: 9 },
        ),
        (
            "a flush before the log",
            |saved| saved.flushed = 4,
            OpenError::FlushLost { flushed: 4, start: 5 },
        ),
    ];
    let open = |saved: &SavedReplica| {
        let mut driver = Driver::new(&options(1, Shape::DEFAULT), Time(0));
        driver.open(saved, Time(0)).and_then(|()| driver.open(saved, Time(0)))
    };
    assert_eq!(open(&sound()), Err(OpenError::Open), "once is right, twice is not");
    for (case, change, error) in cases {
        let mut saved = sound();
        change(&mut saved);
        assert_eq!(open(&saved), Err(error), "{case}");
    }
}
