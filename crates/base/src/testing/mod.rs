//! What tests of several crates need.

mod block_on;
mod own_process;

pub use block_on::block_on;
pub use own_process::in_own_process;
