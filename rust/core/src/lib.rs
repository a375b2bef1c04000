//! The core of ctrlhost: work queue, delta FIFO, indexed store, decoder and handlers.
//!
//! Plain Rust without Python. Every time is read through a [`clock`], so tests never sleep.
#![forbid(unsafe_code)]

pub mod clock;
pub mod decode;
pub mod delta;
pub mod delta_fifo;
pub mod handlers;
pub mod index;
pub mod informer;
pub mod json;
pub mod key;
pub mod metrics;
pub mod object;
pub mod queue;
pub mod ratelimit;
pub mod store;
pub mod stream;
mod sync;
