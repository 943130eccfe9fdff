//! Hashes of names and indexes.

/// A 32-bit hash of some bytes: FNV-1a, then mixed.
pub fn hash(seed: u32, bytes: &[u8]) -> u32 {
    let mut hash = 0x811c_9dc5 ^ mix(seed);
    for byte in bytes {
        hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    }
    mix(hash)
}

/// A bijection on 32 bits (the finaliser of MurmurHash3): distinct in, distinct out.
pub fn mix(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}
