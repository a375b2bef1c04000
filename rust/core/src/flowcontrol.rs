//! client-go's flow control: back-off by id for those who ask whether they may go on, and a throttle for callers.

mod backoff;
mod throttle;

pub use backoff::{Backoff, Expiry};
pub use throttle::{Throttle, TooLate};
