//! Progress through files on standard error: a bar on a terminal, a line every few seconds
//! elsewhere. Nothing where all is done before the first line would be due.

use base::env::{Clock, SystemClock};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

const LINE_EVERY: Duration = Duration::from_secs(10);
const BAR: &str = "{bar:30} {percent}% of {total_bytes}, {binary_bytes_per_sec}, {eta} left  {msg}";

/// Shows how far the reading of many files is.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    last: Duration,
}

impl Progress {
    pub(super) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(BAR).expect("the template is well-formed");
            ProgressBar::new(0).with_style(style)
        });
        Self { bar, last: SystemClock.monotonic() }
    }

    /// Shows that `bytes` of `total` are read, and that `file` is being read.
    pub(super) fn show(&mut self, file: &Path, bytes: u64, total: u64) {
        let name = file.file_name().unwrap_or_default().display();
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(bytes);
            bar.set_message(name.to_string());
            return;
        }
        let now = SystemClock.monotonic();
        if now.saturating_sub(self.last) >= LINE_EVERY {
            self.last = now;
            let (bytes, total) = (HumanBytes(bytes), HumanBytes(total));
            // Progress that nobody can see is no reason to stop.
            let _ = writeln!(std::io::stderr(), "{bytes} of {total}, in {name}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
