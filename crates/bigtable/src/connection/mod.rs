//! The bytes of one connection on their way to and from HTTP/2: a guard that keeps one client from
//! taking the others' share.
//!
//! The codec above reads frames for as long as there are any, in the connection's own task, and
//! starts a task for each call. A client that sends calls and takes them back at once, or pings
//! without an end, thus fills the run queues before anybody else has a turn.
//!
//! Invariants:
//! 1. **Turns.** After frames for [`TURN`] units of work a connection lets all other tasks run.
//!    It reads little at a time except within the payload of a frame.
//! 2. **Resets.** Streams that the client ends early are taken no faster than
//!    [`ConnectionLimits::resets`]: then the connection is not read for a while. Nothing is refused, since
//!    clients that hedge their reads do the same.
//! 3. **Pings and settings.** Above [`PINGS`] and [`SETTINGS`] the connection ends with GOAWAY and
//!    `ENHANCE_YOUR_CALM`. Headers and data that the server sends make the pings allowed again:
//!    clients measure the way with a ping for every few messages.
//! 4. **Silence.** A connection ends if the client's first frame does not come within
//!    [`ConnectionLimits::handshake`], or if only pings come and go for [`ConnectionLimits::idle`].
//! 5. **Age.** A connection that is as old as [`ConnectionLimits::age`] tells its client to make another,
//!    with a GOAWAY that leaves the calls in flight alone. It ends [`ConnectionLimits::grace`] later.
//! 6. A GOAWAY of the guard's own is written between two frames of the codec, or not at all.
//!
//! Bytes pass unchanged. The guard knows frames by their heads alone (`frames.rs`).

mod allowance;
mod frames;
mod places;

pub use places::{NoPlace, Place, Places};

use allowance::{Allowance, Rate};
use bytes::{Buf, Bytes};
use frames::{FrameWalk, Head, PREFACE_LEN, kind};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use tonic::transport::server::Connected;

/// Units of work of a turn.
const TURN: usize = 64;
/// Units of a frame that begins a call, of another frame, and bytes of a payload that are a unit.
const CALL_UNITS: usize = 4;
const FRAME_UNITS: usize = 1;
const UNIT_BYTES: usize = 16 << 10;
/// Bytes read at once beyond the payload that has begun.
const READ_BYTES: usize = 2 << 10;
/// Bytes read at once at most.
const READ_BYTES_MAX: usize = 64 << 10;

/// Pings of a client to which the server sends nothing.
const PINGS: Rate = Rate { burst: 200, every: Duration::from_secs(1) };
/// Part of the age by which connections differ at most.
const AGE_SPREAD: f64 = 10.0;
/// Stream that no client comes to: a GOAWAY that names it leaves all calls alone.
const LAST_STREAM: u32 = u32::MAX >> 1;

/// Changes of settings by a client.
const SETTINGS: Rate = Rate { burst: 100, every: Duration::from_secs(1) };

/// Bounds that one connection keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Time until the client's first frame.
    pub handshake: Duration,
    /// Time without anything but pings.
    pub idle: Duration,
    /// Age at which the client is told to make another connection. Each connection gets up to a
    /// tenth more, so that connections that were made together do not end together.
    pub age: Option<Duration>,
    /// Time that calls in flight have after that.
    pub grace: Duration,
    /// Calls a second that the client may take back for ever; a second's worth of them at once.
    pub resets: u32,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            idle: Duration::from_secs(3_600),
            age: None,
            grace: Duration::from_secs(60),
            resets: 1_000,
        }
    }
}

impl ConnectionLimits {
    fn reset_rate(self) -> Rate {
        let burst = self.resets.max(1);
        Rate { burst, every: Duration::from_secs(1) / burst }
    }

    /// Draws the time at which a connection that is made now is too old.
    fn draw_old_at(self, now: Instant) -> Option<Instant> {
        let part = f64::from(RandomState::new().hash_one(()) as u32) / f64::from(u32::MAX);
        self.age.and_then(|age| now.checked_add(age + age.mul_f64(part / AGE_SPREAD)))
    }
}

/// Reasons for which the guard ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Pings,
    Settings,
    Idle,
    Age,
    NoHandshake,
}

