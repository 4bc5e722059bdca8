//! Heads of HTTP/2 frames in a stream of bytes that comes in pieces (RFC 9113, section 4.1).
//!
//! ```text
//! length u24 | type u8 | flags u8 | reserved bit, stream u31 | payload of `length` bytes
//! ```
//!
//! Invariant: only heads are looked at, and no length makes anything grow. Bytes that are no frames
//! are taken for some; the codec that reads the same bytes refuses them.

/// First bytes of a client.
pub(super) const PREFACE_LEN: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
const HEAD_LEN: usize = 9;

/// Types of frames that are told apart.
pub(super) mod kind {
    pub(in crate::connection) const DATA: u8 = 0;
    pub(in crate::connection) const HEADERS: u8 = 1;
    pub(in crate::connection) const RST_STREAM: u8 = 3;
    pub(in crate::connection) const SETTINGS: u8 = 4;
    pub(in crate::connection) const PING: u8 = 6;
    pub(in crate::connection) const GOAWAY: u8 = 7;
}
/// Flag of PING and SETTINGS that are answers.
const ACK: u8 = 1;

/// The head of one HTTP/2 frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: u8,
    flags: u8,
    len: usize,
    stream: u32,
}

impl Head {
    /// Returns whether a PING or SETTINGS answers one of the other side.
    pub(super) fn is_answer(self) -> bool {
        self.flags & ACK != 0
    }

    pub(super) fn stream(self) -> u32 {
        self.stream
    }
}

/// Follows one direction of a connection from frame to frame.
#[derive(Debug)]
pub(super) struct FrameWalk {
    /// Bytes of the preface or of a payload that are still to come.
    skip: usize,
    head: [u8; HEAD_LEN],
    head_len: usize,
}

impl FrameWalk {
    /// Follows a direction whose first `preface` bytes are no frame.
    pub(super) fn after(preface: usize) -> Self {
        Self { skip: preface, head: [0; HEAD_LEN], head_len: 0 }
    }

    /// Returns how many bytes are left of the payload that has begun.
    pub(super) fn payload_left(&self) -> usize {
        self.skip
    }

    /// Returns whether the last frame is whole and no other has begun.
    pub(super) fn is_between_frames(&self) -> bool {
        self.skip == 0 && self.head_len == 0
    }

    /// Follows `bytes`, and shows the heads that end in them.
    pub(super) fn follow(&mut self, mut bytes: &[u8], mut seen: impl FnMut(Head)) {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let wanted = (HEAD_LEN - self.head_len).min(bytes.len());
            if wanted == 0 {
                return;
            }
            self.head[self.head_len..self.head_len + wanted].copy_from_slice(&bytes[..wanted]);
            self.head_len += wanted;
            bytes = &bytes[wanted..];
            if self.head_len == HEAD_LEN {
                let [a, b, c, kind, flags, stream @ ..] = self.head;
                let len = u32::from_be_bytes([0, a, b, c]) as usize;
                let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
                (self.skip, self.head_len) = (len, 0);
                seen(Head { kind, flags, len, stream });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let len = (payload.len() as u32).to_be_bytes();
        [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    #[test]
    fn heads_are_found_wherever_the_bytes_are_cut() {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let frames = [
            frame(kind::SETTINGS, 0, 0, &[]),
            frame(kind::HEADERS, 4, 1, b"headers"),
            frame(kind::DATA, 0, 1, &[7; 300]),
            frame(kind::SETTINGS, ACK, 0, &[]),
            frame(kind::RST_STREAM, 0, 1 | 1 << 31, &[0, 0, 0, 8]),
        ];
        let all = [preface.to_vec(), frames.concat()].concat();
        let head = |kind, flags, len, stream| Head { kind, flags, len, stream };
        let want = [
            head(kind::SETTINGS, 0, 0, 0),
            head(kind::HEADERS, 4, 7, 1),
            head(kind::DATA, 0, 300, 1),
            head(kind::SETTINGS, ACK, 0, 0),
            head(kind::RST_STREAM, 0, 4, 1),
        ];
        for piece in 1..all.len() {
            let (mut walk, mut got) = (FrameWalk::after(PREFACE_LEN), Vec::new());
            for part in all.chunks(piece) {
                walk.follow(part, |head| got.push(head));
            }
            assert_eq!(got, want, "pieces of {piece}");
            assert!(walk.is_between_frames());
        }
    }

    #[test]
    fn a_begun_frame_tells_what_is_left() {
        let mut walk = FrameWalk::after(0);
        let data = frame(kind::DATA, 0, 1, &[7; 100]);
        walk.follow(&data[..5], |_| panic!("no head is whole"));
        assert!(!walk.is_between_frames());
        walk.follow(&data[5..20], |head| assert_eq!(head.kind, kind::DATA));
        assert_eq!(walk.payload_left(), 89);
        walk.follow(&data[20..], |_| panic!("the payload is no head"));
        assert!(walk.is_between_frames());
    }
}
