//! The settings that the duties of a scheduler depend on: whatever the configuration, the database
//! or the role says, they are the same in each. What is a choice of the administrator's stays one:
//! durability, memory, costs, what is logged.

use pgrx::pg_sys;
use std::ffi::CStr;

const PINNED: [(&CStr, &CStr); 36] = [
    // It never waits long for a lock (I10), never gets a serialization failure, and no duty is cut
    // off.
    (c"lock_timeout", c"200ms"),
    (c"statement_timeout", c"0"),
    (c"transaction_timeout", c"0"),
    (c"idle_in_transaction_session_timeout", c"0"),
    (c"default_transaction_isolation", c"read committed"),
    (c"default_transaction_read_only", c"off"),
    (c"default_transaction_deferrable", c"off"),
    // An error ends a duty, not the process.
    (c"exit_on_error", c"off"),
    // It acts as itself, sees every row, and triggers are fired.
    (c"role", c"none"),
    (c"row_security", c"on"),
    (c"restrict_nonsystem_relation_kind", c""),
    (c"session_replication_role", c"origin"),
    // Partitions are made where their parent is, and as the code that writes them expects.
    (c"default_tablespace", c""),
    (c"temp_tablespaces", c""),
    (c"default_table_access_method", c"heap"),
    // Statements mean what they say.
    (c"search_path", c"pg_catalog, pg_temp"),
    (c"standard_conforming_strings", c"on"),
    (c"backslash_quote", c"safe_encoding"),
    (c"transform_null_equals", c"off"),
    (c"array_nulls", c"on"),
    (c"check_function_bodies", c"on"),
    // Values are read as they are printed, and the history keeps them as they are.
    (c"timezone", c"UTC"),
    (c"datestyle", c"ISO, MDY"),
    (c"intervalstyle", c"postgres"),
    (c"extra_float_digits", c"1"),
    (c"bytea_output", c"hex"),
    (c"quote_all_identifiers", c"off"),
    // No plan scans a table (I6), and none is made for each call.
    (c"plan_cache_mode", c"auto"),
    (c"enable_indexscan", c"on"),
    (c"enable_indexonlyscan", c"on"),
    (c"enable_tidscan", c"on"),
    (c"enable_hashjoin", c"on"),
    (c"enable_hashagg", c"on"),
    (c"enable_material", c"on"),
    (c"enable_partition_pruning", c"on"),
    (c"constraint_exclusion", c"partition"),
];

/// Sets them for the life of this process, which is connected to its database.
pub fn pin() {
    for (name, value) in PINNED {
        // SAFETY: names and values that end with a zero. What this version does not know is left
        // out.
        unsafe {
            if pg_sys::GetConfigOption(name.as_ptr(), true, false).is_null() {
                continue;
            }
            pg_sys::SetConfigOption(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_OVERRIDE,
            );
        }
    }
}