impl Ending {
    /// Returns the error code of HTTP/2.
    fn code(self) -> u32 {
        match self {
            Self::Pings | Self::Settings => 11,
            Self::Idle | Self::Age | Self::NoHandshake => 0,
        }
    }

    /// Returns the words that gRPC clients know, where there are any.
    fn words(self) -> &'static str {
        match self {
            Self::Pings => "too_many_pings",
            Self::Settings => "too_many_settings",
            Self::Idle => "max_idle",
            Self::Age => "max_age",
            Self::NoHandshake => "handshake_timeout",
        }
    }
}

/// A connection that keeps its limits. See the file header.
#[derive(Debug)]
pub struct Guarded<IO> {
    io: IO,
    limits: ConnectionLimits,
    received: FrameWalk,
    sent: FrameWalk,
    /// Units of work in this turn.
    units: usize,
    resets: Allowance,
    pings: Allowance,
    settings: Allowance,
    greeted: bool,
    last_stream: u32,
    active_at: Instant,
    /// Time at which the connection is too old, or its grace is over.
    old_at: Option<Instant>,
    /// The client was told to make another connection.
    retired: bool,
    /// A frame of the guard's own that is still to be written.
    own: Bytes,
    /// Goes off when one of the times may be over.
    clock: Pin<Box<Sleep>>,
    /// Goes off when the connection is read again.
    pause: Option<Pin<Box<Sleep>>>,
    ending: Option<Ending>,
    _place: Option<Place>,
}

impl<IO> Guarded<IO> {
    /// Guards `io`, of which nothing was read or written.
    pub fn new(io: IO, limits: ConnectionLimits) -> Self {
        let now = Instant::now();
        Self {
            io,
            limits,
            received: FrameWalk::after(PREFACE_LEN),
            sent: FrameWalk::after(0),
            units: 0,
            resets: Allowance::new(limits.reset_rate(), now),
            pings: Allowance::new(PINGS, now),
            settings: Allowance::new(SETTINGS, now),
            greeted: false,
            last_stream: 0,
            active_at: now,
            old_at: limits.draw_old_at(now),
            retired: false,
            own: Bytes::new(),
            clock: Box::pin(tokio::time::sleep_until(now + limits.handshake)),
            pause: None,
            ending: None,
            _place: None,
        }
    }

    /// Keeps `place` for as long as the connection is open.
    #[must_use]
    pub fn holding(self, place: Place) -> Self {
        Self { _place: Some(place), ..self }
    }

    /// Counts what the client sent.
    fn count_received(&mut self, bytes: &[u8]) {
        self.units += bytes.len() / UNIT_BYTES;
        let mut heads = std::mem::replace(&mut self.received, FrameWalk::after(0));
        heads.follow(bytes, |head| self.received_frame(head));
        self.received = heads;
    }

    /// Notes that the client has greeted: from now on it may be silent for longer.
    fn greet(&mut self) {
        self.greeted = true;
        self.active_at = Instant::now();
        let next = self.next_time();
        self.clock.as_mut().reset(next);
    }

    /// Returns the time at which a connection that has greeted is to be looked at.
    fn next_time(&self) -> Instant {
        let idle_at = self.active_at + self.limits.idle;
        self.old_at.map_or(idle_at, |old_at| old_at.min(idle_at))
    }

    fn received_frame(&mut self, head: Head) {
        if !self.greeted {
            self.greet();
        }
        self.units += if head.kind == kind::HEADERS { CALL_UNITS } else { FRAME_UNITS };
        match head.kind {
            kind::HEADERS | kind::DATA => {
                self.last_stream = self.last_stream.max(head.stream());
                self.active_at = Instant::now();
            }
            kind::RST_STREAM => {
                if let Some(wait) = self.resets.take(1, Instant::now()) {
                    self.pause = Some(Box::pin(tokio::time::sleep(wait)));
                }
            }
            kind::PING if !head.is_answer() => {
                let over = self.pings.take(1, Instant::now());
                self.ending = self.ending.or(over.map(|_| Ending::Pings));
            }
            kind::SETTINGS if !head.is_answer() => {
                let over = self.settings.take(1, Instant::now());
                self.ending = self.ending.or(over.map(|_| Ending::Settings));
            }
            _ => {}
        }
    }

