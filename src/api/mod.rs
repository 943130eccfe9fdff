//! The SQL functions: check the arguments, call one move, answer.

mod dependencies;
mod fcinfo;
mod finish;
mod inspect;
mod lease;
mod messages;
mod retry;
mod submit;
mod validate;
mod wait;

/// Makes a Rust function callable from SQL under the name given.
macro_rules! door {
    ($(#[$doc:meta])* $info:ident, $name:ident, $body:expr) => {
        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $info() -> &'static pgrx::pg_sys::Pg_finfo_record {
            const V1: pgrx::pg_sys::Pg_finfo_record = pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
            &V1
        }

        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[pgrx::pg_guard]
        pub unsafe extern "C-unwind" fn $name(
            fcinfo: pgrx::pg_sys::FunctionCallInfo,
        ) -> pgrx::pg_sys::Datum {
            // SAFETY: PostgreSQL calls with the arguments that the function was declared with.
            let mut call = unsafe { $crate::api::fcinfo::Call::new(fcinfo) };
            let answer: $crate::error::Result<Option<pgrx::pg_sys::Datum>> = ($body)(&mut call);
            call.answer($crate::error::unwrap_or_raise(answer))
        }
    };
}
use door;
