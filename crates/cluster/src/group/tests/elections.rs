//! Elections, promises, handovers, hibernation.

use super::*;

#[test]
fn an_idle_group_is_silent_until_something_happens() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    nodes.propose(leader, 1, None, b"one");
    nodes.settle();
    nodes.ticks(30);
    let delivered = nodes.delivered;
    nodes.ticks(1000);
    assert_eq!(nodes.delivered, delivered, "a sleeping group sends nothing");
    let now = nodes.now;
    for driver in nodes.drivers.values_mut() {
        assert_eq!(driver.step(now, []).next_tick, None, "a sleeping group wants no ticks");
    }
    nodes.read(leader, 2, Proof::Lease);
    assert_eq!(nodes.answer(2), None, "the lease ended long ago");
    let slept = crate::Mark::LeaderSlept.hits() > 0 && crate::Mark::WokenByRequest.hits() > 0;
    assert!(slept || !cfg!(debug_assertions));
    nodes.settle();
    assert!(matches!(nodes.answer(2), Some(Answer::Readable { .. })));
    nodes.ticks(30);
    nodes.propose(leader, 3, None, b"two");
    nodes.settle();
    assert!(nodes.is_applied(3));
}

/// A leader whose followers count ticks must not sleep, or they elect another one.
#[test]
fn a_leader_does_not_sleep_while_followers_are_awake_for_a_read() {
    // The tick of the sleep is one of a heartbeat, or is not.
    for wait in 0..2 {
        let mut nodes = Nodes::new(3, Shape::DEFAULT);
        let leader = nodes.elect();
        nodes.ticks(wait);
        nodes.propose(leader, 1, None, b"one");
        nodes.settle();
        tick_until_sleep_is_sent(&mut nodes);
        // The leader asks before it hears that they sleep, and they hear of the read after they fell asleep.
        nodes.read(leader, 2, Proof::Quorum);
        nodes.settle();
        assert!(matches!(nodes.answer(2), Some(Answer::Readable { .. })));
        for tick in 0..40 {
            nodes.ticks(1);
            let now = nodes.now;
            let is_awake = |driver: &mut Driver| driver.step(now, []).next_tick.is_some();
            let awake = nodes
                .drivers
                .iter_mut()
                .filter_map(|(node, driver)| is_awake(driver).then_some(*node));
            let awake: Vec<u64> = awake.collect();
            assert!(awake.is_empty() || awake.contains(&leader), "{awake:?} at {tick}, {wait}");
        }
        assert_eq!(nodes.leader(), Some(leader));
    }
}

/// Lets ticks go by until the followers are asked to sleep, and have not heard of it yet.
fn tick_until_sleep_is_sent(nodes: &mut Nodes) {
    for _ in 0..20 {
        nodes.now = nodes.now.after(Duration::from_nanos(TICK));
        (1..=3).for_each(|node| nodes.step(node, []));
        if nodes.sent.iter().any(|(.., sent)| matches!(sent.body, Body::Sleep { .. })) {
            return;
        }
        nodes.settle();
    }
    panic!("an idle leader sends its followers to sleep");
}

#[test]
fn sleeping_replicas_hear_of_the_loss_of_their_leader() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    nodes.ticks(100);
    nodes.cut.insert(leader);
    nodes.ticks(100);
    assert_eq!(nodes.leader(), None, "no one has noticed");
    for node in (1..=3).filter(|node| *node != leader) {
        nodes.step(node, [Input::Lost { node: NodeId(leader) }]);
    }
    assert_ne!(nodes.elect(), leader);
}

#[test]
fn a_group_with_a_missing_replica_stays_awake() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    nodes.cut.insert(leader % 3 + 1);
    nodes.propose(leader, 1, None, b"one");
    nodes.settle();
    nodes.ticks(100);
    let now = nodes.now;
    let out = nodes.drivers.get_mut(&leader).unwrap().step(now, []);
    assert!(out.next_tick.is_some());
}

#[test]
fn a_follower_with_a_slow_disk_acknowledges_nothing_but_answers_heartbeats() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    let followers: Vec<u64> = (1..=3).filter(|node| *node != leader).collect();
    nodes.slow_disk.extend(&followers);
    nodes.propose(leader, 1, None, b"one");
    nodes.settle();
    nodes.ticks(50);
    assert_eq!(nodes.answer(1), None, "no quorum has it on disk");
    assert_eq!(nodes.leader(), Some(leader), "heartbeats were answered");
    nodes.read(leader, 2, Proof::Lease);
    assert!(matches!(nodes.answer(2), Some(Answer::Readable { .. })), "and the lease was kept");
    nodes.slow_disk.clear();
    let round = nodes.unsaved[&followers[0]];
    nodes.step(followers[0], [Input::Saved { round }]);
    nodes.settle();
    assert!(nodes.is_applied(1));
}

