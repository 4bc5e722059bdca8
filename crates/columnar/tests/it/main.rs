//! Tests of what the crate promises, through its public face.

mod arrays;
mod damage;
mod golden;
mod round_trip;
mod segments;
mod zone;
