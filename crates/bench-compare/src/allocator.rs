//! One allocator for all engines, those written in C and C++ included, on huge pages where the
//! system lends them: Stele asks for them itself, so what others get from `malloc` has them too.
#![allow(unsafe_code)] // A symbol with a fixed name.

use std::ffi::c_char;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Read by jemalloc when it starts. `const char *malloc_conf` to it: `None` would be null.
// SAFETY: the name is jemalloc's for this very purpose, the type has the layout of a pointer, and
// the string ends with a zero byte and lives for ever.
#[unsafe(export_name = "malloc_conf")]
static MALLOC_CONF: Option<&'static c_char> = Some(c_char_of(c"thp:always"));

const fn c_char_of(text: &'static std::ffi::CStr) -> &'static c_char {
    // SAFETY: a C string has at least its zero byte.
    unsafe { &*text.as_ptr() }
}
