//! Protobuf bodies, built by hand: what they stand for, and what is refused.
#![expect(clippy::expect_used, clippy::panic, reason = "a test")]

mod build;
mod envelopes;
mod headers;
mod limits;
mod lookups;
mod specials;
mod texts;
mod wire;
