//! Uuids, which are task ids and lease tokens, and the random bytes in them.

use board::{GroupHash, TokenHash};
use pgrx::pg_sys::{self, Datum};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::fmt;

/// A uuid, as a number whose bytes are in big-endian order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Uuid(pub u128);

impl Uuid {
    /// The uuid of a datum.
    ///
    /// # Safety
    /// The datum must be a uuid's.
    pub unsafe fn read(datum: Datum) -> Uuid {
        // SAFETY: a uuid's datum points to sixteen bytes.
        Uuid(u128::from_be_bytes(unsafe { *datum.cast_mut_ptr::<[u8; 16]>() }))
    }

    /// A datum with its bytes in the current memory context.
    pub fn datum(self) -> Datum {
        // SAFETY: the new memory has sixteen bytes.
        unsafe {
            let bytes = pg_sys::palloc(16).cast::<[u8; 16]>();
            *bytes = self.0.to_be_bytes();
            Datum::from(bytes)
        }
    }

    /// The uuid of a text: 32 hexadecimal digits, with or without hyphens and braces, as PostgreSQL
    /// reads them.
    pub fn parse(text: &[u8]) -> Option<Uuid> {
        let text = match text {
            [b'{', inner @ .., b'}'] => inner,
            other => other,
        };
        let (mut number, mut digits) = (0u128, 0);
        for byte in text {
            match (*byte as char).to_digit(16) {
                Some(digit) if digits < 32 => {
                    (number, digits) = (number << 4 | u128::from(digit), digits + 1)
                }
                None if *byte == b'-' && digits > 0 && digits % 4 == 0 => {}
                _ => return None,
            }
        }
        (digits == 32 && !text.ends_with(b"-")).then_some(Uuid(number))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        f.write_str(&parts.join("-"))
    }
}

impl Uuid {
    /// A random uuid (version 4).
    pub fn random() -> Uuid {
        Uuid(with_version(u128::from_be_bytes(random()), 4))
    }

    /// A uuid that sorts by time (version 7), of a time in milliseconds since 1970.
    pub fn timed(unix_millis: i64) -> Uuid {
        let time = (unix_millis as u128 & 0xffff_ffff_ffff) << 80;
        Uuid(with_version(time | u128::from_be_bytes(random()) & (u128::MAX >> 48), 7))
    }
}

impl Uuid {
    /// The time of a uuid of version 7, in milliseconds since 1970; `None`: it is of another
    /// version.
    pub fn unix_millis(self) -> Option<i64> {
        (self.0 >> 76 & 0xf == 7).then_some((self.0 >> 80) as i64)
    }

    /// The greatest number of a uuid of such a time.
    pub fn last_timed(unix_millis: i64) -> Uuid {
        Uuid((unix_millis as u128 & 0xffff_ffff_ffff) << 80 | u128::MAX >> 48)
    }
}

/// What the ids of messages have beside their numbers and the hashes of their queues.
const MESSAGE: u128 = 0x6d7 << 64 | 0x2d << 56;
const MESSAGE_BITS: u128 = 0xfff << 64 | 0x3f << 56;

/// The greatest number of a message.
pub const MESSAGE_MAX: i64 = (1 << 56) - 1;

impl Uuid {
    /// The id of a queue's message with a number (version 8), so that the one tells the other.
    pub fn message(queue: u64, number: i64) -> Uuid {
        let queue = u128::from(queue) >> 16 << 80;
        Uuid(with_version(queue | MESSAGE | number.clamp(0, MESSAGE_MAX) as u128, 8))
    }

    /// The number of a message; `None`: it is no message's id.
    pub fn message_number(self) -> Option<i64> {
        let is_message = self.0 >> 76 & 0xf == 8 && self.0 & MESSAGE_BITS == MESSAGE;
        is_message.then_some((self.0 & MESSAGE_MAX as u128) as i64)
    }
}

/// The hash of a queue in the ids of its messages.
pub fn queue_hash(queue: &[u8]) -> u64 {
    (u128::from_be_bytes(first_half(&Sha256::digest(queue))) >> 64) as u64
}

/// Sets the version and the variant of RFC 9562.
fn with_version(number: u128, version: u128) -> u128 {
    number & !(0xf << 76) & !(0x3 << 62) | version << 76 | 0x2 << 62
}

/// The hash by which the board knows a token (I7).
pub fn token_hash(token: Uuid) -> TokenHash {
    first_half(&Sha256::digest(token.0.to_be_bytes()))
}

/// The hash by which the board knows a group, of its key.
pub fn group_hash(key: &[u8]) -> GroupHash {
    GroupHash::from_be_bytes(first_half(&Sha256::digest(key)))
}

fn first_half(digest: &[u8]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    half
}

/// How many random bytes are drawn at once. Drawing many costs hardly more than drawing one.
const DRAWN: usize = 1_024;

thread_local! {
    static RANDOM: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) };
}

/// Sixteen random bytes that cannot be predicted.
fn random() -> [u8; 16] {
    RANDOM.with_borrow_mut(|ahead| {
        ahead.pop().unwrap_or_else(|| {
            let mut bytes = [0u8; DRAWN];
            // SAFETY: writes `DRAWN` bytes.
            let drawn = unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), DRAWN) };
            assert!(drawn, "the system gives random numbers");
            ahead.extend(bytes.as_chunks().0);
            ahead.pop().unwrap_or_default()
        })
    })
}

/// A random number from 0 to 1.
pub fn random_unit() -> f64 {
    (u128::from_be_bytes(random()) >> 64) as f64 / u64::MAX as f64
}
