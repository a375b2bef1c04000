//! The validation rules of CRDs: CEL with Kubernetes' functions, checked against the schema and run in bounded time.
//!
//! Every step of an evaluation is counted, and so is what it builds; nesting is bounded before anything recurses;
//! regular expressions are matched in linear time. So every rule ends with a value or with an error.

mod ast;
mod authz;
mod check;
mod compile;
mod convert;
mod equality;
mod eval;
mod expressions;
mod folds;
mod functions;
mod json;
mod lexer;
mod macros;
mod operators;
mod parser;
mod primaries;
mod quantity;
mod rule;
mod schema;
mod scope;
mod semver;
mod signatures;
mod times;
mod types;
mod url;
mod validator;
mod value;

pub use authz::{Decision, Question};
pub use compile::Problem;
pub use expressions::{Evaluated, Expressions, Inputs, Outcome, Returns};
pub use validator::{Finding, Validator};

/// A text is not a valid rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompileError {
    at: usize,
    why: String,
}

impl CompileError {
    fn at(at: usize, why: String) -> Self {
        Self { at, why }
    }

    /// Return the message with its line and a mark below the place.
    fn shown(&self, text: &str) -> String {
        let at = (0..=self.at.min(text.len()))
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        let (before, _) = text.split_at(at);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        let column = before.get(start..).unwrap_or_default().chars().count();
        let source = text
            .get(start..)
            .and_then(|rest| rest.lines().next())
            .unwrap_or_default();
        format!(
            "ERROR: <input>:{line}:{}: {}\n | {source}\n | {}^",
            column + 1,
            self.why,
            ".".repeat(column)
        )
    }
}

/// Why an evaluation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EvalError {
    /// An error of the rule.
    #[error("{0}")]
    Failed(String),
    /// It took too many steps.
    #[error("operation cancelled: actual cost limit exceeded")]
    TooCostly,
}

impl EvalError {
    fn no_overload() -> Self {
        Self::Failed("no such overload".to_owned())
    }

    fn because(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }
}
