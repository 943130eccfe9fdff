//! First-in, first-out lists.

use crate::layout::nodes::{Link, ListHead, NIL};

/// The records that a list links.
pub trait ListNodes {
    /// A record's links in the list.
    fn link(&mut self, node: u32) -> &mut Link;
}

/// Appends a record that is in no list yet.
pub fn push(nodes: &mut (impl ListNodes + ?Sized), list: &mut ListHead, node: u32) {
    *nodes.link(node) = Link { before: list.last, next: NIL };
    match list.last {
        NIL => list.first = node,
        last => nodes.link(last).next = node,
    }
    list.last = node;
}

/// Takes a record out of its list.
pub fn remove(nodes: &mut (impl ListNodes + ?Sized), list: &mut ListHead, node: u32) {
    let Link { before, next } = std::mem::replace(nodes.link(node), Link::NONE);
    match before {
        NIL => list.first = next,
        before => nodes.link(before).next = next,
    }
    match next {
        NIL => list.last = before,
        next => nodes.link(next).before = before,
    }
}

/// Takes the first record off a list; `None`: the list is empty.
pub fn pop(nodes: &mut (impl ListNodes + ?Sized), list: &mut ListHead) -> Option<u32> {
    let first = Some(list.first).filter(|first| *first != NIL)?;
    remove(nodes, list, first);
    Some(first)
}

/// The records of a list in order, after checking its links.
#[cfg(feature = "audit")]
pub fn in_order(nodes: &mut (impl ListNodes + ?Sized), list: ListHead) -> Vec<u32> {
    let (mut found, mut before) = (Vec::new(), NIL);
    let mut at = list.first;
    while at != NIL {
        let link = *nodes.link(at);
        assert_eq!(link.before, before, "a list's links agree");
        found.push(at);
        (before, at) = (at, link.next);
    }
    assert_eq!(list.last, before, "a list ends where its head says");
    found
}
