//! There and back: what a restore gives is what the checkpoint had, and only what is new is sent.

use crate::support::{
    Home, TREES, all_whole, at, content, content_of, create, fs, memory, options, remove, restore,
    visible,
};
use crate::watched::Watched;
use backup::{BackupId, Destination, Meter, Missing, S3Options};
use base::env::Env;
use engine::checkpoint::{Copied, DirFile};
use engine::{Engine, FamilyId};
use object_store::ObjectStore;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

fn directory(path: &Path) -> Destination {
    let url = format!("file://{}", path.display());
    Destination::open(&url, &S3Options::default(), Missing::Create).unwrap()
}

#[tokio::test]
async fn a_file_that_trees_share_is_one_object_and_a_file_of_each_when_restored() {
    let home = Home::new();
    home.write(0..100, 1);
    let copy = engine::TreeId(TREES.iter().map(|tree| tree.0).max().unwrap() + 1);
    home.engine().tree(TREES[0]).unwrap().copy_to(copy).unwrap();
    let (source, content) = home.checkpoint("checkpoint");
    let files = source.contents.files.iter().filter_map(|file| file.identity);
    let files: Vec<String> = files.map(|identity| identity.to_string()).collect();
    let different: std::collections::BTreeSet<&String> = files.iter().collect();
    assert!(different.len() < files.len(), "{files:?}");
    let watched = Watched::new(&memory());
    let (to, id) = (at(&watched.store()), home.id());
    create(&to, &source, &id).await.unwrap();
    let objects = watched.written().into_keys();
    let objects = objects.filter(|name| files.iter().any(|file| name.ends_with(file.as_str())));
    assert_eq!(objects.count(), different.len());
    let into = home.path("restored");
    restore(&to, &id, &into).await.unwrap();
    assert_eq!(content_of(&into), content);
    assert!(into.join(format!("{:010}.copy", copy.0)).exists(), "no note of the copy");
}

#[tokio::test]
async fn only_what_is_new_is_sent_and_every_backup_gives_its_moment_back() {
    let home = Home::new();
    let mut kept = Vec::new();
    let watched = Watched::new(&memory());
    let to = at(&watched.store());
    for round in 0..4u8 {
        home.write(u32::from(round) * 100..u32::from(round) * 100 + 150, round);
        home.flush();
        let (source, content) = home.checkpoint(&format!("checkpoint-{round}"));
        let before = watched.written();
        let id = home.id();
        let created = create(&to, &source, &id).await.unwrap();
        let ssts = |files: &[engine::checkpoint::ContentFile]| {
            let ssts = files.iter().filter(|file| matches!(file.file, DirFile::Sst(_)));
            ssts.map(|file| file.identity.unwrap()).collect::<Vec<_>>()
        };
        let all = ssts(&source.contents.files);
        let old = |id: &&engine::internals::FileIdentity| {
            before.keys().any(|name| name.ends_with(&id.to_string()))
        };
        assert_eq!(created.kept_files, all.iter().filter(old).count() as u64, "round {round}");
        assert!(round == 0 || created.kept_files > 0, "round {round}: nothing was shared");
        assert!(watched.written().values().all(|times| *times == 1), "round {round}: sent again");
        kept.push((id, content));
    }
    all_whole(&to).await;
    for (id, content) in &kept {
        let into = home.path(id.as_str());
        restore(&to, id, &into).await.unwrap();
        assert_eq!(&content_of(&into), content);
    }
    // Removing some leaves the others whole, and nothing that only the removed ones had.
    let ids: Vec<_> = kept.iter().map(|(id, _)| id.clone()).collect();
    home.compact();
    remove(&to, &ids[1..3], 1).await.unwrap();
    assert_eq!(visible(&to).await, [ids[0].clone(), ids[3].clone()]);
    all_whole(&to).await;
    remove(&to, &[ids[0].clone(), ids[3].clone()], 2).await.unwrap();
    let left: Vec<_> = futures::StreamExt::collect::<Vec<_>>(watched.store().list(None)).await;
    assert_eq!(left.len(), 1, "only whose backups they were: {left:?}");
}

