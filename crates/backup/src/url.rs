//! From what the user writes to a destination: a path, `file://` or `s3://BUCKET/PREFIX`.
//!
//! Credentials, region and endpoint of S3 come from the options, else from the environment under the
//! names that the AWS tools use (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`,
//! `AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_CA_BUNDLE`, ...), else from the machine's role. Without TLS
//! only loopback is spoken to, unless that is allowed by name.

use crate::destination::Destination;
use crate::error::{Error, Result};
use base::env::RealFileSystem;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Certificate, ClientOptions};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

/// Longest time for one request: of a part that is sent, 8 MiB unless the file is very large, or of a
/// few MiB that are read. A line slower than 30 KiB/s takes longer for such a part.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(300);

/// The variable by which the AWS tools are told of a file of authorities.
const CA_BUNDLE: &str = "AWS_CA_BUNDLE";

/// Settings of an S3-compatible store besides its URL. `None` takes the value of the environment.
#[derive(Clone, Default)]
pub struct S3Options {
    /// Address of a store that is not Amazon's.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// Key and secret.
    pub access_key: Option<(String, String)>,
    /// A file of certificates (PEM) of authorities to believe beside those of the system.
    pub ca_bundle: Option<PathBuf>,
    /// Permission to use an endpoint without TLS on another machine.
    pub plain_http: PlainHttp,
}

/// Hosts that connections without encryption may go to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// Only to this machine.
    #[default]
    Loopback,
    /// Anywhere: everyone on the way can read the data and change it.
    Anywhere,
}

/// Treatment of a directory that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Create,
    Refuse,
}

fn refused(text: impl Into<String>) -> Error {
    Error::Refused(text.into())
}

impl Destination {
    /// The destination that `text` names.
    ///
    /// `Refused` if it names none, an option is missing, or it would be spoken to without encryption.
    pub fn open(text: &str, s3: &S3Options, missing: Missing) -> Result<Self> {
        match Url::parse(text) {
            Ok(url) if url.scheme() == "s3" => open_s3(text, &url, s3),
            Ok(url) if url.scheme() == "file" => {
                let path = url.to_file_path();
                let path =
                    path.map_err(|()| refused(format!("{text:?} does not name a directory")))?;
                open_dir(path, missing)
            }
            Ok(url) if text.contains("://") => {
                let scheme = url.scheme();
                Err(refused(format!(
                    "{text:?}: unknown scheme {scheme}://; use a directory, file:///DIR or \
                     s3://BUCKET/PREFIX"
                )))
            }
            _ if text.is_empty() => Err(refused("the URL of the destination is empty")),
            _ => open_dir(PathBuf::from(text), missing),
        }
    }
}

fn open_dir(path: PathBuf, missing: Missing) -> Result<Destination> {
    let failed = |op: &'static str| {
        let path = path.clone();
        move |error: std::io::Error| Error::from(engine::Error::io(op, &path, &error))
    };
    if !path.is_dir() {
        if missing == Missing::Refuse {
            return Err(refused(format!("directory {} does not exist", path.display())));
        }
        std::fs::create_dir_all(&path).map_err(failed("create"))?;
    }
    let path = path.canonicalize().map_err(failed("open"))?;
    // Its own name must be as durable as what is written below it.
    for above in path.ancestors() {
        if let Ok(dir) = std::fs::File::open(above) {
            let _ = dir.sync_all();
        }
    }
    let store = LocalFileSystem::new_with_prefix(&path);
    let store = store.map_err(|error| refused(format!("{}: {error}", path.display())))?;
    let store = Arc::new(store.with_fsync(true));
    let name = path.display().to_string();
    Ok(Destination::new(store, Path::default(), name).in_directory(Arc::new(RealFileSystem), path))
}

fn open_s3(text: &str, url: &Url, options: &S3Options) -> Result<Destination> {
    let bucket = url.host_str().filter(|bucket| !bucket.is_empty());
    let bucket = bucket.ok_or_else(|| refused(format!("{text:?} does not name a bucket")))?;
    let plain = url.username().is_empty() && url.password().is_none() && url.port().is_none();
    if !plain || url.query().is_some() || url.fragment().is_some() {
        return Err(refused(format!(
            "{text:?}: use s3://BUCKET/PREFIX; credentials come from the environment"
        )));
    }
    let prefix = Path::from_url_path(url.path());
    let prefix = prefix.map_err(|error| refused(format!("{text:?}: {error}")))?;
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    if let Some(region) = &options.region {
        builder = builder.with_region(region);
    }
    if let Some((key, secret)) = &options.access_key {
        builder = builder.with_access_key_id(key).with_secret_access_key(secret);
    }
    if let Some(endpoint) = &options.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    let http = match &endpoint {
        Some(endpoint) => allow(endpoint, options.plain_http)?,
        None => false,
    };
    // All in one call: `with_client_options` would forget what was set before.
    let client = ClientOptions::new().with_timeout(REQUEST_TIME_MAX).with_allow_http(http);
    let in_environment = || std::env::var_os(CA_BUNDLE).filter(|file| !file.is_empty());
    let ca_bundle = options.ca_bundle.clone().or_else(|| in_environment().map(Into::into));
    let client = match ca_bundle {
        Some(file) => believe(client, &file)?,
        None => client,
    };
    let store = provide_tls().and_then(|()| {
        builder.with_client_options(client).build().map_err(|e| refused(format!("{text:?}: {e}")))
    })?;
    Ok(Destination::new(Arc::new(store), prefix, text))
}

