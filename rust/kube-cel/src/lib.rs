#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod base64;
mod error;
pub mod pattern;
mod quantity;
mod question;
mod semver;
pub mod url;

mod value;

mod ast;
mod equality;
mod scope;
mod times;

mod authz;
mod operators;
mod types;

mod convert;
mod signatures;

mod check;
mod functions;
mod json;
mod parser;

mod eval;
mod schema;

mod rule;

mod compile;
mod expressions;

mod validator;

mod shards;

pub use compile::Problem;
pub use expressions::{Evaluated, Expressions, Inputs, Outcome, Returns};
pub use question::{Decision, Question};
pub use shards::ShardSelector;
pub use validator::{Finding, Validator};
