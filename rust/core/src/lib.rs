//! The core of ctrlhost: from the bytes of the API server to keys in a work queue. Plain Rust, no Python.
//!
//! The modules are in the order of the flow.
#![forbid(unsafe_code)]

pub mod json; // scan and read JSON text
pub mod proto; // read protobuf bodies, and write them as JSON

pub mod budget; // what informers may take together
pub mod clock; // time as an argument, so that no test sleeps
pub mod memory; // bytes by what they are for
pub mod sync; // locks: their order, and loom's in their place
pub mod term; // terms of leadership, and what may be sent in them

pub mod compress; // bodies at rest

pub mod decode; // list pages and watch frames to raw objects
pub mod object; // raw objects to cached objects

pub mod delta_fifo; // changes by key until they are processed
pub mod event_log; // changes in the order of the server, for readers in other processes
pub mod store; // the last known state of every object, with indexes

pub mod handlers; // changes to requests
pub mod informer; // all of the above for one resource
pub mod key; // keys of queues
pub mod ratelimit; // how long a failed key waits
pub mod selector; // label and field selectors as clients send them

pub mod queue; // keys that need work

pub mod metrics; // what a queue counts
