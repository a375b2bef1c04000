//! The parts of CRD schemas beyond JSON Schema's structure: CEL validation rules and RE2 patterns, run in bounded
//! time.
#![forbid(unsafe_code)]

pub mod cel;
pub mod pattern;
