//! The clock that every delay, timeout and age in the core is read from.
