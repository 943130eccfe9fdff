//! First-in, first-out lists over nodes that live in slices.

use crate::containers::pool::NIL;

/// A node's place in its list.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Link {
    before: u32,
    next: u32,
}

impl Link {
    pub const NONE: Link = Link { before: NIL, next: NIL };

    pub fn next(self) -> u32 {
        self.next
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ListHead {
    pub first: u32,
    last: u32,
}

impl ListHead {
    pub const NONE: ListHead = ListHead { first: NIL, last: NIL };
}

/// Where the nodes of a list are.
pub trait Links {
    fn link(&mut self, node: u32) -> &mut Link;
}

/// Adds a node that stands in no list at the end.
pub fn push(nodes: &mut (impl Links + ?Sized), ends: &mut ListHead, node: u32) {
    *nodes.link(node) = Link { before: ends.last, next: NIL };
    match ends.last {
        NIL => ends.first = node,
        last => nodes.link(last).next = node,
    }
    ends.last = node;
}

pub fn remove(nodes: &mut (impl Links + ?Sized), ends: &mut ListHead, node: u32) {
    let Link { before, next } = std::mem::replace(nodes.link(node), Link::NONE);
    match before {
        NIL => ends.first = next,
        before => nodes.link(before).next = next,
    }
    match next {
        NIL => ends.last = before,
        next => nodes.link(next).before = before,
    }
}

/// Takes the first node off a list.
pub fn pop(nodes: &mut (impl Links + ?Sized), ends: &mut ListHead) -> Option<u32> {
    let first = Some(ends.first).filter(|first| *first != NIL)?;
    remove(nodes, ends, first);
    Some(first)
}

/// The nodes of a list in order, after checking its links. For tests.
pub(crate) fn in_order(nodes: &mut (impl Links + ?Sized), ends: ListHead) -> Vec<u32> {
    let (mut found, mut before) = (Vec::new(), NIL);
    let mut at = ends.first;
    while at != NIL {
        let link = *nodes.link(at);
        assert_eq!(link.before, before, "a list's links agree");
        found.push(at);
        (before, at) = (at, link.next);
    }
    assert_eq!(ends.last, before, "a list ends where it says");
    found
}
