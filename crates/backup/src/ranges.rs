//! Reads objects in requests of a few MiB, each gone on with where it was cut. So no request takes
//! long, however large the object and slow the line, and nothing is asked for twice.

use crate::destination::Destination;
use crate::error::{Error, Result};
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::{GetOptions, GetRange, ObjectStoreExt};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Bytes that are asked for in one request.
pub(crate) const RANGE_BYTES: u64 = 4 << 20;
/// Requests of one object that are under way at the same time.
const AHEAD: usize = 2;
/// Tries in a row that bring nothing.
const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Why a request did not bring all that it was for.
pub(crate) enum Cut {
    /// It may, if what is missing is asked for again.
    Again(Error),
    /// It never will.
    Final(Error),
}

/// Returns whether the same request may do better.
fn is_passing(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::Generic { .. })
}

impl Destination {
    /// The bytes `part` of an object, in order, a few MiB at a time. An object that does not exist, or
    /// ends before the part does, is damaged.
    pub(crate) fn read(&self, name: &str, part: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let (this, name): (_, Arc<str>) = (self.clone(), name.into());
        let end = part.end;
        let ranges = part.step_by(RANGE_BYTES as usize);
        let ranges = ranges.map(move |at| at..(at + RANGE_BYTES).min(end));
        let read = move |range| {
            let (this, name) = (this.clone(), Arc::clone(&name));
            async move { this.read_range(&name, range, end).await }
        };
        stream::iter(ranges).map(read).buffered(AHEAD).boxed()
    }

    /// The bytes `range` of an object that has at least `end`.
    async fn read_range(&self, name: &str, range: Range<u64>, end: u64) -> Result<Bytes> {
        let mut read = BytesMut::with_capacity((range.end - range.start) as usize);
        let (mut tries, mut pause) = (0, FIRST_PAUSE);
        loop {
            let before = read.len();
            let rest = range.start + before as u64..range.end;
            let cut = match self.read_some(name, rest, end, &mut read).await {
                Ok(()) => return Ok(read.freeze()),
                Err(Cut::Final(error)) => return Err(error),
                Err(Cut::Again(error)) => error,
            };
            if read.len() > before {
                (tries, pause) = (0, FIRST_PAUSE);
            }
            tries += 1;
            if tries == ATTEMPTS {
                return Err(cut);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// Asks for the bytes `range` once, and adds to `read` what comes of them.
    async fn read_some(
        &self,
        name: &str,
        range: Range<u64>,
        end: u64,
        read: &mut BytesMut,
    ) -> Result<(), Cut> {
        let ends_early = |size| {
            let what = format!("it ends early; {end} bytes were expected");
            Cut::Final(Error::damaged(name, size, what))
        };
        let bounded = Some(GetRange::Bounded(range.clone()));
        let options = GetOptions { range: bounded, ..GetOptions::default() };
        let found = match self.store().get_opts(&self.path(name), options).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => {
                return Err(Cut::Final(Error::damaged(name, 0, "it is missing")));
            }
            // Stores have several words for a part that begins behind the end.
            Err(error) => match self.store().head(&self.path(name)).await {
                Ok(found) if found.size < end => return Err(ends_early(found.size)),
                _ => return Err(self.cut(name, error)),
            },
        };
        if found.meta.size < end {
            return Err(ends_early(found.meta.size));
        }
        let mut missing = range.end - range.start;
        let mut body = found.into_stream();
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(|error| self.cut(name, error))?;
            let Some(rest) = missing.checked_sub(piece.len() as u64) else {
                let what = "the object store returned too many bytes";
                return Err(Cut::Final(Error::damaged(name, range.end, what)));
            };
            missing = rest;
            read.extend_from_slice(&piece);
        }
        match missing {
            0 => Ok(()),
            _ => {
                let what = "the object store returned too few bytes";
                Err(Cut::Again(Error::damaged(name, range.end - missing, what)))
            }
        }
    }

    /// Decides whether a failed request is retried.
    pub(crate) fn cut(&self, name: &str, error: object_store::Error) -> Cut {
        let passing = is_passing(&error);
        let error = self.error("read", name, error);
        if passing { Cut::Again(error) } else { Cut::Final(error) }
    }
}
