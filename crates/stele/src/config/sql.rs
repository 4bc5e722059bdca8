//! The settings of the door for PostgreSQL clients.

use super::{ConfigError, Reach, Security, Settings};

/// Word that turns the door off.
const OFF: &str = "off";

/// The door for PostgreSQL clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sql {
    /// Address to listen on, as `HOST:PORT`.
    pub(crate) listen: String,
    /// Addresses on which the door may listen: anywhere with TLS, since clients of other machines must
    /// then show passwords.
    pub(crate) reach: Reach,
    /// True if clients of other machines need no password either.
    pub(crate) is_insecure: bool,
    /// True if the address is the default. If another program has it, the server goes without the door.
    pub(crate) is_default: bool,
}

impl Default for Sql {
    fn default() -> Self {
        let (listen, reach) = ("127.0.0.1:5433".into(), Reach::Loopback);
        Self { listen, reach, is_insecure: false, is_default: true }
    }
}

impl Sql {
    /// Returns the door that the settings want. A node of a cluster has one only if they name its address.
    pub(super) fn resolve(
        settings: &Settings,
        security: &Security,
        is_insecure: bool,
    ) -> Result<Option<Self>, ConfigError> {
        let listen = settings.sql_listen.clone();
        if listen.as_deref() == Some(OFF) {
            return Ok(None);
        }
        if listen.is_some() && !cfg!(feature = "sql") {
            let error = "sql_listen is set, and this server was built without the feature sql";
            return Err(ConfigError(error.into()));
        }
        if !cfg!(feature = "sql") || (settings.join.is_some() && listen.is_none()) {
            return Ok(None);
        }
        let is_wide = is_insecure || security.tls.is_some();
        let reach = if is_wide { Reach::Anywhere } else { Reach::Loopback };
        let is_default = listen.is_none();
        let listen = listen.unwrap_or_else(|| Self::default().listen);
        Ok(Some(Self { listen, reach, is_insecure, is_default }))
    }
}
