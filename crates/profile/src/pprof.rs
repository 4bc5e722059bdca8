//! The form of pprof: a message `perftools.profiles.Profile`, compressed with gzip.

use crate::Profile;
use crate::symbols::Symbols;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use std::collections::HashMap;
use std::io::Write;

/// The messages of `profile.proto`, as far as they are written here.
pub(crate) mod message {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(crate) sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(crate) sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub(crate) mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub(crate) location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(crate) function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(crate) string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub(crate) time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub(crate) duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub(crate) period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub(crate) period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub(crate) comment: Vec<i64>,
        #[prost(int64, tag = "14")]
        pub(crate) default_sample_type: i64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(crate) r#type: i64,
        #[prost(int64, tag = "2")]
        pub(crate) unit: i64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(crate) location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(crate) value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub(crate) label: Vec<Label>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct Label {
        #[prost(int64, tag = "1")]
        pub(crate) key: i64,
        #[prost(int64, tag = "2")]
        pub(crate) str: i64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct Mapping {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(uint64, tag = "2")]
        pub(crate) memory_start: u64,
        #[prost(uint64, tag = "3")]
        pub(crate) memory_limit: u64,
        #[prost(uint64, tag = "4")]
        pub(crate) file_offset: u64,
        #[prost(int64, tag = "5")]
        pub(crate) filename: i64,
        #[prost(int64, tag = "6")]
        pub(crate) build_id: i64,
        #[prost(bool, tag = "7")]
        pub(crate) has_functions: bool,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct Location {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(uint64, tag = "2")]
        pub(crate) mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub(crate) address: u64,
        #[prost(message, repeated, tag = "4")]
        pub(crate) line: Vec<Line>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct Line {
        #[prost(uint64, tag = "1")]
        pub(crate) function_id: u64,
        #[prost(int64, tag = "2")]
        pub(crate) line: i64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(crate) struct Function {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(int64, tag = "2")]
        pub(crate) name: i64,
        #[prost(int64, tag = "3")]
        pub(crate) system_name: i64,
        #[prost(int64, tag = "4")]
        pub(crate) filename: i64,
    }
}

impl message::Profile {
    /// Returns the bytes of a file.
    pub(crate) fn compressed(&self) -> Vec<u8> {
        let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
        let written = compressed.write_all(&self.encode_to_vec());
        written.and_then(|()| compressed.finish()).expect("a vector takes every write")
    }
}

/// A profile of any kind, with names and units of its values. The last of them is the one that tools show.
pub(crate) struct Content<'a> {
    pub(crate) values: [(&'static str, &'static str); 2],
    pub(crate) samples: Vec<Sample<'a>>,
    /// Name and unit of the period, and the period.
    pub(crate) period: (&'static str, &'static str, i64),
    pub(crate) time_nanos: i64,
    pub(crate) duration_nanos: i64,
    /// Samples that are missing in the profile.
    pub(crate) lost: u64,
}

/// A stack with its values.
pub(crate) struct Sample<'a> {
    pub(crate) frames: &'a [u64],
    pub(crate) values: [i64; 2],
    pub(crate) thread: Option<&'a str>,
}

impl Content<'_> {
    /// Returns the message, in which `symbols` name the frames.
    pub(crate) fn message(self, symbols: &Symbols) -> message::Profile {
        let mut texts = Texts::default();
        texts.index("");
        let sample_type = self.values.map(|(name, unit)| texts.value_type(name, unit)).to_vec();
        let period_type = Some(texts.value_type(self.period.0, self.period.1));
        let mapping = mappings(symbols, &mut texts);
        let (location, function, ids) = locations(symbols, &mut texts);
        let key = texts.index("thread");
        let sample = self.samples.iter().map(|sample| {
            let label = |thread| message::Label { key, str: texts.index(thread) };
            message::Sample {
                location_id: sample.frames.iter().map(|address| ids[address]).collect(),
                value: sample.values.to_vec(),
                label: sample.thread.map(label).into_iter().collect(),
            }
        });
        let sample = sample.collect();
        let comment = match self.lost {
            0 => Vec::new(),
            lost => vec![texts.index(&format!("{lost} samples found no place and are missing"))],
        };
        message::Profile {
            default_sample_type: texts.index(self.values[1].0),
            sample_type,
            sample,
            mapping,
            location,
            function,
            time_nanos: self.time_nanos,
            duration_nanos: self.duration_nanos,
            period_type,
            period: self.period.2,
            comment,
            string_table: texts.all,
        }
    }
}

