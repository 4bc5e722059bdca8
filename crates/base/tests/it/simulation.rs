//! What the simulated machine loses, breaks and repeats.

use base::env::sim::{Call, Fault, FaultPoint, SECTOR_BYTES, SimEnv, SimFs};
use base::env::{Clock, FileSystem, Tasks};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SEEDS: u64 = 300;

fn path() -> &'static Path {
    Path::new("a")
}

fn root() -> &'static Path {
    Path::new("")
}

#[test]
fn synced_bytes_survive_and_later_ones_do_in_part() {
    let mut outcomes = BTreeSet::new();
    let len = 3 * SECTOR_BYTES;
    for seed in 0..SEEDS {
        let fs = SimFs::new(seed);
        let mut file = fs.create(path()).unwrap();
        file.write_all_at(&vec![b'a'; len], 0).unwrap();
        file.sync().unwrap();
        fs.sync_dir(root()).unwrap();
        file.write_all_at(&vec![b'b'; len], 0).unwrap();
        let content = fs.reboot().read(path()).unwrap();
        assert_eq!(content.len(), len);
        let sectors = content.chunks(SECTOR_BYTES).map(|sector| match sector {
            _ if sector.iter().all(|byte| *byte == b'a') => 'a',
            _ if sector.iter().all(|byte| *byte == b'b') => 'b',
            _ => {
                let cut = sector.iter().position(|byte| *byte == b'a').unwrap();
                assert!(sector[cut..].iter().all(|byte| *byte == b'a'), "torn once");
                't'
            }
        });
        outcomes.insert(sectors.collect::<String>());
        assert!(file.sync().is_err(), "the old machine is off");
        assert!(fs.open_read(path()).is_err());
    }
    for outcome in ["aaa", "bbb", "bab", "aba", "bba", "bbt", "taa"] {
        assert!(outcomes.contains(outcome), "{outcome} of {outcomes:?}");
    }
    assert!(outcomes.iter().all(|o| o.matches('t').count() <= 1), "{outcomes:?}");
}

#[test]
fn names_survive_by_sync_of_their_directory_or_as_a_prefix() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..SEEDS {
        let fs = SimFs::new(seed);
        fs.create(Path::new("kept")).unwrap().sync().unwrap();
        fs.sync_dir(root()).unwrap();
        for name in ["1", "2", "3"] {
            fs.create(Path::new(name)).unwrap();
        }
        fs.rename(Path::new("kept"), Path::new("renamed")).unwrap();
        let names = fs.reboot().list(root()).unwrap();
        let names: Vec<&str> = names.iter().filter_map(|name| name.to_str()).collect();
        outcomes.insert(names.join(" "));
    }
    let all = ["1 2 3 kept", "1 2 3 renamed", "1 2 kept", "1 kept", "kept"];
    assert_eq!(outcomes, all.map(str::to_owned).into());
}

/// Renaming makes nothing durable: not the new name, and not what is in the directory.
#[test]
fn a_renamed_directory_survives_with_what_was_durable_in_it() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..SEEDS {
        let fs = SimFs::new(seed);
        fs.create_dir_all(Path::new("old")).unwrap();
        fs.sync_dir(root()).unwrap();
        fs.create(Path::new("old/synced")).unwrap();
        fs.sync_dir(Path::new("old")).unwrap();
        fs.create(Path::new("old/not")).unwrap();
        fs.rename(Path::new("old"), Path::new("new")).unwrap();
        if seed % 2 == 0 {
            fs.sync_dir(root()).unwrap();
        }
        let files = fs.reboot().files();
        let names: Vec<_> = files.iter().filter_map(|(path, _)| path.to_str()).collect();
        assert!(seed % 2 == 1 || names.contains(&"new/synced"), "{names:?}");
        outcomes.insert(names.join(" "));
    }
    let all = ["new/not new/synced", "new/synced", "old/synced"];
    assert_eq!(outcomes, all.map(str::to_owned).into());
}

