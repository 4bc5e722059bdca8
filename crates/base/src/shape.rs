//! Constants of a room as values of one struct, so that tests can make each as small as it goes.
//!
//! [`shape!`](crate::shape) declares the struct: each field is a number with the value that
//! production uses and the range that the code bears. Beside the struct it makes the list of its
//! fields, by which tests draw, print and simplify shapes without naming a field.

use crate::env::Rng;
use std::ops::RangeInclusive;

/// A field of the shape `S`.
#[derive(Debug)]
pub struct Field<S> {
    pub name: &'static str,
    /// The values that the code bears.
    pub range: RangeInclusive<usize>,
    /// Reads it.
    pub get: fn(&S) -> usize,
    pub set: fn(&mut S, usize),
}

impl<S> Field<S> {
    /// A value at random that is not above the `usual` one but for the two after the least: the least
    /// or next to it, or any between, the small ones as likely as the large ones.
    pub fn draw(&self, usual: usize, rng: &mut Rng) -> usize {
        let (least, most) = (*self.range.start(), *self.range.end());
        let value = match rng.below(3) {
            0 => least + rng.index(3),
            1 => least + (1 << rng.below(1 + u64::from(usual.max(2).ilog2()))),
            _ => least + rng.index(usual.saturating_sub(least).clamp(1, 200)),
        };
        value.min(usual.max(least + 2)).clamp(least, most)
    }

    /// Checks the value that `shape` has; the text names the field and its range.
    pub fn check(&self, shape: &S) -> Result<(), String> {
        let (value, range) = ((self.get)(shape), &self.range);
        if range.contains(&value) {
            return Ok(());
        }
        let (name, least, most) = (self.name, range.start(), range.end());
        Err(format!("shape {name} must be {least} to {most}, not {value}"))
    }
}

/// Declares a shape: `/// doc` `name = default, least => most;` for each field.
///
/// ```
/// base::shape! {
///     /// What cuts a loaf.
///     pub struct Loaf {
///         /// Slices. 1 to 40.
///         slices = 20, 1 => 40;
///     }
/// }
/// assert_eq!(Loaf::DEFAULT.slices, 20);
/// let mut loaf = Loaf::DEFAULT;
/// (Loaf::FIELDS[0].set)(&mut loaf, 41);
/// assert!(loaf.check().is_err());
/// assert_eq!(format!("{loaf:?}"), "Loaf { slices: 41 }");
/// assert_eq!(format!("{:?}", Loaf::DEFAULT), "Loaf");
/// ```
#[macro_export]
macro_rules! shape {
    (
        $(#[$doc:meta])*
        $vis:vis struct $shape:ident {
            $($(#[$field_doc:meta])* $name:ident = $default:expr, $least:expr => $most:expr;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        $vis struct $shape {
            $($(#[$field_doc])* pub $name: usize,)*
        }

        impl $shape {
            /// The values of production.
            pub const DEFAULT: Self = Self { $($name: $default,)* };

            /// All fields, in their order.
            pub const FIELDS: &[$crate::shape::Field<Self>] = &[$(
                $crate::shape::Field {
                    name: stringify!($name),
                    range: $least..=$most,
                    get: |shape| shape.$name,
                    set: |shape, value| shape.$name = value,
                },
            )*];

            /// The shape of `seed`: each field is drawn ([`Field::draw`]) with this likelihood in
            /// percent, and else at its default.
            ///
            /// [`Field::draw`]: $crate::shape::Field::draw
            pub fn any(seed: u64, percent: u64) -> Self {
                let mut rng = $crate::env::Rng::new(seed);
                let mut shape = Self::DEFAULT;
                for field in Self::FIELDS {
                    let value = field.draw((field.get)(&Self::DEFAULT), &mut rng);
                    if rng.chance(percent) {
                        (field.set)(&mut shape, value);
                    }
                }
                shape
            }

            /// Checks every range; the text names the field and its range.
            pub fn check(&self) -> Result<(), String> {
                Self::FIELDS.iter().try_for_each(|field| field.check(self))
            }
        }

        impl Default for $shape {
            fn default() -> Self {
                Self::DEFAULT
            }
        }

        /// Prints the fields that differ from the default.
        impl std::fmt::Debug for $shape {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut out = f.debug_struct(stringify!($shape));
                for field in Self::FIELDS {
                    let value = (field.get)(self);
                    if value != (field.get)(&Self::DEFAULT) {
                        out.field(field.name, &value);
                    }
                }
                out.finish()
            }
        }
    };
}
