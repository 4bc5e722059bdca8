//! Security of the running server: its certificates, its gate, and the files that it reads again.

pub(crate) mod audit;
pub(crate) mod authenticate;
pub(crate) mod cluster;
pub(crate) mod gate;
pub(crate) mod http;
pub(crate) mod metrics;
mod reload;
pub(crate) mod token;

use super::connections::CurrentTls;
use crate::config::{Cluster, ConfigError, Security};
use arc_swap::{ArcSwap, ArcSwapOption};
use audit::Audit;
use cluster::ClusterTls;
use gate::Gate;
use metrics::SecurityMetrics;
use reload::{Reloaded, stamped, watch_files};
use security::identity::Identities;
use security::policy::Policy;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;

/// Security of the server, as its options want it.
pub(crate) struct Guard {
    /// Certificates that both listeners show.
    pub(crate) tls: Option<CurrentTls>,
    /// Gate of a server that authenticates its clients.
    pub(crate) gate: Option<Arc<Gate>>,
    /// TLS with the rest of the cluster, of a node of one.
    pub(crate) cluster: Option<ClusterTls>,
}

impl Guard {
    /// Reads all files that the options name, and the ones that a node of a cluster needs. Reads them again when they change, or `hangups` does.
    pub(crate) fn load(
        options: &Security,
        node: Option<&Cluster>,
        hangups: watch::Receiver<u64>,
        metrics: &SecurityMetrics,
    ) -> anyhow::Result<Self> {
        let mut sets = Vec::new();
        let tls = load_tls(options, metrics, &mut sets)?;
        let cluster = node.map(|node| cluster::load(options.tls.as_ref(), node, &mut sets));
        let cluster = cluster.transpose()?;
        let gate = load_gate(options, &hangups, metrics, &mut sets)?;
        tokio::spawn(watch_files(sets, hangups, metrics.clone()));
        Ok(Self { tls, gate, cluster })
    }
}

fn refused(error: security::Error) -> ConfigError {
    ConfigError(error.to_string())
}

fn load_tls(
    options: &Security,
    metrics: &SecurityMetrics,
    sets: &mut Vec<Reloaded>,
) -> Result<Option<CurrentTls>, ConfigError> {
    let Some(files) = &options.tls else { return Ok(None) };
    let seen = stamped(files.paths());
    let first = files.load().map_err(refused)?;
    metrics.certificate_ends(first.expires_at);
    let current = Arc::new(ArcSwap::from_pointee(first));
    let (files, slot, counted) = (files.clone(), Arc::clone(&current), metrics.clone());
    sets.push(Reloaded::new("tls", seen, move || {
        let fresh = files.load()?;
        counted.certificate_ends(fresh.expires_at);
        slot.store(Arc::new(fresh));
        Ok(None)
    }));
    Ok(Some(current))
}

fn load_gate(
    options: &Security,
    hangups: &watch::Receiver<u64>,
    metrics: &SecurityMetrics,
    sets: &mut Vec<Reloaded>,
) -> anyhow::Result<Option<Arc<Gate>>> {
    if !options.authenticates() {
        return Ok(None);
    }
    let load = |path: &Path| Identities::load(path).map_err(refused);
    let identities = options.identities.as_deref().map(load).transpose()?;
    let known = identities.as_ref().map_or_else(Vec::new, |known| known.files().to_vec());
    let policy_seen = stamped(options.policy.as_deref());
    let load = |path: &Path| Policy::load(path).map_err(refused);
    let policy = options.policy.as_deref().map(load).transpose()?;
    if policy.is_none() {
        tracing::warn!("there is no policy: every identity may do everything");
    }
    let audit = match &options.audit_log {
        None => Audit::to_log(metrics),
        Some(path) => Audit::to_file(path, hangups.clone(), metrics).map_err(|error| {
            ConfigError(format!("could not open the audit log {}: {error}", path.display()))
        })?,
    };
    let gate = Arc::new(Gate {
        identities: identities.map(ArcSwap::from_pointee),
        policy: ArcSwapOption::from_pointee(policy),
        audit,
    });
    if let Some(path) = options.identities.clone() {
        let gate = Arc::clone(&gate);
        sets.push(Reloaded::new("identities", known, move || {
            let Some(current) = &gate.identities else { return Ok(None) };
            let fresh = current.load().load_again(&path)?;
            let files = fresh.files().to_vec();
            current.store(Arc::new(fresh));
            Ok(Some(files))
        }));
    }
    if let Some(path) = options.policy.clone() {
        let gate = Arc::clone(&gate);
        sets.push(Reloaded::new("policy", policy_seen, move || {
            gate.policy.store(Some(Arc::new(Policy::load(&path)?)));
            Ok(None)
        }));
    }
    Ok(Some(gate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::connections::Peer;
    use ::security::identity::create_token;
    use axum::http::HeaderMap;

    /// The base point of the curve: a public key that is well-formed.
    const KEYS: &str = r#"{"keys": [{"kty": "EC", "crv": "P-256", "kid": "1",
        "x": "axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY",
        "y": "T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU"}]}"#;
    const ISSUER: &str = "[[issuer]]\nname = 'corp'\nissuer = 'https://accounts'\n\
        audiences = ['stele']\njwks = 'keys.json'\n";

    #[tokio::test]
    async fn a_removed_token_is_refused_once_the_missing_keys_appear() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("identities.toml");
        let token = create_token(&file, "ci").unwrap();
        let options = Security { identities: Some(file.clone()), ..Security::default() };
        let (metrics, mut sets) = (SecurityMetrics::new(), Vec::new());
        let (_hangups, hung_up) = watch::channel(0);
        let gate = load_gate(&options, &hung_up, &metrics, &mut sets).unwrap().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        let mut is_known_after_a_look = || {
            sets.iter_mut().for_each(|set| set.look(false, &metrics));
            gate.admit(&Peer::default(), &headers).is_some()
        };
        assert!(is_known_after_a_look());
        std::fs::write(&file, ISSUER).unwrap();
        assert!(is_known_after_a_look(), "the new content has no keys yet");
        std::fs::write(dir.path().join("keys.json"), KEYS).unwrap();
        assert!(!is_known_after_a_look());
    }
}
