//! Progress on standard error: a bar on a terminal, a line every few seconds elsewhere.

use base::env::{Clock, SystemClock};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::Duration;

const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows how far the import is.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    input_bytes: Option<u64>,
    last: Duration,
}

impl Progress {
    /// Progress through `input_bytes`, if they are known.
    pub(crate) fn new(input_bytes: Option<u64>) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let (bar, form) = match input_bytes {
                Some(len) => (
                    ProgressBar::new(len),
                    "{bar:30} {percent}% of {total_bytes}, {binary_bytes_per_sec}, {eta} left  {msg}",
                ),
                None => (
                    ProgressBar::new_spinner(),
                    "{spinner} {bytes}, {binary_bytes_per_sec}  {msg}",
                ),
            };
            let style = ProgressStyle::with_template(form).expect("the template is well-formed");
            bar.with_style(style)
        });
        Self { bar, input_bytes, last: SystemClock.monotonic() }
    }

    /// Shows that `bytes` of the input are done.
    pub(crate) fn show(&mut self, bytes: u64, rows: u64, rejected: u64) {
        let message = format!("{} rows, {} rejected", HumanCount(rows), HumanCount(rejected));
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
            bar.set_message(message);
            return;
        }
        let now = SystemClock.monotonic();
        if now.saturating_sub(self.last) >= LINE_EVERY {
            self.last = now;
            let of = self.input_bytes.map(|len| format!(" of {}", HumanBytes(len)));
            let of = of.unwrap_or_default();
            self.say(&format!("{}{of}: {message}", HumanBytes(bytes)));
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
