//! As which role a viewer acts, and by what the viewer is known.

use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use std::collections::HashMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a session lasts.
const SESSION: Duration = Duration::from_secs(12 * 3600);
/// How long a failure counts after its pause is over.
const FORGET: Duration = Duration::from_secs(900);

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

impl Throttle {
    /// Counts an attempt as failed until it has succeeded, so that many at once are not free. The
    /// error is how long to wait.
    pub fn begin(&self, name: &str, longest: Duration) -> Result<(), Duration> {
        let mut known = lock(&self.0);
        let now = Instant::now();
        known.retain(|_, (_, until)| now < *until + FORGET);
        let (failures, until) = known.entry(name.to_owned()).or_insert((0, now));
        if *until > now {
            return Err(*until - now);
        }
        // A slip of the keyboard is free.
        let pause = Duration::from_millis(500) * 2u32.pow((*failures).min(10)) / 2;
        *failures += 1;
        *until = now + if *failures < 3 { Duration::ZERO } else { pause.min(longest) };
        Ok(())
    }

    pub fn succeeded(&self, name: &str) {
        lock(&self.0).remove(name);
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
        let longest = Duration::from_secs(60);
        for _ in 0..3 {
            assert!(throttle.begin("a", longest).is_ok());
        }
        assert!(throttle.begin("a", longest).is_err());
        assert!(throttle.begin("b", longest).is_ok());
        throttle.succeeded("a");
        assert!(throttle.begin("a", longest).is_ok());
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
