//! As which role a viewer acts, and by what the viewer is known.

use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a session lasts.
const SESSION: Duration = Duration::from_secs(12 * 3600);
/// How long a failure counts after its pause is over.
const FORGET: Duration = Duration::from_secs(900);
/// A failed login of an address, and of a role, waits so long at most.
const ADDRESS_PAUSE: Duration = Duration::from_secs(60);
const ROLE_PAUSE: Duration = Duration::from_secs(5);

/// The role of a connection.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The program's own, which only reads for all.
    Program,
    /// One that the program's role may take on.
    Role(String),
    Password {
        role: String,
        password: String,
    },
}

impl Identity {
    pub fn role(&self) -> &str {
        match self {
            Identity::Program => "",
            Identity::Role(role) | Identity::Password { role, .. } => role,
        }
    }
}

/// Takes a lock, also after a panic: what these hold is whole at any time.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 32 random bytes.
pub fn random() -> String {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).expect("the system has random bytes");
    hex(&bytes)
}

/// Proves that a form was made for the browser that sends it.
pub struct Signer(hmac::Key);

impl Signer {
    pub fn new() -> Signer {
        Signer(hmac::Key::new(hmac::HMAC_SHA256, random().as_bytes()))
    }

    pub fn token(&self, cookie: &str, role: &str) -> String {
        hex(hmac::sign(&self.0, format!("{cookie}\n{role}").as_bytes()).as_ref())
    }
}

/// Compares by digests, so that the time it takes tells nothing of either text.
pub fn is_same(a: &str, b: &str) -> bool {
    let digest = |text: &str| digest::digest(&digest::SHA256, text.as_bytes());
    digest(a).as_ref() == digest(b).as_ref()
}

/// Roles that have logged in, by the digests of their cookies.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<Vec<u8>, (Identity, Instant)>>);

impl Sessions {
    fn key(cookie: &str) -> Vec<u8> {
        digest::digest(&digest::SHA256, cookie.as_bytes()).as_ref().to_vec()
    }

    pub fn begin(&self, identity: Identity) -> String {
        let cookie = random();
        let mut sessions = lock(&self.0);
        sessions.retain(|_, (_, since)| since.elapsed() < SESSION);
        sessions.insert(Sessions::key(&cookie), (identity, Instant::now()));
        cookie
    }

    pub fn find(&self, cookie: &str) -> Option<Identity> {
        let sessions = lock(&self.0);
        let (identity, since) = sessions.get(&Sessions::key(cookie))?;
        (since.elapsed() < SESSION).then(|| identity.clone())
    }

    pub fn end(&self, cookie: &str) {
        lock(&self.0).remove(&Sessions::key(cookie));
    }
}

/// Slows down logins that fail: each one of an address, and of a role, waits twice as long.
#[derive(Default)]
pub struct Throttle(Mutex<HashMap<String, (u32, Instant)>>);

/// What logins are counted by. Of IPv6, all addresses that share their first half are one host's.
fn counted(address: IpAddr, role: &str) -> [(String, Duration); 2] {
    let address = match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(it) => Ipv6Addr::from_bits(it.to_bits() & (u128::MAX << 64)).into(),
    };
    [(format!("a{address}"), ADDRESS_PAUSE), (format!("r{role}"), ROLE_PAUSE)]
}

impl Throttle {
    /// Counts an attempt as failed until it has succeeded, so that many at once are not free. The
    /// error is how long to wait. An attempt that has to wait does not count: it delays no other,
    /// and the names that it tries are not remembered.
    pub fn begin(&self, address: IpAddr, role: &str) -> Result<(), Duration> {
        let mut known = lock(&self.0);
        let now = Instant::now();
        known.retain(|_, (_, until)| now < *until + FORGET);
        let counted = counted(address, role);
        let waits = counted.iter().filter_map(|(name, _)| known.get(name)).map(|it| it.1);
        if let Some(until) = waits.max().filter(|until| *until > now) {
            return Err(until - now);
        }
        for (name, longest) in counted {
            let (failures, until) = known.entry(name).or_insert((0, now));
            // A slip of the keyboard is free.
            let pause = Duration::from_millis(500) * 2u32.pow((*failures).min(10)) / 2;
            *failures += 1;
            *until = now + if *failures < 3 { Duration::ZERO } else { pause.min(longest) };
        }
        Ok(())
    }