#[test]
fn the_power_fails_during_the_operation_it_was_told_to() {
    let run = |fs: &SimFs| {
        let mut file = fs.create(path())?;
        file.write_all_at(b"abc", 0)?;
        file.sync()?;
        fs.sync_dir(root())?;
        fs.remove_file(path())
    };
    let fs = SimFs::new(1);
    run(&fs).unwrap();
    assert_eq!(fs.operations(), 5);
    for at in 1..=5 {
        let fs = SimFs::new(at);
        fs.power_off_at(at);
        run(&fs).unwrap_err();
        assert!(fs.is_off() && fs.operations() == at);
        assert!(fs.exists(path()).is_err() && fs.create(path()).is_err());
        let after = fs.reboot();
        assert!(after.list(root()).is_ok());
        if at == 5 && after.exists(path()).unwrap() {
            assert_eq!(after.read(path()).unwrap(), b"abc");
        }
    }
}

#[test]
fn a_kill_keeps_what_was_written_but_syncs_nothing() {
    let fs = SimFs::new(5);
    let _lock = fs.lock(Path::new("LOCK")).unwrap();
    fs.create(path()).unwrap().write_all_at(b"abc", 0).unwrap();
    let fs = fs.kill();
    assert_eq!(fs.read(path()).unwrap(), b"abc");
    fs.lock(Path::new("LOCK")).unwrap();
    let lost = (0..SEEDS).filter(|seed| {
        let fs = SimFs::new(*seed);
        fs.create(path()).unwrap().write_all_at(b"abc", 0).unwrap();
        !fs.kill().reboot().exists(path()).unwrap()
    });
    assert!(lost.count() > 10);
}

#[test]
fn a_failed_sync_is_never_made_good() {
    let lost = (0..SEEDS).filter(|seed| {
        let fs = SimFs::new(*seed);
        let mut file = fs.create(path()).unwrap();
        fs.sync_dir(root()).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        fs.inject(FaultPoint::Sync, 0, 1, Fault::Io);
        file.sync().unwrap_err();
        file.sync().unwrap();
        assert_eq!(fs.read(path()).unwrap(), b"abc", "the cache still has it");
        fs.reboot().read(path()).unwrap() != b"abc"
    });
    assert!(lost.count() > 10);
}

#[test]
fn faults_hit_the_calls_they_were_set_for() {
    let fs = SimFs::new(1);
    let mut file = fs.create(path()).unwrap();
    fs.inject(FaultPoint::Write, 1, 2, Fault::NoSpace);
    file.write_all_at(b"abcdef", 0).unwrap();
    assert_eq!(file.write_all_at(b"ABCDEF", 0).unwrap_err().kind(), ErrorKind::StorageFull);
    let content = fs.read(path()).unwrap();
    assert!(content.eq_ignore_ascii_case(b"abcdef"), "a prefix at most was written");
    assert!(file.allocate(9).is_err());
    file.allocate(9).unwrap();
    fs.inject(FaultPoint::Name, 0, 100, Fault::Io);
    assert!(fs.remove_file(path()).is_err());
    fs.clear_faults();
    fs.inject(FaultPoint::Read, 0, 1, Fault::Io);
    assert!(fs.open_read(path()).is_err());
    fs.open_read(path()).unwrap();
}

