//! The parts that every call passes, whatever its method: its end in time, and its answer as a status.

pub(crate) mod authorize;
pub(crate) mod caller;
pub(crate) mod deadline;
pub(crate) mod explain;
mod permissions;
pub(crate) mod status;
