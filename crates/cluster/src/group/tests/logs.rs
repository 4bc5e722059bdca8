//! The log: kept, fetched, cut off, and found again after a restart.

use super::*;

#[test]
fn a_replica_goes_on_after_the_last_flush() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    for (ticket, command) in [(1, b"one"), (2, b"two")] {
        nodes.propose(leader, ticket, None, command);
        nodes.settle();
    }
    nodes.ticks(3);
    let index =
        nodes.applied[&leader].iter().find(|entry| entry.command == "one").unwrap().id.index;
    for node in 1..=3 {
        nodes.saved.get_mut(&node).unwrap().flushed = index;
        nodes.applied.remove(&node);
        nodes.start(node);
    }
    nodes.roles.clear();
    let leader = nodes.elect();
    nodes.propose(leader, 3, None, b"six");
    nodes.settle();
    nodes.ticks(3);
    (1..=3).for_each(|node| assert_eq!(nodes.commands(node), ["two", "six"], "node {node}"));
}

/// Cuts a follower off, proposes commands, and connects it again. Returns leader and follower.
fn leave_behind(nodes: &mut Nodes, commands: u64) -> (u64, u64) {
    let leader = nodes.elect();
    let behind = leader % 3 + 1;
    nodes.cut.insert(behind);
    for ticket in 1..=commands {
        nodes.propose(leader, ticket, None, b"0123456789");
        nodes.settle();
    }
    (leader, behind)
}

#[test]
fn a_replica_that_is_behind_gets_entries_from_the_disk() {
    let mut shape = Shape::DEFAULT;
    (shape.cached_bytes_max, shape.append_bytes_max) = (0, 100);
    let mut nodes = Nodes::new(3, shape);
    let (leader, behind) = leave_behind(&mut nodes, 20);
    nodes.cut.clear();
    let mut fetched = 0;
    for round in 0..60 {
        nodes.ticks(1);
        for (node, fetch) in std::mem::take(&mut nodes.fetches) {
            assert_eq!(node, leader);
            fetched += 1;
            let log = &nodes.saved[&leader].entries;
            let from = log.iter().filter(|entry| entry.id.index >= fetch.first);
            let entries = match round % 3 {
                0 => Vec::new(),
                _ => from.filter(|entry| entry.id.index < fetch.end).take(3).cloned().collect(),
            };
            nodes.step(node, [Input::Fetched { group: GROUP, first: fetch.first, entries }]);
            nodes.settle();
        }
    }
    assert!(fetched > 5, "{fetched} fetches");
    let crossed = [crate::Mark::EntriesEvicted, crate::Mark::FetchInVain];
    assert!(crossed.iter().all(|mark| mark.hits() > 0) || !cfg!(debug_assertions));
    assert_eq!(nodes.commands(behind).len(), 20);
}

#[test]
fn flushed_entries_are_not_needed_at_a_start_and_are_fetched_for_others() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let (leader, behind) = leave_behind(&mut nodes, 20);
    let on_disk = nodes.saved[&leader].entries.clone();
    let flushed = nodes.applied[&leader].last().unwrap().id.index;
    for node in (1..=3).filter(|node| *node != behind) {
        let saved = nodes.saved.get_mut(&node).unwrap();
        saved.flushed = flushed;
        let gone = on_disk.iter().map(|entry| entry.id).filter(|id| id.index <= flushed);
        saved.terms = gone.map(|id| id.term).collect();
        saved.entries.retain(|entry| entry.id.index > flushed);
        nodes.applied.remove(&node);
        nodes.start(node);
    }
    nodes.roles.clear();
    let mut fetched = 0;
    for _ in 0..60 {
        if nodes.delivered > 0 && nodes.leader().is_some() {
            nodes.cut.clear();
        }
        nodes.ticks(1);
        for (node, fetch) in std::mem::take(&mut nodes.fetches) {
            fetched += 1;
            let wanted = |entry: &&Entry| (fetch.first..fetch.end).contains(&entry.id.index);
            let entries = on_disk.iter().filter(wanted).cloned().collect();
            nodes.step(node, [Input::Fetched { group: GROUP, first: fetch.first, entries }]);
            nodes.settle();
        }
    }
    assert!(fetched > 0);
    assert_eq!(nodes.commands(behind).len(), 20);
    assert!((1..=3).all(|node| node == behind || nodes.commands(node).is_empty()), "flushed");
    let saved = nodes.saved.get_mut(&leader).unwrap();
    saved.flushed -= 1;
    let opened = Driver::new(&options(leader, Shape::DEFAULT), nodes.now).open(saved, nodes.now);
    assert_eq!(opened, Err(OpenError::Log), "an entry that must be applied is not there");
}

