//! The parts that every call passes, whatever its method: the bounds of its request and of its
//! answer, its end in time, what its client announces and is told of it, and its error as a status.

pub(crate) mod authorize;
pub(crate) mod bounds;
pub(crate) mod caller;
pub(crate) mod deadline;
pub(crate) mod explain;
pub(crate) mod features;
mod permissions;
pub(crate) mod status;
pub(crate) mod timing;
