//! What may happen to the tasks.

use board::GroupHash;
use proptest::prelude::*;

pub const ACTIONS: [&[u8]; 3] = [b"first", b"second", b"third"];
pub const GROUPS: GroupHash = 5;

#[derive(Clone, Debug)]
pub enum Step {
    Submit {
        group: GroupHash,
        action: usize,
        priority: u32,
        start: u8,
    },
    /// A task that was not committed is; or one that waits is ready.
    Fire {
        pick: usize,
        late: bool,
    },
    /// A late offer reaches the board.
    CatchUp {
        pick: usize,
    },
    Own {
        actions: u8,
        rolls_back: u8,
    },
    OwnOne {
        pick: usize,
    },
    Commit {
        pick: usize,
    },
    /// A worker returns a task: 0 completes it, 1 yields, 2 is to be tried later.
    Return {
        pick: usize,
        how: u8,
        rolls_back: bool,
    },
    /// As `Return`, and own in the same transaction.
    Joined {
        pick: usize,
        how: u8,
    },
    Expire {
        withheld: bool,
        commits: bool,
    },
    Publish {
        pick: usize,
    },
    /// A transaction withdraws a task: 0 delays it, 1 has it wait for others, 2 cancels it.
    Withdraw {
        pick: usize,
        how: u8,
        rolls_back: bool,
    },
    Cancel {
        pick: usize,
    },
    BeginRefill {
        limit: usize,
    },
    EndRefill,
    Limit {
        most: u32,
    },
    Survey,
    Crash,
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pick = any::<usize>;
    let step = prop_oneof![
        20 => (0..GROUPS, 0..ACTIONS.len(), 0..3_u32, any::<u8>()).prop_map(
            |(group, action, priority, start)| Step::Submit { group, action, priority, start }
        ),
        8 => (pick(), any::<bool>()).prop_map(|(pick, late)| Step::Fire { pick, late }),
        3 => pick().prop_map(|pick| Step::CatchUp { pick }),
        24 => (any::<u8>(), 0..6_u8).prop_map(|(actions, rolls_back)| {
            Step::Own { actions: actions & 7, rolls_back }
        }),
        2 => pick().prop_map(|pick| Step::OwnOne { pick }),
        8 => pick().prop_map(|pick| Step::Commit { pick }),
        16 => (pick(), 0..3_u8, prop::bool::weighted(0.2)).prop_map(|(pick, how, rolls_back)| {
            Step::Return { pick, how, rolls_back }
        }),
        3 => (pick(), 0..3_u8).prop_map(|(pick, how)| Step::Joined { pick, how }),
        3 => any::<(bool, bool)>().prop_map(|(withheld, commits)| Step::Expire { withheld, commits }),
        3 => pick().prop_map(|pick| Step::Publish { pick }),
        4 => (pick(), 0..3_u8, prop::bool::weighted(0.2)).prop_map(|(pick, how, rolls_back)| {
            Step::Withdraw { pick, how, rolls_back }
        }),
        3 => pick().prop_map(|pick| Step::Cancel { pick }),
        4 => (1..4_usize).prop_map(|limit| Step::BeginRefill { limit }),
        4 => Just(Step::EndRefill),
        2 => (0..3_u32).prop_map(|most| Step::Limit { most }),
        1 => Just(Step::Survey),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..120)
}
