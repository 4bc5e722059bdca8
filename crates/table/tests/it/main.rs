//! Tests of the table layer through its public API.
#![expect(clippy::unwrap_used, reason = "a failure is the test's own verdict")]

mod adopt;
mod blocked_io;
mod blocking_fs;
mod changes;
mod check;
mod filters;
mod harness;
mod limits;
mod load;
mod meter;
mod once;
mod over_groups;
mod owned;
mod owner;
mod records;
mod store;

use base::env::Env;
use engine::{Engine, Options};
use std::path::Path;
use table::Local;

/// Returns whether the harness of this module has replicated tablets.
const OVER_GROUPS: bool = false;

/// Opens what a harness stands on.
fn open_store(env: Env, dir: &Path, options: Options) -> (Engine, Local) {
    let clock = env.clock.clone();
    let engine = Engine::open_with_env(env, dir, options).unwrap();
    let local = Local::open(engine.clone(), clock).unwrap();
    (engine, local)
}
