//! The seat of the database on a node of a cluster: which node has it, and the database while this node has.
//!
//! 1. When this node leads the group of the database it opens the database for that term, without anything that an
//!    earlier one had in memory.
//! 2. When the term is over its sessions end. A session in the midst of a statement has a moment to end it: what it
//!    has not committed by then is lost, and what it commits late is refused.

use ::sql::{Door, DoorParts, Seat};
use cluster::member::DatabaseGroup;
use relational::{Database, DatabaseOptions, GroupTerm};
use std::time::Duration;
use table::{Term, TreeId};
use tokio::sync::watch;

/// Pause between two looks for the node that leads.
const LOOK: Duration = Duration::from_millis(500);
/// Pause before the database is opened again.
const AGAIN: Duration = Duration::from_secs(1);
/// Time that statements have to end when the term is over.
const GRACE: Duration = Duration::from_secs(3);

/// Makes the group of the database if it is missing, and tells `seat` where the database is. Ends only after an
/// error that no other attempt mends.
pub(super) async fn keep_seat(
    group: &DatabaseGroup,
    parts: &DoorParts,
    seat: &watch::Sender<Seat>,
) {
    let tree = match group.made().await {
        Ok(tree) => tree,
        Err(error) => {
            tracing::error!(%error, "the database of SQL cannot be made");
            return std::future::pending().await;
        }
    };
    loop {
        let term = tokio::select! {
            term = group.leads(tree) => term,
            () = follow(group, tree, seat) => continue,
        };
        // The address of another node is old now.
        seat.send_replace(Seat::Unknown);
        if let Some(door) = open(group, (tree, term), parts).await {
            tracing::info!(term = term.number, "this node serves the database of SQL");
            seat.send_replace(Seat::Here(door.clone()));
            group.is_over(tree, term).await;
            tracing::info!(
                term = term.number,
                "this node does not lead the database of SQL any more"
            );
            seat.send_replace(Seat::Unknown);
            tokio::spawn(async move { door.end(GRACE).await });
        }
    }
}

/// Tells which other node has the database, until it is dropped.
async fn follow(group: &DatabaseGroup, tree: TreeId, seat: &watch::Sender<Seat>) {
    loop {
        let door = group.door(tree).await;
        seat.send_if_modified(|seat| {
            let is_known = match (&*seat, &door) {
                (Seat::At(known), Some(door)) => known == door,
                (Seat::Unknown, None) => true,
                _ => false,
            };
            if !is_known {
                *seat = door.map_or(Seat::Unknown, Seat::At);
            }
            !is_known
        });
        tokio::time::sleep(LOOK).await;
    }
}

/// Opens the database for a term; nothing if the term is over before.
async fn open(
    group: &DatabaseGroup,
    (tree, term): (TreeId, Term),
    parts: &DoorParts,
) -> Option<Door> {
    let opened = async {
        let mut told = String::new();
        loop {
            let at = GroupTerm { groups: group.groups(), tree, term };
            let opened = Database::open_in_group(group.local(), at, DatabaseOptions::default());
            let error = match opened.await {
                Ok(database) => return parts.door(database),
                Err(error) => error.to_string(),
            };
            if error != told {
                tracing::warn!(error, "could not open the tables of SQL; trying again");
                told = error;
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::select! {
        door = opened => Some(door),
        () = group.is_over(tree, term) => None,
    }
}
