use super::storage::{parse_durability, parse_read_path_off};
use super::*;
use clap::{CommandFactory, Parser};
use engine::BackgroundRate;
use engine::internals::ReadPath;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: ServeArgs,
}

#[test]
fn tls_needs_both_files_and_opens_the_server_only_with_authentication() {
    let resolved = |flags: &[&str]| Config::resolve(settings(flags));
    let reach = |flags: &[&str]| resolved(flags).unwrap().reach;
    assert_eq!(reach(&[]), Reach::Loopback);
    assert_eq!(reach(&["--insecure-listen"]), Reach::Anywhere);
    let tls = ["--tls-cert=c", "--tls-key=k"];
    assert_eq!(reach(&tls), Reach::Loopback, "encrypted, but for everyone");
    assert_eq!(reach(&["--tls-cert=c", "--tls-key=k", "--tls-client-ca=a"]), Reach::Anywhere);
    assert_eq!(reach(&["--tls-cert=c", "--tls-key=k", "--identities=i"]), Reach::Anywhere);
    assert_eq!(reach(&["--identities=i"]), Reach::Loopback, "tokens in plaintext");
    for flag in ["--policy=p", "--audit-log=a"] {
        let error = resolved(&[flag]).unwrap_err().to_string();
        assert!(error.contains("needs clients that are known"), "{error}");
    }
    for (flag, missing) in [
        ("--tls-cert=c", "tls_key"),
        ("--tls-key=k", "tls_cert"),
        ("--tls-client-ca=a", "tls_cert"),
    ] {
        let error = resolved(&[flag]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{missing} is not set")), "{error}");
    }
}

fn settings(flags: &[&str]) -> Settings {
    Line::parse_from(["serve"].iter().chain(flags)).args.settings
}

#[test]
fn documented_defaults_are_the_real_ones() {
    let config = Config::default();
    let defaults = [
        ("data_dir", config.data_dir.display().to_string()),
        ("bigtable_listen", config.bigtable_listen),
        ("http_listen", config.http_listen),
        ("sql_listen", super::Sql::default().listen),
        ("http_hosts", "none".into()),
        ("strict_instances", config.strict_instances.to_string()),
        ("deleted_table_days", config.deleted_table_days.to_string()),
        ("insecure_listen", "false".into()),
        ("join", "none".into()),
        ("cluster_listen", "127.0.0.1:8088".into()),
        ("advertise", "cluster-listen".into()),
        ("region", "none".into()),
        ("zone", "none".into()),
        ("tls_cert", "none".into()),
        ("etcd_ca", "the CAs of the system".into()),
        ("etcd_cert", "none".into()),
        ("etcd_key", "none".into()),
        ("tls_key", "none".into()),
        ("tls_client_ca", "none".into()),
        ("identities", "none".into()),
        ("policy", "none".into()),
        ("checkpoint_dir", "data-dir".into()),
        ("audit_log", "the log".into()),
        ("durability", "sync".into()),
        ("drain_seconds", config.drain.as_secs().to_string()),
        ("connections_max", config.limits.connections_max.to_string()),
        ("connections_per_address_max", "half of connections-max".into()),
        ("calls_max", "one for each 16KiB of memory-bytes-max, at least 2000".into()),
        ("calls_per_identity_max", "half of calls-max".into()),
        ("streams_per_connection_max", config.limits.streams_per_connection_max.to_string()),
        ("connection_idle_seconds", config.limits.connection.idle.as_secs().to_string()),
        ("connection_age_seconds", "0".into()),
        ("read_idle_seconds", config.read_idle.as_secs().to_string()),
        ("metrics_tables_max", config.metrics_tables_max.to_string()),
        ("slow_request_ms", config.slow_request.as_millis().to_string()),
        ("heap_sample_bytes", ByteSize(config.heap_sample_bytes).to_string()),
        ("otlp_endpoint", "none".into()),
        ("otlp_sampling", super::traces::SAMPLING.to_string()),
        ("log_format", "text".into()),
        ("log_level", config.log_level),
        ("background_threads", config.engine.background_threads.to_string()),
        ("memory_bytes_max", ByteSize(config.engine.memory_bytes_max as u64).to_string()),
        ("cache_bytes_max", "all of the budget that is not otherwise used".into()),
        ("direct_reads", config.engine.direct_reads.to_string()),
        ("open_files_max", "three quarters of the hard limit".into()),
        ("read_path_off", "none".into()),
        ("memtable_bytes_max", ByteSize(config.engine.memtable_bytes_max as u64).to_string()),
        ("log_segment_bytes", ByteSize(config.engine.log_segment_bytes).to_string()),
        ("l0_runs_compact", config.engine.l0_runs_compact.to_string()),
        ("l0_runs_stall", config.engine.l0_runs_stall.to_string()),
        ("sst_bytes_max", ByteSize(config.engine.sst_bytes_max).to_string()),
        ("l1_bytes_max", ByteSize(config.engine.l1_bytes_max).to_string()),
        ("subcompactions_max", "background-threads".into()),
        ("background_rate", "off".into()),
    ];
    let (all, of_one) = (config.limits.connections_max, config.limits.connections_per_address_max);
    assert_eq!((all / 2, config.limits.connection.age), (of_one, None));
    let (all, of_one) = (config.limits.calls_max, config.limits.calls_per_identity_max);
    assert_eq!((all, of_one), (config.engine.memory_bytes_max >> 14, all / 2));
    assert_eq!(config.engine.durability, Durability::Sync);
    assert_eq!((config.engine.cache_bytes_max, config.engine.open_files_max), (None, None));
    assert_eq!(config.engine.subcompactions_max, None);
    assert_eq!(config.engine.background_rate, BackgroundRate::Unlimited);
    assert_eq!(config.engine.read_path, ReadPath::default());
    let cli = Line::command();
    let mut documented = 0;
    for arg in cli.get_arguments().filter(|arg| arg.get_id() != "config") {
        let name = arg.get_id().as_str();
        let (_, value) = defaults.iter().find(|(known, _)| *known == name).expect(name);
        let help = arg.get_long_help().or(arg.get_help()).expect(name).to_string();
        assert!(help.contains(&format!("[default: {value}]")), "{name}: {help}");
        assert_eq!(
            arg.get_env().and_then(|name| name.to_str()),
            Some(format!("STELE_{}", name.to_uppercase()).as_str()),
            "the variable is named like the key"
        );
        documented += 1;
    }
    assert_eq!(documented, defaults.len());
}

#[test]
fn a_rate_is_off_auto_or_bytes_a_second() {
    let rate = |text| Config::resolve(settings(&["--background-rate", text]));
    for (text, want) in [
        ("off", BackgroundRate::Unlimited),
        ("auto", BackgroundRate::Auto),
        ("64MiB", BackgroundRate::BytesPerSecond(64 << 20)),
    ] {
        assert_eq!(rate(text).unwrap().engine.background_rate, want, "{text}");
    }
    for text in ["fast", "1KiB", ""] {
        let error = rate(text).unwrap_err().to_string();
        assert!(error.contains("background_rate"), "{text}: {error}");
    }
}

#[test]
fn flags_win_over_the_file_and_the_file_over_defaults() {
    let file: Settings =
        toml::from_str("data_dir = '/file'\ndurability = 'none'\nsst_bytes_max = '1MiB'").unwrap();
    let flags = settings(&["--data-dir", "/flag", "--cache-bytes-max", "8MiB"]);
    let config = Config::resolve(flags.over(file)).unwrap();
    assert_eq!(config.data_dir, Path::new("/flag"));
    assert_eq!(config.engine.durability, Durability::None);
    assert_eq!(config.engine.sst_bytes_max, 1 << 20);
    assert_eq!(config.engine.cache_bytes_max, Some(8 << 20));
    assert_eq!(config.http_listen, Config::default().http_listen);
}

#[test]
fn unknown_keys_are_refused_by_name() {
    let error = toml::from_str::<Settings>("durabilty = 'sync'").unwrap_err().to_string();
    assert!(error.contains("durabilty") && error.contains("durability"), "{error}");
}

#[test]
fn durability_is_read_in_its_three_forms() {
    for (text, want) in [
        ("sync", Durability::Sync),
        ("none", Durability::None),
        ("interval=250", Durability::Interval(Duration::from_millis(250))),
    ] {
        assert_eq!(parse_durability(text).unwrap(), want, "{text}");
    }
    for text in ["", "Sync", "interval", "interval=", "interval=0", "interval=60001", "sync=1"] {
        let error = parse_durability(text).unwrap_err().to_string();
        assert!(error.contains("interval=MS"), "{text}: {error}");
    }
}

#[test]
fn parts_of_the_read_path_are_switched_off_by_name() {
    let off = |text| parse_read_path_off(text).unwrap();
    let on = ReadPath::default();
    assert_eq!(off("none"), on);
    assert_eq!(off("hints"), ReadPath { hints: false, ..on });
    let all = "huge-pages,hints, filters,point-reads,batched-reads,prefix-index,readahead,\
               cache-warming,admission,counters";
    assert_eq!(format!("{:?}", off(all)).matches("true").count(), 0);
    for text in ["", "hint", "hints,", "hints filters"] {
        let error = parse_read_path_off(text).unwrap_err().to_string();
        assert!(error.contains("read_path_off") && error.contains("point-reads"), "{error}");
    }
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    for (key, value, want) in [
        ("drain_seconds", "3601", "0 to 3600"),
        ("connections_max", "0", "1 to 1000000"),
        ("connections_per_address_max", "0", "1 to 1000000"),
        ("calls_max", "0", "1 to 10000000"),
        ("calls_per_identity_max", "10000001", "1 to 10000000"),
        ("streams_per_connection_max", "100001", "1 to 100000"),
        ("connection_idle_seconds", "0", "1 to 604800"),
        ("connection_age_seconds", "604801", "0 to 604800"),
        ("read_idle_seconds", "0", "1 to 86400"),
        ("background_threads", "0", "1 to 64"),
        ("memtable_bytes_max", "1", "64 KiB to 4 GiB"),
        ("memory_bytes_max", "1", "1 MiB or more"),
        ("cache_bytes_max", "'1GiB'", "1 MiB to memory_bytes_max"),
        ("l0_runs_stall", "4", "greater than l0_runs_compact"),
        ("open_files_max", "15", "16 or more"),
        ("subcompactions_max", "0", "1 to 64"),
    ] {
        let settings = toml::from_str(&format!("{key} = {value}")).unwrap();
        let error = Config::resolve(settings).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(want), "{error}");
    }
}

