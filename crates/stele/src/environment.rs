//! Variables of the environment whose names begin with `STELE_`. A variable that no setting has is
//! refused with its name, because a misspelt safety setting must not be ignored; but not those that
//! Kubernetes makes of the names of services.

use crate::cli::Cli;
use crate::config::ConfigError;
use clap::CommandFactory;
use std::ffi::OsString;

/// Refuses `STELE_...` variables that set nothing. Returns the names of variables that Kubernetes made
/// for services whose names begin with `stele`: they are ignored.
pub(crate) fn check() -> Result<Vec<String>, ConfigError> {
    refuse_unknown_variables(std::env::vars_os())?;
    Ok(service_links())
}

fn refuse_unknown_variables(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<(), ConfigError> {
    let known = known_variables();
    for (name, value) in variables {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        let is_known = known.iter().any(|known| *known == name);
        if name.starts_with("STELE_") && !is_known && !is_service_link(&name, &value) {
            return Err(ConfigError(format!(
                "unknown environment variable {name}; the known variables are {}",
                known.join(", ")
            )));
        }
    }
    Ok(())
}

fn service_links() -> Vec<String> {
    let known = known_variables();
    let variables = std::env::vars_os();
    let texts = variables.map(|(name, value)| {
        (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    });
    let links = texts.filter(|(name, value)| {
        name.starts_with("STELE_") && !known.contains(name) && is_service_link(name, value)
    });
    links.map(|(name, _)| name).collect()
}

fn known_variables() -> Vec<String> {
    let cli = Cli::command();
    cli.get_subcommands()
        .flat_map(|command| command.get_arguments())
        .filter_map(|arg| arg.get_env().map(|name| name.to_string_lossy().into_owned()))
        .collect()
}

/// Returns whether Kubernetes makes such a variable, in every pod, for a service: `NAME_SERVICE_HOST`,
/// `NAME_SERVICE_PORT`, `NAME_SERVICE_PORT_LABEL`, `NAME_PORT` with an address, and
/// `NAME_PORT_80_TCP` with `_PROTO`, `_PORT`, `_ADDR` or nothing behind it.
fn is_service_link(name: &str, value: &str) -> bool {
    if name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT") {
        return true;
    }
    if name.split_once("_SERVICE_PORT_").is_some_and(|(_, label)| !label.is_empty()) {
        return true;
    }
    if name.ends_with("_PORT") && value.contains("://") {
        return true;
    }
    let Some((_, port)) = name.rsplit_once("_PORT_") else { return false };
    let mut parts = port.split('_');
    let number = parts.next().unwrap_or_default();
    let protocol = parts.next().unwrap_or_default();
    !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && ["TCP", "UDP", "SCTP"].contains(&protocol)
        && matches!(parts.next(), None | Some("PROTO" | "PORT" | "ADDR"))
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variables_are_refused_by_name() {
        let refused = |name: &str| {
            let variables = [("PATH", "/bin"), ("STELE_DATA_DIR", "/data"), (name, "1")];
            refuse_unknown_variables(
                variables.iter().map(|(name, value)| (name.into(), value.into())),
            )
        };
        for name in ["STELE_DATADIR", "STELE_HTTP_PORT", "STELE_PORTS", "STELE_SERVICE_", "STELE_"]
        {
            let error = refused(name).unwrap_err().to_string();
            assert!(error.contains(&format!("{name};")), "{error}");
        }
        refused("ESTELE_DATADIR").unwrap();
    }

    #[test]
    fn what_kubernetes_makes_of_a_service_is_no_setting() {
        let variables = |service: &str, port: &str, address: &str| {
            let all = [
                ("SERVICE_HOST", "10.0.0.11"),
                ("SERVICE_PORT", port),
                ("SERVICE_PORT_GRPC_1", port),
                ("PORT", address),
                ("PORT_8086_TCP", address),
                ("PORT_8086_TCP_PROTO", "tcp"),
                ("PORT_8086_TCP_PORT", port),
                ("PORT_8086_TCP_ADDR", "10.0.0.11"),
            ];
            all.map(|(name, value)| (format!("{service}_{name}").into(), value.into()))
        };
        for service in ["STELE", "STELE_HTTP", "STELE_2", "STELE_DATA_DIR"] {
            let variables = variables(service, "8086", "tcp://10.0.0.11:8086");
            refuse_unknown_variables(variables.into_iter()).unwrap();
        }
        let variables = variables("STELE_HTTP", "8086", "8086");
        let error = refuse_unknown_variables(variables.into_iter()).unwrap_err().to_string();
        assert!(error.contains("variable STELE_HTTP_PORT;"), "{error}");
    }
}
