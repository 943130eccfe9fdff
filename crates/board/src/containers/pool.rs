//! A pool of records with a free list and a hash index of chains.

use crate::layout::nodes::{Chain, NIL, PoolHead};

/// A record that a pool links.
pub trait PoolNode {
    /// The record's place in its chain or in the free list.
    fn chain(&self) -> &Chain;
    /// As `chain`, to change it.
    fn chain_mut(&mut self) -> &mut Chain;
}

/// A pool of records.
pub struct Pool<'a, T> {
    head: &'a mut PoolHead,
    nodes: &'a mut [T],
    /// The first records of the chains; as many as a power of two.
    buckets: &'a mut [u32],
}

impl<'a, T: PoolNode> Pool<'a, T> {
    /// A pool over the caller's memory, which holds one already or is to be cleared.
    pub fn new(head: &'a mut PoolHead, nodes: &'a mut [T], buckets: &'a mut [u32]) -> Self {
        assert!(buckets.len().is_power_of_two());
        Pool { head, nodes, buckets }
    }

    /// Makes the pool empty, whatever its memory holds.
    pub fn clear(&mut self) {
        *self.head = PoolHead::EMPTY;
        self.buckets.fill(NIL);
    }

    fn bucket(&mut self, hash: u32) -> &mut u32 {
        let mask = self.buckets.len() - 1;
        &mut self.buckets[hash as usize & mask]
    }

    /// The index of the record with this hash that `is_same` accepts.
    pub fn find(&self, hash: u32, is_same: impl Fn(&T) -> bool) -> Option<u32> {
        let mut at = self.buckets[hash as usize & (self.buckets.len() - 1)];
        while at != NIL {
            let node = &self.nodes[at as usize];
            if node.chain().hash == hash && is_same(node) {
                return Some(at);
            }
            at = node.chain().next;
        }
        None
    }

    /// Whether no record can be added.
    pub fn is_full(&self) -> bool {
        self.head.free == NIL && self.head.fresh as usize >= self.nodes.len()
    }

    /// Adds a record; returns its index, or `None` when the pool is full.
    pub fn add(&mut self, hash: u32, mut node: T) -> Option<u32> {
        let at = match self.head.free {
            NIL if self.is_full() => return None,
            NIL => {
                self.head.fresh += 1;
                self.head.fresh - 1
            }
            free => {
                self.head.free = self.nodes[free as usize].chain().next;
                free
            }
        };
        *node.chain_mut() = Chain { next: std::mem::replace(self.bucket(hash), at), hash };
        self.nodes[at as usize] = node;
        self.head.live += 1;
        Some(at)
    }

    /// Removes a record.
    pub fn free(&mut self, at: u32) {
        let Chain { next, hash } = *self[at].chain();
        let mut before = *self.bucket(hash);
        if before == at {
            *self.bucket(hash) = next;
        } else {
            while self[before].chain().next != at {
                before = self[before].chain().next;
            }
            self[before].chain_mut().next = next;
        }
        *self[at].chain_mut() = Chain { next: self.head.free, hash: 0 };
        self.head.free = at;
        self.head.live -= 1;
    }

    /// How many records are in use.
    pub fn live(&self) -> u32 {
        self.head.live
    }

    /// How many records the pool can have.
    pub fn capacity(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// The end of the indexes that were ever used: a walk over the pool ends there.
    pub fn end(&self) -> u32 {
        self.head.fresh
    }

    /// Which of the indexes ever used have a record, after checking the chains and the free list.
    #[cfg(feature = "audit")]
    pub fn audit(&self) -> Vec<bool> {
        let mut live = vec![true; self.head.fresh as usize];
        let mut at = self.head.free;
        while at != NIL {
            assert!(std::mem::take(&mut live[at as usize]), "a record is free once");
            at = self[at].chain().next;
        }
        let mut chained = vec![false; live.len()];
        for (bucket, head) in self.buckets.iter().enumerate() {
            let mut at = *head;
            while at != NIL {
                let Chain { next, hash } = *self[at].chain();
                assert_eq!(
                    hash as usize & (self.buckets.len() - 1),
                    bucket,
                    "record {at}'s bucket"
                );
                assert!(!std::mem::replace(&mut chained[at as usize], true), "in one chain, once");
                at = next;
            }
        }
        assert_eq!(live, chained, "a record that is not free is in a chain");
        assert_eq!(live.iter().filter(|it| **it).count(), self.head.live as usize, "live records");
        live
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
