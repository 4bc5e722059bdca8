//! The settings of a node of a cluster, resolved and checked.

use super::{ConfigError, Settings};
use std::path::PathBuf;
use std::str::FromStr;

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
    /// In etcd; addresses of its members as `HOST:PORT`.
    Etcd(Vec<String>),
    /// In a file, for nodes of one machine.
    File(PathBuf),
}

impl FromStr for DirectoryAt {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if let Some(path) = text.strip_prefix("file:") {
            if path.is_empty() {
                return Err(ConfigError("file: needs the path of a file, as file:PATH".into()));
            }
            return Ok(Self::File(path.into()));
        }
        let members = text.split(',').map(str::trim).filter(|member| !member.is_empty());
        let members = members.map(|member| {
            let address = member.strip_prefix("http://").unwrap_or(member).trim_end_matches('/');
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            port.filter(|_| !address.contains('/')).map(|_| address.to_owned()).ok_or_else(|| {
                ConfigError(format!(
                    "invalid address of etcd {member:?}; use HOST:PORT, separated by commas"
                ))
            })
        });
        let members: Vec<_> = members.collect::<Result<_, _>>()?;
        if members.is_empty() {
            return Err(ConfigError("etcd needs at least one address, as HOST:PORT".into()));
        }
        Ok(Self::Etcd(members))
    }
}

impl Cluster {
    pub(super) fn resolve(settings: &Settings) -> Result<Option<Self>, ConfigError> {
        let Settings { join, cluster_listen, advertise, region, zone, .. } = settings;
        let Some(join) = join else {
            let others = [
                ("cluster_listen", cluster_listen),
                ("advertise", advertise),
                ("region", region),
                ("zone", zone),
            ];
            return match others.into_iter().find(|(_, set)| set.is_some()) {
                None => Ok(None),
                Some((name, _)) => Err(ConfigError(format!(
                    "{name} is a setting of a node of a cluster; set join to the cluster's etcd"
                ))),
            };
        };
        Ok(Some(Self {
            directory: join.parse()?,
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
        let etcd = |all: &[&str]| DirectoryAt::Etcd(all.iter().map(ToString::to_string).collect());
        for (text, wanted) in [
            ("a:1", etcd(&["a:1"])),
            (" http://a:1/, b:2 ", etcd(&["a:1", "b:2"])),
            ("file:/x/y", DirectoryAt::File("/x/y".into())),
        ] {
            assert_eq!(text.parse::<DirectoryAt>().unwrap(), wanted);
        }
        for text in ["", ",", "a", "a:b", "file:", "https://a:1"] {
            assert!(text.parse::<DirectoryAt>().is_err(), "{text}");
        }
    }

    #[test]
    fn settings_of_nodes_need_a_cluster() {
        let none = Settings::default();
        assert_eq!(Cluster::resolve(&none).unwrap(), None);
        let stray = Settings { zone: Some("a".into()), ..none };
        assert!(Cluster::resolve(&stray).unwrap_err().to_string().contains("zone"));
    }
}
