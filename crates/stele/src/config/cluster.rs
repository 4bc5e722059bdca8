//! The settings of a node of a cluster, resolved and checked.

use super::{ConfigError, Settings};
use clap::Args;
use security::tls::ClientFiles;
use std::path::PathBuf;

/// Everything that a server needs to be a node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cluster {
    pub(crate) directory: DirectoryAt,
    /// Address for connections of other nodes.
    pub(crate) listen: String,
    /// Address at which other nodes reach this one; `None` for that of the listener.
    pub(crate) advertise: Option<String>,
    pub(crate) region: String,
    pub(crate) zone: String,
}

/// Place of a cluster's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DirectoryAt {
    /// In etcd, reached plainly or by TLS.
    Etcd(EtcdAt),
    /// In a file, for nodes of one machine.
    File(PathBuf),
}

/// The members of an etcd and how they are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EtcdAt {
    /// Addresses of its members as `HOST:PORT`.
    pub(crate) members: Vec<String>,
    /// Files of TLS; `None` connects without.
    pub(crate) tls: Option<ClientFiles>,
}

impl DirectoryAt {
    /// Returns the files of TLS with etcd; `None` without etcd, or for plain connections.
    pub(crate) fn etcd_files(&self) -> Option<&ClientFiles> {
        match self {
            Self::Etcd(etcd) => etcd.tls.as_ref(),
            Self::File(_) => None,
        }
    }

    /// Returns the place that `text` names: `file:PATH`, or members of an etcd, which are reached by TLS
    /// with the files of `tls` if their addresses begin with `https://`.
    pub(crate) fn resolve(text: &str, tls: &EtcdTls) -> Result<Self, ConfigError> {
        if let Some(path) = text.strip_prefix("file:") {
            if path.is_empty() {
                return Err(ConfigError("file: needs the path of a file, as file:PATH".into()));
            }
            tls.refuse_without_tls()?;
            return Ok(Self::File(path.into()));
        }
        let members = text.split(',').map(str::trim).filter(|member| !member.is_empty());
        let members: Vec<_> = members.map(member).collect::<Result<_, _>>()?;
        let Some((first, _)) = members.first() else {
            return Err(ConfigError("etcd needs at least one address, as HOST:PORT".into()));
        };
        let is_secure = *first;
        if members.iter().any(|(secure, _)| *secure != is_secure) {
            let text = "all addresses of etcd begin with https://, or none does";
            return Err(ConfigError(text.to_owned()));
        }
        let tls = match is_secure {
            true => Some(tls.files()?),
            false => tls.refuse_without_tls().map(|()| None)?,
        };
        let members = members.into_iter().map(|(_, address)| address).collect();
        Ok(Self::Etcd(EtcdAt { members, tls }))
    }
}

/// Returns whether the address of a member asks for TLS, and the address.
fn member(text: &str) -> Result<(bool, String), ConfigError> {
    let secure = text.strip_prefix("https://");
    let address = secure.or_else(|| text.strip_prefix("http://")).unwrap_or(text);
    let address = address.trim_end_matches('/');
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none() || address.contains('/') {
        return Err(ConfigError(format!(
            "invalid address of etcd {text:?}; use HOST:PORT or https://HOST:PORT, separated by commas"
        )));
    }
    Ok((secure.is_some(), address.to_owned()))
}

/// Files by which an etcd is known and knows this program.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct EtcdTls {
    /// CAs, in PEM, that sign the certificates of etcd, whose addresses then begin with
    /// https://. [default: the CAs of the system]
    #[arg(long, env = "STELE_ETCD_CA", value_name = "FILE")]
    pub(crate) etcd_ca: Option<PathBuf>,

    /// Certificate in PEM that is shown to etcd. [default: none]
    #[arg(long, env = "STELE_ETCD_CERT", value_name = "FILE")]
    pub(crate) etcd_cert: Option<PathBuf>,

    /// Private key of etcd-cert in PEM. [default: none]
    #[arg(long, env = "STELE_ETCD_KEY", value_name = "FILE")]
    pub(crate) etcd_key: Option<PathBuf>,
}