    /// Counts what the server sent.
    fn count_sent(&mut self, bytes: &[u8]) {
        let mut served = false;
        self.sent.follow(bytes, |head| served |= matches!(head.kind, kind::HEADERS | kind::DATA));
        if served {
            self.active_at = Instant::now();
            self.pings.restore(self.active_at);
        }
    }

    /// Sets the ending of a connection whose time is over; wakes the task when that may be so.
    fn poll_clock(&mut self, context: &mut Context<'_>) {
        while self.ending.is_none() && self.clock.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            if !self.greeted {
                self.ending = Some(Ending::NoHandshake);
            } else if self.active_at + self.limits.idle <= now {
                self.ending = Some(Ending::Idle);
            } else if self.old_at.is_some_and(|old_at| old_at <= now) {
                if std::mem::replace(&mut self.retired, true) {
                    self.ending = Some(Ending::Age);
                } else {
                    self.own = goodbye(LAST_STREAM, Ending::Age);
                    self.old_at = Some(now + self.limits.grace);
                }
            }
            let next = self.next_time();
            self.clock.as_mut().reset(next);
        }
    }

    /// Waits as long as the connection must not be read.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        if self.units >= TURN {
            self.units = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

impl<IO: AsyncWrite + Unpin> Guarded<IO> {
    /// Writes the guard's own frame, if it has one and the codec is between two of its frames.
    fn poll_own(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.own.is_empty() && self.sent.is_between_frames() {
            let len = ready!(Pin::new(&mut self.io).poll_write(context, &self.own))?;
            if len == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.own.advance(len);
        }
        Poll::Ready(Ok(()))
    }

    /// Tells the client why the connection ends, if the way is free. Returns the error that ends it.
    fn end(&mut self, ending: Ending, context: &mut Context<'_>) -> io::Error {
        if self.own.is_empty() && self.greeted {
            self.own = goodbye(self.last_stream, ending);
        }
        // A client that takes nothing more does without.
        let _ = self.poll_own(context);
        let _ = Pin::new(&mut self.io).poll_flush(context);
        io::Error::new(io::ErrorKind::ConnectionAborted, ending.words())
    }

    /// Looks at the clock and writes the guard's own frame before the codec writes.
    fn poll_before_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_clock(context);
        match self.ending {
            Some(ending) => Poll::Ready(Err(self.end(ending, context))),
            None => self.poll_own(context),
        }
    }
}

/// Returns a GOAWAY frame (RFC 9113, section 6.8).
fn goodbye(last_stream: u32, ending: Ending) -> Bytes {
    let words = ending.words().as_bytes();
    let len = (8 + words.len() as u32).to_be_bytes();
    let head = [&len[1..], &[kind::GOAWAY, 0, 0, 0, 0, 0]].concat();
    [&head, &last_stream.to_be_bytes()[..], &ending.code().to_be_bytes(), words].concat().into()
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Guarded<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.poll_clock(context);
        if this.ending.is_none() {
            let _ = this.poll_own(context)?;
            ready!(this.poll_turn(context));
        }
        if let Some(ending) = this.ending {
            return Poll::Ready(Err(this.end(ending, context)));
        }
        let wanted = (this.received.payload_left() + READ_BYTES).min(READ_BYTES_MAX);
        let mut part = ReadBuf::new(into.initialize_unfilled_to(wanted.min(into.remaining())));
        match Pin::new(&mut this.io).poll_read(context, &mut part) {
            Poll::Ready(Ok(())) => {
                this.count_received(part.filled());
                let len = part.filled().len();
                into.advance(len);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                this.units = 0;
                Poll::Pending
            }
        }
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Guarded<IO> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_before_write(context))?;
        let len = ready!(Pin::new(&mut this.io).poll_write(context, bytes))?;
        this.count_sent(&bytes[..len]);
        Poll::Ready(Ok(len))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_before_write(context))?;
        let len = ready!(Pin::new(&mut this.io).poll_write_vectored(context, parts))?;
        let mut left = len;
        for part in parts {
            let written = left.min(part.len());
            this.count_sent(&part[..written]);
            left -= written;
        }
        Poll::Ready(Ok(len))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(context)
    }
}

impl<IO: Connected> Connected for Guarded<IO> {
    type ConnectInfo = IO::ConnectInfo;

    fn connect_info(&self) -> IO::ConnectInfo {
        self.io.connect_info()
    }
}

#[cfg(test)]
mod tests;
