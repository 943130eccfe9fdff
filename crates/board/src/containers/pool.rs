//! A pool of records with a free list and a hash index of chains.

use crate::layout::nodes::{Chain, NIL, PoolHead};

/// A pool of records.
pub struct Pool<'a, T> {
    head: &'a mut PoolHead,
    nodes: &'a mut [T],
    /// The records' links in their chains. They lie apart from the records: a search that finds
    /// nothing reads few of the processor's cache lines.
    chains: &'a mut [Chain],
    /// The first records of the chains; as many as a power of two.
    buckets: &'a mut [u32],
}

impl<'a, T> Pool<'a, T> {
    /// A pool over the caller's memory, which holds one already or is to be cleared.
    pub fn new(
        head: &'a mut PoolHead,
        nodes: &'a mut [T],
        chains: &'a mut [Chain],
        buckets: &'a mut [u32],
    ) -> Self {
        assert!(buckets.len().is_power_of_two());
        Pool { head, nodes, chains, buckets }
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
            let chain = self.chains[at as usize];
            if chain.hash == hash && is_same(&self.nodes[at as usize]) {
                return Some(at);
            }
            at = chain.next;
        }
        None
    }

    /// Whether no record can be added.
    pub fn is_full(&self) -> bool {
        self.head.free == NIL && self.head.fresh as usize >= self.nodes.len()
    }

    /// Adds a record; returns its index, or `None` when the pool is full.
    pub fn add(&mut self, hash: u32, node: T) -> Option<u32> {
        let at = match self.head.free {
            NIL if self.is_full() => return None,
            NIL => {
                self.head.fresh += 1;
                self.head.fresh - 1
            }
            free => {
                self.head.free = self.chains[free as usize].next;
                free
            }
        };
        self.chains[at as usize] = Chain { next: std::mem::replace(self.bucket(hash), at), hash };
        self.nodes[at as usize] = node;
        self.head.live += 1;
        Some(at)
    }

    /// Removes a record.
    pub fn free(&mut self, at: u32) {
        let Chain { next, hash } = self.chains[at as usize];
        let mut before = *self.bucket(hash);
        if before == at {
            *self.bucket(hash) = next;
        } else {
            while self.chains[before as usize].next != at {
                before = self.chains[before as usize].next;
            }
            self.chains[before as usize].next = next;
        }
        self.chains[at as usize] = Chain { next: self.head.free, hash: 0 };
        self.head.free = at;
        self.head.live -= 1;
    }

    /// The hash of a record.
    pub fn hash(&self, at: u32) -> u32 {
        self.chains[at as usize].hash
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
            at = self.chains[at as usize].next;
        }
        let mut chained = vec![false; live.len()];
        for (bucket, head) in self.buckets.iter().enumerate() {
            let mut at = *head;
            while at != NIL {
                let Chain { next, hash } = self.chains[at as usize];
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
