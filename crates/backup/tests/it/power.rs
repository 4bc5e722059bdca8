//! A machine that makes a backup in a directory, removes or restores one, loses its power, or the
//! process is killed, at any operation on its disk; or any call of its file system fails. A backup that
//! is listed is whole; a directory that opens holds all that the backup did; the same call again goes
//! on to its end, and what it has done then survives a loss of power.
//!
//! Which operation it is follows from the number. What is written side by side meets as the runtime's
//! threads do, so a failure that hangs on that wants several tries.

use crate::simulated::SimStore;
use crate::support::{Content, Home, all_whole, at, content, create, options, remove, visible};
use backup::{BackupId, Destination, Meter, Source};
use base::env::sim::{Call, Fault, FaultPoint, SimEnv, SimFs};
use base::env::{FileSystem, RealFileSystem};
use engine::checkpoint::contents;
use engine::{Engine, Error};
use object_store::ObjectStore;
use std::path::Path;
use std::sync::Arc;

const BACKUPS: &str = "/backups";
/// Where in it they are, as `at` has it.
const PREFIX: &str = "some/prefix";
/// Neither this nor the directory above is there.
const RESTORED: &str = "/far/away/restored";
const PARTIAL: &str = "/far/away/restored.restoring";

/// Two checkpoints of one store, of which the second has some SSTables of the first.
struct Checkpoints {
    home: Home,
    content: Content,
    ids: [BackupId; 2],
}

const NAMES: [&str; 2] = ["first", "second"];

fn checkpoints() -> Checkpoints {
    let home = Home::new();
    home.write(0..150, 1);
    home.flush();
    home.checkpoint(NAMES[0]);
    home.write(100..200, 2);
    home.flush();
    home.write(0..5, 3);
    let (_, content) = home.checkpoint(NAMES[1]);
    let ids = [home.id(), home.id()];
    Checkpoints { home, content, ids }
}

/// A machine that has the checkpoints and a directory for backups.
fn machine(of: &Checkpoints, seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    if seed.is_multiple_of(2) {
        fs.lose_unsynced_names();
    }
    fs.create_dir_all(Path::new(BACKUPS)).unwrap();
    for name in NAMES {
        let (from, to) = (of.home.path(name), Path::new("/").join(name));
        fs.create_dir_all(&to).unwrap();
        for file in RealFileSystem.list(&from).unwrap() {
            let mut copy = fs.create(&to.join(&file)).unwrap();
            copy.write_all_at(&std::fs::read(from.join(&file)).unwrap(), 0).unwrap();
            copy.sync().unwrap();
        }
        fs.sync_dir(&to).unwrap();
    }
    fs.sync_dir(Path::new("/")).unwrap();
    fs
}

fn shared(fs: &SimFs) -> Arc<dyn FileSystem> {
    Arc::new(fs.clone())
}

fn destination(fs: &SimFs) -> Destination {
    let store: Arc<dyn ObjectStore> = Arc::new(SimStore::new(fs.clone(), Path::new(BACKUPS)));
    let root = Path::new(BACKUPS).join(PREFIX);
    at(&store).in_directory(shared(fs), root)
}

/// Backs up the checkpoint of that number.
async fn back_up(fs: &SimFs, of: &Checkpoints, number: usize) -> backup::Result<()> {
    let dir = Path::new("/").join(NAMES[number]);
    let contents = contents(&shared(fs), &dir)?;
    let source = Source { fs: shared(fs), dir, contents, taken_micros: 1, place: "here".into() };
    create(&destination(fs), &source, &of.ids[number]).await.map(drop)
}

/// Restores the second backup.
async fn restore(fs: &SimFs, of: &Checkpoints) -> backup::Result<()> {
    let from = destination(fs);
    let backup = backup::find(&from, Some(&of.ids[1])).await?;
    let into = Path::new(RESTORED);
    backup::restore(&from, &backup, &shared(fs), into, &Meter::silent(), |_| Ok(())).await?;
    Ok(())
}

/// What the data directory `dir` holds.
fn opened(fs: &SimFs, dir: &str) -> engine::Result<Content> {
    let mut machine = SimEnv::new(1);
    machine.fs = fs.clone();
    Ok(content(&Engine::open_with_env(machine.env(), Path::new(dir), options())?))
}

