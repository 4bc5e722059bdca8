//! The examples of the crate do what they say: each checks itself.

#[path = "../../examples/bulk_load.rs"]
mod bulk_load;
#[path = "../../examples/kv.rs"]
mod kv;
#[path = "../../examples/many_gets.rs"]
mod many_gets;
#[path = "../../examples/snapshots.rs"]
mod snapshots;
#[path = "../../examples/wide_rows.rs"]
mod wide_rows;

use std::path::Path;

/// An example's name, and what it does in a directory.
type Example = (&'static str, fn(&Path) -> engine::Result<()>);

#[test]
fn every_example_runs() {
    let run: [Example; 5] = [
        ("bulk_load", bulk_load::run),
        ("kv", kv::run),
        ("many_gets", many_gets::run),
        ("snapshots", snapshots::run),
        ("wide_rows", wide_rows::run),
    ];
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    assert_eq!(std::fs::read_dir(examples).unwrap().count(), run.len(), "name all examples here");
    for (name, run) in run {
        let dir = tempfile::tempdir().unwrap();
        run(dir.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
