//! Return addresses of a copied stack, found by the unwind tables that compilers write for exceptions.

use crate::modules::Module;
use crate::signal::Registers;
use framehop::{
    CacheNative, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, UnwindRegsNative,
    Unwinder as _, UnwinderNative,
};

/// Frames of a stack that are kept, from its top.
pub(crate) const FRAMES_MAX: usize = 192;

/// Unwinds stacks of this process.
pub(crate) struct Unwinder {
    tables: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
}

impl Unwinder {
    pub(crate) fn new(modules: &[Module]) -> Self {
        let mut tables = UnwinderNative::new();
        for module in modules {
            let sections = &module.sections;
            let frames = sections.eh_frame.clone().unzip();
            let header = sections.eh_frame_hdr.clone().unzip();
            let info = ExplicitModuleSectionInfo {
                base_svma: 0,
                text_svma: sections.text.clone(),
                got_svma: sections.got.clone(),
                eh_frame_svma: frames.0,
                eh_frame: frames.1,
                eh_frame_hdr_svma: header.0,
                eh_frame_hdr: header.1,
                ..Default::default()
            };
            let (name, addresses) = (module.name.clone(), module.addresses.clone());
            tables.add_module(framehop::Module::new(name, addresses, module.bias, info));
        }
        Self { tables, cache: CacheNative::new() }
    }

    /// Returns an address within each function of a stack, the innermost first; `word` reads the stack. One
    /// that cannot be followed to its end gives its known part.
    pub(crate) fn frames(
        &mut self,
        registers: &Registers,
        mut word: impl FnMut(u64) -> Option<u64>,
    ) -> Vec<u64> {
        let mut read = |address: u64| word(address).ok_or(());
        let (instruction, registers) = native(registers);
        let mut found = self.tables.iter_frames(instruction, registers, &mut self.cache, &mut read);
        let mut frames = Vec::new();
        while frames.len() < FRAMES_MAX
            && let Ok(Some(frame)) = found.next()
        {
            frames.push(frame.address_for_lookup());
        }
        frames
    }
}

#[cfg(target_arch = "x86_64")]
fn native(registers: &Registers) -> (u64, UnwindRegsNative) {
    let Registers { instruction, stack, frame } = *registers;
    (instruction, UnwindRegsNative::new(instruction, stack, frame))
}

#[cfg(target_arch = "aarch64")]
fn native(registers: &Registers) -> (u64, UnwindRegsNative) {
    let Registers { instruction, stack, frame, link } = *registers;
    (instruction, UnwindRegsNative::new(link, stack, frame))
}