/// `client`, which also believes the authorities whose certificates `file` has.
fn believe(client: ClientOptions, file: &std::path::Path) -> Result<ClientOptions> {
    let failed = |error: &dyn std::fmt::Display| {
        refused(format!("CA certificates {}: {error}", file.display()))
    };
    let pem = std::fs::read(file).map_err(|error| failed(&error))?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| failed(&error))?;
    if certificates.is_empty() {
        return Err(failed(&"the file has no PEM certificate (BEGIN CERTIFICATE)"));
    }
    Ok(certificates.into_iter().fold(client, ClientOptions::with_root_certificate))
}

/// Returns whether `endpoint` is without TLS; refused if it may not be.
fn allow(endpoint: &str, plain: PlainHttp) -> Result<bool> {
    let url = Url::parse(endpoint);
    let url =
        url.map_err(|error| refused(format!("endpoint {endpoint:?} is not a URL: {error}")))?;
    match url.scheme() {
        "https" => return Ok(false),
        "http" => {}
        other => {
            return Err(refused(format!("endpoint {endpoint:?}: scheme {other} is not supported")));
        }
    }
    let loopback = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    if loopback || plain == PlainHttp::Anywhere {
        return Ok(true);
    }
    Err(refused(format!(
        "endpoint {endpoint} is on another machine and not encrypted; use https, or pass \
         --allow-http if anyone on the network path may read and change the backups"
    )))
}

/// Makes ring the process's provider of cryptography, unless there is one.
fn provide_tls() -> Result<()> {
    // Somebody else's, installed before, does as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str, s3: &S3Options) -> Result<Destination> {
        Destination::open(text, s3, Missing::Refuse)
    }

    #[test]
    fn what_names_no_destination_is_refused_with_what_to_write() {
        for (text, says) in [
            ("", "empty"),
            ("gs://bucket/prefix", "s3://BUCKET/PREFIX"),
            ("s3:///prefix", "does not name a bucket"),
            ("s3://key:secret@bucket/prefix", "credentials"),
            ("s3://bucket/prefix?x=1", "s3://BUCKET/PREFIX"),
            ("/nowhere/at/all", "does not exist"),
        ] {
            let refused = open(text, &S3Options::default()).err().map(|error| error.to_string());
            assert!(
                refused.as_ref().is_some_and(|text| text.contains(says)),
                "{text}: {refused:?}"
            );
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        let endpoint = Some("https://store.example".to_owned());
        let s3 = S3Options { endpoint, ca_bundle: Some(file.clone()), ..S3Options::default() };
        let refused = || open("s3://bucket/prefix", &s3).err().unwrap().to_string();
        assert!(refused().contains("ca.pem"), "it is not there: {}", refused());
        for text in ["", "hello", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            std::fs::write(&file, text).unwrap();
            assert!(refused().contains("ca.pem"), "{text:?}: {}", refused());
        }
    }

    #[test]
    fn only_loopback_is_spoken_to_without_encryption() {
        for (endpoint, plain, allowed) in [
            ("https://store.example", PlainHttp::Loopback, Some(false)),
            ("http://127.0.0.1:9000", PlainHttp::Loopback, Some(true)),
            ("http://[::1]:9000", PlainHttp::Loopback, Some(true)),
            ("http://localhost:9000", PlainHttp::Loopback, Some(true)),
            ("http://localhost.evil.example", PlainHttp::Loopback, None),
            ("http://10.0.0.1", PlainHttp::Loopback, None),
            ("http://10.0.0.1", PlainHttp::Anywhere, Some(true)),
            ("ftp://127.0.0.1", PlainHttp::Anywhere, None),
        ] {
            assert_eq!(allow(endpoint, plain).ok(), allowed, "{endpoint}");
        }
        let endpoint = Some("http://store.example".to_owned());
        let s3 = S3Options { endpoint, ..S3Options::default() };
        let refused = open("s3://bucket/prefix", &s3).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|text| text.contains("--allow-http")));
    }
}
