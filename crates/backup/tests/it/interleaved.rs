//! A backup and a removal that meet, whichever call of the one the other falls on: what is a backup
//! afterwards is whole.

use crate::support::{Home, all_whole, at, create, memory, remove, visible};
use crate::watched::Watched;
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
                assert!(error.to_string().contains("removal"), "{call}: {error}");
                assert_eq!(seen, [], "{call}");
            }
        }
    }
    assert!(made > 0 && refused > 0, "{made} made, {refused} refused");
}
