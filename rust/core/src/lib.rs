//! The core of ctrlhost: from the bytes of the API server to keys in a work queue. Plain Rust, no Python.
//!
//! A module uses those of the groups above its own; `tests/unit/core/test_rust_rooms.py` reads the groups.
#![forbid(unsafe_code)]

pub mod budget; // what informers may take together
pub mod compress; // bodies at rest
pub mod json; // scan and read JSON text
pub mod key; // keys of queues
pub mod memory; // bytes by what they are for
pub mod metrics; // what a queue counts
pub mod shards; // parts of all objects, by a hash
pub mod sync; // locks: their order, and loom's in their place

pub mod clock; // time as an argument, so that no test sleeps
pub mod owner; // owner references, and the owners for which handlers look
pub mod projection; // the part of an object that is kept

pub mod proto; // read protobuf bodies, and write them as JSON
pub mod ratelimit; // how long a failed key waits
pub mod term; // terms of leadership, and what may be sent in them

pub mod decode; // list pages and watch frames to raw objects
pub mod queue; // keys that need work

pub mod object; // raw objects to cached objects

pub mod store; // the last known state of every object, with indexes

pub mod delta_fifo; // changes by key until they are processed
pub mod event_log; // changes in the order of the server, for readers in other processes

pub mod handlers; // changes to requests

pub mod informer; // all of the above for one resource
pub mod selector; // label and field selectors as clients send them