#[test]
fn a_log_that_is_cut_knows_that_its_start_is_committed() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    nodes.propose(leader, 1, None, b"one");
    nodes.settle();
    nodes.ticks(3);
    for node in 1..=3 {
        let last = nodes.applied[&node].last().unwrap().id;
        let known = nodes.saved[&node].state.commit;
        assert!(known < last.index, "a commit alone is not written");
        nodes.step(node, [Input::Flushed { group: GROUP, index: last.index }]);
        assert_eq!(nodes.saved[&node].start, last, "all replicas have it on disk");
    }
}

#[test]
fn entries_that_a_replica_lacks_stay_on_all_others_until_it_has_them() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let (leader, behind) = leave_behind(&mut nodes, 6000);
    let other = (1..=3).find(|node| *node != leader && *node != behind).unwrap();
    nodes.ticks(3);
    let last = nodes.applied[&leader].last().unwrap().id;
    for node in [leader, other] {
        nodes.step(node, [Input::Flushed { group: GROUP, index: last.index }]);
        assert!(nodes.saved[&node].start.index <= last.index - 6000, "the replica needs them");
        // The replica was heard a moment ago.
        nodes.step(node, [Input::Shorten { group: GROUP, keep: Keep::ForLive }]);
        assert!(nodes.saved[&node].start.index <= last.index - 6000, "the replica needs them");
    }
    nodes.cut.clear();
    for _ in 0..40 {
        nodes.ticks(1);
        for (node, fetch) in std::mem::take(&mut nodes.fetches) {
            let log = &nodes.saved[&node].entries;
            let wanted = |entry: &&Entry| (fetch.first..fetch.end).contains(&entry.id.index);
            let entries = log.iter().filter(wanted).cloned().collect();
            nodes.step(node, [Input::Fetched { group: GROUP, first: fetch.first, entries }]);
            nodes.settle();
        }
    }
    assert_eq!(nodes.commands(behind).len(), 6000);
    assert!(nodes.seeding.is_empty());
    for node in [leader, other] {
        assert_eq!(nodes.saved[&node].start.index, last.index, "no replica needs them any more");
    }
}

#[test]
fn a_follower_that_fell_asleep_untold_cuts_its_log_all_the_same() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    nodes.loses_held = true;
    nodes.propose(leader, 1, None, b"one");
    nodes.settle();
    nodes.ticks(50);
    for node in 1..=3 {
        let now = nodes.now;
        let rests = nodes.drivers.get_mut(&node).unwrap().step(now, []).next_tick.is_none();
        assert!(rests, "node {node} sleeps");
        let last = nodes.applied[&node].last().unwrap().id;
        nodes.step(node, [Input::Flushed { group: GROUP, index: last.index }]);
        assert_eq!(nodes.saved[&node].start, last, "all replicas have it on disk");
    }
}

#[test]
fn a_log_that_is_too_long_leaves_a_majority_what_it_needs() {
    let mut nodes = Nodes::new(5, Shape::DEFAULT);
    let leader = nodes.elect();
    let others: Vec<u64> = (1..=5).filter(|node| *node != leader).collect();
    nodes.cut.extend([others[0], others[1]]);
    nodes.ticks(400);
    nodes.propose(leader, 1, None, b"one");
    nodes.settle();
    let held = nodes.applied[&leader].last().unwrap().id;
    // One more goes away: there is no majority, but what it had counts.
    nodes.cut.insert(others[2]);
    nodes.propose(leader, 2, None, b"two");
    nodes.settle();
    nodes.step(leader, [Input::Flushed { group: GROUP, index: held.index }]);
    assert!(nodes.saved[&leader].start.index < held.index, "two replicas lack it");
    nodes.step(leader, [Input::Shorten { group: GROUP, keep: Keep::ForLive }]);
    assert_eq!(nodes.saved[&leader].start, held, "a majority has it");
}

