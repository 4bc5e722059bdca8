//! The settings of the storage engine, resolved and checked.

use super::{ConfigError, Settings};
use crate::size::ByteSize;
use engine::internals::ReadPath;
use engine::{BackgroundRate, Durability, Options};
use std::time::Duration;

/// Returns the options of the engine: `default` where nothing is set.
pub(super) fn resolve(settings: &Settings, default: Options) -> Result<Options, ConfigError> {
    let bytes = |set: Option<ByteSize>, default: usize| {
        set.map_or(default, |size| usize::try_from(size.0).unwrap_or(usize::MAX))
    };
    let size = |set: Option<ByteSize>, default: u64| set.map_or(default, |size| size.0);
    let durability = settings.durability.as_deref().map(parse_durability).transpose()?;
    let read_path = settings.read_path_off.as_deref().map(parse_read_path_off).transpose()?;
    let rate = settings.background_rate.as_deref().map(parse_rate).transpose()?;
    let options = Options {
        durability: durability.unwrap_or(default.durability),
        memtable_bytes_max: bytes(settings.memtable_bytes_max, default.memtable_bytes_max),
        memory_bytes_max: bytes(settings.memory_bytes_max, default.memory_bytes_max),
        cache_bytes_max: settings.cache_bytes_max.map(|size| bytes(Some(size), 0)),
        direct_reads: settings.direct_reads.unwrap_or(default.direct_reads),
        open_files_max: settings.open_files_max.or(default.open_files_max),
        read_path: read_path.unwrap_or(default.read_path),
        log_segment_bytes: size(settings.log_segment_bytes, default.log_segment_bytes),
        l0_runs_compact: settings.l0_runs_compact.unwrap_or(default.l0_runs_compact),
        l0_runs_stall: settings.l0_runs_stall.unwrap_or(default.l0_runs_stall),
        sst_bytes_max: size(settings.sst_bytes_max, default.sst_bytes_max),
        l1_bytes_max: size(settings.l1_bytes_max, default.l1_bytes_max),
        subcompactions_max: settings.subcompactions_max.or(default.subcompactions_max),
        background_rate: rate.unwrap_or(default.background_rate),
        background_threads: settings.background_threads.unwrap_or(default.background_threads),
        shape: default.shape,
    };
    options.validate().map_err(|error| ConfigError(error.to_string()))?;
    Ok(options)
}
/// `sync`, `interval=MS` or `none`.
pub(super) fn parse_durability(text: &str) -> Result<Durability, ConfigError> {
    match text.split_once('=') {
        None if text == "sync" => Ok(Durability::Sync),
        None if text == "none" => Ok(Durability::None),
        Some(("interval", ms)) if ms.parse::<u32>().is_ok_and(|ms| (1..=60_000).contains(&ms)) => {
            Ok(Durability::Interval(Duration::from_millis(ms.parse().unwrap_or_default())))
        }
        _ => Err(ConfigError(format!(
            "invalid durability {text:?}; use sync, none or interval=MS with MS from 1 to 60000"
        ))),
    }
}

/// `off`, `auto` or bytes a second.
fn parse_rate(text: &str) -> Result<BackgroundRate, ConfigError> {
    match text {
        "off" => Ok(BackgroundRate::Unlimited),
        "auto" => Ok(BackgroundRate::Auto),
        _ => match text.parse::<ByteSize>() {
            Ok(ByteSize(bytes)) => Ok(BackgroundRate::BytesPerSecond(bytes)),
            Err(error) => Err(ConfigError(format!(
                "invalid background_rate {text:?}; use off, auto or bytes per second: {error}"
            ))),
        },
    }
}

/// Names of parts of the read path, each of which is off; `none` names none.
pub(super) fn parse_read_path_off(text: &str) -> Result<ReadPath, ConfigError> {
    let mut parts = ReadPath::default();
    for name in text.split(',').map(str::trim).filter(|name| *name != "none") {
        let part = match name {
            "huge-pages" => &mut parts.huge_pages,
            "hints" => &mut parts.hints,
            "filters" => &mut parts.filters,
            "point-reads" => &mut parts.point_reads,
            "batched-reads" => &mut parts.batched_reads,
            "prefix-index" => &mut parts.prefix_index,
            "readahead" => &mut parts.readahead,
            "cache-warming" => &mut parts.cache_warming,
            "admission" => &mut parts.admission,
            "counters" => &mut parts.counters,
            _ => {
                return Err(ConfigError(format!(
                    "invalid read_path_off {name:?}; use huge-pages, hints, filters, point-reads, \
                     batched-reads, prefix-index, readahead, cache-warming, admission, counters or none"
                )));
            }
        };
        *part = false;
    }
    Ok(parts)
}
