//! What a record carries so that containers can link it, and the containers' heads. Links are
//! indexes into the slice that holds the records.

/// No record.
pub const NIL: u32 = u32::MAX;

/// A record's link in its hash chain or in the free list of its pool.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Chain {
    pub(crate) next: u32,
    pub(crate) hash: u32,
}

impl Chain {
    /// In no chain.
    pub const NONE: Chain = Chain { next: NIL, hash: 0 };
}

/// The head of a pool.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PoolHead {
    /// The first free record.
    pub(crate) free: u32,
    /// Records from here on were never used: a fresh board touches no memory that it does not need.
    pub(crate) fresh: u32,
    /// How many records are in use.
    pub(crate) live: u32,
}

impl PoolHead {
    /// A pool without records.
    pub const EMPTY: PoolHead = PoolHead { free: NIL, fresh: 0, live: 0 };
}

/// A record's links in its list.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Link {
    pub(crate) before: u32,
    pub(crate) next: u32,
}

impl Link {
    /// In no list.
    pub const NONE: Link = Link { before: NIL, next: NIL };
}

/// The head of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ListHead {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl ListHead {
    /// A list without records.
    pub const EMPTY: ListHead = ListHead { first: NIL, last: NIL };
}

/// A record's children in a treap.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TreapLinks {
    pub(crate) left: u32,
    pub(crate) right: u32,
}

impl TreapLinks {
    /// Without children.
    pub const NONE: TreapLinks = TreapLinks { left: NIL, right: NIL };
}
