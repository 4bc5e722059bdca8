//! One shard of the blocks on the heap: entries on a clock face, a hand that takes what was not
//! used lately.

use crate::cache::{CacheFill, CacheKey, KeyMap};
use std::sync::Arc;

/// Fixed cost of an entry beside its value: map, slot and counts.
const ENTRY_OVERHEAD: usize = 96;

struct Slot<V> {
    key: CacheKey,
    value: Arc<V>,
    charge: usize,
    lives: u8,
    lives_max: u8,
    /// It was warmed (warmth.rs), and nobody has used it since.
    warmed: bool,
}

/// An entry that was found.
pub(crate) struct Found<V> {
    pub(crate) value: Arc<V>,
    /// This is the first use of an entry that was warmed.
    pub(crate) first_use_of_warmed: bool,
}

/// Entries of a share of all keys. `slots` has holes, listed in `free`; `places` finds a key's
/// slot; `bytes` sums the charges.
pub(crate) struct Shard<V> {
    slots: Vec<Option<Slot<V>>>,
    free: Vec<usize>,
    places: KeyMap<usize>,
    hand: usize,
    bytes: usize,
    bytes_max: usize,
}

impl<V> Shard<V> {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            places: KeyMap::default(),
            hand: 0,
            bytes: 0,
            bytes_max,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&mut self, key: CacheKey, fill: CacheFill) -> Option<Found<V>> {
        let slot = self.slots[*self.places.get(&key)?].as_mut()?;
        let mut first_use_of_warmed = false;
        if fill != CacheFill::Bypass {
            slot.lives = slot.lives_max;
            first_use_of_warmed = std::mem::take(&mut slot.warmed);
        }
        Some(Found { value: Arc::clone(&slot.value), first_use_of_warmed })
    }

    /// Turns of the hand that the entry of `key` survives without being used, and its charge.
    pub(crate) fn warmth(&self, key: CacheKey) -> Option<(u8, usize)> {
        let slot = self.slots[*self.places.get(&key)?].as_ref()?;
        Some((slot.lives, slot.charge))
    }

    /// As [`FrameHead::warm`](crate::cache::frames::frame_head::FrameHead::warm).
    pub(crate) fn warm(&mut self, key: CacheKey, lives: u8) -> bool {
        let Some(place) = self.places.get(&key) else { return false };
        let Some(slot) = &mut self.slots[*place] else { return false };
        let warmed = slot.lives != slot.lives_max && !slot.warmed;
        if warmed {
            slot.lives = lives.min(slot.lives_max);
            slot.warmed = true;
        }
        warmed
    }

    /// Removes the entry of `key`.
    pub(crate) fn remove(&mut self, key: CacheKey) {
        if let Some(place) = self.places.get(&key) {
            self.take(*place);
        }
    }

    /// Sets how many bytes it may hold, and says how many entries were evicted for that.
    pub(crate) fn set_bytes_max(&mut self, bytes_max: usize) -> u64 {
        self.bytes_max = bytes_max;
        let mut evicted = 0;
        while self.bytes > self.bytes_max {
            self.evict_one();
            evicted += 1;
        }
        evicted
    }

    /// Puts an entry in and says how many were evicted for it; `None` if it was not put in, since
    /// it is there already or larger than the whole shard.
    pub(crate) fn insert(
        &mut self,
        key: CacheKey,
        value: &Arc<V>,
        bytes: usize,
        (lives, lives_max): (u8, u8),
    ) -> Option<u64> {
        let charge = bytes + ENTRY_OVERHEAD;
        if charge > self.bytes_max || self.places.contains_key(&key) {
            return None;
        }
        let mut evicted = 0;
        while self.bytes + charge > self.bytes_max {
            self.evict_one();
            evicted += 1;
        }
        let value = Arc::clone(value);
        let slot = Slot { key, value, charge, lives, lives_max, warmed: false };
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[place] = Some(slot);
        self.places.insert(key, place);
        self.bytes += charge;
        Some(evicted)
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(CacheKey) -> bool) {
        for place in 0..self.slots.len() {
            if self.slots[place].as_ref().is_some_and(|slot| !keep(slot.key)) {
                self.take(place);
            }
        }
    }

    /// Turns the hand until it meets an entry without lives. Only called while bytes are held, so
    /// there is an entry, and each turn takes a life of every one.
    fn evict_one(&mut self) {
        assert!(self.bytes > 0, "an empty shard has room for any entry it accepts");
        loop {
            self.hand = (self.hand + 1) % self.slots.len();
            match &mut self.slots[self.hand] {
                Some(slot) if slot.lives > 0 => slot.lives -= 1,
                Some(_) => return self.take(self.hand),
                None => {}
            }
        }
    }

    fn take(&mut self, place: usize) {
        if let Some(slot) = self.slots[place].take() {
            self.places.remove(&slot.key);
            self.bytes -= slot.charge;
            self.free.push(place);
        }
    }
}
