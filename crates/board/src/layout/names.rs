//! Names of fixed capacity, as they stand in the board's memory.

pub const QUEUE_MAX: usize = 48;
pub const ACTION_MAX: usize = 128;
pub const WORKER_MAX: usize = 128;

/// A byte string of at most `N` (≤ 255) bytes. The doors refuse longer ones; here the rest is cut
/// rather than trusted.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Name<const N: usize> {
    len: u8,
    bytes: [u8; N],
}

impl<const N: usize> Name<N> {
    pub const EMPTY: Self = Name { len: 0, bytes: [0; N] };

    pub fn new(text: &[u8]) -> Self {
        let len = text.len().min(N);
        let mut name = Self::EMPTY;
        name.bytes[..len].copy_from_slice(&text[..len]);
        name.len = len as u8;
        name
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len).min(N)]
    }
}

impl<const N: usize> PartialEq for Name<N> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

/// A 32-bit hash (FNV-1a, then mixed) for the board's chains.
pub(crate) fn hash(seed: u32, bytes: &[u8]) -> u32 {
    let mut hash = 0x811c_9dc5 ^ mix(seed);
    for byte in bytes {
        hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    }
    mix(hash)
}

/// A bijection on 32 bits (the finaliser of MurmurHash3): distinct in, distinct out.
pub(crate) fn mix(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}
