//! Why a rule does not compile, and why an evaluation fails.

/// A text is not a valid rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompileError {
    pub(crate) at: usize,
    pub(crate) why: String,
}

impl CompileError {
    pub(crate) fn at(at: usize, why: String) -> Self {
        Self { at, why }
    }

    /// Return the message with its line and a mark below the place.
    pub(crate) fn shown(&self, text: &str) -> String {
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
    pub(crate) fn no_overload() -> Self {
        Self::Failed("no such overload".to_owned())
    }

    pub(crate) fn because(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }
}
