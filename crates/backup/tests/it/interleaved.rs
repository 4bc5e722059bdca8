//! A backup and a removal that meet, whichever call of the one the other falls on: what is a backup
//! afterwards is whole.

use crate::support::{Home, all_whole, at, create, memory, remove, visible};
use crate::watched::{At, Watched};
use backup::{Error, Meter};
use futures::FutureExt;
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn a_removal_during_any_call_of_a_backup_takes_nothing_that_it_counts_on() {
    let home = Home::new();
    home.write(0..200, 1);
    home.flush();
    let (source, _) = home.checkpoint("checkpoint");
    let ids = [home.id(), home.id()];
    let (mut taken, mut left) = (0, 0);
    for call in 0.. {
        let store = memory();
        create(&at(&store), &source, &ids[0]).await.unwrap();
        // The backup finds all SSTables there; the removal finds that only the old one needs them.
        let watched = Watched::new(&store);
        let (other, old) = (at(&store), ids[0].clone());
        let removed = Arc::new(Mutex::new(None));
        let said = Arc::clone(&removed);
        let act = async move {
            let removed = remove(&other, &[old], 1).await.unwrap();
            *said.lock().unwrap() = Some(removed);
        };
        watched.meanwhile(call, act.boxed());
        let created = create(&at(&watched.store()), &source, &ids[1]).await;
        if !watched.happened() {
            break;
        }
        let removed = removed.lock().unwrap().take().unwrap();
        match removed.under_way.is_empty() {
            true => taken += 1,
            false => left += 1,
        }
        all_whole(&at(&store)).await;
        let seen = visible(&at(&store)).await;
        assert_eq!(seen, ids[1..], "{call}: {created:?}");
    }
    assert!(taken > 0 && left > 0, "{taken} removals went before, {left} found a backup under way");
}

#[tokio::test]
async fn a_backup_during_any_call_of_a_removal_is_whole_or_refused() {
    let home = Home::new();
    home.write(0..200, 1);
    home.flush();
    let (source, _) = home.checkpoint("checkpoint");
    let ids = [home.id(), home.id()];
    let (mut made, mut refused) = (0, 0);
    for call in 0.. {
        let store = memory();
        create(&at(&store), &source, &ids[0]).await.unwrap();
        let watched = Watched::new(&store);
        let (other, id, home) = (at(&store), ids[1].clone(), home.path("checkpoint"));
        let created = Arc::new(Mutex::new(None));
        let said = Arc::clone(&created);
        let act = async move {
            let created = create(&other, &crate::support::source(&home), &id).await;
            *said.lock().unwrap() = Some(created);
        };
        watched.meanwhile(call, act.boxed());
        remove(&at(&watched.store()), &ids[..1], 1).await.unwrap();
        if !watched.happened() {
            break;
        }
        let created = created.lock().unwrap().take().unwrap();
        all_whole(&at(&store)).await;
        let seen = visible(&at(&store)).await;
        match created {
            Ok(_) => {
                made += 1;
                assert_eq!(seen, ids[1..], "{call}");
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("deletion"), "{call}: {error}");
                assert_eq!(seen, [], "{call}");
            }
        }
    }
    assert!(made > 0 && refused > 0, "{made} made, {refused} refused");
}

#[tokio::test]
async fn a_backup_given_up_during_any_of_its_calls_is_whole_or_none() {
    let home = Home::new();
    home.write(0..200, 1);
    home.flush();
    let (source, _) = home.checkpoint("checkpoint");
    let ids = [home.id(), home.id()];
    for overwrites in [false, true] {
        let (mut made, mut prevented) = (0, 0);
        for call in 0.. {
            let store = memory();
            let watched = Watched::new(&store);
            if overwrites {
                watched.always_overwrites();
            }
            // It is given up, and what it sent is deleted: no backup needs it.
            let (other, id) = (at(&watched.store()), ids[0].clone());
            let act = async move { drop(remove(&other, &[id], 1).await) };
            watched.meanwhile(call, act.boxed());
            let created = create(&at(&watched.store()), &source, &ids[0]).await;
            if !watched.happened() {
                assert!(call > 10, "{call} calls");
                break;
            }
            let case = format!("{overwrites} {call}: {created:?}");
            let verified = backup::verify(&at(&store), None, &Meter::silent()).await.unwrap();
            assert_eq!(verified.findings, [], "{case}");
            let seen = visible(&at(&store)).await;
            match &created {
                Ok(_) => made += 1,
                Err(error) => {
                    prevented += 1;
                    assert!(seen.is_empty(), "{case}");
                    assert!(matches!(error, Error::Refused(_)), "{case}");
                }
            }
            // Whatever became of it, another can be made, and removals take all away.
            create(&at(&store), &source, &ids[1]).await.unwrap();
            all_whole(&at(&store)).await;
            remove(&at(&store), &visible(&at(&store)).await, 2).await.unwrap();
            let nothing = remove(&at(&store), &[], 3).await.unwrap();
            assert_eq!((nothing.objects, nothing.under_way), (0, vec![]), "{case}");
        }
        assert!(made > 0 && prevented > 1, "{made} made, {prevented} given up");
    }
}

#[tokio::test]
async fn a_backup_that_was_given_up_is_not_made_later() {
    let home = Home::new();
    home.write(0..20, 1);
    let (source, _) = home.checkpoint("checkpoint");
    let (store, id) = (memory(), home.id());
    let watched = Watched::new(&store);
    watched.choose(8, At::Gone);
    create(&at(&watched.store()), &source, &id).await.unwrap_err();
    let listed = backup::list(&at(&store)).await.unwrap();
    assert_eq!((listed.backups.len(), listed.under_way.len()), (0, 1));
    assert!(!backup::is_given_up(&at(&store), &id).await.unwrap());
    for number in 1..3 {
        remove(&at(&store), std::slice::from_ref(&id), number).await.unwrap();
        assert!(backup::is_given_up(&at(&store), &id).await.unwrap());
        let listed = backup::list(&at(&store)).await.unwrap();
        assert_eq!((listed.backups.len(), listed.under_way.len()), (0, 0));
    }
    let refused = create(&at(&store), &source, &id).await.unwrap_err().to_string();
    assert!(refused.contains("abandoned"), "{refused}");
    let none = backup::find(&at(&store), None).await.unwrap_err().to_string();
    assert!(none.contains("has no backup"), "{none}");
}
