//! Ordered trees: treaps whose heap order comes from the record's own index and the board's seed,
//! so that a record needs no memory beside two links.

use crate::containers::hash::mix;
use crate::layout::nodes::{NIL, TreapLinks};

/// The records that a tree links. Their order must not change while they are in the tree.
pub trait TreapNodes {
    /// A number that users do not know, so that they cannot choose ranks that make a tree a list.
    fn seed(&self) -> u32;
    /// A record's children.
    fn links(&mut self, node: u32) -> &mut TreapLinks;
    /// Whether `a` comes before `b`.
    fn before(&self, a: u32, b: u32) -> bool;
}

/// Where a subtree hangs: below a record, or as the root.
#[derive(Clone, Copy)]
enum Position {
    Root,
    Left(u32),
    Right(u32),
}

/// The record's weight; a heavier one is higher in the tree. No two weigh the same.
pub fn weight(nodes: &impl TreapNodes, node: u32) -> u32 {
    mix(node ^ nodes.seed())
}

fn attach(nodes: &mut impl TreapNodes, root: &mut u32, position: Position, node: u32) {
    match position {
        Position::Root => *root = node,
        Position::Left(parent) => nodes.links(parent).left = node,
        Position::Right(parent) => nodes.links(parent).right = node,
    }
}

/// Puts a record into a tree; returns the tree's root.
pub fn insert(nodes: &mut impl TreapNodes, mut root: u32, node: u32) -> u32 {
    let (mut position, mut at) = (Position::Root, root);
    while at != NIL && weight(nodes, at) > weight(nodes, node) {
        (position, at) = step(nodes, node, at);
    }
    attach(nodes, &mut root, position, node);
    // The subtree that was here is split into the records before `node` and those after it.
    let (mut before, mut after) = (Position::Left(node), Position::Right(node));
    while at != NIL {
        if nodes.before(at, node) {
            attach(nodes, &mut root, before, at);
            before = Position::Right(at);
            at = nodes.links(at).right;
        } else {
            attach(nodes, &mut root, after, at);
            after = Position::Left(at);
            at = nodes.links(at).left;
        }
    }
    attach(nodes, &mut root, before, NIL);
    attach(nodes, &mut root, after, NIL);
    root
}

/// Takes a record out of its tree; returns the tree's root.
pub fn remove(nodes: &mut impl TreapNodes, mut root: u32, node: u32) -> u32 {
    let (mut position, mut at) = (Position::Root, root);
    while at != node {
        assert!(at != NIL, "a record to remove is in its tree");
        (position, at) = step(nodes, node, at);
    }
    let TreapLinks { mut left, mut right } = *nodes.links(node);
    while left != NIL && right != NIL {
        if weight(nodes, left) > weight(nodes, right) {
            attach(nodes, &mut root, position, left);
            position = Position::Right(left);
            left = nodes.links(left).right;
        } else {
            attach(nodes, &mut root, position, right);
            position = Position::Left(right);
            right = nodes.links(right).left;
        }
    }
    attach(nodes, &mut root, position, if left == NIL { right } else { left });
    *nodes.links(node) = TreapLinks::NONE;
    root
}

/// One step down from `at` on the way to where `node` belongs.
fn step(nodes: &mut impl TreapNodes, node: u32, at: u32) -> (Position, u32) {
    if nodes.before(node, at) {
        (Position::Left(at), nodes.links(at).left)
    } else {
        (Position::Right(at), nodes.links(at).right)
    }
}

/// The first record of a tree.
pub fn first(nodes: &mut impl TreapNodes, root: u32) -> Option<u32> {
    outermost(root, |node| nodes.links(node).left)
}

/// The first record for which `is_before` does not hold; it holds for those before that one only.
pub fn seek<N: TreapNodes>(
    nodes: &mut N,
    root: u32,
    is_before: impl Fn(&N, u32) -> bool,
) -> Option<u32> {
    let (mut found, mut at) = (None, root);
    while at != NIL {
        if is_before(nodes, at) {
            at = nodes.links(at).right;
        } else {
            (found, at) = (Some(at), nodes.links(at).left);
        }
    }
    found
}

/// The record that comes after one, which may be in no tree.
pub fn next(nodes: &mut impl TreapNodes, root: u32, node: u32) -> Option<u32> {
    let (mut found, mut at) = (None, root);
    while at != NIL {
        if nodes.before(node, at) {
            (found, at) = (Some(at), nodes.links(at).left);
        } else {
            at = nodes.links(at).right;
        }
    }
    found
}

/// The last record of a tree.
pub fn last(nodes: &mut impl TreapNodes, root: u32) -> Option<u32> {
    outermost(root, |node| nodes.links(node).right)
}

fn outermost(root: u32, mut child: impl FnMut(u32) -> u32) -> Option<u32> {
    let mut found = None;
    let mut at = root;
    while at != NIL {
        found = Some(at);
        at = child(at);
    }
    found
}

/// The records of a tree in order, after checking that it is one: ordered, and a heap. `deepest` is
/// raised to the tree's depth.
#[cfg(feature = "audit")]
pub fn in_order(nodes: &mut impl TreapNodes, root: u32, deepest: &mut usize) -> Vec<u32> {
    let (mut found, mut path) = (Vec::new(), Vec::new());
    let (mut at, mut depth, mut parent) = (root, 0, NIL);
    loop {
        while at != NIL {
            // Each child weighs less, so that a walk down ends whatever the links say.
            let is_below = parent == NIL || weight(nodes, at) < weight(nodes, parent);
            assert!(is_below, "a tree is a heap");
            depth += 1;
            *deepest = depth.max(*deepest);
            path.push((at, depth));
            (parent, at) = (at, nodes.links(at).left);
        }
        let Some((node, level)) = path.pop() else {
            return found;
        };
        if let Some(before) = found.last() {
            assert!(nodes.before(*before, node), "the records of a tree are in order");
        }
        found.push(node);
        (parent, at, depth) = (node, nodes.links(node).right, level);
    }
}
