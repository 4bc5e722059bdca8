//! Certificates for trying: an authority, a server and a client that trust it.

use crate::files::{self, Readers};
use crate::{Error, Result};
use base::env::{Clock, SystemClock};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::path::{Path, PathBuf};
use time::{Duration, OffsetDateTime};

/// Names that the certificates are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevNames {
    /// DNS names and addresses of the server.
    pub hosts: Vec<String>,
    /// Common name of the client.
    pub client: String,
    /// Days for which the certificates are valid.
    pub days: u32,
}

impl Default for DevNames {
    fn default() -> Self {
        let hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
        Self { hosts, client: "client".to_owned(), days: 365 }
    }
}

/// Makes an authority, and certificates of a server and a client that it signed, in the directory
/// `dir`. Returns the files: `ca.pem`, `server.pem`, `client.pem`, and the key of each, as `ca-key.pem`.
/// Files that exist are an error, and stay. Keys are readable by their owner alone.
pub fn make_dev_certificates(dir: &Path, names: &DevNames) -> Result<Vec<PathBuf>> {
    let wrong = |error: rcgen::Error| Error::invalid(dir, error);
    std::fs::create_dir_all(dir).map_err(|error| Error::io(dir, error))?;
    let valid = Validity::for_days(names.days);
    let key = || KeyPair::generate().map_err(wrong);

    let mut params = valid.params(&[], "Stele development CA").map_err(wrong)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca_key = key()?;
    let ca = params.self_signed(&ca_key).map_err(wrong)?;
    let issuer = Issuer::from_params(&params, &ca_key);

    let signed = |hosts: &[String], name: &str, purposes: &[ExtendedKeyUsagePurpose]| {
        let mut params = valid.params(hosts, name).map_err(wrong)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = purposes.to_vec();
        params.use_authority_key_identifier_extension = true;
        let key = key()?;
        Ok((params.signed_by(&key, &issuer).map_err(wrong)?.pem(), key.serialize_pem()))
    };
    let (serves, calls) =
        (ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth);
    // The nodes of a cluster show their certificate to each other on both sides.
    let server = signed(&names.hosts, "Stele server", &[serves, calls.clone()])?;
    let client = signed(&[], &names.client, &[calls])?;
    let made = [("ca", (ca.pem(), ca_key.serialize_pem())), ("server", server), ("client", client)];
    write(dir, &made)
}

/// Writes the certificates and keys, all of them or none that exists.
fn write(dir: &Path, made: &[(&str, (String, String))]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (name, (certificate, key)) in made {
        files.push((dir.join(format!("{name}.pem")), certificate, Readers::All));
        files.push((dir.join(format!("{name}-key.pem")), key, Readers::Owner));
    }
    if let Some((path, ..)) = files.iter().find(|(path, ..)| path.exists()) {
        return Err(Error::invalid(path, "exists; choose another directory"));
    }
    let mut paths = Vec::new();
    for (path, content, readers) in files {
        files::create(&path, content.as_bytes(), readers)?;
        paths.push(path);
    }
    Ok(paths)
}

/// Time between which a certificate is good.
struct Validity {
    from: OffsetDateTime,
    until: OffsetDateTime,
}

impl Validity {
    /// From yesterday, since clocks differ.
    fn for_days(days: u32) -> Self {
        let now = SystemClock.now_micros() / 1_000_000;
        let now = OffsetDateTime::from_unix_timestamp(now).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        Self { from: now - Duration::days(1), until: now + Duration::days(i64::from(days)) }
    }

    fn params(
        &self,
        hosts: &[String],
        name: &str,
    ) -> std::result::Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name.push(DnType::CommonName, name);
        (params.not_before, params.not_after) = (self.from, self.until);
        Ok(params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_exist_stay_and_nothing_is_added() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("client.pem"), "mine").unwrap();
        let error = make_dev_certificates(dir.path(), &DevNames::default()).unwrap_err();
        assert!(error.to_string().contains("client.pem: exists"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        std::fs::remove_file(dir.path().join("client.pem")).unwrap();
        let files = make_dev_certificates(dir.path(), &DevNames::default()).unwrap();
        assert_eq!(files.len(), 6);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 6);
    }

    #[test]
    fn names_that_are_none_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let names = DevNames { hosts: vec!["\u{e9}".into()], ..DevNames::default() };
        assert!(make_dev_certificates(dir.path(), &names).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