impl Profile {
    /// Returns the profile as `go tool pprof` and other tools read it.
    pub fn to_pprof(&self) -> Vec<u8> {
        self.message().compressed()
    }

    pub(crate) fn message(&self) -> message::Profile {
        let nanos = |time: std::time::Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let period = nanos(self.interval);
        let counts = self.stacks.counts();
        let samples = counts.iter().map(|(stack, count)| {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            let values = [count, count.saturating_mul(period)];
            Sample { frames: &stack.frames, values, thread: Some(&stack.thread) }
        });
        Content {
            values: [("samples", "count"), ("cpu", "nanoseconds")],
            samples: samples.collect(),
            period: ("cpu", "nanoseconds", period),
            time_nanos: self.started_micros.saturating_mul(1_000),
            duration_nanos: nanos(self.length),
            lost: self.stacks.lost_count(),
        }
        .message(&self.symbols)
    }
}

/// The table of texts, each once.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
    known: HashMap<String, i64>,
}

impl Texts {
    fn index(&mut self, text: &str) -> i64 {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        let index = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.known.insert(text.to_owned(), index);
        index
    }

    fn value_type(&mut self, name: &str, unit: &str) -> message::ValueType {
        message::ValueType { r#type: self.index(name), unit: self.index(unit) }
    }
}

/// Returns the mappings; their ids are their indexes and one.
fn mappings(symbols: &Symbols, texts: &mut Texts) -> Vec<message::Mapping> {
    let named: std::collections::BTreeSet<_> = symbols
        .places()
        .filter(|(_, place)| !place.functions.is_empty())
        .filter_map(|(_, place)| place.module)
        .collect();
    let mapping = |(index, module): (usize, &crate::modules::Module)| message::Mapping {
        id: index as u64 + 1,
        memory_start: module.code.0,
        memory_limit: module.addresses.end,
        file_offset: module.code.1,
        filename: texts.index(&module.name),
        build_id: texts.index(&module.build_id),
        has_functions: named.contains(&index),
    };
    symbols.modules().iter().enumerate().map(mapping).collect()
}

/// Returns the places, their functions, and the id of each address.
fn locations(
    symbols: &Symbols,
    texts: &mut Texts,
) -> (Vec<message::Location>, Vec<message::Function>, HashMap<u64, u64>) {
    let (mut all, mut functions, mut ids) = (Vec::new(), Vec::new(), HashMap::new());
    let mut known: HashMap<(i64, i64), u64> = HashMap::new();
    for (address, place) in symbols.places() {
        let line = place.functions.iter().map(|function| {
            let (name, filename) = (texts.index(&function.name), texts.index(&function.file));
            // A name that differs from it is left as it is; else tools take it for one of C++.
            let system_name = texts.index(&function.symbol);
            let function_id = *known.entry((system_name, filename)).or_insert_with(|| {
                let id = functions.len() as u64 + 1;
                functions.push(message::Function { id, name, system_name, filename });
                id
            });
            message::Line { function_id, line: function.line.into() }
        });
        let (id, mapping_id) = (all.len() as u64 + 1, place.module.map_or(0, |at| at as u64 + 1));
        all.push(message::Location { id, mapping_id, address, line: line.collect() });
        ids.insert(address, id);
    }
    (all, functions, ids)
}
