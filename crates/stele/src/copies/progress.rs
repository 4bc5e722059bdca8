//! Progress of a backup or restore on standard error: a bar on a terminal, a line every few seconds
//! elsewhere.

use base::env::{Clock, SystemClock};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::Duration;

const LINE_EVERY: Duration = Duration::from_secs(10);
const BAR: &str = "{bar:30} {percent}% of {total_bytes}, {binary_bytes_per_sec}, {eta} left";

/// Returns a callback that shows bytes done and bytes in total.
pub(super) fn watch() -> backup::Watch {
    let bar = std::io::stderr().is_terminal().then(|| {
        let style = ProgressStyle::with_template(BAR).expect("the template is well-formed");
        ProgressBar::new(0).with_style(style)
    });
    let last = Mutex::new(SystemClock.monotonic());
    Box::new(move |done, total| {
        if let Some(bar) = &bar {
            bar.set_length(total);
            bar.set_position(done);
            if done == total {
                bar.finish_and_clear();
            }
            return;
        }
        let now = SystemClock.monotonic();
        let Ok(mut last) = last.lock() else { return };
        if now.saturating_sub(*last) >= LINE_EVERY {
            *last = now;
            let (done, total) = (HumanBytes(done), HumanBytes(total));
            // Progress that nobody can see is no reason to stop.
            let _ = writeln!(std::io::stderr(), "{done} of {total}");
        }
    })
}
