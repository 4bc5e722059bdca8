//! The block to compare with: entries with prefix-compressed keys, every 16th a restart point
//! with its whole key; a get searches the restart points and then reads entries one by one.

/// Entries from one restart point to the next.
const RESTART_EVERY: usize = 16;

/// The key of a cell as one string of bytes that sorts as cells do: newest timestamp first.
pub(super) fn encode_key(row: &[u8], qualifier: &[u8], timestamp: i64) -> Vec<u8> {
    let newest_first = !(timestamp as u64 ^ 1 << 63);
    [row, qualifier, &newest_first.to_be_bytes()].concat()
}

#[derive(Default)]
pub(super) struct RestartWriter {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    last: Vec<u8>,
    entries: usize,
}

impl RestartWriter {
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        let mut shared = 0;
        if self.entries.is_multiple_of(RESTART_EVERY) {
            self.restarts.push(self.bytes.len() as u32);
        } else {
            shared = key.iter().zip(&self.last).take_while(|(a, b)| a == b).count();
        }
        for number in [shared, key.len() - shared, value.len()] {
            put_varint(&mut self.bytes, number);
        }
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value);
        self.last.clear();
        self.last.extend_from_slice(key);
        self.entries += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + 4
    }

    pub(super) fn finish(&mut self) -> RestartBlock {
        let mut bytes = std::mem::take(&mut self.bytes);
        let entries_end = bytes.len();
        for restart in self.restarts.drain(..) {
            bytes.extend_from_slice(&restart.to_le_bytes());
        }
        self.last.clear();
        self.entries = 0;
        RestartBlock { bytes: bytes.into_boxed_slice(), entries_end }
    }
}

pub(super) struct RestartBlock {
    bytes: Box<[u8]>,
    entries_end: usize,
}

impl RestartBlock {
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + 4
    }

    /// All of it but the count of restart points.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The value of the first key that is not less than `key`.
    pub(super) fn get<'a>(&'a self, key: &[u8], scratch: &mut Vec<u8>) -> Option<&'a [u8]> {
        let restarts = (self.bytes.len() - self.entries_end) / 4;
        let (mut from, mut to) = (0, restarts);
        while from + 1 < to {
            let middle = (from + to) / 2;
            if self.restart_key(middle) < key {
                from = middle;
            } else {
                to = middle;
            }
        }
        let mut at = self.restart(from);
        scratch.clear();
        while at < self.entries_end {
            let value = self.read(&mut at, scratch);
            if scratch.as_slice() >= key {
                return Some(value);
            }
        }
        None
    }

    /// Reads every entry; gives their count and the sum of key and value lengths.
    pub(super) fn read_all(&self, scratch: &mut Vec<u8>) -> (usize, u64) {
        let (mut at, mut entries, mut sum) = (0, 0, 0);
        scratch.clear();
        while at < self.entries_end {
            sum += self.read(&mut at, scratch).len() as u64 + scratch.len() as u64;
            entries += 1;
        }
        (entries, sum)
    }

    fn restart(&self, index: usize) -> usize {
        let at = self.entries_end + 4 * index;
        let (bytes, _) = self.bytes[at..].split_first_chunk().expect("counted from the length");
        u32::from_le_bytes(*bytes) as usize
    }

    fn restart_key(&self, index: usize) -> &[u8] {
        let mut at = self.restart(index);
        let _shared = read_varint(&self.bytes, &mut at);
        let len = read_varint(&self.bytes, &mut at);
        let _value_len = read_varint(&self.bytes, &mut at);
        &self.bytes[at..at + len]
    }

    /// Reads the entry at `at`, makes `key` its key and moves on; lends the value.
    fn read(&self, at: &mut usize, key: &mut Vec<u8>) -> &[u8] {
        let shared = read_varint(&self.bytes, at);
        let unshared = read_varint(&self.bytes, at);
        let value_len = read_varint(&self.bytes, at);
        key.truncate(shared);
        key.extend_from_slice(&self.bytes[*at..*at + unshared]);
        *at += unshared + value_len;
        &self.bytes[*at - value_len..*at]
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
fn read_varint(bytes: &[u8], at: &mut usize) -> usize {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
        shift += 7;
    }
}
