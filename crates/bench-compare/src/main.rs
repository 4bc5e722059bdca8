//! Named workloads over Stele's engine and its peers, side by side in one run.
fn main() {}
