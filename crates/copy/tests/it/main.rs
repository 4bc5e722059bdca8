//! Tests of COPY by its public face.

mod examples;
mod model;
mod random;
mod reading;
mod round_trip;
mod values;