#[tokio::test]
async fn large_files_go_in_parts_and_a_cut_restore_keeps_what_is_right() {
    let home = Home::of_large_files();
    home.ingest(20 << 20);
    home.write(0..10, 1);
    let (source, content) = home.checkpoint("checkpoint");
    let largest = source.contents.files.iter().map(|file| file.bytes).max();
    assert!(largest > Some(17 << 20), "{largest:?}: no part would end inside it");
    let to = directory(&home.path("backups"));
    let id = home.id();
    create(&to, &source, &id).await.unwrap();
    all_whole(&to).await;
    let into = home.path("restored");
    // An interrupted restore: the large file is there in part, and a chunk of it is wrong.
    let partial = home.path("restored.restoring");
    std::fs::create_dir(&partial).unwrap();
    std::fs::write(partial.join("RESTORING"), id.as_str()).unwrap();
    let large = source.contents.files.iter().find(|file| Some(file.bytes) == largest).unwrap();
    let mut bytes = std::fs::read(large.file.path(&source.dir)).unwrap();
    bytes.truncate(12 << 20);
    bytes[9 << 20] ^= 1;
    std::fs::write(large.file.path(&partial), bytes).unwrap();
    let (passed, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (done, total) = (Arc::clone(&passed), Arc::clone(&seen));
    let meter = Meter::new(
        None,
        Box::new(move |now, all| {
            done.fetch_max(now, Ordering::Relaxed);
            total.fetch_max(all, Ordering::Relaxed);
        }),
    );
    let backup = backup::find(&to, Some(&id)).await.unwrap();
    backup::restore(&to, &backup, &fs(), &into, &meter, |_| Ok(())).await.unwrap();
    assert_eq!(passed.load(Ordering::Relaxed), backup.record.bytes());
    assert_eq!(seen.load(Ordering::Relaxed), backup.record.bytes());
    assert_eq!(content_of(&into), content);
    assert!(!into.join("RESTORING").exists());
}

#[tokio::test]
async fn a_destination_belongs_to_one_store_its_copies_and_what_was_restored_of_it() {
    let home = Home::new();
    home.write(0..200, 1);
    home.flush();
    let (source, _) = home.checkpoint("checkpoint");
    let to = directory(&home.path("backups"));
    let first = home.id();
    create(&to, &source, &first).await.unwrap();

    let clone = home.copy("checkpoint", "clone", Copied::OtherStore);
    let refused = create(&to, &clone, &home.id()).await.unwrap_err().to_string();
    assert!(refused.contains("choose another destination"), "{refused}");
    assert_eq!(visible(&to).await, std::slice::from_ref(&first));
    // Elsewhere, both clones and what they share would do.
    let elsewhere = directory(&home.path("elsewhere"));
    create(&elsewhere, &clone, &home.id()).await.unwrap();

    // The restored store and the old one go on apart, and give new files the same numbers.
    restore(&to, &first, &home.path("restored")).await.unwrap();
    let restored = Engine::open_with_env(Env::real(1), &home.path("restored"), options()).unwrap();
    for (engine, value) in [(home.engine(), 7), (&restored, 8)] {
        for tree in TREES {
            let mut batch = engine::WriteBatch::new();
            let column = engine::Column::of(FamilyId(1), b"q");
            batch.put(b"new", column, engine::Timestamp(0), &[value; 100]);
            engine.tree(tree).unwrap().write(&batch).unwrap();
            engine.tree(tree).unwrap().flush().unwrap();
        }
    }
    let restored_content = content(&restored);
    restored.close().unwrap();
    drop(restored);
    let (ids, old) = ([home.id(), home.id()], home.checkpoint("later"));
    let new = home.copy("restored", "restored-copy", Copied::SameStore);
    let numbers = |source: &backup::Source| {
        source.contents.files.iter().map(|file| file.file).collect::<Vec<_>>()
    };
    assert!(numbers(&old.0).iter().any(|file| {
        matches!(file, DirFile::Sst(_))
            && numbers(&new).contains(file)
            && !numbers(&source).contains(file)
    }));
    create(&to, &old.0, &ids[0]).await.unwrap();
    let created = create(&to, &new, &ids[1]).await.unwrap();
    assert!(created.kept_files > 0, "what was before the fork is shared");
    for (id, want) in [(&ids[0], old.1), (&ids[1], restored_content)] {
        let into = home.path(&format!("again-{id}"));
        restore(&to, id, &into).await.unwrap();
        assert_eq!(content_of(&into), want);
    }
}

#[tokio::test]
async fn a_backup_of_a_store_that_is_written_to_holds_all_that_was_acknowledged_before() {
    let home = Home::new();
    home.engine().store_id().unwrap();
    let (acknowledged, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    let (before, after) = std::thread::scope(|scope| {
        scope.spawn(|| {
            for row in 0.. {
                home.write(row..row + 1, 1);
                acknowledged.store(row + 1, Ordering::SeqCst);
                if stop.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        while acknowledged.load(Ordering::SeqCst) < 400 {
            std::thread::yield_now();
        }
        let before = acknowledged.load(Ordering::SeqCst);
        home.engine().checkpoint(&home.path("checkpoint")).unwrap();
        let after = acknowledged.load(Ordering::SeqCst);
        stop.store(true, Ordering::SeqCst);
        (before, after)
    });
    let source = crate::support::source(&home.path("checkpoint"));
    let (to, id) = (directory(&home.path("backups")), home.id());
    let created = create(&to, &source, &id).await.unwrap();
    let into = home.path("restored");
    restore(&to, &id, &into).await.unwrap();
    let found = content_of(&into);
    for tree in TREES {
        let rows: Vec<_> = found.keys().filter(|(of, _)| *of == tree.0).collect();
        let count = u32::try_from(rows.len()).unwrap();
        assert!((before..=after + 1).contains(&count), "{before} {count} {after}");
        // No gap: the row of each number is there.
        assert_eq!(rows.last().unwrap().1, (count - 1).to_be_bytes());
    }
    // The point is stated: one mutation a row and tree.
    assert_eq!(created.record.point.sequence, found.len() as u64);
    assert!(created.record.point.commit_micros > 0);
}

#[tokio::test]
async fn a_restore_refuses_what_it_would_overwrite_or_mix() {
    let home = Home::new();
    home.write(0..20, 1);
    let (source, content) = home.checkpoint("checkpoint");
    let store: Arc<dyn ObjectStore> = memory();
    let ids = [home.id(), home.id()];
    for id in &ids {
        create(&at(&store), &source, id).await.unwrap();
    }
    let into = home.path("taken");
    std::fs::create_dir(&into).unwrap();
    std::fs::write(into.join("something"), "mine").unwrap();
    let refused = restore(&at(&store), &ids[0], &into).await.unwrap_err().to_string();
    assert!(refused.contains("not empty"), "{refused}");
    assert!(!home.path("taken.restoring").exists(), "nothing was begun");

    let partial = home.path("other.restoring");
    std::fs::create_dir(&partial).unwrap();
    std::fs::write(partial.join("RESTORING"), ids[1].as_str()).unwrap();
    let refused = restore(&at(&store), &ids[0], &home.path("other")).await.unwrap_err();
    assert!(refused.to_string().contains(ids[1].as_str()), "{refused}");
    std::fs::write(partial.join("RESTORING"), "").unwrap();
    std::fs::write(partial.join("mine"), "").unwrap();
    let refused = restore(&at(&store), &ids[0], &home.path("other")).await.unwrap_err();
    assert!(refused.to_string().contains("already exists"), "{refused}");

    let unknown = home.id();
    let refused = restore(&at(&store), &unknown, &home.path("third")).await.unwrap_err();
    assert!(refused.to_string().contains("no backup"), "{refused}");
    // An empty directory is as good as none.
    std::fs::create_dir(home.path("empty")).unwrap();
    restore(&at(&store), &ids[0], &home.path("empty")).await.unwrap();
    assert_eq!(content_of(&home.path("empty")), content);
}

#[tokio::test]
async fn files_from_before_identities_are_shared_by_their_content() {
    let home = Home::new();
    home.write(0..300, 1);
    home.flush();
    let (mut source, content) = home.checkpoint("checkpoint");
    source.contents.files.iter_mut().for_each(|file| file.identity = None);
    let store: Arc<dyn ObjectStore> = memory();
    let ids = [home.id(), home.id()];
    let first = create(&at(&store), &source, &ids[0]).await.unwrap();
    let second = create(&at(&store), &source, &ids[1]).await.unwrap();
    let ssts = source.contents.files.iter().filter(|file| matches!(file.file, DirFile::Sst(_)));
    assert_eq!(second.kept_files, ssts.count() as u64);
    assert_eq!(first.kept_files, 0);
    restore(&at(&store), &ids[1], &home.path("restored")).await.unwrap();
    assert_eq!(content_of(&home.path("restored")), content);
}

#[tokio::test]
async fn what_killed_processes_were_writing_goes_with_the_next_removal() {
    let home = Home::new();
    home.write(0..20, 1);
    let (source, _) = home.checkpoint("checkpoint");
    let path = home.path("backups");
    let (to, id) = (directory(&path), home.id());
    create(&to, &source, &id).await.unwrap();
    let own = format!("backups/{id}/0000000001.log#12");
    let staged =
        ["STELE-BACKUPS#1", "sst/x#1", "records/x#2", "under-way/x#1", "removals/x#1", &own];
    let others = ["sst/notes#draft", "records/a#", "notes.txt"];
    for name in staged.iter().chain(&others) {
        std::fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
        std::fs::write(path.join(name), "x").unwrap();
    }
    remove(&to, &[], 1).await.unwrap();
    let left: Vec<_> = staged.iter().filter(|name| path.join(name).exists()).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(others.iter().all(|name| path.join(name).exists()));
    all_whole(&to).await;
}

#[tokio::test]
async fn the_newest_backup_is_the_one_begun_last_whatever_the_clocks_say() {
    let home = Home::new();
    let to = at(&memory());
    let now = 1_700_000_000_000_000;
    home.write(0..20, 1);
    let (first, _) = home.checkpoint("first");
    let fast = backup::next_id(&to, now + 1_000_000, 1).await.unwrap();
    create(&to, &first, &fast).await.unwrap();
    home.write(20..40, 1);
    let (second, _) = home.checkpoint("second");
    // The clock was put right.
    let right = backup::next_id(&to, now, 2).await.unwrap();
    create(&to, &second, &right).await.unwrap();
    assert_eq!(backup::find(&to, None).await.unwrap().id, right);
    assert_eq!(backup::list(&to).await.unwrap().all_but(1).unwrap(), [fast]);

    // One that another Stele named by a clock that runs fast holds less than the one before it.
    let other = BackupId::new(now + 9_000_000, 3);
    create(&to, &first, &other).await.unwrap();
    let unclear = [
        backup::find(&to, None).await.unwrap_err(),
        backup::list(&to).await.unwrap().all_but(1).unwrap_err(),
    ];
    for refused in unclear {
        let said = refused.to_string();
        assert!(said.contains(right.as_str()) && said.contains(other.as_str()), "{said}");
    }
    assert_eq!(backup::find(&to, Some(&right)).await.unwrap().id, right);
    assert_eq!(backup::list(&to).await.unwrap().all_but(2).unwrap().len(), 1);
}
