//! The SQL functions, as `sql/schema` declares them: `build.rs` writes a type for the arguments of
//! each. A body takes one, and names it in `sql_functions!`. A declaration without a body does not
//! compile, nor does a body without a declaration.

use crate::api::call::argument::*;
use crate::api::call::declaration::{Declaration, NamedQueue, Needs, Writes};
use crate::api::call::{self, Call};
use crate::error::{self, Result};
use crate::storage::privileges::Privileges;
use crate::xact::on_board::current_database;
use pgrx::pg_sys::Datum;

/// The arguments of a function that is declared.
pub trait Declared {
    const DECLARATION: &'static Declaration;

    fn read(call: &Call) -> Self;
}

/// What a function does. It gives the value, `None` for null or when it returns rows.
#[diagnostic::on_unimplemented(
    message = "sql/schema declares the function `{Self}`, which has no body",
    note = "name the arguments and the body in a `sql_functions!`"
)]
pub trait Body: Declared {
    fn run(self, call: &mut Call) -> Result<Option<Datum>>;
}

/// Says which function is the body for which arguments.
macro_rules! sql_functions {
    ($($arguments:ident => $body:ident),+ $(,)?) => {
        $(
            impl $crate::api::call::declared::Body for $arguments {
                fn run(
                    self,
                    call: &mut $crate::api::call::Call,
                ) -> $crate::error::Result<Option<pgrx::pg_sys::Datum>> {
                    $body(call, self)
                }
            }
        )+
    };
}
pub(crate) use sql_functions;

/// Exports a function for `create function`, with the record that PostgreSQL asks for.
macro_rules! export {
    ($arguments:ident, $symbol:literal) => {
        export!($symbol, <$arguments as Declared>::DECLARATION, |call| {
            let arguments = <$arguments as Declared>::read(call);
            Body::run(arguments, call)
        });
    };
    ($symbol:literal, $declaration:expr, $body:expr) => {
        const _: () = {
            use pgrx::pg_sys::{FunctionCallInfo, Pg_finfo_record};

            #[unsafe(export_name = concat!("pg_finfo_scylla_", $symbol))]
            extern "C" fn record() -> &'static Pg_finfo_record {
                const V1: Pg_finfo_record = Pg_finfo_record { api_version: 1 };
                &V1
            }

            #[unsafe(export_name = concat!("scylla_", $symbol))]
            unsafe extern "C-unwind" fn function(info: FunctionCallInfo) -> Datum {
                // SAFETY: PostgreSQL calls with the arguments that the function was declared with.
                unsafe { call::run(info, $declaration, $body) }
            }
        };
    };
}

/// Exports a symbol that only functions of earlier versions of the extension have.
macro_rules! export_outdated {
    ($symbol:literal) => {
        export!($symbol, &OUTDATED, outdated);
    };
}

const OUTDATED: Declaration = Declaration {
    name: "",
    needs: Needs::Nothing,
    queue: NamedQueue::None,
    writes: Writes::No,
    on_primary: false,
    at_top_level: false,
};

/// Any arguments. Tells to update the extension.
fn outdated(_: &mut Call) -> Result<Option<Datum>> {
    // Raises the error where the extension is of another version.
    current_database();
    Err(error::outdated_function())
}

/// Whether two texts are the same, for a list that the compiler compares with a declaration.
pub const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

include!(concat!(env!("OUT_DIR"), "/declared.rs"));
