//! The core of ctrlhost: work queue, delta FIFO, indexed store, decoder and handlers.
//!
//! Plain Rust without Python. Every time is read through a [`clock`], so tests never sleep.
#![forbid(unsafe_code)]

pub mod clock;
pub mod handlers;
pub mod metrics;
pub mod queue;
pub mod ratelimit;
mod sync;