#[test]
fn names_of_hosts_have_no_ports() {
    assert_eq!(parse_hosts(" Stele.Example ,b,").unwrap(), ["stele.example", "b"]);
    for text in ["stele:8087", "a b", "http://stele", "*"] {
        let error = parse_hosts(text).unwrap_err().to_string();
        assert!(error.contains("http_hosts") && error.contains(text), "{error}");
    }
}

#[test]
fn limits_of_clients_follow_from_what_is_set() {
    let limits = |text: &str| Config::resolve(toml::from_str(text).unwrap()).unwrap().limits;
    let set =
        limits("connections_max = 7\nconnection_age_seconds = 60\nmemory_bytes_max = '64MiB'");
    assert_eq!((set.connections_max, set.connections_per_address_max), (7, 4));
    assert_eq!(set.connection.age, Some(Duration::from_secs(60)));
    assert_eq!(set.upload_bytes_max, 16 << 20, "a quarter of the budget");
    assert_eq!(limits("connections_per_address_max = 3").connections_max, 10_000);
    let set = limits("calls_max = 7");
    assert_eq!((set.calls_max, set.calls_per_identity_max), (7, 4));
    assert_eq!(limits("calls_per_identity_max = 3").calls_max, 512 << 6);
    assert_eq!(limits("connection_age_seconds = 0").connection.age, None);
}