    pub fn succeeded(&self, address: IpAddr, role: &str) {
        let mut known = lock(&self.0);
        for (name, _) in counted(address, role) {
            known.remove(&name);
        }
    }
}

/// Addresses that share a prefix.
#[derive(Clone, Debug)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let wrong = || "an address such as 10.0.0.7 or 10.0.0.0/24 is needed".to_owned();
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(longest), |it| it.parse().map_err(|_| wrong()))?;
        if prefix > longest { Err(wrong()) } else { Ok(Network { address, prefix }) }
    }
}

impl Network {
    pub fn has(&self, address: IpAddr) -> bool {
        let bits = |it: IpAddr| match it {
            IpAddr::V4(it) => (u128::from(it.to_bits()) << 96, 32),
            IpAddr::V6(it) => (it.to_bits(), 128),
        };
        let ((a, a_length), (b, b_length)) = (bits(self.address), bits(address.to_canonical()));
        a_length == b_length && (self.prefix == 0 || (a ^ b) >> (128 - self.prefix) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_of_its_prefix() {
        let has = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().has(address.parse().unwrap())
        };
        assert!(has("10.0.0.7", "10.0.0.7") && !has("10.0.0.7", "10.0.0.8"));
        assert!(has("10.0.0.0/8", "10.9.9.9") && !has("10.0.0.0/8", "11.0.0.1"));
        assert!(has("10.0.0.0/8", "::ffff:10.1.1.1") && !has("0.0.0.0/0", "::1"));
        assert!(has("fd00::/8", "fd12::1") && !has("fd00::/8", "fe80::1"));
        for wrong in ["", "10.0.0.0/33", "host", "10.0.0.0/x"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn failures_wait_longer_and_longer() {
        let throttle = Throttle::default();
        let address = |n: u8| IpAddr::from([192, 0, 2, n]);
        let begin = |n: u8, role: &str| throttle.begin(address(n), role);
        // Of one address with several roles, and of a role from several addresses.
        for n in 1..=3 {
            assert!(begin(1, &format!("role-{n}")).is_ok());
            assert!(begin(10 + n, "wanted").is_ok());
        }
        assert!(begin(1, "other").is_err() && begin(2, "wanted").is_err());
        assert!(begin(3, "other").is_ok());
        throttle.succeeded(address(2), "wanted");
        assert!(begin(4, "wanted").is_ok());
        // An attempt that has to wait delays no role, and leaves nothing behind.
        let known = lock(&throttle.0).len();
        for n in 0..20 {
            assert!(begin(1, "another").is_err() && begin(1, &format!("guess-{n}")).is_err());
        }
        assert_eq!(lock(&throttle.0).len(), known);
        assert!(begin(5, "another").is_ok());
    }

    #[test]
    fn a_network_counts_as_one_address() {
        let throttle = Throttle::default();
        let begin = |address: &str| throttle.begin(address.parse().unwrap(), address);
        assert!((1..=3).all(|n| begin(&format!("2001:db8::{n}")).is_ok()));
        assert!(begin("2001:db8::ffff:0:0:4").is_err());
        assert!(begin("2001:db8:0:1::1").is_ok());
    }

    #[test]
    fn a_session_is_found_by_its_cookie_until_it_ends() {
        let sessions = Sessions::default();
        let cookie = sessions.begin(Identity::Role("r".into()));
        assert_eq!(sessions.find(&cookie).unwrap().role(), "r");
        assert!(sessions.find("").is_none() && sessions.find(&random()).is_none());
        sessions.end(&cookie);
        assert!(sessions.find(&cookie).is_none());
    }
}
