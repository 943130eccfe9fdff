use pgrx::prelude::*;
::pgrx::pg_module_magic!(name, version);
#[allow(non_snake_case)]
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {}
