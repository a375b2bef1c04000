//! HTTP on native threads: it answers whatever the interpreter does. Plain Rust, no Python.
#![forbid(unsafe_code)]

#[cfg(unix)]
pub mod feed;
