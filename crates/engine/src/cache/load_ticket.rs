//! Asking for a block that may have to be loaded, without waiting for it.

use super::cache_counters::BlockKind;
use super::loads_in_progress::{Follower, Joined, Leader};
use super::{Cache, CacheFill, CacheKey, CachePriority, Hint, Loaded, PinnedBlock, Plain};
use crate::error::Result;
use std::sync::Arc;

/// Result of asking for a block without waiting.
pub enum CacheLookup<'a, M: Plain> {
    /// It is in memory.
    Resident(PinnedBlock<M>),
    /// It is not: the caller is to load it.
    Free(LoadTicket<'a, M>),
    /// It is being loaded, by another thread or by the caller itself.
    Loading(Loading<M>),
}

/// The duty to load a block. Others may be waiting for it: whoever takes several loads all of
/// them before waiting for any other. Dropped, it lets those who wait try for themselves.
pub struct LoadTicket<'a, M: Plain> {
    cache: &'a Arc<Cache<M>>,
    key: CacheKey,
    fill: CacheFill,
    leader: Leader<'a, PinnedBlock<M>>,
}

impl<M: Plain> LoadTicket<'_, M> {
    /// Ends the load with its outcome. Keeps the block where the ticket's `CacheFill` and the room
    /// there is allow, and sets `hint`.
    pub fn end(
        self,
        hint: &Hint,
        priority: CachePriority,
        loaded: Result<Loaded<'_, M>>,
    ) -> Result<PinnedBlock<M>> {
        let Self { cache, key, fill, leader } = self;
        let keep = fill == CacheFill::Insert || priority == CachePriority::High;
        let lives = match fill {
            CacheFill::Bypass => priority.lives_after_bypass(),
            CacheFill::Insert | CacheFill::Resident => priority.lives(),
        };
        let result = loaded.map(|loaded| match keep {
            true => cache.insert(key, hint, &loaded, lives),
            false => PinnedBlock::apart(&loaded),
        });
        leader.finish(&result);
        result
    }
}

/// A block that is being loaded.
pub struct Loading<M: Plain>(Follower<PinnedBlock<M>>);

impl<M: Plain> Loading<M> {
    /// Waits for the outcome; `None` if the load was abandoned. The caller is not pinned, and has
    /// no load tickets.
    pub fn wait(self) -> Option<Result<PinnedBlock<M>>> {
        self.0.wait()
    }
}

impl<M: Plain> Cache<M> {
    /// Asks for the block of `key` without waiting. Counts as a hit or a miss.
    pub fn load_ticket<'a>(
        self: &'a Arc<Self>,
        key: CacheKey,
        hint: &Hint,
        fill: CacheFill,
        kind: BlockKind,
    ) -> CacheLookup<'a, M> {
        let resident = self.pin(key, hint, fill);
        self.looked_up(kind, resident.is_some());
        if let Some(pin) = resident {
            return CacheLookup::Resident(pin);
        }
        self.join(key, hint, fill)
    }

    /// The same for a block that was read already, so that it is probably not in memory.
    pub fn load_ticket_of_read<'a>(
        self: &'a Arc<Self>,
        key: CacheKey,
        hint: &Hint,
        fill: CacheFill,
        kind: BlockKind,
    ) -> CacheLookup<'a, M> {
        self.looked_up(kind, false);
        self.join(key, hint, fill)
    }

    pub(super) fn join<'a>(
        self: &'a Arc<Self>,
        key: CacheKey,
        hint: &Hint,
        fill: CacheFill,
    ) -> CacheLookup<'a, M> {
        match self.loading[key.shard(self.loading.len())].join(key) {
            Joined::Follower(load) => CacheLookup::Loading(Loading(load)),
            // A load before ours may have ended just before we joined.
            Joined::Leader(leader) => match self.pin(key, hint, fill) {
                Some(pin) => {
                    leader.finish(&Ok(pin.clone()));
                    CacheLookup::Resident(pin)
                }
                None => CacheLookup::Free(LoadTicket { cache: self, key, fill, leader }),
            },
        }
    }

    /// The block of `key`, loaded by `load`, which ends the load ticket, if it is not in memory. An
    /// error is given to every reader that waited for the same load, and is not remembered. The
    /// caller is not pinned, and has no load tickets.
    pub fn get_or_load(
        self: &Arc<Self>,
        key: CacheKey,
        hint: &Hint,
        fill: CacheFill,
        kind: BlockKind,
        load: impl FnOnce(LoadTicket<'_, M>) -> Result<PinnedBlock<M>>,
    ) -> Result<PinnedBlock<M>> {
        loop {
            match self.load_ticket(key, hint, fill, kind) {
                CacheLookup::Resident(pin) => return Ok(pin),
                CacheLookup::Free(ticket) => return load(ticket),
                CacheLookup::Loading(load) => {
                    if let Some(outcome) = load.wait() {
                        return outcome;
                    }
                }
            }
        }
    }
}
