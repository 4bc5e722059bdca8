//! Reads entries of the log for replicas that are behind, on threads that may wait for the disk.
//!
//! 1. Damage ends the node: what it has on disk is not what it acknowledged.
//! 2. Entries that the disk does not give are asked for again by the driver. If that fails again and again, the
//!    group is handed to a replica on another node, whose disk may give them ([`super::heirs`]).

use super::heirs::heir;
use super::inbox::Event;
use super::log_writes::{from_log, log_group};
use super::open::Shared;
use crate::group::{Entry, Fetch, GroupId, Input};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Failures in succession before a group is handed over.
const FAILURES_BEFORE: usize = 3;
/// Longest wait for the driver.
const REPORT_MAX: Duration = Duration::from_secs(2);

/// Reads of each group that failed in succession.
#[derive(Debug, Default)]
pub(super) struct FailedReads(Mutex<BTreeMap<GroupId, usize>>);

/// Why entries cannot be read.
enum Unread {
    /// The disk may give them later.
    Failed,
    /// They are not what was written.
    Damaged(String),
}

impl FailedReads {
    /// Counts a read that failed; returns how many there were in succession.
    fn count(&self, group: GroupId) -> usize {
        let mut failed = self.0.lock();
        let count = failed.entry(group).or_default();
        *count += 1;
        *count
    }

    fn forget(&self, group: GroupId) {
        self.0.lock().remove(&group);
    }
}

/// Begins to read entries for the driver.
pub(super) fn start(shared: &Arc<Shared>, fetch: Fetch) {
    let (owner, counted) = (Arc::clone(shared), shared.tasks.begin());
    shared.runtime.spawn_blocking(move || {
        run(&owner, fetch);
        drop(owner);
        drop(counted);
    });
}

fn run(shared: &Shared, fetch: Fetch) {
    let (group, first) = (fetch.group, fetch.first);
    let entries = match read(shared, fetch) {
        Ok(entries) => {
            shared.failed_reads.forget(group);
            entries
        }
        Err(Unread::Failed) => {
            let failures = shared.failed_reads.count(group);
            if failures >= FAILURES_BEFORE {
                hand_over(shared, group, failures);
            }
            Vec::new()
        }
        Err(Unread::Damaged(why)) => {
            return shared.fail(format!("entries of group {} cannot be read: {why}", group.0));
        }
    };
    shared.inbox.push(Event::Input(Input::Fetched { group, first, entries }));
}

/// Reads entries from the log; none if they are not there any more.
fn read(shared: &Shared, fetch: Fetch) -> Result<Vec<Entry>, Unread> {
    let Fetch { group, first, end, bytes_max } = fetch;
    let read = match shared.log.entries(log_group(group), first..end, bytes_max) {
        Ok(read) => read.unwrap_or_default(),
        Err(damage @ engine::Error::Corruption(_)) => {
            return Err(Unread::Damaged(damage.to_string()));
        }
        Err(error) => {
            tracing::error!("entries of group {} cannot be read: {error}", group.0);
            return Err(Unread::Failed);
        }
    };
    let known = read.into_iter().map(|entry| {
        let index = entry.index;
        let unknown = || Unread::Damaged(format!("entry {index} is of a kind that is not known"));
        from_log(entry).ok_or_else(unknown)
    });
    known.collect()
}

/// Hands a group to another replica, if there is one that has what is committed.
fn hand_over(shared: &Shared, group: GroupId, turn: usize) {
    let reports = shared.report(REPORT_MAX).unwrap_or_default();
    let report = reports.iter().find(|report| report.group == group);
    if let Some(to) = report.and_then(|report| heir(report, shared.me, turn, |_| true)) {
        tracing::warn!(group = group.0, "handing over a group: this node cannot read its log");
        shared.inbox.push(Event::Input(Input::Transfer { group, to }));
    }
}
