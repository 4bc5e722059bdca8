//! A request of the API: who sends it (`guard`), its parameters (`params`) or its body (`body`), its place and
//! its work (`work`), bytes in its answer (`shown`), and the form of errors (`failure`).

pub(super) mod body;
pub(super) mod failure;
pub(super) mod guard;
pub(super) mod params;
pub(super) mod shown;
pub(super) mod work;
