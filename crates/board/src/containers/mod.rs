pub mod list;
pub mod pool;
pub mod treap;