#[test]
fn a_log_is_cut_at_what_is_flushed_and_a_replica_behind_it_needs_seeding() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let (leader, behind) = leave_behind(&mut nodes, 20);
    let last = nodes.applied[&leader].last().unwrap().id;
    nodes.step(leader, [Input::Flushed { group: GROUP, index: last.index - 5 }]);
    assert!(nodes.saved[&leader].start.index <= last.index - 20);
    nodes.ticks(400);
    nodes.step(leader, [Input::Shorten { group: GROUP, keep: Keep::ForLive }]);
    assert_eq!(nodes.saved[&leader].start.index, last.index - 5, "nothing is kept any more");
    nodes.cut.clear();
    nodes.ticks(5);
    let seeding = Seeding { group: GROUP, replica: ReplicaId(behind) };
    assert_eq!(nodes.seeding, [seeding], "told once in an election timeout");
    assert!(told(&nodes, leader, behind).is_behind);

    // A seed is the state machine as of an entry, with an empty log that starts there.
    let mut seed = SavedReplica::new(GROUP, members(3));
    (seed.start, seed.flushed) = (last, last.index);
    seed.state = HardState { commit: last.index, ..nodes.saved[&behind].state };
    nodes.saved.insert(behind, seed);
    nodes.applied.remove(&behind);
    nodes.start(behind);
    nodes.propose(leader, 99, None, b"after");
    nodes.ticks(15);
    assert!(nodes.is_applied(99));
    assert_eq!(nodes.commands(behind), ["after"]);
}

#[test]
fn a_replica_that_the_log_cannot_help_keeps_no_log_when_it_is_back() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let (leader, behind) = leave_behind(&mut nodes, 20);
    let other = (1..=3).find(|node| ![leader, behind].contains(node)).unwrap();
    let last = nodes.applied[&leader].last().unwrap().id;
    nodes.step(leader, [Input::Flushed { group: GROUP, index: last.index }]);
    nodes.ticks(400);
    nodes.step(leader, [Input::Shorten { group: GROUP, keep: Keep::ForLive }]);
    assert_eq!(nodes.saved[&leader].start, last);
    nodes.cut.clear();
    // Long enough for a replica that could help it to lead.
    nodes.ticks(400);
    assert!(told(&nodes, leader, behind).is_behind, "it is heard, and it is behind");
    for ticket in 21..=40 {
        nodes.propose(leader, ticket, None, b"0123456789");
        nodes.settle();
    }
    nodes.ticks(3);
    let last = nodes.applied[&leader].last().unwrap().id;
    for node in [leader, other] {
        nodes.step(node, [Input::Flushed { group: GROUP, index: last.index }]);
    }
    nodes.ticks(3);
    for node in [leader, other] {
        assert_eq!(nodes.saved[&node].start, last, "nobody needs the entries on node {node}");
    }
}

#[test]
fn a_replica_that_the_log_of_its_leader_cannot_help_is_helped_by_another_one_that_leads_in_time() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let (leader, behind) = leave_behind(&mut nodes, 20);
    let other = (1..=3).find(|node| ![leader, behind].contains(node)).unwrap();
    nodes.ticks(3);
    let last = nodes.applied[&leader].last().unwrap().id;
    nodes.step(leader, [Input::Flushed { group: GROUP, index: last.index }]);
    nodes.step(leader, [Input::Shorten { group: GROUP, keep: Keep::Nothing }]);
    assert_eq!((nodes.saved[&leader].start, nodes.let_go), (last, 1));
    nodes.cut.clear();
    nodes.ticks(20);
    assert!(told(&nodes, leader, behind).is_behind);
    nodes.step(other, [Input::Flushed { group: GROUP, index: last.index }]);
    assert!(nodes.saved[&other].start.index <= last.index - 20, "the replica needs them");
    nodes.step(leader, [Input::Transfer { group: GROUP, to: ReplicaId(other) }]);
    nodes.settle();
    assert_eq!(nodes.elect(), other);
    nodes.ticks(20);
    assert_eq!(nodes.commands(behind).len(), 20);
    assert_eq!(nodes.saved[&other].start, last, "no replica needs them any more");
}

#[test]
fn a_cut_is_told_of_only_if_a_replica_lacks_something() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    nodes.propose(leader, 1, None, b"one");
    nodes.settle();
    nodes.ticks(3);
    let follower = leader % 3 + 1;
    let last = nodes.applied[&leader].last().unwrap().id;
    nodes.saved.get_mut(&follower).unwrap().state.commit = last.index;
    nodes.start(follower);
    nodes.ticks(1);
    nodes.step(follower, [Input::Flushed { group: GROUP, index: last.index }]);
    nodes.step(follower, [Input::Shorten { group: GROUP, keep: Keep::Nothing }]);
    assert_eq!((nodes.saved[&follower].start, nodes.let_go), (last, 0));
}

