//! SIGTERM, SIGINT and SIGHUP as something to wait for.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The signals that stop the server; from `catch` on neither ends the process by itself.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts catching.
    pub(crate) fn catch() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for either.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Counts SIGHUP from now on, which no longer ends the process.
pub(crate) fn hangups() -> std::io::Result<watch::Receiver<u64>> {
    let mut hangup = signal(SignalKind::hangup())?;
    let (count, hangups) = watch::channel(0);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            count.send_modify(|count| *count += 1);
        }
    });
    Ok(hangups)
}
