//! The settings of traces, resolved and checked.

use super::{ConfigError, Settings, in_range};

/// Part of the requests that are traced, unless set otherwise.
pub(super) const SAMPLING: f64 = 0.01;

/// The collector of spans, and the part of requests that is traced.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Traces {
    /// URL of the collector, with its scheme.
    pub(crate) endpoint: String,
    /// Part of the requests without a trace of their callers that are traced, 0 to 1.
    pub(crate) sampling: f64,
}

impl Traces {
    pub(super) fn resolve(settings: &Settings) -> Result<Option<Self>, ConfigError> {
        let sampling = settings.otlp_sampling.unwrap_or(SAMPLING);
        in_range("otlp_sampling", sampling, 0.0..=1.0)?;
        let Some(endpoint) = settings.otlp_endpoint.clone() else {
            return match settings.otlp_sampling {
                Some(_) => Err(ConfigError("otlp_sampling needs otlp_endpoint".into())),
                None => Ok(None),
            };
        };
        let has_scheme = ["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme));
        if !has_scheme {
            return Err(ConfigError(format!(
                "invalid otlp_endpoint {endpoint:?}; use http://HOST:PORT or https://HOST:PORT"
            )));
        }
        Ok(Some(Self { endpoint, sampling }))
    }
}
