//! Names of fixed capacity.

/// The most bytes of a queue's name.
pub const QUEUE_MAX: usize = 48;
/// The most bytes of an action.
pub const ACTION_MAX: usize = 128;
/// The most bytes of a worker's name.
pub const WORKER_MAX: usize = 128;

/// A byte string of at most `N` (≤ 255) bytes. The SQL functions refuse longer ones; here the rest
/// is cut off, so that no length is trusted.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Name<const N: usize> {
    len: u8,
    bytes: [u8; N],
}

impl<const N: usize> Name<N> {
    /// A name without bytes.
    pub const EMPTY: Self = Name { len: 0, bytes: [0; N] };

    /// The first `N` bytes of `text`.
    pub fn new(text: &[u8]) -> Self {
        let len = text.len().min(N);
        let mut name = Self::EMPTY;
        name.bytes[..len].copy_from_slice(&text[..len]);
        name.len = len as u8;
        name
    }

    /// The name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len).min(N)]
    }
}

impl<const N: usize> PartialEq for Name<N> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

/// A group of a queue: a hash of its key. Two keys never have the same.
pub type GroupHash = u128;

/// The names of a lane: its queue's, its action, and the group of its tasks.
#[derive(Clone, Copy, Debug)]
pub struct LaneName<'a> {
    /// The queue's name.
    pub queue: &'a [u8],
    /// The action; may be empty.
    pub action: &'a [u8],
    /// `None`: tasks without a group.
    pub group: Option<GroupHash>,
}
