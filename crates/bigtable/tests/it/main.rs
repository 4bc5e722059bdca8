//! The services over loopback, called through Google's generated clients.

mod admin;
mod assemble;
mod filters;
mod fuzz;
mod harness;
mod limits;
mod read;
mod stream;
mod write;
