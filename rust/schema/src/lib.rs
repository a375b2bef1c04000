//! What CRD schemas ask for beyond JSON: CEL validation rules and RE2 patterns, compiled and run in bounded time.
#![forbid(unsafe_code)]

pub mod cel;
pub mod pattern;
