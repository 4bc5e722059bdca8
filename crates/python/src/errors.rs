//! The engine's errors as exceptions, grouped as they are in Rust: by what the caller can do.

use engine::Error as EngineError;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(stele, Error, PyException, "Base class of all exceptions of this module.");
create_exception!(stele, IoError, Error, "The file system failed; `path` is the file.");
create_exception!(
    stele,
    NoSpaceError,
    IoError,
    "The disk is full. Acknowledged writes are safe; writes succeed again once there is space."
);
create_exception!(
    stele,
    CorruptionError,
    Error,
    "The file `path` is damaged at `offset`. Run `stele check` for details."
);
create_exception!(
    stele,
    UnusableError,
    Error,
    "The directory `path` cannot be used; the message states the reason and the remedy."
);
create_exception!(
    stele,
    InvalidArgumentError,
    Error,
    "The call broke a documented limit; the message names the limit."
);
create_exception!(stele, UnknownTreeError, Error, "No tree has this id.");
create_exception!(
    stele,
    WritesStoppedError,
    Error,
    "An earlier failure stopped writes; reopen the engine. The message is that failure."
);
create_exception!(
    stele,
    UnavailableError,
    Error,
    "Nothing was written, because background work is failing. The engine retries it; try again \
     later."
);
create_exception!(stele, ClosedError, Error, "The engine or this object was closed.");

/// Adds the exceptions to the module.
pub(crate) fn add_to(py: Python<'_>, module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", py.get_type::<Error>())?;
    module.add("IoError", py.get_type::<IoError>())?;
    module.add("NoSpaceError", py.get_type::<NoSpaceError>())?;
    module.add("CorruptionError", py.get_type::<CorruptionError>())?;
    module.add("UnusableError", py.get_type::<UnusableError>())?;
    module.add("InvalidArgumentError", py.get_type::<InvalidArgumentError>())?;
    module.add("UnknownTreeError", py.get_type::<UnknownTreeError>())?;
    module.add("WritesStoppedError", py.get_type::<WritesStoppedError>())?;
    module.add("UnavailableError", py.get_type::<UnavailableError>())?;
    module.add("ClosedError", py.get_type::<ClosedError>())
}

/// Why a call failed, before the interpreter's lock is there to make an exception of it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The engine said so.
    Engine(EngineError),
    /// The object was closed or used up; the text says which and how.
    Ended(&'static str),
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// An argument that breaks a limit, which `what` names.
pub(crate) fn invalid(what: impl Into<String>) -> PyErr {
    InvalidArgumentError::new_err(what.into())
}

impl Failure {
    /// The exception, with its attributes.
    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        let error = match self {
            Self::Engine(error) => error,
            Self::Ended(what) => return ClosedError::new_err(what),
        };
        let text = error.to_string();
        let (raised, path, offset) = match error {
            EngineError::Io { path, .. } => (IoError::new_err(text), Some(path), None),
            EngineError::NoSpace { path, .. } => (NoSpaceError::new_err(text), Some(path), None),
            EngineError::Corruption(engine::Corruption { file, offset, .. }) => {
                (CorruptionError::new_err(text), Some(file), Some(offset))
            }
            EngineError::Unusable { dir, .. } => (UnusableError::new_err(text), Some(dir), None),
            EngineError::InvalidArgument(_) => (InvalidArgumentError::new_err(text), None, None),
            EngineError::UnknownTree(_) => (UnknownTreeError::new_err(text), None, None),
            EngineError::WritesStopped(_) => (WritesStoppedError::new_err(text), None, None),
            EngineError::Unavailable(_) => (UnavailableError::new_err(text), None, None),
            EngineError::Closed => (ClosedError::new_err(text), None, None),
            _ => (Error::new_err(text), None, None),
        };
        let value = raised.value(py);
        let path = path.map_or(Ok(()), |path| value.setattr("path", path));
        let offset = offset.map_or(Ok(()), |offset| value.setattr("offset", offset));
        match path.and(offset) {
            Ok(()) => raised,
            Err(error) => error,
        }
    }
}