/// What is listed is whole, and the first backup is; the second can be made now, and restored.
async fn goes_on(fs: &SimFs, of: &Checkpoints, case: &str) {
    let seen = visible(&destination(fs)).await;
    assert!(seen.contains(&of.ids[0]) && seen.iter().all(|id| of.ids.contains(id)), "{case}");
    all_whole(&destination(fs)).await;
    back_up(fs, of, 1).await.unwrap_or_else(|error| panic!("{case}: once more: {error}"));
    assert_eq!(visible(&destination(fs)).await, of.ids, "{case}");
    all_whole(&destination(fs)).await;
    restore(fs, of).await.unwrap_or_else(|error| panic!("{case}: restoring: {error}"));
    assert_eq!(opened(fs, RESTORED).unwrap(), of.content, "{case}");
}

/// What is left when an operation was the last: what survived a loss of power, or all, after a kill.
const ENDS: [fn(&SimFs) -> SimFs; 2] = [SimFs::reboot, SimFs::kill];

/// All is on disk when a call has returned, whoever began it.
async fn is_durable(fs: &SimFs, of: &Checkpoints, ids: &[BackupId], case: &str) {
    let fs = fs.reboot();
    assert_eq!(visible(&destination(&fs)).await, ids, "{case}: power lost at last");
    all_whole(&destination(&fs)).await;
    assert_eq!(opened(&fs, RESTORED).unwrap(), of.content, "{case}: power lost at last");
}

