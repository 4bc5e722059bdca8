//! An ordered map of bytes on disk: the key-value API.
//!
//! ```sh
//! cargo run -p engine --example kv [DIR]
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use engine::kv::{Kv, KvBatch};
use engine::{Options, Result, RowRange};
use std::path::Path;

/// Keeps a few settings in `dir`, and finds them again.
pub(crate) fn run(dir: &Path) -> Result<()> {
    let settings = Kv::open(dir, Options::default())?;
    settings.put(b"colour/background", b"black")?;
    settings.put(b"colour/text", b"green")?;

    // All changes of a batch take effect, or none.
    let mut theme = KvBatch::default();
    theme.put(b"colour/background", b"white");
    theme.put(b"colour/text", b"black");
    theme.put(b"font", b"serif");
    settings.write(&theme)?;
    settings.close()?;
    drop(settings);

    let settings = Kv::open(dir, Options::default())?;
    assert_eq!(settings.get(b"colour/background")?.as_deref(), Some(&b"white"[..]));
    let mut colours = 0;
    for item in settings.range(RowRange::prefix(b"colour/")) {
        let (key, value) = item?;
        println!("{} = {}", key.escape_ascii(), value.escape_ascii());
        colours += 1;
    }
    assert_eq!(colours, 2);
    Ok(())
}

#[allow(dead_code, reason = "the test calls `run` in a directory of its own")]
fn main() -> Result<()> {
    run(Path::new(&std::env::args().nth(1).unwrap_or_else(|| "example-kv".into())))
}