#[test]
fn a_follower_that_lacks_what_its_leader_cannot_read_is_not_stuck() {
    let mut shape = Shape::DEFAULT;
    (shape.cached_bytes_max, shape.append_bytes_max) = (0, 100);
    let mut nodes = Nodes::new(3, shape);
    let (leader, _) = leave_behind(&mut nodes, 20);
    let last = nodes.applied[&leader].last().unwrap().id;
    nodes.step(leader, [Input::Flushed { group: GROUP, index: last.index }]);
    nodes.cut.clear();
    let mut failed = 0;
    for _ in 0..400 {
        nodes.ticks(1);
        for (node, fetch) in std::mem::take(&mut nodes.fetches) {
            let nothing = Input::Fetched { group: GROUP, first: fetch.first, entries: Vec::new() };
            nodes.step(node, [nothing]);
            nodes.settle();
            failed += 1;
        }
    }
    assert!(failed > 100, "{failed} fetches");
    nodes.step(leader, [Input::Shorten { group: GROUP, keep: Keep::ForLive }]);
    let start = nodes.saved[&leader].start.index;
    assert!(start <= last.index - 20, "the follower takes whatever it is sent");
}

#[test]
fn a_replica_that_is_heard_and_gets_not_one_entry_further_is_away() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    let stuck = leader % 3 + 1;
    let other = (1..=3).find(|node| ![leader, stuck].contains(node)).unwrap();
    nodes.slow_disk.insert(stuck);
    nodes.propose(leader, 1, None, b"one");
    nodes.settle();
    nodes.ticks(3);
    let last = nodes.applied[&leader].last().unwrap().id;
    let shorten = |nodes: &mut Nodes, keep: Keep| {
        for node in [leader, other] {
            nodes.step(node, [Input::Flushed { group: GROUP, index: last.index }]);
            nodes.step(node, [Input::Shorten { group: GROUP, keep }]);
        }
        [leader, other].map(|node| nodes.saved[&node].start == last)
    };
    assert_eq!(shorten(&mut nodes, Keep::ForLive), [false; 2], "it may get on");
    nodes.ticks(400);
    assert_eq!(nodes.leader(), Some(leader), "it is heard");
    assert_eq!(shorten(&mut nodes, Keep::ForLive), [true; 2]);
}

#[test]
fn a_replica_that_gets_on_slowly_is_not_away_and_a_log_that_is_far_too_long_keeps_nothing_for_it() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let leader = nodes.elect();
    let slow = leader % 3 + 1;
    nodes.slow_disk.insert(slow);
    for ticket in 1..=6 {
        nodes.propose(leader, ticket, None, b"0123456789");
        nodes.settle();
        nodes.ticks(1);
        if ticket > 1 {
            // One entry stays behind all the time.
            nodes.ticks(100);
        }
        let next = nodes.unsaved[&slow] - 1;
        nodes.step(slow, [Input::Saved { round: next }]);
        nodes.settle();
    }
    let last = nodes.applied[&leader].last().unwrap().id;
    nodes.step(leader, [Input::Flushed { group: GROUP, index: last.index }]);
    nodes.step(leader, [Input::Shorten { group: GROUP, keep: Keep::ForLive }]);
    let has = told(&nodes, leader, slow).matched.unwrap();
    assert!(has < last.index && nodes.saved[&leader].start.index <= has, "it gets on");
    nodes.step(leader, [Input::Shorten { group: GROUP, keep: Keep::Nothing }]);
    assert_eq!(nodes.saved[&leader].start, last, "a majority has all of it");
}

/// Returns what a leader tells of a member.
fn told(nodes: &Nodes, leader: u64, of: u64) -> MemberReport {
    let report = nodes.drivers[&leader].report().remove(0);
    *report.members.iter().find(|member| member.member.node == NodeId(of)).unwrap()
}

fn lag(nodes: &Nodes, leader: u64, of: u64) -> Option<u64> {
    nodes.drivers[&leader].report()[0].lag(&told(nodes, leader, of))
}

