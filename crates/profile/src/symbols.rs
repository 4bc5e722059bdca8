//! Names of functions, by the debug information of their files, or else by their symbol tables.

use crate::modules::Module;
use addr2line::Loader;
use std::collections::{BTreeMap, BTreeSet};

/// The functions at all addresses of a profile.
#[derive(Debug)]
pub(crate) struct Symbols {
    modules: Vec<Module>,
    places: BTreeMap<u64, Place>,
}

/// The code at an address of a profile.
#[derive(Debug)]
pub(crate) struct Place {
    /// Index of the module that it belongs to.
    pub(crate) module: Option<usize>,
    /// Functions that the code is of, inlined ones first. Empty if they have no names.
    pub(crate) functions: Vec<Function>,
}

/// A function, and the line in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// Name, as the source has it.
    pub(crate) name: String,
    /// Name in the file, as the compiler wrote it.
    pub(crate) symbol: String,
    pub(crate) file: String,
    pub(crate) line: u32,
}

impl Symbols {
    /// Names what is at `addresses`; nothing if that is `cancelled`.
    pub(crate) fn find(
        modules: Vec<Module>,
        addresses: BTreeSet<u64>,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Self> {
        let (mut places, mut loaded) = (BTreeMap::new(), None);
        for address in addresses {
            if cancelled() {
                return None;
            }
            let module = modules.iter().position(|module| module.addresses.contains(&address));
            let functions = module.map(|index| {
                let module = &modules[index];
                // Addresses come in order, so each file is loaded once.
                if loaded.as_ref().is_none_or(|(known, _)| *known != index) {
                    loaded = Some((index, Loader::new(&module.file).ok()));
                }
                let loader = loaded.as_ref().and_then(|(_, loader)| loader.as_ref());
                loader.map_or_else(Vec::new, |loader| functions(loader, address - module.bias))
            });
            places.insert(address, Place { module, functions: functions.unwrap_or_default() });
        }
        Some(Self { modules, places })
    }

    pub(crate) fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// Returns what is known of each address, in order.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u64, &Place)> {
        self.places.iter().map(|(address, place)| (*address, place))
    }

    /// Returns names for an address, inlined functions first. Code without a name is called by its file.
    pub(crate) fn names(&self, address: u64) -> Vec<String> {
        let place = self.places.get(&address);
        let functions = place.map_or(&[][..], |place| &place.functions);
        if !functions.is_empty() {
            return functions.iter().map(|function| function.name.clone()).collect();
        }
        let module = place.and_then(|place| place.module).map(|index| &self.modules[index]);
        let file = module.map_or("?", |module| module.name.rsplit('/').next().unwrap_or("?"));
        vec![format!("[{file}]")]
    }
}

fn functions(loader: &Loader, address: u64) -> Vec<Function> {
    let mut found = Vec::new();
    if let Ok(mut frames) = loader.find_frames(address) {
        while let Ok(Some(frame)) = frames.next() {
            let Some(name) = &frame.function else { continue };
            let Ok(name) = name.raw_name() else { continue };
            let place = frame.location.as_ref();
            let file = place.and_then(|place| place.file).unwrap_or_default().to_owned();
            let line = place.and_then(|place| place.line).unwrap_or_default();
            found.push(Function { name: readable(&name), symbol: name.into_owned(), file, line });
        }
    }
    if found.is_empty()
        && let Some(name) = loader.find_symbol(address)
    {
        let (symbol, file) = (name.to_owned(), String::new());
        found.push(Function { name: readable(name), symbol, file, line: 0 });
    }
    found
}

/// Returns the name of a function as its source has it, without the compiler's hash.
fn readable(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}
