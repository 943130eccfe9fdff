//! Announcing by NOTIFY which queues got ready tasks, and which tasks settled (I11).

use crate::pg::datum;
use crate::pg::lock::try_lock_database;
use crate::pg::uuid::Uuid;
use crate::shmem::segment::with_board;
use crate::shmem::xact::AT_ONCE;
use board::Name;
use pgrx::pg_sys;

/// How many settled tasks one transaction announces.
const MAX_NOTICES_PER_TX: usize = 4_096;

/// Announces what there is, by the transaction's commit. While another commit holds the lock of all
/// notifications, nothing is announced, since that commit may wait for a standby: it is kept for the
/// next round.
pub fn announce(entry: u32, queues: u32) {
    let telling = try_lock_database(pg_sys::InvalidOid, pg_sys::AccessExclusiveLock);
    go_through(entry, queues, telling, |queue| {
        notify(&[b"scylla.", queue].concat(), "");
    });
    let mut left = if telling { MAX_NOTICES_PER_TX } else { 0 };
    while left > 0 {
        let mut settled = Vec::with_capacity(AT_ONCE);
        with_board(|board| {
            settled.extend((0..AT_ONCE.min(left)).map_while(|_| board.next_settled(entry)));
        });
        settled.iter().for_each(|id| notify(b"scylla_result", &Uuid(*id).to_string()));
        left = if settled.len() < AT_ONCE { 0 } else { left - settled.len() };
    }
}

/// Goes through so many queues with news, and says which are to be announced.
pub fn go_through(entry: u32, queues: u32, telling: bool, mut say: impl FnMut(&[u8])) {
    let mut left = queues as usize;
    while left > 0 {
        let some = left.min(AT_ONCE);
        let mut names: Vec<Name<{ board::QUEUE_MAX }>> = Vec::with_capacity(some);
        with_board(|board| {
            names.extend((0..some).filter_map(|_| board.next_queue_to_notify(entry, telling)));
        });
        names.iter().for_each(|name| say(name.as_bytes()));
        left -= some;
    }
}

/// A channel has at most 55 bytes, of 63.
fn notify(channel: &[u8], payload: &str) {
    let arguments = [channel, payload.as_bytes()].map(|text| Some(datum::varlena(text)));
    // SAFETY: two texts.
    unsafe { pgrx::direct_function_call_as_datum(pg_sys::pg_notify, &arguments) };
}
