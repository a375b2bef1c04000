//! HTTP on native threads: it works whatever the interpreter does. Plain Rust, no Python.
#![forbid(unsafe_code)]

pub mod certificate;
pub mod client;
#[cfg(unix)]
pub mod feed;

#[cfg(unix)]
pub mod listener;
