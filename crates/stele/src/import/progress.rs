//! Progress on standard error: a bar on a terminal, a line every few seconds elsewhere.

use base::env::{Clock, SystemClock};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::Duration;

const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows how far the import is.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    total: Total,
    last: Duration,
}

/// Unit and total of the progress.
#[derive(Clone, Copy)]
enum Total {
    Bytes(Option<u64>),
    Rows(u64),
}

impl Progress {
    /// Progress through `input_bytes`, if they are known.
    pub(crate) fn new(input_bytes: Option<u64>) -> Self {
        Self::through(Total::Bytes(input_bytes))
    }

    /// Progress through `rows`.
    pub(crate) fn of_rows(rows: u64) -> Self {
        Self::through(Total::Rows(rows))
    }

    fn through(total: Total) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let (bar, form) = match total {
                Total::Rows(rows) => (
                    ProgressBar::new(rows),
                    "{bar:30} {percent}% of {human_len} rows, {per_sec}, {eta} left",
                ),
                Total::Bytes(Some(len)) => (
                    ProgressBar::new(len),
                    "{bar:30} {percent}% of {total_bytes}, {binary_bytes_per_sec}, {eta} left  {msg}",
                ),
                Total::Bytes(None) => (
                    ProgressBar::new_spinner(),
                    "{spinner} {bytes}, {binary_bytes_per_sec}  {msg}",
                ),
            };
            let style = ProgressStyle::with_template(form).expect("the template is well-formed");
            bar.with_style(style)
        });
        Self { bar, total, last: SystemClock.monotonic() }
    }

    /// Shows that `done` bytes of the input, or rows, are done.
    pub(crate) fn show(&mut self, done: u64, rows: u64, rejected: u64) {
        let message = format!("{} rows, {} rejected", HumanCount(rows), HumanCount(rejected));
        self.tell(done, message);
    }

    /// Shows that `done` bytes of the input, or rows, are done, and `message`.
    pub(crate) fn tell(&mut self, done: u64, message: String) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(message);
            return;
        }
        let now = SystemClock.monotonic();
        if now.saturating_sub(self.last) >= LINE_EVERY {
            self.last = now;
            let of = |len: Option<u64>| len.map(|len| format!(" of {}", HumanBytes(len)));
            self.say(&match self.total {
                Total::Rows(all) => format!("{} of {} rows", HumanCount(done), HumanCount(all)),
                Total::Bytes(len) => {
                    format!("{}{}: {message}", HumanBytes(done), of(len).unwrap_or_default())
                }
            });
        }
    }

    /// Prints a line above the bar.
    pub(crate) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| writeln!(std::io::stderr(), "{line}")),
            None => writeln!(std::io::stderr(), "{line}"),
        }
        .unwrap_or(()); // progress that nobody can see is no reason to stop
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
