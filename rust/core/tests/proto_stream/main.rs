//! Lists and watches in protobuf, cut and damaged.

mod cuts;
mod damage;
mod rig;
mod wire;
