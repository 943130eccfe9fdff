//! Memory that two processes share for one exchange: a request, and a reply to it. It lives until
//! it is freed, whichever process ends first.

use pgrx::pg_sys;
use std::ptr;

/// The longest reply, in bytes.
const REPLY_MAX: usize = 64 << 10;

#[repr(C)]
struct Header {
    request: usize,
    reply: usize,
}

/// Allocates memory with a request in it, which the handle finds; `None`: the server has no more.
pub fn create(request: &[u8]) -> Option<u32> {
    let size = size_of::<Header>() + request.len() + REPLY_MAX;
    // SAFETY: the segment has room for the header, the request and the longest reply. It outlives
    // this process's mapping since it is pinned.
    unsafe {
        let options = pg_sys::DSM_CREATE_NULL_IF_MAXSEGMENTS as i32;
        let segment = pg_sys::dsm_create(size, options);
        if segment.is_null() {
            return None;
        }
        let header = pg_sys::dsm_segment_address(segment).cast::<Header>();
        header.write(Header { request: request.len(), reply: 0 });
        let behind = header.add(1).cast::<u8>();
        ptr::copy_nonoverlapping(request.as_ptr(), behind, request.len());
        pg_sys::dsm_pin_segment(segment);
        let handle = pg_sys::dsm_segment_handle(segment);
        pg_sys::dsm_detach(segment);
        Some(handle)
    }
}

/// Runs `work` on an area; `None`: it is gone.
fn with<T>(handle: u32, work: impl FnOnce(*mut Header) -> T) -> Option<T> {
    // SAFETY: attached until `work` has ended.
    unsafe {
        let segment = pg_sys::dsm_attach(handle);
        if segment.is_null() {
            return None;
        }
        let answer = work(pg_sys::dsm_segment_address(segment).cast());
        pg_sys::dsm_detach(segment);
        Some(answer)
    }
}

/// The request.
pub fn request(handle: u32) -> Option<Vec<u8>> {
    // SAFETY: the request lies behind the header.
    with(handle, |header| unsafe {
        std::slice::from_raw_parts(header.add(1).cast(), (*header).request).to_vec()
    })
}

/// Writes the reply, or as much of it as there is room for.
pub fn set_reply(handle: u32, reply: &[u8]) {
    let length = reply.len().min(REPLY_MAX);
    // SAFETY: the reply lies behind the request and has room for its longest.
    with(handle, |header| unsafe {
        let behind = header.add(1).cast::<u8>().add((*header).request);
        ptr::copy_nonoverlapping(reply.as_ptr(), behind, length);
        (*header).reply = length;
    });
}

/// The reply.
pub fn reply(handle: u32) -> Option<Vec<u8>> {
    // SAFETY: as in set_reply.
    with(handle, |header| unsafe {
        let behind = header.add(1).cast::<u8>().add((*header).request);
        std::slice::from_raw_parts(behind, (*header).reply).to_vec()
    })
}

/// Frees an area once no process is attached to it.
pub fn free(handle: u32) {
    // SAFETY: pinned by create.
    unsafe { pg_sys::dsm_unpin_segment(handle) };
}
