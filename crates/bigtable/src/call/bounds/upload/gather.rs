//! A request's body that gives its message on when it is whole.

use super::pool::Held;
use crate::call::bounds::refusal::Refusal;
use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;

/// A flag and the length of the message.
const PREFIX_LEN: usize = 5;
/// A piece below this size is copied to others: by itself it would keep a whole read buffer.
const SMALL_PIECE_BYTES: usize = 4 << 10;
const COPIED_PIECE_BYTES: usize = 64 << 10;
/// An upload has this time, and a second for each [`BYTES_A_SECOND`] that came.
const PATIENCE: Duration = Duration::from_secs(30);
const BYTES_A_SECOND: usize = 16 << 10;

/// A body that is gathered into one message.
#[derive(Debug)]
pub(in crate::call::bounds) struct Upload {
    body: Body,
    bytes_max: usize,
    held: Arc<Held>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The client sent nothing so far.
    Empty,
    Gathering(Box<Gathering>),
    /// The message is whole; its pieces are given on.
    Giving(VecDeque<Bytes>),
    /// The message was given on, or refused.
    Done,
}

/// A message of which a part came.
#[derive(Debug)]
struct Gathering {
    pieces: VecDeque<Bytes>,
    /// Small pieces, copied, which follow `pieces`.
    small: BytesMut,
    /// Bytes of `pieces` and `small`.
    len: usize,
    began_at: Instant,
    /// Goes off when the upload may be too slow.
    slow: Pin<Box<Sleep>>,
}

impl Gathering {
    fn new() -> Box<Self> {
        let began_at = Instant::now();
        let slow = Box::pin(tokio::time::sleep_until(began_at + PATIENCE));
        let (pieces, small) = (VecDeque::new(), BytesMut::new());
        Box::new(Self { pieces, small, len: 0, began_at, slow })
    }

    fn add(&mut self, piece: Bytes) {
        self.len += piece.len();
        if piece.len() < SMALL_PIECE_BYTES {
            self.small.extend_from_slice(&piece);
            if self.small.len() >= COPIED_PIECE_BYTES {
                self.seal();
            }
        } else {
            self.seal();
            self.pieces.push_back(piece);
        }
    }

    /// Ends the piece that small ones are copied to.
    fn seal(&mut self) {
        if !self.small.is_empty() {
            self.pieces.push_back(self.small.split().freeze());
        }
    }

    /// Returns the length of the message and its prefix, once the prefix came.
    fn whole_len(&self) -> Option<usize> {
        let bytes = self.pieces.iter().map(|piece| &piece[..]).chain([&self.small[..]]);
        let mut prefix = bytes.flatten().copied();
        let mut next = || prefix.next();
        next()?;
        Some(whole_len([next()?, next()?, next()?, next()?]))
    }

    /// Returns true if too little has come by now; else wakes the task when that may be so.
    fn is_too_slow(&mut self, context: &mut Context<'_>) -> bool {
        while self.slow.as_mut().poll(context).is_ready() {
            let earned = Duration::from_secs((self.len / BYTES_A_SECOND) as u64);
            let until = self.began_at + PATIENCE + earned;
            if until <= Instant::now() {
                return true;
            }
            self.slow.as_mut().reset(until);
        }
        false
    }
}

fn whole_len(len: [u8; 4]) -> usize {
    PREFIX_LEN + u32::from_be_bytes(len) as usize
}

impl Upload {
    /// Gathers the message of `body`, of at most `bytes_max` bytes, which count as `held`.
    pub(in crate::call::bounds) fn new(body: Body, bytes_max: usize, held: Arc<Held>) -> Self {
        Self { body, bytes_max, held, state: State::Empty }
    }

    /// Takes a piece. Returns it if it is the whole message.
    fn take(&mut self, piece: Bytes) -> Result<Option<Bytes>, Status> {
        if piece.is_empty() {
            return Ok(None);
        }
        match &mut self.state {
            State::Empty => {
                if let [_, a, b, c, d, ..] = piece[..] {
                    let whole = whole_len([a, b, c, d]);
                    self.check_len(whole)?;
                    if piece.len() == whole {
                        self.state = State::Done;
                        return Ok(Some(piece));
                    }
                }
                self.state = State::Gathering(Gathering::new());
                self.gather(piece)?;
            }
            State::Gathering(_) => self.gather(piece)?,
            State::Giving(_) | State::Done => return Err(second_message()),
        }
        Ok(None)
    }

    /// Keeps a piece of a message that is not whole without it.
    fn gather(&mut self, piece: Bytes) -> Result<(), Status> {
        let State::Gathering(gathering) = &mut self.state else { return Ok(()) };
        self.held.grow(piece.len())?;
        gathering.add(piece);
        let (Some(whole), len) = (gathering.whole_len(), gathering.len) else { return Ok(()) };
        self.check_len(whole)?;
        if len > whole {
            return Err(second_message());
        }
        if len == whole
            && let State::Gathering(mut gathering) = std::mem::replace(&mut self.state, State::Done)
        {
            gathering.seal();
            self.state = State::Giving(gathering.pieces);
        }
        Ok(())
    }

    fn is_too_slow(&mut self, context: &mut Context<'_>) -> bool {
        match &mut self.state {
            State::Gathering(gathering) => gathering.is_too_slow(context),
            _ => false,
        }
    }

    fn check_len(&self, whole: usize) -> Result<(), Status> {
        let len = whole - PREFIX_LEN;
        if len <= self.bytes_max {
            return Ok(());
        }
        Err(Status::invalid_argument(format!(
            "the request has {len} bytes; a request of this method may have {}",
            self.bytes_max
        )))
    }

    /// Refuses the request; nothing of it is kept.
    fn refuse(&mut self, status: Status) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.state = State::Done;
        self.body = Body::empty();
        Poll::Ready(Some(Err(status)))
    }
}

fn second_message() -> Status {
    Status::invalid_argument("the request has bytes after its message")
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        loop {
            if let State::Giving(pieces) = &mut this.state {
                match pieces.pop_front() {
                    Some(piece) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                    None => this.state = State::Done,
                }
            }
            let frame = match Pin::new(&mut this.body).poll_frame(context) {
                Poll::Ready(frame) => frame,
                Poll::Pending if this.is_too_slow(context) => {
                    let slow = this.held.uploads().refuse(Refusal::SlowUpload, BYTES_A_SECOND);
                    return this.refuse(slow);
                }
                Poll::Pending => return Poll::Pending,
            };
            match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => match this.take(piece) {
                        Ok(Some(whole)) => return Poll::Ready(Some(Ok(Frame::data(whole)))),
                        Ok(None) => {}
                        Err(status) => return this.refuse(status),
                    },
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                None if matches!(this.state, State::Gathering(_)) => {
                    let status = "the request ends within its message";
                    return this.refuse(Status::invalid_argument(status));
                }
                ended => return Poll::Ready(ended),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self.state {
            State::Empty | State::Done => self.body.is_end_stream(),
            State::Gathering(_) | State::Giving(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests;
