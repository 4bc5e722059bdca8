//! A group of requests that are committed together, whole or not at all.

use crate::cell::SequenceNumber;
use crate::tree::TreeState;
use crate::write::request::Request;
use std::sync::Arc;

/// The moment at which a leader gives up the lead.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    /// When the log has the group.
    PassedOn,
    /// When the group is told.
    Kept,
}

/// The batches of a group with the numbers of their first mutations.
pub(super) fn numbered(
    group: &[Arc<Request>],
    first: SequenceNumber,
) -> impl Iterator<Item = (&Request, SequenceNumber)> {
    group.iter().scan(first, |next, request| {
        let first = *next;
        next.0 += request.batch.len() as u64;
        Some((&**request, first))
    })
}

pub(super) fn take_group(waiting: &mut Vec<Arc<Request>>, bytes_max: usize) -> Vec<Arc<Request>> {
    let mut bytes = 0;
    let fits = waiting.iter().take_while(|request| {
        let room = bytes < bytes_max;
        bytes += request.batch.encoding().len();
        room
    });
    let count = fits.count();
    waiting.drain(..count).collect()
}

/// Mutations of a group.
pub(super) fn count(group: &[Arc<Request>]) -> u64 {
    group.iter().map(|request| request.batch.len() as u64).sum()
}

pub(super) fn bytes_of(group: &[Arc<Request>]) -> usize {
    group.iter().map(|request| request.batch.encoding().len()).sum()
}

/// The trees to which tasks wrote in `group`, each with the bytes of neighbours together.
pub(super) fn by_tree(group: &[Arc<Request>]) -> impl Iterator<Item = (&Arc<TreeState>, usize)> {
    let parts = group.chunk_by(|a, b| Arc::ptr_eq(&a.tree, &b.tree));
    parts.filter_map(|part| {
        let tasks = || part.iter().filter(|request| request.is_of_task());
        let bytes = tasks().map(|request| request.batch.encoding().len()).sum();
        tasks().next().map(|request| (&request.tree, bytes))
    })
}

/// Ends the process if a panic unwinds through a commit: memtables may then hold half a group,
/// which no later reader may see. The log holds all of it or nothing, so the next open is right.
pub(super) struct NeverInPart;

impl Drop for NeverInPart {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
