//! A flipped byte anywhere at the destination is found, and named with object and offset; a restore
//! never gives it away.

use crate::support::{Home, at, create, memory, remove, restore};
use backup::{Error, Meter};
use base::env::Rng;
use futures::StreamExt;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

#[tokio::test]
async fn a_flipped_byte_in_any_object_is_found_and_named() {
    let home = Home::new();
    home.write(0..250, 1);
    home.flush();
    home.write(0..20, 2);
    let (source, _) = home.checkpoint("checkpoint");
    let (store, id) = (memory(), home.id());
    create(&at(&store), &source, &id).await.unwrap();
    let objects: Vec<ObjectMeta> = store.list(None).map(|found| found.unwrap()).collect().await;
    assert!(objects.len() > 5, "{objects:?}");
    let mut rng = Rng::new(1);
    for object in objects {
        let name = object.location.as_ref().strip_prefix("some/prefix/").unwrap().to_owned();
        let good = store.get(&object.location).await.unwrap().bytes().await.unwrap();
        let middle = (0..4).map(|_| rng.index(good.len()));
        let places: Vec<usize> = [0, good.len() - 1].into_iter().chain(middle).collect();
        for place in places {
            let mut bad = good.to_vec();
            bad[place] ^= 1 << rng.below(8);
            store.put(&object.location, bad.into()).await.unwrap();
            let into = home.path("restored");
            if name == "STELE-BACKUPS" {
                // It says whose backups these are; each record says so too.
                let refused = backup::list(&at(&store)).await.unwrap_err();
                assert!(refused.to_string().contains(&name), "{refused}");
                continue;
            }
            let verified = backup::verify(&at(&store), None, &Meter::silent()).await.unwrap();
            let found: Vec<_> = verified.findings.iter().map(|found| &found.object).collect();
            assert_eq!(found, [&name], "byte {place}");
            assert!(verified.findings[0].offset <= place as u64, "{:?}", verified.findings);
            assert_eq!(verified.findings[0].backups, std::slice::from_ref(&id));
            // What an earlier try brought back would not be asked for again.
            let _ = std::fs::remove_dir_all(home.path("restored.restoring"));
            match restore(&at(&store), &id, &into).await {
                Err(Error::Damaged { object, .. }) => assert_eq!(object, name),
                other => panic!("{name}, byte {place}: {other:?}"),
            }
            assert!(!into.exists());
        }
        for cut in [0, good.len() / 2, good.len() - 1] {
            store.put(&object.location, good.slice(..cut).into()).await.unwrap();
            if name != "STELE-BACKUPS" {
                let verified = backup::verify(&at(&store), None, &Meter::silent()).await.unwrap();
                assert_eq!(verified.findings.len(), 1, "{name} cut at {cut}");
                assert_eq!(verified.findings[0].object, name);
            }
        }
        if name != "STELE-BACKUPS" && !name.starts_with("records/") {
            store.delete(&object.location).await.unwrap();
            let verified = backup::verify(&at(&store), None, &Meter::silent()).await.unwrap();
            assert_eq!(verified.findings[0].what, "it is missing");
        }
        store.put(&object.location, good.into()).await.unwrap();
    }
    restore(&at(&store), &id, &home.path("restored-at-last")).await.unwrap();
}

#[tokio::test]
async fn two_objects_that_changed_places_are_found() {
    let home = Home::new();
    home.write(0..100, 1);
    home.flush();
    let (source, _) = home.checkpoint("checkpoint");
    let (store, id) = (memory(), home.id());
    create(&at(&store), &source, &id).await.unwrap();
    let ssts = object_store::path::Path::from("some/prefix/sst");
    let objects: Vec<ObjectMeta> =
        store.list(Some(&ssts)).map(|found| found.unwrap()).collect().await;
    let [one, two] = [&objects[0].location, &objects[1].location];
    let bytes = store.get(one).await.unwrap().bytes().await.unwrap();
    store.put(two, bytes.into()).await.unwrap();
    let verified = backup::verify(&at(&store), None, &Meter::silent()).await.unwrap();
    assert_eq!(verified.findings.len(), 1);
    assert!(two.as_ref().ends_with(&verified.findings[0].object), "{:?}", verified.findings);
}

#[tokio::test]
async fn nothing_is_deleted_while_a_record_cannot_be_read() {
    let home = Home::new();
    home.write(0..100, 1);
    home.flush();
    let (source, _) = home.checkpoint("checkpoint");
    let store = memory();
    let ids = [home.id(), home.id()];
    for id in &ids {
        create(&at(&store), &source, id).await.unwrap();
    }
    let record = object_store::path::Path::from(format!("some/prefix/records/{}", ids[0]));
    store.put(&record, b"not a record".to_vec().into()).await.unwrap();
    let refused = remove(&at(&store), &ids[1..], 1).await.unwrap_err();
    assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
    let ssts = object_store::path::Path::from("some/prefix/sst");
    assert!(store.list(Some(&ssts)).count().await > 0);
    // Removed itself, it is no obstacle.
    let removed = remove(&at(&store), &ids[..1], 2).await.unwrap();
    assert!(removed.objects > 0);
    assert_eq!(store.list(Some(&ssts)).count().await, 0);
}

/// Where the newest backup cannot be told, the error says which record is damaged and what to do; a
/// backup that is named is restored.
#[tokio::test]
async fn a_damaged_newest_record_is_named_with_what_to_do() {
    let home = Home::new();
    home.write(0..100, 1);
    let (source, _) = home.checkpoint("checkpoint");
    let store = memory();
    let ids = [home.id(), home.id()];
    for id in &ids {
        create(&at(&store), &source, id).await.unwrap();
    }
    let record = object_store::path::Path::from(format!("some/prefix/records/{}", ids[1]));
    store.put(&record, b"not a record".to_vec().into()).await.unwrap();
    let refused = backup::find(&at(&store), None).await.unwrap_err();
    assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
    let said = refused.to_string();
    for part in [&format!("records/{}", ids[1]), "newest backup", "--backup", "`stele backup list`"]
    {
        assert!(said.contains(part), "{said}");
    }
    let named = backup::find(&at(&store), Some(&ids[0])).await.unwrap();
    restore(&at(&store), &named.id, &home.path("restored")).await.unwrap();
}
