//! The settings of security, resolved and checked.

use super::{ConfigError, Settings};
use security::tls::{ClientCertificates, ServerFiles};
use std::path::PathBuf;

/// Everything about security that the settings say. Files are not read yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Security {
    pub(crate) tls: Option<ServerFiles>,
    pub(crate) identities: Option<PathBuf>,
    pub(crate) policy: Option<PathBuf>,
    pub(crate) audit_log: Option<PathBuf>,
}

/// Addresses on which the server may listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Addresses of this machine only.
    Loopback,
    /// Any address of the machine.
    Anywhere,
}

impl Security {
    pub(super) fn resolve(settings: &Settings) -> Result<Self, ConfigError> {
        let security = Self {
            tls: tls(settings)?,
            identities: settings.identities.clone(),
            policy: settings.policy.clone(),
            audit_log: settings.audit_log.clone(),
        };
        let needy = [("policy", &security.policy), ("audit_log", &security.audit_log)];
        let knows = security.authenticates();
        if let Some((option, _)) = needy.into_iter().find(|(_, set)| set.is_some() && !knows) {
            return Err(ConfigError(format!(
                "{option} needs clients that are known; set identities or tls_client_ca"
            )));
        }
        Ok(security)
    }

    /// Returns whether the server knows its clients.
    pub(crate) fn authenticates(&self) -> bool {
        let by_certificate =
            self.tls.as_ref().is_some_and(|tls| tls.clients != ClientCertificates::None);
        by_certificate || self.identities.is_some()
    }

    /// Returns where the server may listen: anywhere if it knows its clients and encrypts.
    pub(crate) fn reach(&self) -> Reach {
        let is_safe = self.tls.is_some() && self.authenticates();
        if is_safe { Reach::Anywhere } else { Reach::Loopback }
    }
}

fn tls(settings: &Settings) -> Result<Option<ServerFiles>, ConfigError> {
    let Settings { tls_cert, tls_key, tls_client_ca, .. } = settings;
    match (tls_cert, tls_key) {
        (Some(certificate), Some(key)) => {
            let clients = match tls_client_ca.clone() {
                None => ClientCertificates::None,
                Some(ca) if settings.identities.is_some() => ClientCertificates::Optional(ca),
                Some(ca) => ClientCertificates::Required(ca),
            };
            let (certificate, key) = (certificate.clone(), key.clone());
            Ok(Some(ServerFiles { certificate, key, clients }))
        }
        (None, None) if tls_client_ca.is_none() => Ok(None),
        (None, _) => Err(ConfigError("tls_cert is not set; TLS needs tls_cert and tls_key".into())),
        (_, None) => Err(ConfigError("tls_key is not set; TLS needs tls_cert and tls_key".into())),
    }
}