#[test]
fn a_full_disk_takes_a_part_and_more_when_it_grows() {
    let fs = SimFs::new(1);
    fs.set_capacity(10);
    let mut file = fs.create(path()).unwrap();
    file.write_all_at(b"12345678", 0).unwrap();
    assert_eq!(fs.free_bytes(root()).unwrap(), 2);
    assert_eq!(file.write_all_at(b"abcd", 8).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(fs.read(path()).unwrap(), b"12345678ab");
    file.write_all_at(b"AB", 8).unwrap();
    assert_eq!(file.allocate(11).unwrap_err().kind(), ErrorKind::StorageFull);
    fs.set_capacity(12);
    file.write_all_at(b"abcd", 8).unwrap();
    file.set_len(4).unwrap();
    assert_eq!((fs.used(), fs.free_bytes(root()).unwrap()), (4, 8));
    fs.remove_file(path()).unwrap();
    assert_eq!(fs.used(), 4, "an open file takes its space");
    drop(file);
    assert_eq!(fs.used(), 0);
}

#[test]
fn damage_is_what_was_asked_for() {
    let fs = SimFs::new(1);
    fs.create(path()).unwrap().write_all_at(b"abc", 0).unwrap();
    fs.flip(path(), 1, 0x20).unwrap();
    assert_eq!(fs.read(path()).unwrap(), b"aBc");
    assert!(fs.flip(path(), 3, 1).is_err());
    fs.overwrite(path(), b"xy").unwrap();
    assert_eq!(fs.files(), [(path().to_owned(), 2)]);
}

#[test]
fn jobs_run_when_helped_in_the_order_of_the_seed() {
    let order = |seed| {
        let machine = SimEnv::new(seed);
        let seen = Arc::new(AtomicU64::new(0));
        for digit in 1..=5 {
            let seen = Arc::clone(&seen);
            let note = move || {
                let before = seen.load(Ordering::Relaxed);
                seen.store(before * 10 + digit, Ordering::Relaxed);
            };
            machine.tasks.submit(Box::new(note));
        }
        assert_eq!(machine.tasks.ready(), 5);
        while machine.tasks.help() {}
        seen.load(Ordering::Relaxed)
    };
    assert_eq!(order(3), order(3));
    assert!((0..20).map(order).collect::<BTreeSet<_>>().len() > 5);
}

#[test]
fn help_lets_time_pass_for_delayed_jobs() {
    let machine = SimEnv::new(1);
    let start = machine.clock.now_micros();
    machine.tasks.submit_later(Duration::from_secs(5), Box::new(|| {}));
    assert!(!machine.tasks.run_ready());
    assert!(machine.tasks.help());
    assert_eq!(machine.clock.now_micros() - start, 5_000_000);
    assert!(!machine.tasks.help());
    machine.clock.set_micros(7);
    assert_eq!(machine.clock.now_micros(), 7);
    assert_eq!(machine.clock.monotonic(), Duration::from_secs(5));
    machine.tasks.submit(Box::new(|| panic!("the process is gone")));
    let old = Arc::clone(&machine.tasks);
    let machine = machine.kill();
    assert!(!old.help() && !machine.tasks.help());
}

#[test]
fn names_that_were_not_synced_are_lost_if_that_is_asked_for() {
    for seed in 0..20 {
        let fs = SimFs::new(seed);
        fs.lose_unsynced_names();
        let mut fs = fs;
        for _ in 0..2 {
            fs.create(Path::new("kept")).unwrap().sync().unwrap();
            fs.sync_dir(root()).unwrap();
            fs.create(Path::new("lost")).unwrap().sync().unwrap();
            fs.rename(Path::new("kept"), Path::new("renamed")).unwrap();
            fs = fs.reboot();
            assert_eq!(fs.list(root()).unwrap(), [Path::new("kept")], "{seed}");
        }
    }
}

#[test]
fn each_kind_of_call_is_counted_and_fails_when_it_is_told_to() {
    let fs = SimFs::new(1);
    fs.create(path()).unwrap();
    fs.inject(FaultPoint::Call(Call::Link), 1, 2, Fault::NoDescriptor);
    let link = |to: &str| fs.hard_link(path(), Path::new(to)).is_ok();
    assert_eq!([link("b"), link("c"), link("c"), link("c")], [true, false, false, true]);
    assert_eq!((fs.calls(Call::Link), fs.calls(Call::Create), fs.calls(Call::Look)), (4, 1, 0));
    fs.inject(FaultPoint::Descriptor, 0, u64::MAX, Fault::NoDescriptor);
    assert!(fs.open_read(path()).is_err() && fs.list(root()).is_err());
    assert!(fs.lock(Path::new("LOCK")).is_err() && fs.exists(path()).unwrap());
    assert!(fs.clear_faults() && fs.open_read(path()).is_ok());
}