#[test]
fn the_lag_of_a_follower_is_unknown_until_a_new_leader_has_heard_it() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let (leader, behind) = leave_behind(&mut nodes, 20);
    assert_eq!(lag(&nodes, leader, behind), Some(20));
    let other = (1..=3).find(|node| ![leader, behind].contains(node)).unwrap();
    nodes.step(leader, [Input::Transfer { group: GROUP, to: ReplicaId(other) }]);
    nodes.settle();
    assert_eq!(nodes.elect(), other);
    assert_eq!(lag(&nodes, other, behind), None);
    assert_eq!(lag(&nodes, other, leader), Some(0));
    nodes.cut.clear();
    nodes.ticks(20);
    assert_eq!(lag(&nodes, other, behind), Some(0));
}

#[test]
fn a_follower_that_needed_seeding_in_an_earlier_term_is_not_behind_for_being_away() {
    let mut nodes = Nodes::new(3, Shape::DEFAULT);
    let (leader, behind) = leave_behind(&mut nodes, 20);
    let last = nodes.applied[&leader].last().unwrap().id;
    nodes.step(leader, [Input::Flushed { group: GROUP, index: last.index }]);
    nodes.ticks(400);
    nodes.step(leader, [Input::Shorten { group: GROUP, keep: Keep::ForLive }]);
    nodes.cut.clear();
    nodes.ticks(5);
    assert!(told(&nodes, leader, behind).is_behind);
    // The follower is away again, and the leader leads in a later term.
    nodes.cut.insert(behind);
    let other = (1..=3).find(|node| ![leader, behind].contains(node)).unwrap();
    for to in [other, leader] {
        let from = nodes.leader().unwrap();
        nodes.step(from, [Input::Transfer { group: GROUP, to: ReplicaId(to) }]);
        nodes.settle();
        assert_eq!(nodes.elect(), to);
    }
    let told = told(&nodes, leader, behind);
    assert_eq!((told.matched, told.is_behind), (None, false));
}

#[test]
fn a_follower_whose_disk_is_slow_holds_little_of_all_groups_together() {
    let mut shape = Shape::DEFAULT;
    shape.held_bytes_max = 500;
    let mut nodes = Nodes::new(3, shape);
    let leader = nodes.elect();
    let slow = leader % 3 + 1;
    nodes.slow_disk.insert(slow);
    for ticket in 1..=50 {
        nodes.propose(leader, ticket, None, &[7; 100]);
        nodes.settle();
        nodes.ticks(1);
    }
    assert!((1..=50).all(|ticket| nodes.is_applied(ticket)), "the others are a quorum");
    let has = nodes.drivers[&slow].report()[0].last;
    assert!(has < 20, "the slow follower took {has} entries");
    nodes.slow_disk.clear();
    let round = nodes.unsaved[&slow];
    nodes.step(slow, [Input::Saved { round }]);
    nodes.ticks(20);
    assert_eq!(nodes.commands(slow).len(), 50);
}

#[test]
fn a_follower_whose_state_machine_lags_takes_entries_later() {
    let mut shape = Shape::DEFAULT;
    shape.unapplied_bytes_max = 500;
    let mut nodes = Nodes::new(3, shape);
    let leader = nodes.elect();
    let slow = leader % 3 + 1;
    nodes.slow_apply.insert(slow);
    for ticket in 1..=50 {
        nodes.propose(leader, ticket, None, &[7; 100]);
        nodes.settle();
        nodes.ticks(1);
    }
    assert!((1..=50).all(|ticket| nodes.is_applied(ticket)), "the others are a quorum");
    let has = nodes.saved[&slow].entries.len();
    assert!(has < 20, "the slow follower took {has} entries");
    nodes.slow_apply.clear();
    let index = nodes.unapplied[&slow];
    nodes.step(slow, [Input::Applied { group: GROUP, index }]);
    nodes.ticks(20);
    assert_eq!(nodes.commands(slow).len(), 50);
}

#[test]
fn committed_entries_come_in_portions() {
    let mut shape = Shape::DEFAULT;
    shape.committed_bytes_max = 1;
    let mut nodes = Nodes::new(1, shape);
    nodes.slow_disk.insert(1);
    nodes.ticks(40);
    let round = nodes.unsaved[&1];
    nodes.step(1, [Input::Saved { round }]);
    for ticket in 1..=5 {
        nodes.propose(1, ticket, None, b"one");
    }
    let round = nodes.unsaved[&1];
    let now = nodes.now;
    let out = nodes.drivers.get_mut(&1).unwrap().step(now, [Input::Saved { round }]);
    assert_eq!(out.committed[0].entries.len(), 1);
    assert!(out.more);
}
