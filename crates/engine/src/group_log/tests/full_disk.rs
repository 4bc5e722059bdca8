//! A disk that is full: the log frees what it does not need, however large the states of its groups are, and
//! nothing else uses the room that is kept for that.

use super::*;
use base::env::sim::Call;

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

/// Appends to group 1 until the disk is full, and lets go of all of it but the last entry.
fn fill_up(log: &GroupLog) {
    let full = loop {
        if let Err(error) = append(log, 1, log_end(log), &[7; 100]) {
            break error;
        }
    };
    assert!(matches!(full, Error::NoSpace { .. }), "{full}");
    log.sync().unwrap();
}

fn let_go(log: &GroupLog) {
    log.truncate(GroupId(1), log_end(log) - 2).unwrap();
}

#[test]
fn a_log_that_is_opened_on_a_full_disk_frees_its_segments() {
    let ends: [fn(GroupLog, SimEnv) -> SimEnv; 3] = [
        |log, machine| {
            drop(log);
            machine.power_loss()
        },
        |log, machine| {
            drop(log);
            machine.kill()
        },
        |log, machine| {
            log.close().unwrap();
            machine
        },
    ];
    // States of a small part of a segment, of most of it, and of several segments.
    for (end, groups) in ends.into_iter().flat_map(|end| [2, 12, 50].map(|groups| (end, groups))) {
        let mut machine = SimEnv::new(1);
        let options = small(4000);
        let log = open(&machine, &options).unwrap();
        log.append(&[create(1)]).unwrap();
        (2..=groups).for_each(|group| create_with(&log, group, &[5; 100]).unwrap());
        machine.fs.set_capacity(machine.fs.used() + 25_000);
        fill_up(&log);
        machine = end(log, machine);
        let log = open(&machine, &options).unwrap();
        // Whatever else finds space takes it.
        machine.fs.set_capacity(machine.fs.used());
        let full = append(&log, 1, log_end(&log), &[7; 100]);
        assert!(matches!(full, Err(Error::NoSpace { .. })), "{groups} groups: {full:?}");
        log.sync().unwrap();
        let_go(&log);
        assert!(log.reclaim().unwrap() > 0, "{groups} groups");
        append(&log, 1, log_end(&log), &[7; 100]).unwrap();
        log.sync().unwrap();
        let before = log.groups();
        drop(log);
        assert_eq!(open(&machine.power_loss(), &options).unwrap().groups(), before);
    }
}

/// Returns the lengths of the spares.
fn spares(machine: &SimEnv) -> Vec<u64> {
    let files = machine.fs.files().into_iter();
    let spares = files.filter(|(path, _)| path.extension() == Some("gspare".as_ref()));
    spares.map(|(_, bytes)| bytes).collect()
}

#[test]
fn a_segment_that_was_cut_is_no_room() {
    let mut machine = SimEnv::new(1);
    let options = small(4000);
    let log = open(&machine, &options).unwrap();
    log.append(&[create(1), create(2)]).unwrap();
    append(&log, 1, 1, b"little").unwrap();
    log.sync().unwrap();
    drop(log);
    machine = machine.kill();
    let log = open(&machine, &options).unwrap();
    while log.size().segments < 3 {
        append(&log, 1, log_end(&log), &[7; 100]).unwrap();
    }
    log.sync().unwrap();
    let_go(&log);
    assert!(log.reclaim().unwrap() > 0);
    assert!(spares(&machine).iter().all(|bytes| *bytes == 4000), "{:?}", spares(&machine));
    machine.fs.set_capacity(machine.fs.used());
    fill_up(&log);
    let_go(&log);
    assert!(log.reclaim().unwrap() > 0);
}

#[test]
fn a_spare_that_a_power_loss_cut_is_no_room() {
    let machine = SimEnv::new(1);
    let options = small(4000);
    let log = open(&machine, &options).unwrap();
    log.append(&[create(1), create(2)]).unwrap();
    log.sync().unwrap();
    drop(log);
    for number in [1, 7] {
        let path = dir().join(format!("000000000{number}.gspare"));
        drop(machine.env().fs.create(&path).unwrap());
    }
    let log = open(&machine, &options).unwrap();
    assert_eq!(spares(&machine), [4000], "room for states");
    while log.size().segments < 3 {
        append(&log, 1, log_end(&log), &[7; 100]).unwrap();
    }
    machine.fs.set_capacity(machine.fs.used());
    fill_up(&log);
    let_go(&log);
    assert!(log.reclaim().unwrap() > 0);
}

/// A file system may refuse a write into bytes that it had reserved.
#[test]
fn a_log_whose_segment_takes_no_more_goes_on_in_a_spare() {
    let machine = SimEnv::new(1);
    let log = open(&machine, &small(4000)).unwrap();
    log.append(&[create(1), create(2)]).unwrap();
    while log.size().segments < 4 {
        append(&log, 1, log_end(&log), &[7; 100]).unwrap();
    }
    log.sync().unwrap();
    let_go(&log);
    assert!(log.reclaim().unwrap() > 0);
    assert!(!spares(&machine).is_empty());
    while log.size().segments < 2 {
        append(&log, 1, log_end(&log), &[7; 100]).unwrap();
    }
    assert!(!spares(&machine).is_empty());
    machine.fs.inject(FaultPoint::Call(Call::WriteAt), 0, 1, Fault::NoSpace);
    machine.fs.inject(FaultPoint::Call(Call::Allocate), 0, 2, Fault::NoSpace);
    let full = append(&log, 1, log_end(&log), &[7; 100]);
    assert!(matches!(full, Err(Error::NoSpace { .. })), "{full:?}");
    // Only a block of the end of the segment is left.
    machine.fs.set_capacity(machine.fs.used() + 100);
    log.sync().unwrap();
    let_go(&log);
    assert!(log.reclaim().unwrap() > 0);
    append(&log, 1, log_end(&log), &[7; 100]).unwrap();
}

#[test]
fn entries_that_are_appended_again_count_the_state_of_their_group_once() {
    let machine = SimEnv::new(1);
    let log = open(&machine, &small(4000)).unwrap();
    create_with(&log, 1, &[5; 2500]).unwrap();
    for index in 1..=60 {
        append(&log, 1, index, &[6; 20]).unwrap();
    }
    log.sync().unwrap();
    let (used, kept) = (machine.fs.used(), log.kept_bytes(GroupId(1)));
    assert!(kept < 3000, "{kept}: the copy takes a segment, and another one with the state");
    assert_eq!(spares(&machine).len(), 1);
    machine.fs.set_capacity(used + 4000 * 2);
    log.append_again(GroupId(1)).unwrap();
}

#[test]
fn a_copy_of_entries_leaves_no_more_spares_than_states_need() {
    let machine = SimEnv::new(1);
    let log = open(&machine, &small(2000)).unwrap();
    log.append(&[create(1), create(2)]).unwrap();
    append(&log, 1, 1, &[6; 900]).unwrap();
    for index in 2..=100 {
        append(&log, 1, index, &[6; 20]).unwrap();
    }
    log.append_again(GroupId(1)).unwrap();
    assert!(spares(&machine).len() <= 2, "{:?}", spares(&machine));
}