impl EtcdTls {
    fn files(&self) -> Result<ClientFiles, ConfigError> {
        let certificate = match (&self.etcd_cert, &self.etcd_key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (Some(_), None) => return Err(ConfigError("etcd_cert needs etcd_key".to_owned())),
            (None, Some(_)) => return Err(ConfigError("etcd_key needs etcd_cert".to_owned())),
        };
        Ok(ClientFiles { ca: self.etcd_ca.clone(), certificate })
    }

    fn refuse_without_tls(&self) -> Result<(), ConfigError> {
        match self.set() {
            None => Ok(()),
            Some(name) => {
                Err(ConfigError(format!("{name} needs addresses of etcd that begin with https://")))
            }
        }
    }

    /// Returns the name of a setting that is set.
    fn set(&self) -> Option<&'static str> {
        let all = [
            ("etcd_ca", &self.etcd_ca),
            ("etcd_cert", &self.etcd_cert),
            ("etcd_key", &self.etcd_key),
        ];
        all.into_iter().find(|(_, set)| set.is_some()).map(|(name, _)| name)
    }
}

impl Cluster {
    pub(super) fn resolve(settings: &Settings) -> Result<Option<Self>, ConfigError> {
        let Settings { join, cluster_listen, advertise, region, zone, .. } = settings;
        let tls = EtcdTls {
            etcd_ca: settings.etcd_ca.clone(),
            etcd_cert: settings.etcd_cert.clone(),
            etcd_key: settings.etcd_key.clone(),
        };
        let Some(join) = join else {
            let others = [
                ("cluster_listen", cluster_listen),
                ("advertise", advertise),
                ("region", region),
                ("zone", zone),
            ];
            let stray = others.into_iter().find(|(_, set)| set.is_some()).map(|(name, _)| name);
            return match stray.or_else(|| tls.set()) {
                None => Ok(None),
                Some(name) => Err(ConfigError(format!(
                    "{name} is a setting of a node of a cluster; set join to the cluster's etcd"
                ))),
            };
        };
        Ok(Some(Self {
            directory: DirectoryAt::resolve(join, &tls)?,
            listen: cluster_listen.clone().unwrap_or_else(|| "127.0.0.1:8088".to_owned()),
            advertise: advertise.clone(),
            region: region.clone().unwrap_or_default(),
            zone: zone.clone().unwrap_or_default(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_named_by_addresses_or_a_file() {
        let etcd = |all: &[&str], tls| {
            let members = all.iter().map(ToString::to_string).collect();
            DirectoryAt::Etcd(EtcdAt { members, tls })
        };
        let plain = EtcdTls::default();
        for (text, wanted) in [
            ("a:1", etcd(&["a:1"], None)),
            (" http://a:1/, b:2 ", etcd(&["a:1", "b:2"], None)),
            ("https://a:1/,https://b:2", etcd(&["a:1", "b:2"], Some(ClientFiles::default()))),
            ("file:/x/y", DirectoryAt::File("/x/y".into())),
        ] {
            assert_eq!(DirectoryAt::resolve(text, &plain).unwrap(), wanted);
        }
        for text in ["", ",", "a", "a:b", "file:", "https://a:1,b:2", "https://a/b:1"] {
            assert!(DirectoryAt::resolve(text, &plain).is_err(), "{text}");
        }
    }

    #[test]
    fn files_of_tls_need_addresses_of_tls() {
        let ca = EtcdTls { etcd_ca: Some("ca.pem".into()), ..EtcdTls::default() };
        for text in ["a:1", "file:/x"] {
            let error = DirectoryAt::resolve(text, &ca).unwrap_err().to_string();
            assert!(error.contains("etcd_ca") && error.contains("https://"), "{error}");
        }
        assert!(DirectoryAt::resolve("https://a:1", &ca).is_ok());
        let half = EtcdTls { etcd_cert: Some("cert.pem".into()), ..ca };
        let error = DirectoryAt::resolve("https://a:1", &half).unwrap_err().to_string();
        assert!(error.contains("etcd_key"), "{error}");
    }

    #[test]
    fn settings_of_nodes_need_a_cluster() {
        let none = Settings::default();
        assert_eq!(Cluster::resolve(&none).unwrap(), None);
        let stray = Settings { zone: Some("a".into()), ..none };
        assert!(Cluster::resolve(&stray).unwrap_err().to_string().contains("zone"));
    }
}
