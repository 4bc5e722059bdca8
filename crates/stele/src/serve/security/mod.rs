//! Security of the running server: its certificates, its gate, and the files that it reads again.

pub(crate) mod audit;
pub(crate) mod authenticate;
pub(crate) mod gate;
pub(crate) mod http;
pub(crate) mod metrics;
mod reload;
pub(crate) mod token;

use super::connections::CurrentTls;
use crate::config::{ConfigError, Security};
use arc_swap::{ArcSwap, ArcSwapOption};
use audit::Audit;
use gate::Gate;
use metrics::SecurityMetrics;
use reload::{Reloaded, stamps, watch_files};
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
}

impl Guard {
    /// Reads all files that the options name. Reads them again when they change, or `hangups` does.
    pub(crate) fn load(
        options: &Security,
        hangups: watch::Receiver<u64>,
        metrics: &SecurityMetrics,
    ) -> anyhow::Result<Self> {
        let mut sets = Vec::new();
        let tls = load_tls(options, metrics, &mut sets)?;
        let gate = load_gate(options, &hangups, metrics, &mut sets)?;
        tokio::spawn(watch_files(sets, hangups, metrics.clone()));
        Ok(Self { tls, gate })
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
    let paths: Vec<_> = files.paths().into_iter().map(Path::to_owned).collect();
    let seen = stamps(&paths);
    let first = files.load().map_err(refused)?;
    metrics.certificate_ends(first.expires_at);
    let current = Arc::new(ArcSwap::from_pointee(first));
    let (files, slot, counted) = (files.clone(), Arc::clone(&current), metrics.clone());
    sets.push(Reloaded::new("tls", paths, seen, move || {
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
    let known = identities.as_ref().map_or_else(Vec::new, |known| known.files().to_vec());
    let gate = Arc::new(Gate {
        identities: identities.map(ArcSwap::from_pointee),
        policy: ArcSwapOption::from_pointee(policy),
        audit,
    });
    if let Some(path) = options.identities.clone() {
        let (gate, seen) = (Arc::clone(&gate), stamps(&known));
        sets.push(Reloaded::new("identities", known, seen, move || {
            let Some(current) = &gate.identities else { return Ok(None) };
            let fresh = current.load().load_again(&path)?;
            let files = fresh.files().to_vec();
            current.store(Arc::new(fresh));
            Ok(Some(files))
        }));
    }
    if let Some(path) = options.policy.clone() {
        let (gate, files) = (Arc::clone(&gate), vec![path.clone()]);
        let seen = stamps(&files);
        sets.push(Reloaded::new("policy", files, seen, move || {
            gate.policy.store(Some(Arc::new(Policy::load(&path)?)));
            Ok(None)
        }));
    }
    Ok(Some(gate))
}
