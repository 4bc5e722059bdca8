//! `stele adopt`: creates tables for trees that belong to no table, also in a store that an
//! embedding program made.

use anyhow::{Context, Result};
use base::env::{Clock, Env, SystemClock};
use clap::Args;
use engine::owner::{give_to_server, trees_with_moved_ssts};
use engine::{Engine, Options, RowRange};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use table::local::adopt::adopt_trees;

/// Arguments of `adopt`.
#[derive(Debug, Args)]
pub(crate) struct AdoptArgs {
    /// Data directory; no process may have it open.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Gives a store to servers and makes its tables fit its trees.
pub(crate) fn run(args: &AdoptArgs) -> Result<ExitCode> {
    let dir = &args.dir;
    let context = || format!("could not adopt {}", dir.display());
    let env = Env::real(2);
    let moved = give_to_server(&env, dir, Options::default()).with_context(context)?;
    let engine = Engine::open_with_env(env, dir, Options::default()).with_context(context)?;
    let done = adopt_trees(&engine, SystemClock.now_micros()).with_context(context)?;
    // Files say of which tree they are, for a repair without a manifest. An adoption that was
    // interrupted is finished here.
    for tree in trees_with_moved_ssts(&engine).with_context(context)? {
        engine
            .tree(tree)
            .and_then(|tree| tree.compact_range(&RowRange::ALL))
            .with_context(context)?;
    }
    engine.close().with_context(context)?;
    let mut out = std::io::stdout().lock();
    for (from, to) in &moved {
        writeln!(out, "tree {} is now tree {}: servers reserve the first 15 trees", from.0, to.0)?;
    }
    for line in &done {
        writeln!(out, "{line}")?;
    }
    let trees = engine.trees().len();
    writeln!(out, "{} belongs to servers; its tables match its {trees} trees", dir.display())?;
    Ok(ExitCode::SUCCESS)
}
