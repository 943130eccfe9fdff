//! Ordered trees over nodes that live in slices: a treap whose heap order comes from the node's
//! own index and the board's seed, so that it needs no memory beside two links a node.

use crate::containers::pool::NIL;
use crate::layout::names::mix;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Links {
    pub left: u32,
    pub right: u32,
}

impl Links {
    pub const NONE: Links = Links { left: NIL, right: NIL };
}

/// What a tree needs to know of its nodes. The order must not change while a node is in the tree.
pub trait TreapNodes {
    /// What nobody outside knows: else a user could choose priorities that make a tree a list.
    fn seed(&self) -> u32;
    fn links(&mut self, node: u32) -> &mut Links;
    fn before(&self, a: u32, b: u32) -> bool;
}

/// Where a subtree hangs: below a node, or as the root.
#[derive(Clone, Copy)]
enum Position {
    Root,
    Left(u32),
    Right(u32),
}

/// The node's weight; a heavier node stands above. A bijection: no two weigh the same.
pub(crate) fn weight(forest: &impl TreapNodes, node: u32) -> u32 {
    mix(node ^ forest.seed())
}

fn attach(forest: &mut impl TreapNodes, root: &mut u32, hook: Position, node: u32) {
    match hook {
        Position::Root => *root = node,
        Position::Left(parent) => forest.links(parent).left = node,
        Position::Right(parent) => forest.links(parent).right = node,
    }
}

/// Puts `node` into the tree; returns the tree's root.
pub fn insert(forest: &mut impl TreapNodes, mut root: u32, node: u32) -> u32 {
    let (mut hook, mut at) = (Position::Root, root);
    while at != NIL && weight(forest, at) > weight(forest, node) {
        (hook, at) = step(forest, node, at);
    }
    attach(forest, &mut root, hook, node);
    // What stood here is split by `node` into what runs before and what runs after it.
    let (mut before, mut after) = (Position::Left(node), Position::Right(node));
    while at != NIL {
        if forest.before(at, node) {
            attach(forest, &mut root, before, at);
            before = Position::Right(at);
            at = forest.links(at).right;
        } else {
            attach(forest, &mut root, after, at);
            after = Position::Left(at);
            at = forest.links(at).left;
        }
    }
    attach(forest, &mut root, before, NIL);
    attach(forest, &mut root, after, NIL);
    root
}

/// Takes `node` out of the tree; returns the tree's root.
pub fn remove(forest: &mut impl TreapNodes, mut root: u32, node: u32) -> u32 {
    let (mut hook, mut at) = (Position::Root, root);
    while at != node {
        assert!(at != NIL, "a node to remove stands in its tree");
        (hook, at) = step(forest, node, at);
    }
    let Links { mut left, mut right } = *forest.links(node);
    while left != NIL && right != NIL {
        if weight(forest, left) > weight(forest, right) {
            attach(forest, &mut root, hook, left);
            hook = Position::Right(left);
            left = forest.links(left).right;
        } else {
            attach(forest, &mut root, hook, right);
            hook = Position::Left(right);
            right = forest.links(right).left;
        }
    }
    attach(forest, &mut root, hook, if left == NIL { right } else { left });
    *forest.links(node) = Links::NONE;
    root
}

/// One step down from `at` on the way to where `node` belongs.
fn step(forest: &mut impl TreapNodes, node: u32, at: u32) -> (Position, u32) {
    if forest.before(node, at) {
        (Position::Left(at), forest.links(at).left)
    } else {
        (Position::Right(at), forest.links(at).right)
    }
}

pub fn first(forest: &mut impl TreapNodes, root: u32) -> u32 {
    outermost(root, |node| forest.links(node).left)
}

pub fn last(forest: &mut impl TreapNodes, root: u32) -> u32 {
    outermost(root, |node| forest.links(node).right)
}

fn outermost(mut node: u32, mut child: impl FnMut(u32) -> u32) -> u32 {
    if node == NIL {
        return NIL;
    }
    loop {
        match child(node) {
            NIL => return node,
            next => node = next,
        }
    }
}
