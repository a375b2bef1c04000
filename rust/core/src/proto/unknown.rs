//! Fields that the table lacks.

use std::fmt::Write as _;

use crate::json::path::Step;

/// The fields of a body that the table lacks and that are not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// How many there are.
    pub count: usize,
    /// The first one.
    pub first: Option<UnknownField>,
}

/// A field that the table lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownField {
    /// Its number.
    pub number: u32,
    /// The steps to the value that has it, the last one first.
    pub(super) trail: Vec<Step>,
}

impl Unknown {
    pub(super) fn add(&mut self, number: u32) {
        self.count += 1;
        self.first.get_or_insert_with(|| UnknownField {
            number,
            trail: Vec::new(),
        });
    }

    /// Note the step to the value that was read, if the first unknown field was found in it.
    pub(super) fn passed(&mut self, before: usize, step: impl FnOnce() -> Step) {
        if let (0, Some(first)) = (before, &mut self.first) {
            first.trail.push(step());
        }
    }
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(first) = &self.first else {
            return f.write_str("no unknown field");
        };
        write!(f, "field {}", first.number)?;
        match first.path() {
            path if path.is_empty() => Ok(()),
            path => write!(f, " of {path}"),
        }
    }
}

impl UnknownField {
    /// Return the path of the value that has the field, such as `spec.containers[0]`; empty for the object itself.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for step in self.trail.iter().rev() {
            // Writing into memory cannot fail.
            let _ = match step {
                Step::Key(key) if path.is_empty() => write!(path, "{key}"),
                Step::Key(key) => write!(path, ".{key}"),
                Step::Index(index) => write!(path, "[{index}]"),
                Step::All => write!(path, "[*]"),
            };
        }
        path
    }
}
