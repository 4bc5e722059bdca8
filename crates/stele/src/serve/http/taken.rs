//! A connection whose client takes what is written to it.
//!
//! Invariant: once a write has had to wait, all that was written is taken within a time, however little
//! at a time the client takes. Else writes fail, which ends the connection.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A connection that fails when its client takes too long.
#[derive(Debug)]
pub(super) struct Taken<C> {
    connection: C,
    time: Duration,
    /// End of the time, while the client has not taken all.
    end: Option<Pin<Box<Sleep>>>,
}

impl<C> Taken<C> {
    /// Returns `connection`, whose client has `time` to take what is written.
    pub(super) fn within(time: Duration, connection: C) -> Self {
        Self { connection, time, end: None }
    }

    /// Returns `outcome` of a write unless the time is over.
    fn in_time<T>(
        &mut self,
        outcome: Poll<Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<Result<T>> {
        let end = match &mut self.end {
            Some(end) => end,
            None if outcome.is_pending() => {
                self.end.insert(Box::pin(tokio::time::sleep(self.time)))
            }
            None => return outcome,
        };
        match end.as_mut().poll(context) {
            Poll::Pending => outcome,
            Poll::Ready(()) => {
                let text = "the client does not take the answer";
                Poll::Ready(Err(Error::new(ErrorKind::TimedOut, text)))
            }
        }
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Taken<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.connection).poll_read(context, into)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Taken<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let outcome = Pin::new(&mut self.connection).poll_write(context, bytes);
        self.in_time(outcome, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let outcome = Pin::new(&mut self.connection).poll_write_vectored(context, parts);
        self.in_time(outcome, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    /// Flushes the connection. Its user calls this when it has written all that it has.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let outcome = Pin::new(&mut self.connection).poll_flush(context);
        if matches!(outcome, Poll::Ready(Ok(()))) {
            self.end = None;
        }
        self.in_time(outcome, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let outcome = Pin::new(&mut self.connection).poll_shutdown(context);
        self.in_time(outcome, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const TIME: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_little_now_and_then_is_not_waited_for() {
        let (mut client, connection) = duplex(10);
        let mut taken = Taken::within(TIME, connection);
        taken.write_all(&[1; 10]).await.unwrap();
        tokio::time::sleep(2 * TIME).await;
        let begun = tokio::time::Instant::now();
        let mut few = tokio::time::interval(TIME / 10);
        let reader = async {
            loop {
                few.tick().await;
                client.read_u8().await.unwrap();
            }
        };
        let failed = tokio::select! {
            written = taken.write_all(&[2; 1_000]) => written.unwrap_err(),
            () = reader => unreachable!("it reads for ever"),
        };
        assert_eq!((failed.kind(), begun.elapsed()), (ErrorKind::TimedOut, TIME));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_one_answer_is_not_that_of_the_next() {
        let (mut client, connection) = duplex(10);
        let mut taken = Taken::within(TIME, connection);
        for _ in 0..5 {
            let slow = async {
                tokio::time::sleep(TIME / 2).await;
                client.read_exact(&mut [0; 20]).await.unwrap();
            };
            let answer = async {
                taken.write_all(&[1; 20]).await.unwrap();
                taken.flush().await.unwrap();
            };
            tokio::join!(slow, answer);
        }
    }
}
