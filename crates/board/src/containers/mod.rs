//! Containers over slices: the memory is the caller's, links are indexes into it.

pub mod hash;
pub mod list;
pub mod pool;
pub mod treap;
