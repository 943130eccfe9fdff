//! A settled task that is to be announced.

use crate::layout::nodes::{Chain, Link};
use crate::layout::rank::Id;

/// A settled task that is to be announced.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Notice {
    pub(crate) id: Id,
    pub(crate) chain: Chain,
    /// In the database's list of notices.
    pub(crate) link: Link,
}