#[test]
fn a_leader_replicates_while_its_own_disk_is_slow() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    nodes.slow_disk.insert(leader);
    for ticket in 1..=4 {
        nodes.propose(leader, ticket, None, b"one");
        nodes.settle();
    }
    nodes.ticks(3);
    let follower = leader % 3 + 1;
    assert_eq!(nodes.commands(follower).len(), 4, "two followers are a quorum");
    assert_eq!(nodes.commands(leader).len(), 0, "a leader applies what it has saved");
    let round = nodes.unsaved[&leader];
    nodes.step(leader, [Input::Saved { round }]);
    assert!((1..=4).all(|ticket| nodes.is_applied(ticket)));
}

#[test]
fn a_lagging_state_machine_costs_no_office() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    nodes.slow_apply.extend([1, 2, 3]);
    nodes.propose(leader, 1, None, b"one");
    nodes.settle();
    let term = nodes.roles[&leader].term;
    nodes.ticks(100);
    assert_eq!((nodes.leader(), nodes.roles[&leader].term), (Some(leader), term));
}

#[test]
fn an_office_is_handed_over_without_a_lease() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let old = nodes.elect();
    let new = old % 3 + 1;
    nodes.step(old, [Input::Transfer { group: GROUP, to: ReplicaId(new) }]);
    nodes.read(old, 1, Proof::Lease);
    assert_eq!(nodes.answer(1), None, "the lease was revoked first");
    nodes.propose(old, 2, None, b"late");
    let to = ReplicaId(new);
    assert_eq!(nodes.answer(2), Some(Answer::Refused(Refusal::Transferring { to })));
    nodes.settle();
    assert_eq!(nodes.leader(), Some(new));
    let leader = Some(Member { replica: ReplicaId(new), node: NodeId(new) });
    assert_eq!(nodes.answer(1), Some(Answer::Refused(Refusal::NotLeader { leader: None })));
    nodes.read(old, 3, Proof::Lease);
    assert_eq!(nodes.answer(3), Some(Answer::Refused(Refusal::NotLeader { leader })));
}

#[test]
fn a_handover_that_fails_leaves_the_leader_without_a_lease() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    let gone = leader % 3 + 1;
    nodes.cut.insert(gone);
    nodes.step(leader, [Input::Transfer { group: GROUP, to: ReplicaId(gone) }]);
    nodes.ticks(15);
    nodes.propose(leader, 1, None, b"one");
    nodes.read(leader, 2, Proof::Lease);
    assert_eq!(nodes.answer(2), None);
    nodes.settle();
    assert!(nodes.is_applied(1), "the leader has its office back");
    assert!(matches!(nodes.answer(2), Some(Answer::Readable { .. })), "after asking a quorum");
}

#[test]
fn a_restarted_voter_waits_for_one_election_timeout() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    let (voter, candidate) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    nodes.cut.insert(leader);
    nodes.ticks(7);
    nodes.start(voter);
    let ask = |nodes: &mut Nodes| {
        let last = nodes.saved[&voter].entries.last().unwrap().id;
        let term = nodes.saved[&voter].state.term + 1;
        let body = Body::RequestVote { kind: VoteKind::Trial, last, commit: last };
        let (from, to) = (ReplicaId(candidate), ReplicaId(voter));
        let message = Message { group: GROUP, from, to, term, body };
        nodes.sent.clear();
        nodes.step(voter, [Input::Message { from: NodeId(candidate), message }]);
        nodes.sent.iter().any(|(_, _, sent)| matches!(sent.body, Body::Vote { granted: true, .. }))
    };
    assert!(!ask(&mut nodes));
    nodes.now = nodes.now.after(Duration::from_nanos(10 * TICK - 1));
    assert!(!ask(&mut nodes));
    nodes.now = nodes.now.after(Duration::from_nanos(1));
    assert!(ask(&mut nodes));
}

#[test]
fn elections_follow_from_the_seed() {
    let history = || {
        let mut nodes = Nodes::new(5, Shape::DEFAULT);
        let mut leaders = Vec::new();
        for _ in 0..2 {
            let leader = nodes.elect();
            leaders.push((leader, nodes.now, nodes.delivered));
            nodes.cut.insert(leader);
        }
        leaders
    };
    assert_eq!(history(), history());
}
