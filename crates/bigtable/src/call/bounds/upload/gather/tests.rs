//! Bodies of every cut and length, against what they hold and what is given on.

use super::super::pool::Uploads;
use super::*;
use crate::call::bounds::shares::Shares;
use std::future::poll_fn;
use tonic::Code;

/// A body of the given pieces, which then ends or is silent for ever.
struct Pieces {
    pieces: VecDeque<Bytes>,
    ends: bool,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.pieces.pop_front() {
            Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            None if self.ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

fn message(len: usize) -> Bytes {
    let prefix = [&[0], &(len as u32).to_be_bytes()[..]].concat();
    [prefix, (0..len).map(|at| (at % 251) as u8).collect()].concat().into()
}

fn upload(uploads: &Arc<Uploads>, all: &Bytes, piece: usize, ends: bool) -> Upload {
    let pieces = all.chunks(piece).map(Bytes::copy_from_slice).collect();
    let body = Body::new(Pieces { pieces, ends });
    Upload::new(body, 1 << 20, Arc::new(nothing(uploads)))
}

/// The bytes of an upload without an identity.
fn nothing(uploads: &Arc<Uploads>) -> Held {
    Held::nothing(uploads, &Shares::new(9, 9).of(None))
}

async fn next(upload: &mut Upload) -> Option<Result<Bytes, Status>> {
    let frame = poll_fn(|context| Pin::new(&mut *upload).poll_frame(context)).await;
    frame.map(|frame| frame.map(|frame| frame.into_data().unwrap()))
}

/// Polls once; returns whether the upload waits.
async fn waits(upload: &mut Upload) -> bool {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *upload).poll_frame(context).is_pending())).await
}

async fn refused(upload: &mut Upload) -> (Code, String) {
    loop {
        match next(upload).await.expect("the upload is refused") {
            Ok(_) => {}
            Err(status) => return (status.code(), status.message().to_owned()),
        }
    }
}

#[tokio::test]
async fn a_message_is_given_on_unchanged_wherever_it_is_cut() {
    let uploads = Uploads::new(1 << 20, &Arc::default());
    for len in [0, 1, 300, 5_000, 200_000] {
        let all = message(len);
        for piece in [1, 2, 3, 7, 4_095, 4_096, 16_384, 1 << 20] {
            let mut upload = upload(&uploads, &all, piece, true);
            let mut got = Vec::new();
            while let Some(piece) = next(&mut upload).await {
                got.extend_from_slice(&piece.unwrap());
            }
            assert_eq!(got, all, "{len} bytes in pieces of {piece}");
        }
    }
}

#[tokio::test]
async fn nothing_is_given_on_or_reserved_before_the_message_is_whole() {
    let uploads = Uploads::new(1 << 20, &Arc::default());
    let all = message(1 << 20).slice(..100_000);
    let mut upload = upload(&uploads, &all, 100, false);
    assert!(waits(&mut upload).await);
    let State::Gathering(gathering) = &upload.state else { panic!("the message is not whole") };
    assert_eq!(gathering.len, all.len());
    let capacity = gathering.small.capacity() + gathering.pieces.len() * 2 * COPIED_PIECE_BYTES;
    assert!(capacity <= 4 * COPIED_PIECE_BYTES, "{capacity} bytes are reserved");
    assert!(nothing(&uploads).grow((1 << 20) - 99_999).is_err(), "they are counted");
}

#[tokio::test]
async fn a_claim_over_the_limit_is_refused_at_once() {
    let uploads = Uploads::new(1 << 20, &Arc::default());
    for piece in [1, 5, 100] {
        let claim = message((1 << 20) + 1).slice(..100);
        let (code, words) = refused(&mut upload(&uploads, &claim, piece, false)).await;
        assert_eq!(code, Code::InvalidArgument);
        assert!(words.contains("1048577") && words.contains("1048576"), "{words}");
    }
}

#[tokio::test]
async fn uploads_that_hold_too_much_together_are_told_to_come_later() {
    let uploads = Uploads::new(100_000, &Arc::default());
    let half = message(90_000).slice(..60_000);
    let mut first = upload(&uploads, &half, 10_000, false);
    assert!(waits(&mut first).await);
    let (code, words) = refused(&mut upload(&uploads, &half, 10_000, false)).await;
    assert_eq!(code, Code::ResourceExhausted);
    assert!(words.contains("100000 bytes"), "{words}");
    let mut small = upload(&uploads, &message(100), 50, true);
    assert!(next(&mut small).await.unwrap().is_ok(), "what fits is taken");
    drop((first, small));
    assert!(waits(&mut upload(&uploads, &half, 10_000, false)).await);
}

#[tokio::test]
async fn bytes_that_make_no_message_are_refused() {
    let uploads = Uploads::new(1 << 20, &Arc::default());
    let short = message(100).slice(..50);
    let (code, words) = refused(&mut upload(&uploads, &short, 20, true)).await;
    assert_eq!((code, &words[..]), (Code::InvalidArgument, "the request ends within its message"));
    let two: Bytes = [message(100), message(1)].concat().into();
    for piece in [20, 105, 200] {
        let (code, words) = refused(&mut upload(&uploads, &two, piece, true)).await;
        assert_eq!(code, Code::InvalidArgument, "{piece}");
        assert_eq!(words, "the request has bytes after its message");
    }
}

#[tokio::test]
async fn an_upload_earns_its_time_by_bytes() {
    let uploads = Uploads::new(1 << 20, &Arc::default());
    let all = message(1 << 20).slice(..2 * BYTES_A_SECOND);
    let mut upload = upload(&uploads, &all, 1_000, false);
    assert!(waits(&mut upload).await);
    let too_slow_after = |upload: &mut Upload, time: Duration| {
        let State::Gathering(gathering) = &mut upload.state else { panic!("it is not whole") };
        // The time is over when its timer goes off and its beginning lies that far back.
        gathering.began_at = Instant::now() - time;
        gathering.slow.as_mut().reset(Instant::now());
    };
    too_slow_after(&mut upload, PATIENCE + Duration::from_secs(1));
    assert!(waits(&mut upload).await, "two seconds were earned");
    too_slow_after(&mut upload, PATIENCE + Duration::from_secs(3));
    let (code, words) = refused(&mut upload).await;
    assert_eq!(code, Code::ResourceExhausted);
    assert!(words.contains("too slowly"), "{words}");
}
