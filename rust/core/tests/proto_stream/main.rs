//! Lists and watches in protobuf, cut and damaged.

mod both;
mod cuts;
mod damage;
mod endless;
mod rig;
mod shards;
mod wire;
