//! The whole system on a simulated machine: random histories, power losses, sick and full disks,
//! damaged files; what the engine then holds is compared with its model. [`world`] is a cluster of such
//! machines.
//!
//! The promises are the files of `tests/it/`. Everything random comes from a seed, and a failure
//! prints the command that repeats it. `STELE_CRASH_POINTS` and its like (see the tests) ask for
//! longer runs.

pub mod apis;
pub mod image;
pub mod machine;
pub mod names;
pub mod oracle;
pub mod points;
pub mod sample;
pub mod session;
pub mod small;
pub mod workload;
pub mod world;
