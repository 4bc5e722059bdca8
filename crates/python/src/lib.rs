//! The Python module `stele`: the engine inside a Python program, with the same API as in Rust.
//!
//! 1. No call into the engine is made while the interpreter's lock is held, and no lock of this
//!    crate is waited for while it is, but those of batches and snapshots, which nobody keeps for
//!    longer than a copy takes. So threads of Python read and write side by side, and none waits
//!    for another in a circle.
//! 2. What outlives its engine says so: every object reaches the engine through its handle, and
//!    closing ends what would keep the directory open (`handle`).
//! 3. Bytes that Python hands in are borrowed for the call; bytes that it gets are its own.
//!
//! Texts of classes and methods are what `help(stele)` shows; `stele.pyi` has their types, and a
//! test compares the two.

#![allow(
    clippy::needless_pass_by_value,
    clippy::too_many_arguments,
    reason = "arguments are as Python hands them in, most of them by name"
)]

mod batch;
mod errors;
mod handle;
mod load;
mod open;
mod options;
mod read;
mod tree;

use pyo3::prelude::*;

/// Stele's storage engine inside a Python program: rows of cells, on disk, in order.
///
/// Keys, qualifiers and values are bytes. Calls that may wait for the disk let other threads run.
#[pymodule]
fn stele(py: Python<'_>, module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<open::Engine>()?;
    module.add_class::<tree::Tree>()?;
    module.add_class::<batch::WriteBatch>()?;
    module.add_class::<read::Cell>()?;
    module.add_class::<read::Scan>()?;
    module.add_class::<read::Snapshot>()?;
    module.add_class::<load::SstWriter>()?;
    module.add_class::<load::IngestFiles>()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    errors::add_to(py, module)
}
