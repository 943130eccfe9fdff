//! A pool of nodes in a slice, with a free list and a hash index of chains.

/// No node.
pub const NIL: u32 = u32::MAX;

/// A node's place in its hash chain, or in the free list.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Chain {
    next: u32,
    hash: u32,
}

impl Chain {
    pub const NONE: Chain = Chain { next: NIL, hash: 0 };

    pub fn hash(self) -> u32 {
        self.hash
    }
}

pub trait Node {
    fn chain(&mut self) -> &mut Chain;
    fn chain_ref(&self) -> &Chain;
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PoolHead {
    free: u32,
    /// Nodes from here on have never been used: a fresh board touches no memory it does not need.
    fresh: u32,
    live: u32,
}

impl PoolHead {
    pub const EMPTY: PoolHead = PoolHead { free: NIL, fresh: 0, live: 0 };
}

pub struct Pool<'a, T> {
    head: &'a mut PoolHead,
    nodes: &'a mut [T],
    /// Heads of the chains; as many as a power of two.
    buckets: &'a mut [u32],
}

impl<'a, T: Node> Pool<'a, T> {
    pub fn new(head: &'a mut PoolHead, nodes: &'a mut [T], buckets: &'a mut [u32]) -> Self {
        assert!(buckets.len().is_power_of_two());
        Pool { head, nodes, buckets }
    }

    pub fn clear(&mut self) {
        *self.head = PoolHead::EMPTY;
        self.buckets.fill(NIL);
    }

    fn bucket(&mut self, hash: u32) -> &mut u32 {
        let mask = self.buckets.len() - 1;
        &mut self.buckets[hash as usize & mask]
    }

    pub fn find(&self, hash: u32, same: impl Fn(&T) -> bool) -> Option<u32> {
        let mut at = self.buckets[hash as usize & (self.buckets.len() - 1)];
        while at != NIL {
            let node = &self.nodes[at as usize];
            if node.chain_ref().hash == hash && same(node) {
                return Some(at);
            }
            at = node.chain_ref().next;
        }
        None
    }

    pub fn is_full(&self) -> bool {
        self.head.free == NIL && self.head.fresh as usize >= self.nodes.len()
    }

    /// Adds a node; `None` when the pool is full.
    pub fn add(&mut self, hash: u32, mut node: T) -> Option<u32> {
        let at = match self.head.free {
            NIL if self.is_full() => return None,
            NIL => {
                self.head.fresh += 1;
                self.head.fresh - 1
            }
            free => {
                self.head.free = self.nodes[free as usize].chain_ref().next;
                free
            }
        };
        *node.chain() = Chain { next: std::mem::replace(self.bucket(hash), at), hash };
        self.nodes[at as usize] = node;
        self.head.live += 1;
        Some(at)
    }

    /// Takes a node out of its chain and gives its place to the free list.
    pub fn free(&mut self, at: u32) {
        let Chain { next, hash } = *self[at].chain_ref();
        let mut before = *self.bucket(hash);
        if before == at {
            *self.bucket(hash) = next;
        } else {
            while self[before].chain_ref().next != at {
                before = self[before].chain_ref().next;
            }
            self[before].chain().next = next;
        }
        *self[at].chain() = Chain { next: self.head.free, hash: 0 };
        self.head.free = at;
        self.head.live -= 1;
    }

    pub fn live(&self) -> u32 {
        self.head.live
    }

    pub fn capacity(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Which of the places ever used are live, after checking the chains and the free list.
    pub(crate) fn audit(&self) -> Vec<bool> {
        let mut live = vec![true; self.head.fresh as usize];
        let mut at = self.head.free;
        while at != NIL {
            assert!(std::mem::take(&mut live[at as usize]), "a place is free once");
            at = self[at].chain_ref().next;
        }
        let mut chained = vec![false; live.len()];
        for (bucket, head) in self.buckets.iter().enumerate() {
            let mut at = *head;
            while at != NIL {
                let Chain { next, hash } = *self[at].chain_ref();
                assert_eq!(hash as usize & (self.buckets.len() - 1), bucket, "node {at}'s bucket");
                assert!(!std::mem::replace(&mut chained[at as usize], true), "in one chain, once");
                at = next;
            }
        }
        assert_eq!(live, chained, "what is not free is in a chain");
        assert_eq!(live.iter().filter(|it| **it).count(), self.head.live as usize, "live nodes");
        live
    }

    /// How many of the first places were ever used: a walk over the pool ends there.
    pub fn used(&self) -> u32 {
        self.head.fresh
    }
}

impl<T> std::ops::Index<u32> for Pool<'_, T> {
    type Output = T;
    fn index(&self, at: u32) -> &T {
        &self.nodes[at as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Pool<'_, T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.nodes[at as usize]
    }
}
