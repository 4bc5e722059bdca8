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
        next.0 += request.mutations();
        Some((&**request, first))
    })
}

pub(super) fn take_group(waiting: &mut Vec<Arc<Request>>, bytes_max: usize) -> Vec<Arc<Request>> {
    let mut bytes = 0;
    let fits = waiting.iter().take_while(|request| {
        let room = bytes < bytes_max;
        bytes += request.shape().1;
        room
    });
    let count = fits.count();
    waiting.drain(..count).collect()
}

/// Mutations of a group.
pub(super) fn count(group: &[Arc<Request>]) -> u64 {
    group.iter().map(|request| request.mutations()).sum()
}

pub(super) fn bytes_of(group: &[Arc<Request>]) -> usize {
    group.iter().map(|request| request.shape().1).sum()
}

/// The trees to which tasks wrote in `group`, each with the bytes of neighbours together.
pub(super) fn by_tree(group: &[Arc<Request>]) -> impl Iterator<Item = (&Arc<TreeState>, usize)> {
    let tasks = group.iter().filter(|request| request.is_of_task());
    let mut parts = tasks.flat_map(|request| request.parts()).peekable();
    std::iter::from_fn(move || {
        let (tree, batch) = parts.next()?;
        let mut bytes = batch.encoding().len();
        while let Some((_, next)) = parts.next_if(|(next, _)| Arc::ptr_eq(next, tree)) {
            bytes += next.encoding().len();
        }
        Some((tree, bytes))
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
