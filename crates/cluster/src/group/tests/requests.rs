//! Proposals and reads, their answers and refusals.

use super::*;

#[test]
fn a_command_is_applied_on_all_replicas_and_answered() {
    for count in [1, 3, 5] {
        let mut nodes = Nodes::new(count, Shape::DEFAULT);
        let leader = nodes.elect();
        nodes.propose(leader, 1, None, b"one");
        nodes.propose(leader, 2, None, b"two");
        nodes.settle();
        nodes.ticks(3);
        assert!(nodes.is_applied(1) && nodes.is_applied(2), "{:?}", nodes.answers);
        for node in 1..=count {
            assert_eq!(nodes.commands(node), ["one", "two"], "node {node} of {count}");
        }
    }
}

#[test]
fn refusals_name_their_reason() {
    let mut shape = Shape::DEFAULT;
    (shape.command_bytes_max, shape.proposals_max, shape.reads_max) = (4, 1, 1);
    let mut nodes = Nodes::new(3, shape);
    let leader = nodes.elect();
    let follower = leader % 3 + 1;
    let term = nodes.roles[&leader].term;
    nodes.propose(follower, 1, None, b"a");
    nodes.propose(leader, 2, Some(term - 1), b"a");
    nodes.propose(leader, 3, None, b"large");
    nodes.propose(leader, 4, None, b"");
    nodes.propose(leader, 5, Some(term), b"a");
    nodes.propose(leader, 6, None, b"b");
    nodes.read(follower, 7, Proof::Lease);
    nodes.read(leader, 8, Proof::Quorum);
    nodes.read(leader, 9, Proof::Quorum);
    let (group, ticket) = (GroupId(8), Ticket(10));
    nodes.step(leader, [Input::Read { group, ticket, proof: Proof::Lease }]);
    let at = Some(Member { replica: ReplicaId(leader), node: NodeId(leader) });
    for (ticket, refusal) in [
        (1, Refusal::NotLeader { leader: at }),
        (2, Refusal::TermChanged { term }),
        (3, Refusal::TooLarge { bytes_max: 4 }),
        (4, Refusal::Empty),
        (6, Refusal::Full),
        (7, Refusal::NotLeader { leader: at }),
        (9, Refusal::Full),
        (10, Refusal::UnknownGroup),
    ] {
        assert_eq!(nodes.answer(ticket), Some(Answer::Refused(refusal)), "ticket {ticket}");
    }
    nodes.settle();
    assert!(nodes.is_applied(5));
    assert!(matches!(nodes.answer(8), Some(Answer::Readable { .. })));
}

#[test]
fn what_is_not_applied_is_bounded() {
    let mut shape = Shape::DEFAULT;
    shape.unapplied_bytes_max = 1000;
    let mut nodes = Nodes::new(3, shape);
    let leader = nodes.elect();
    nodes.slow_apply.insert(leader);
    for ticket in 1..=100 {
        nodes.propose(leader, ticket, None, &[7; 100]);
        nodes.settle();
    }
    let full = Some(Answer::Refused(Refusal::Full));
    let refused = (1..=100).filter(|ticket| nodes.answer(*ticket) == full).count();
    assert!((90..99).contains(&refused), "{refused} of 100 were refused");
    nodes.slow_apply.clear();
    let index = nodes.unapplied[&leader];
    nodes.step(leader, [Input::Applied { group: GROUP, index }]);
    nodes.propose(leader, 101, None, &[7; 100]);
    nodes.settle();
    assert!(nodes.is_applied(101), "there is room after the state machine has caught up");
}

#[test]
fn a_lease_answers_at_once_and_a_quorum_after_a_round_trip() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    nodes.read(leader, 1, Proof::Lease);
    assert!(matches!(nodes.answer(1), Some(Answer::Readable { .. })), "nothing was delivered yet");
    nodes.read(leader, 2, Proof::Quorum);
    assert_eq!(nodes.answer(2), None);
    nodes.settle();
    assert!(matches!(nodes.answer(2), Some(Answer::Readable { .. })));
    nodes.cut.insert(leader);
    nodes.ticks(8);
    nodes.read(leader, 3, Proof::Lease);
    assert_eq!(nodes.answer(3), None, "the lease is over, and no one answers");
}

#[test]
fn a_read_waits_for_the_state_machine() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    nodes.slow_apply.insert(leader);
    nodes.propose(leader, 1, None, b"one");
    nodes.settle();
    nodes.read(leader, 2, Proof::Lease);
    assert_eq!(nodes.answer(2), None);
    let index = nodes.unapplied[&leader];
    nodes.step(leader, [Input::Applied { group: GROUP, index }]);
    let term = nodes.roles[&leader].term;
    assert_eq!(nodes.answer(2), Some(Answer::Readable { index, term }));
}

#[test]
fn a_lease_tells_what_is_committed_though_it_is_not_applied() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    nodes.slow_apply.insert(leader);
    let before = nodes.leases[&leader];
    assert!(before.end.is_some());
    nodes.propose(leader, 1, None, b"one");
    nodes.settle();
    // Others have applied it and may show it, as a former leader does whose read was late.
    let follower = (1..=3).find(|node| *node != leader).unwrap();
    assert_eq!(nodes.applied[&follower].last().unwrap().command, b"one"[..]);
    let lease = nodes.leases[&leader];
    assert_eq!((lease.term, lease.committed), (before.term, before.committed + 1));
    assert_eq!(nodes.unapplied[&leader], lease.committed);
}

#[test]
fn proposals_that_lost_their_places_are_superseded() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let old = nodes.elect();
    nodes.cut.insert(old);
    nodes.propose(old, 1, None, b"lost");
    // Their places are behind all entries of the new leader.
    (11..=15).for_each(|ticket| nodes.propose(old, ticket, None, b"lost too"));
    let new = nodes.elect();
    nodes.propose(new, 2, None, b"won");
    nodes.settle();
    nodes.cut.clear();
    nodes.ticks(20);
    for ticket in [1, 11, 12, 13, 14, 15] {
        assert_eq!(nodes.answer(ticket), Some(Answer::Superseded), "proposal {ticket}");
    }
    assert!(nodes.is_applied(2));
    (1..=3).for_each(|node| assert_eq!(nodes.commands(node), ["won"], "node {node}"));
}

#[test]
fn a_closed_replica_gives_its_open_requests_back() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    nodes.propose(leader, 1, None, b"one");
    nodes.read(leader, 2, Proof::Quorum);
    let mut open = nodes.drivers.get_mut(&leader).unwrap().close(GROUP);
    open.sort();
    assert_eq!(open, [Ticket(1), Ticket(2)]);
    nodes.propose(leader, 3, None, b"three");
    assert_eq!(nodes.answer(3), Some(Answer::Refused(Refusal::UnknownGroup)));
}