#[tokio::test(start_paused = true)]
async fn a_backup_that_ends_at_any_operation_is_none_or_whole_and_can_be_finished() {
    let of = checkpoints();
    for end in ENDS {
        for operation in 0.. {
            let fs = machine(&of, operation);
            back_up(&fs, &of, 0).await.unwrap();
            let before = fs.operations();
            fs.power_off_at(before + 1 + operation);
            let made = back_up(&fs, &of, 1).await;
            let (case, over) = (format!("ended at {operation}: {made:?}"), !fs.is_off());
            let fs = end(&fs);
            let seen = visible(&destination(&fs)).await;
            assert!(made.is_err() || seen.contains(&of.ids[1]), "{case}");
            goes_on(&fs, &of, &case).await;
            is_durable(&fs, &of, &of.ids, &case).await;
            if over {
                assert!(operation > 20, "{operation} operations");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_ends_at_any_operation_harms_no_other_backup_and_can_be_finished() {
    let of = checkpoints();
    for end in ENDS {
        for operation in 0.. {
            let fs = with_backups(&of, operation).await;
            let before = fs.operations();
            fs.power_off_at(before + 1 + operation);
            let removed = remove(&destination(&fs), &of.ids[..1], 1).await;
            let (case, over) = (format!("ended at {operation}: {removed:?}"), !fs.is_off());
            let fs = end(&fs);
            all_whole(&destination(&fs)).await;
            let seen = visible(&destination(&fs)).await;
            assert!(seen.contains(&of.ids[1]), "{case}");
            assert!(removed.is_err() || !seen.contains(&of.ids[0]), "{case}");
            let again: Vec<_> = seen.into_iter().filter(|id| *id == of.ids[0]).collect();
            remove(&destination(&fs), &again, 2).await.unwrap();
            restore(&fs, &of).await.unwrap();
            is_durable(&fs, &of, &of.ids[1..], &case).await;
            if over {
                assert!(operation > 5, "{operation} operations");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn any_call_of_a_backup_that_fails_leaves_none_or_a_whole_one() {
    let of = checkpoints();
    for call in Call::ALL {
        for after in 0.. {
            let fs = machine(&of, 1);
            back_up(&fs, &of, 0).await.unwrap();
            fs.inject(FaultPoint::Call(call), after, 1, Fault::Io);
            let made = back_up(&fs, &of, 1).await;
            let (case, over) = (format!("{call:?} {after}: {made:?}"), fs.clear_faults());
            let seen = visible(&destination(&fs)).await;
            assert!(made.is_err() || seen.contains(&of.ids[1]), "{case}");
            goes_on(&fs, &of, &case).await;
            // What a failed sync left unwritten, nobody may have relied on.
            is_durable(&fs, &of, &of.ids, &case).await;
            if over {
                break;
            }
        }
    }
}

/// A machine that has both backups.
async fn with_backups(of: &Checkpoints, seed: u64) -> SimFs {
    let fs = machine(of, seed);
    for number in 0..2 {
        back_up(&fs, of, number).await.unwrap();
    }
    fs
}

/// No directory of a restore that was cut opens as anything but all that was backed up, or as new: a
/// directory that has nothing in it yet.
fn opens_as_all_or_nothing(fs: &SimFs, of: &Checkpoints, case: &str) {
    for dir in [RESTORED, PARTIAL] {
        if !fs.exists(Path::new(dir)).unwrap() {
            continue;
        }
        let data = fs.list(Path::new(dir)).unwrap();
        let data = data.iter().any(|name| !["LOCK", "RESTORING"].map(Path::new).contains(&&**name));
        match opened(fs, dir) {
            Ok(content) if data || dir == RESTORED => {
                assert_eq!(content, of.content, "{case}: {dir}")
            }
            Ok(content) => assert!(content.is_empty(), "{case}: {dir}"),
            Err(Error::Corruption(_) | Error::Unusable { .. }) if dir == PARTIAL => {}
            Err(error) => panic!("{case}: {dir}: {error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_that_ends_at_any_operation_leaves_nothing_that_opens_or_all() {
    let of = checkpoints();
    for end in ENDS {
        for operation in 0.. {
            let mut over = false;
            for look in [true, false] {
                let fs = with_backups(&of, operation).await;
                let before = fs.operations();
                fs.power_off_at(before + 1 + operation);
                let restored = restore(&fs, &of).await;
                let case = format!("ended at {operation}: {restored:?}");
                over = !fs.is_off();
                let fs = end(&fs);
                let there = fs.exists(Path::new(RESTORED)).unwrap();
                assert!(restored.is_err() || there, "{case}: it was durable");
                if look {
                    opens_as_all_or_nothing(&fs, &of, &case);
                    continue;
                }
                // The rename is all or nothing of both names.
                assert!(!there || !fs.exists(Path::new(PARTIAL)).unwrap(), "{case}");
                if !there {
                    let again = restore(&fs, &of).await;
                    again.unwrap_or_else(|error| panic!("{case}: again: {error}"));
                    is_durable(&fs, &of, &of.ids, &case).await;
                } else {
                    assert_eq!(opened(&fs, RESTORED).unwrap(), of.content, "{case}");
                }
            }
            if over {
                assert!(operation > 20, "{operation} operations");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn any_call_of_a_restore_that_fails_leaves_nothing_that_opens_or_all() {
    let of = checkpoints();
    for call in Call::ALL {
        for after in 0.. {
            let mut over = false;
            for look in [true, false] {
                let fs = with_backups(&of, 1).await;
                fs.inject(FaultPoint::Call(call), after, 1, Fault::Io);
                let restored = restore(&fs, &of).await;
                let case = format!("{call:?} {after}: {restored:?}");
                over = fs.clear_faults();
                if look {
                    opens_as_all_or_nothing(&fs.kill(), &of, &case);
                    continue;
                }
                if fs.exists(Path::new(RESTORED)).unwrap() {
                    assert_eq!(opened(&fs, RESTORED).unwrap(), of.content, "{case}");
                    continue;
                }
                assert!(restored.is_err(), "{case}");
                restore(&fs, &of).await.unwrap_or_else(|error| panic!("{case}: {error}"));
                // All that a call that succeeded has written is on disk, whatever failed before.
                is_durable(&fs, &of, &of.ids, &case).await;
            }
            if over {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_cannot_be_replaced_is_refused_before_anything_is_brought() {
    let of = checkpoints();
    let fs = with_backups(&of, 1).await;
    fs.create_dir_all(Path::new(RESTORED)).unwrap();
    // As of a directory that a file system is mounted on.
    fs.inject(FaultPoint::Call(Call::Rename), 0, 1, Fault::Io);
    let refused = restore(&fs, &of).await;
    assert!(matches!(refused, Err(backup::Error::Refused(_))), "{refused:?}");
    assert!(!fs.clear_faults(), "the directory was not tried");
    assert!(!fs.exists(Path::new(PARTIAL)).unwrap());
    restore(&fs, &of).await.unwrap();
    is_durable(&fs, &of, &of.ids, "again").await;
}
