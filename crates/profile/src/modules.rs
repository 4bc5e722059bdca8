//! The files of machine code that this process has mapped.

use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{NativeEndian, Object, ObjectSection, ReadCache, elf};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Name by which the executable can be opened also when its file was replaced.
const EXECUTABLE: &str = "/proc/self/exe";

/// A file of code that is mapped.
#[derive(Debug)]
pub(crate) struct Module {
    /// Path, to be shown to people.
    pub(crate) name: String,
    /// Path by which the file can be opened.
    pub(crate) file: PathBuf,
    pub(crate) addresses: Range<u64>,
    /// Address and place in the file at which the mapping of its code begins.
    pub(crate) code: (u64, u64),
    /// Difference of an address in memory and the same one in the file.
    pub(crate) bias: u64,
    /// Build id, in hexadecimal digits; empty without one.
    pub(crate) build_id: String,
    pub(crate) sections: Sections,
}

/// The sections by which frames are unwound, with their addresses in the file.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    pub(crate) text: Option<Range<u64>>,
    pub(crate) got: Option<Range<u64>>,
    pub(crate) eh_frame: Option<(Range<u64>, Vec<u8>)>,
    pub(crate) eh_frame_hdr: Option<(Range<u64>, Vec<u8>)>,
}

/// One mapping of code, and the addresses of all mappings of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    addresses: Range<u64>,
    code: Option<(u64, u64)>,
}

/// Reads the mapped files of this process. A file that cannot be read, or is of another form, is left out.
pub(crate) fn of_this_process() -> io::Result<Vec<Module>> {
    let mappings = mappings(&std::fs::read_to_string("/proc/self/maps")?);
    let executable = std::fs::read_link(EXECUTABLE)?;
    let modules = mappings.iter().filter_map(|(name, mapping)| {
        let is_executable = Path::new(name) == executable;
        let file = if is_executable { EXECUTABLE } else { name.as_str() };
        module(name, Path::new(file), mapping).ok()
    });
    Ok(modules.collect())
}

/// Returns the mappings of files in the text of `/proc/self/maps`, by path.
fn mappings(maps: &str) -> BTreeMap<String, Mapping> {
    let mut found: BTreeMap<String, Mapping> = BTreeMap::new();
    for line in maps.lines() {
        let Some((addresses, code, path)) = parse(line) else { continue };
        let known = found
            .entry(path.to_owned())
            .or_insert_with(|| Mapping { addresses: addresses.clone(), code: None });
        known.addresses.start = known.addresses.start.min(addresses.start);
        known.addresses.end = known.addresses.end.max(addresses.end);
        known.code = known.code.or(code.map(|offset| (addresses.start, offset)));
    }
    found.retain(|_, mapping| mapping.code.is_some());
    found
}

/// Reads a line `START-END PERMISSIONS OFFSET DEVICE INODE PATH`: the addresses, the offset if it is
/// executable, and the path of a file.
fn parse(line: &str) -> Option<(Range<u64>, Option<u64>, &str)> {
    let path = &line[line.find('/')?..];
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let executable = fields.next()?.contains('x');
    let offset = number(fields.next()?)?;
    Some((number(start)?..number(end)?, executable.then_some(offset), path))
}

fn module(name: &str, file: &Path, mapping: &Mapping) -> io::Result<Module> {
    let malformed = |error: object::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let cache = ReadCache::new(File::open(file)?);
    let elf = ElfFile64::<NativeEndian, _>::parse(&cache).map_err(malformed)?;
    let (start, file_offset) = mapping.code.ok_or(io::ErrorKind::InvalidData)?;
    let endian = elf.endian();
    let headers = elf.elf_header().program_headers(endian, &cache).map_err(malformed)?;
    let segment = headers.iter().find(|header| {
        let begins = header.p_offset(endian) & !0xfff;
        header.p_type(endian) == elf::PT_LOAD
            && header.p_flags(endian) & elf::PF_X != 0
            && begins <= file_offset
            && file_offset < header.p_offset(endian).saturating_add(header.p_filesz(endian))
    });
    let segment = segment.ok_or(io::ErrorKind::InvalidData)?;
    let in_file =
        file_offset.wrapping_sub(segment.p_offset(endian)).wrapping_add(segment.p_vaddr(endian));
    let section = |name: &str| {
        let section = elf.section_by_name(name)?;
        let range = section.address()..section.address().checked_add(section.size())?;
        Some((range, section))
    };
    let with_data = |name: &str| {
        let (range, section) = section(name)?;
        Some((range, section.data().ok()?.to_vec()))
    };
    let build_id = elf.build_id().ok().flatten().unwrap_or_default();
    Ok(Module {
        name: name.to_owned(),
        file: file.to_owned(),
        addresses: mapping.addresses.clone(),
        code: (start, file_offset),
        bias: start.wrapping_sub(in_file),
        build_id: build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
        sections: Sections {
            text: section(".text").map(|(range, _)| range),
            got: section(".got").map(|(range, _)| range),
            eh_frame: with_data(".eh_frame"),
            eh_frame_hdr: with_data(".eh_frame_hdr"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_one_file_are_joined_and_others_left_out() {
        let maps = "\
            1000-2000 r--p 00000000 fe:01 12 /opt/a program\n\
            2000-5000 r-xp 00001000 fe:01 12 /opt/a program\n\
            7000-8000 rw-p 00004000 fe:01 12 /opt/a program\n\
            9000-a000 rw-p 00000000 00:00 0 \n\
            a000-b000 r--s 00000000 fe:01 13 /data/file\n\
            b000-c000 r-xp 00000000 00:00 0 [vdso]\n\
            nonsense /\n\
            -1-zz r-xp 0 0 0 /x\n";
        let want = Mapping { addresses: 0x1000..0x8000, code: Some((0x2000, 0x1000)) };
        let found = mappings(maps);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("/opt/a program".to_owned(), want)]);
    }

    #[test]
    fn this_program_is_among_the_modules_with_what_unwinding_needs() {
        let here = this_program_is_among_the_modules_with_what_unwinding_needs as *const () as u64;
        let modules = of_this_process().unwrap();
        let own = modules.iter().find(|module| module.addresses.contains(&here)).unwrap();
        assert_eq!(own.file, Path::new(EXECUTABLE));
        assert!(own.sections.eh_frame.is_some() && own.sections.eh_frame_hdr.is_some());
        assert!(own.sections.text.as_ref().unwrap().contains(&here.wrapping_sub(own.bias)));
    }
}
