//! A disk that is full: the log frees what it does not need, however large the states of its groups are, and
//! nothing else uses the room that is kept for that.

use super::*;

/// Creates a group with a descriptor of so many bytes.
fn create_with(log: &GroupLog, group: u64, descriptor: &[u8]) -> crate::Result<()> {
    let hard = HardState { term: 1, vote: 0, commit: 0 };
    let (group, start) = (GroupId(group), EntryId::default());
    log.append(&[GroupWrite::Create { group, replica: 1, hard, descriptor, start }])
}

/// A full disk must not keep a log from freeing the segments that are not needed, since nothing else may free
/// anything.
#[test]
fn a_log_that_filled_its_disk_frees_its_segments() {
    let machine = SimEnv::new(1);
    let log = open(&machine, &small(4000)).unwrap();
    log.append(&[create(1), create(2)]).unwrap();
    machine.fs.set_capacity(30_000);
    assert!(fill_and_free(&log, 2000) > 5);
    assert_eq!(first_index(&log, 2), 1);
}

/// Appends to group 1. Whenever the disk is full, all of it is let go, and the log must free something by
/// itself. Returns how often that was.
fn fill_and_free(log: &GroupLog, entries: u64) -> usize {
    let mut fulls = 0;
    for index in 1..=entries {
        while let Err(error) = append(log, 1, index, &[7; 100]) {
            assert!(matches!(error, Error::NoSpace { .. }), "{error}");
            log.sync().unwrap();
            log.truncate(GroupId(1), index - 1).unwrap();
            assert!(log.reclaim().unwrap() > 0, "entry {index}");
            fulls += 1;
        }
    }
    fulls
}

#[test]
fn states_of_many_groups_fit_on_a_full_disk() {
    // States of a large part of a segment, of most of it, and of several segments.
    for groups in [20, 50, 200] {
        let machine = SimEnv::new(1);
        let options = small(16_000);
        let log = open(&machine, &options).unwrap();
        log.append(&[create(1)]).unwrap();
        for group in 2..=groups {
            create_with(&log, group, &[5; 150]).unwrap();
        }
        let states = log.lock_groups().states_bytes();
        machine.fs.set_capacity(200_000 + 4 * states);
        let fulls = fill_and_free(&log, 6000);
        assert!(fulls > 2, "{groups} groups: {fulls}");
        log.sync().unwrap();
        let before = log.groups();
        drop(log);
        let log = open(&machine.power_loss(), &options).unwrap();
        assert!(log.groups() == before, "{groups} groups");
    }
}

#[test]
fn entries_are_appended_again_only_beside_the_room_for_states() {
    let machine = SimEnv::new(1);
    let log = open(&machine, &small(4000)).unwrap();
    log.append(&[create(1), create(2)]).unwrap();
    for group in 3..=15 {
        create_with(&log, group, &[5; 100]).unwrap();
    }
    for index in 1..=100 {
        append(&log, 2, index, &[6; 100]).unwrap();
    }
    for index in 1..=100 {
        append(&log, 1, index, &[7; 100]).unwrap();
    }
    log.sync().unwrap();
    // There is space for a part of the copy.
    machine.fs.set_capacity(machine.fs.used() + 9000);
    let (used, segments) = (machine.fs.used(), log.size().segments);
    for _ in 0..3 {
        let again = log.append_again(GroupId(2));
        assert!(matches!(again, Err(Error::NoSpace { .. })), "{again:?}");
    }
    assert_eq!((machine.fs.used(), log.size().segments), (used, segments), "refused at once");
    // The disk fills up. The entries are flushed after all, and the log frees them.
    machine.fs.set_capacity(used);
    let again = log.append_again(GroupId(2));
    assert!(matches!(again, Err(Error::NoSpace { .. })), "{again:?}");
    let mut index = 101;
    while append(&log, 1, index, &[7; 100]).is_ok() {
        index += 1;
    }
    log.truncate(GroupId(2), 100).unwrap();
    assert!(log.reclaim().unwrap() > 2);
    append(&log, 1, index, &[7; 100]).unwrap();
}

#[test]
fn a_copy_that_fits_leaves_the_room_for_states() {
    let machine = SimEnv::new(1);
    let log = open(&machine, &small(4000)).unwrap();
    log.append(&[create(1), create(2)]).unwrap();
    for group in 3..=15 {
        create_with(&log, group, &[5; 100]).unwrap();
    }
    for index in 1..=20 {
        append(&log, 2, index, &[6; 100]).unwrap();
    }
    for index in 1..=60 {
        append(&log, 1, index, &[7; 100]).unwrap();
    }
    let size = machine.fs.used();
    // The smallest disk on which the copy fits.
    let fits = (0..20).find(|segments| {
        machine.fs.set_capacity(size + segments * 4000);
        log.append_again(GroupId(2)).is_ok()
    });
    assert!(fits.is_some());
    while append(&log, 1, log_end(&log), &[7; 100]).is_ok() {}
    log.sync().unwrap();
    log.truncate(GroupId(1), log_end(&log) - 1).unwrap();
    assert!(log.reclaim().unwrap() > 0, "the states of 15 groups had room");
}

/// Returns the index of the next entry of group 1.
fn log_end(log: &GroupLog) -> u64 {
    let Some(GroupState::Alive(state)) = log.state(GroupId(1)) else { panic!("no replica") };
    state.last.index + 1
}
