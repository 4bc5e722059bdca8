//! Structured log lines on standard error.

use crate::config::{ConfigError, LogFormat};
use std::io::IsTerminal;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Sends everything at or above `level` (as in `info,engine=debug`) to standard error. Called
/// once, before anything logs.
pub(crate) fn init(format: LogFormat, level: &str) -> Result<(), ConfigError> {
    let targets: Targets = level
        .parse()
        .map_err(|error| ConfigError(format!("log_level {level:?} is malformed: {error}")))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(targets);
    match format {
        LogFormat::Text => {
            registry.with(lines.with_ansi(std::io::stderr().is_terminal())).init();
        }
        LogFormat::Json => registry.with(lines.json()).init(),
    }
    Ok(())
}
