//! Metrics of connections, of handshakes, and of files that are read again.

use super::super::connections::Front;
use bigtable::NoPlace;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};
use tonic::Code;

/// The metrics. Cheap to clone; clones count into the same place.
#[derive(Debug, Clone)]
pub(crate) struct SecurityMetrics {
    registry: Registry,
    connections: IntGaugeVec,
    handshakes: IntCounterVec,
    reloads: IntCounterVec,
    certificate_expiry: IntGauge,
    audit_dropped: IntCounter,
    refused_connections: IntCounterVec,
    refused: RefusedCallers,
}

/// Counters of calls whose callers the server does not know, or does not allow them. They are rendered
/// with the calls that found no room.
#[derive(Debug, Clone)]
pub(crate) struct RefusedCallers {
    credentials: IntCounter,
    permission: IntCounter,
}

impl SecurityMetrics {
    /// Returns metrics with counters at zero.
    pub(crate) fn new() -> Self {
        let registry = Registry::new();
        let connections = IntGaugeVec::new(
            Opts::new("stele_connections", "Open connections by listener."),
            &["listener"],
        );
        let handshakes = counters(
            "stele_tls_handshakes_total",
            "TLS handshakes by listener and outcome.",
            &["listener", "outcome"],
        );
        let reloads = counters(
            "stele_reloads_total",
            "Files read again after a change or SIGHUP, by kind and outcome; after a failure the \
             old content stays in use.",
            &["what", "outcome"],
        );
        let connections = connections.expect("the name and the labels are well-formed");
        let certificate_expiry = IntGauge::new(
            "stele_tls_certificate_expiry_timestamp_seconds",
            "End of the server's certificate in seconds since 1970; 0 without TLS.",
        )
        .expect("the name is well-formed");
        let audit_dropped = IntCounter::new(
            "stele_audit_dropped_total",
            "Lines of the audit log that were dropped, because they could not be written in time.",
        )
        .expect("the name is well-formed");
        let refused_connections = counters(
            "stele_refused_connections_total",
            "Connections that were closed at once, by the bound that they would break.",
            &["reason"],
        );
        let all: [Box<dyn Collector>; 6] = [
            Box::new(connections.clone()),
            Box::new(handshakes.clone()),
            Box::new(reloads.clone()),
            Box::new(certificate_expiry.clone()),
            Box::new(audit_dropped.clone()),
            Box::new(refused_connections.clone()),
        ];
        for collector in all {
            registry.register(collector).expect("each metric is registered once");
        }
        Self {
            registry,
            connections,
            handshakes,
            reloads,
            certificate_expiry,
            audit_dropped,
            refused_connections,
            refused: RefusedCallers::new(),
        }
    }

    /// Returns the families of the metrics.
    pub(crate) fn gather(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }

    /// Returns the metrics as Prometheus text.
    #[cfg(test)]
    pub(crate) fn render(&self) -> prometheus::Result<String> {
        prometheus::TextEncoder::new().encode_to_string(&self.gather())
    }

    /// Counts a connection until the answer is dropped. Every connection of the server comes here.
    pub(crate) fn opened(&self, front: Front) -> OpenConnection {
        let gauge = self.connections.with_label_values(&[front.label()]);
        gauge.inc();
        OpenConnection { gauge }
    }

    /// Returns the counters of one front.
    pub(crate) fn handshakes(&self, front: Front) -> Handshakes {
        let counter = |outcome| self.handshakes.with_label_values(&[front.label(), outcome]);
        Handshakes {
            done: counter("done"),
            failed: counter("failed"),
            timed_out: counter("timed_out"),
            crowded_out: counter("crowded_out"),
        }
    }

    /// Counts that the files of `what` were read again, well or not.
    pub(crate) fn reloaded(&self, what: &str, outcome: &str) {
        self.reloads.with_label_values(&[what, outcome]).inc();
    }

    /// Returns the counter of lines of the audit log that were dropped.
    pub(crate) fn audit_dropped(&self) -> IntCounter {
        self.audit_dropped.clone()
    }

    /// Counts a connection that was closed because it has no place.
    pub(crate) fn refused_connection(&self, reason: NoPlace) {
        self.refused_connections.with_label_values(&[reason.label()]).inc();
    }

    /// Returns the counters of calls that were refused for their callers.
    pub(crate) fn refused(&self) -> &RefusedCallers {
        &self.refused
    }

    /// Sets the end of the server's certificate.
    pub(crate) fn certificate_ends(&self, at: i64) {
        self.certificate_expiry.set(at);
    }
}

impl RefusedCallers {
    fn new() -> Self {
        let counter = |name| {
            IntCounter::new(name, "Refused calls.").expect("the name and the help are well-formed")
        };
        Self { credentials: counter("credentials"), permission: counter("permission") }
    }

    /// Counts a call if it ended with a refusal of its caller.
    pub(crate) fn count(&self, code: Code) {
        match code {
            Code::Unauthenticated => self.credentials.inc(),
            Code::PermissionDenied => self.permission.inc(),
            _ => {}
        }
    }

    /// Returns the numbers so far, by reason.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 2] {
        [("credentials", self.credentials.get()), ("permission", self.permission.get())]
    }
}

fn counters(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    IntCounterVec::new(Opts::new(name, help), labels)
        .expect("the name and the labels are well-formed")
}

/// A connection that is counted.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    gauge: IntGauge,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

/// Outcomes of the handshakes of one front.
#[derive(Debug, Clone)]
pub(crate) struct Handshakes {
    done: IntCounter,
    failed: IntCounter,
    timed_out: IntCounter,
    crowded_out: IntCounter,
}

impl Handshakes {
    pub(crate) fn done(&self) {
        self.done.inc();
    }

    pub(crate) fn failed(&self) {
        self.failed.inc();
    }

    pub(crate) fn timed_out(&self) {
        self.timed_out.inc();
    }

    /// Counts a handshake that gave way to a newer one.
    pub(crate) fn crowded_out(&self) {
        self.crowded_out.inc();
    }
}
