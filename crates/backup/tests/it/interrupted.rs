//! Whatever call to the object store fails: nothing that is no backup is seen as one, what was sent is
//! not sent again, and the next try brings it to its end.

use crate::support::{Home, all_whole, at, content_of, create, memory, remove, restore, visible};
use crate::watched::{At, Watched};

/// A store with some files on two levels and something in the log.
fn home() -> Home {
    let home = Home::new();
    home.write(0..150, 1);
    home.flush();
    home.write(100..200, 2);
    home.flush();
    home.write(0..5, 3);
    home
}

#[tokio::test(start_paused = true)]
async fn a_backup_interrupted_at_any_call_is_none_and_can_be_finished() {
    let home = home();
    let (source, content) = home.checkpoint("checkpoint");
    let id = home.id();
    for how in [At::Fail, At::LoseAnswer] {
        for call in 0.. {
            let store = memory();
            let watched = Watched::new(&store);
            watched.choose(call, how);
            let first = create(&at(&watched.store()), &source, &id).await;
            if !watched.happened() {
                assert!(call > 10, "{call} calls");
                first.unwrap();
                break;
            }
            let seen = visible(&at(&store)).await;
            // An intent that could not be removed is all that a finished backup can leave.
            let finished = how == At::LoseAnswer && !seen.is_empty();
            assert!(first.is_ok() != seen.is_empty() || finished, "{how:?} {call}: {first:?}");
            let second = create(&at(&watched.store()), &source, &id).await.unwrap();
            assert_eq!(second.sent_files + second.kept_files, source.contents.files.len() as u64);
            for (name, times) in watched.written() {
                let file = name.contains("/sst/") || name.contains("/backups/");
                assert!(times == 1 || !file, "{how:?} {call}: {name} was sent {times} times");
            }
            assert_eq!(visible(&at(&store)).await, std::slice::from_ref(&id));
            all_whole(&at(&store)).await;
            if call % 8 == 0 {
                let into = home.path(&format!("restored-{how:?}-{call}"));
                restore(&at(&store), &id, &into).await.unwrap();
                assert_eq!(content_of(&into), content, "{how:?} {call}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_interrupted_at_any_call_is_finished_by_the_next() {
    let home = home();
    let (source, content) = home.checkpoint("checkpoint");
    let (store, id) = (memory(), home.id());
    create(&at(&store), &source, &id).await.unwrap();
    for how in [At::Fail, At::Gone] {
        for call in 0.. {
            let name = format!("restored-{how:?}-{call}");
            let into = home.path(&name);
            let watched = Watched::new(&store);
            watched.choose(call, how);
            let first = restore(&at(&watched.store()), &id, &into).await;
            if !watched.happened() {
                first.unwrap();
                assert!(call > 10, "{call} calls");
                break;
            }
            // A request of which nothing came is made again, up to a number of times.
            assert_eq!(first.is_ok(), into.exists(), "{how:?} {call}: {first:?}");
            assert!(first.is_err() || how == At::Fail, "{how:?} {call}: {first:?}");
            if first.is_err() {
                restore(&at(&store), &id, &into).await.unwrap();
            }
            assert_eq!(content_of(&into), content, "{how:?} {call}");
            assert!(!home.path(&format!("{name}.restoring")).exists(), "{how:?} {call}");
            let again = restore(&at(&store), &id, &into).await.unwrap_err();
            assert!(again.to_string().contains("not empty"), "{again}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_too_slow_for_whole_files_gives_them_back() {
    let large = Home::of_large_files();
    large.ingest(12 << 20);
    for (home, answer_bytes) in [(large, 300_000), (crate::interrupted::home(), 100)] {
        let (source, content) = home.checkpoint("checkpoint");
        let (store, id) = (memory(), home.id());
        create(&at(&store), &source, &id).await.unwrap();
        let watched = Watched::new(&store);
        watched.cut_answers(answer_bytes);
        all_whole(&at(&watched.store())).await;
        let into = home.path("restored");
        restore(&at(&watched.store()), &id, &into).await.unwrap();
        assert_eq!(content_of(&into), content);
        assert!(watched.asked_bytes() <= 4 << 20, "{} bytes at once", watched.asked_bytes());
        // Of one that brings nothing it is said so.
        watched.cut_answers(0);
        let nothing = restore(&at(&watched.store()), &id, &home.path("nothing")).await;
        assert!(matches!(nothing, Err(backup::Error::Store { .. })), "{nothing:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_interrupted_at_any_call_harms_no_backup_and_is_finished_by_the_next() {
    let home = home();
    let (first, _) = home.checkpoint("first");
    home.compact();
    let (second, content) = home.checkpoint("second");
    let ids = [home.id(), home.id()];
    for how in [At::Fail, At::LoseAnswer] {
        for call in 0.. {
            let store = memory();
            create(&at(&store), &first, &ids[0]).await.unwrap();
            create(&at(&store), &second, &ids[1]).await.unwrap();
            let watched = Watched::new(&store);
            watched.choose(call, how);
            let removed = remove(&at(&watched.store()), &ids[..1], 1).await;
            if !watched.happened() {
                assert!(removed.unwrap().objects > 0);
                break;
            }
            all_whole(&at(&store)).await;
            let left = visible(&at(&store)).await;
            let again: Vec<_> = left.iter().filter(|id| **id == ids[0]).cloned().collect();
            remove(&at(&store), &again, 2).await.unwrap();
            assert_eq!(visible(&at(&store)).await, ids[1..]);
            // Nothing is left over, and the next backup is not held up.
            let nothing = remove(&at(&store), &[], 3).await.unwrap();
            assert_eq!((nothing.objects, nothing.under_way), (0, vec![]), "{how:?} {call}");
            create(&at(&store), &first, &ids[0]).await.unwrap();
            all_whole(&at(&store)).await;
        }
    }
    let store = memory();
    create(&at(&store), &second, &ids[1]).await.unwrap();
    restore(&at(&store), &ids[1], &home.path("restored")).await.unwrap();
    assert_eq!(content_of(&home.path("restored")), content);
}
