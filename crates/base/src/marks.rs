//! Coverage marks: the branches at the borders of a room, counted while tests run.
//!
//! [`marks!`](crate::marks) declares the list. A branch calls `Mark::X.hit()`, which counts in a
//! build with debug assertions and is nothing in any other. Counts are of the process: a suite that
//! wants every mark hit runs in one process, and looks when it is done.

/// Declares an enum of marks: `/// doc` `Name,` for each.
///
/// ```
/// base::marks! {
///     /// What happens to a loaf.
///     pub enum Mark {
///         /// It is cut.
///         Cut,
///         /// It is eaten.
///         Eaten,
///     }
/// }
/// Mark::Cut.hit();
/// assert_eq!(Mark::Cut.hits(), u64::from(cfg!(debug_assertions)));
/// assert_eq!(Mark::Eaten.hits(), 0);
/// ```
#[macro_export]
macro_rules! marks {
    (
        $(#[$doc:meta])*
        $vis:vis enum $mark:ident {
            $($(#[$name_doc:meta])* $name:ident,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $mark {
            $($(#[$name_doc])* $name,)*
        }

        impl $mark {
            /// All marks.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Counts one hit, in builds with debug assertions.
            #[inline(always)]
            pub fn hit(self) {
                #[cfg(debug_assertions)]
                Self::counts()[self as usize].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }

            /// Hits since the process began; 0 in builds without debug assertions.
            pub fn hits(self) -> u64 {
                #[cfg(debug_assertions)]
                return Self::counts()[self as usize].load(std::sync::atomic::Ordering::Relaxed);
                #[cfg(not(debug_assertions))]
                0
            }

            #[cfg(debug_assertions)]
            fn counts() -> &'static [std::sync::atomic::AtomicU64] {
                use std::sync::atomic::AtomicU64;
                static COUNTS: [AtomicU64; $mark::ALL.len()] =
                    [const { AtomicU64::new(0) }; $mark::ALL.len()];
                &COUNTS
            }
        }
    };
}
