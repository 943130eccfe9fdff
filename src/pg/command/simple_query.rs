//! Running a text of SQL as PostgreSQL runs the message of a simple query: several statements are
//! one implicit transaction block, each runs at top level in a portal of its own, and a procedure
//! may commit. This follows `exec_simple_query` of PostgreSQL, without a client: rows go nowhere.

use crate::memory;
use crate::pg::compat::query;
use crate::pg::time;
use board::{Micros, Monotonic};
use pgrx::pg_sys::panic::CaughtError;
use pgrx::pg_sys::{self, NodeTag, TransactionStmtKind};
use pgrx::{PgLogLevel, PgTryBuilder};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::AssertUnwindSafe;
use std::ptr;

/// How a text ended.
pub struct Completed {
    /// The command tag of the last statement, as psql prints it; empty: there was no statement.
    pub tag: Vec<u8>,
    /// The rows that it returned or changed; 0 where the tag has no number.
    pub rows: u64,
}

/// Why a text failed.
#[derive(Clone)]
pub struct Failure {
    pub sqlstate: [u8; 5],
    pub message: Vec<u8>,
    pub detail: Vec<u8>,
    pub hint: Vec<u8>,
}

// Declared here, since pgrx has no bindings of them.
unsafe extern "C-unwind" {
    fn enable_timeout_after(id: c_int, delay_ms: c_int);
    fn disable_timeout(id: c_int, keep_indicator: bool);
    fn errstart(level: c_int, domain: *const c_char) -> bool;
    fn errmsg(format: *const c_char, ...) -> c_int;
    fn errfinish(file: *const c_char, line: c_int, function: *const c_char);
}

/// `STATEMENT_TIMEOUT` of PostgreSQL's `TimeoutId`.
const STATEMENT_TIMEOUT: c_int = 3;

/// Keeps a report of an error as PostgreSQL has it: pgrx knows PostgreSQL's own SQLSTATEs only, and
/// texts in UTF-8. `kept` is where it goes, in the memory context of the command.
unsafe extern "C-unwind" fn keep_report(kept: *mut c_void) {
    // SAFETY: PostgreSQL calls this while it reports something, which may be no error. The pointer
    // is that of `run`.
    unsafe {
        let kept = &mut *kept.cast::<Kept>();
        let before = pg_sys::MemoryContextSwitchTo(kept.context);
        let report = pg_sys::CopyErrorData();
        pg_sys::MemoryContextSwitchTo(before);
        if (*report).elevel >= PgLogLevel::ERROR as c_int {
            kept.report = report;
        } else {
            pg_sys::FreeErrorData(report);
        }
    }
}

/// The last error that was reported; null: none was.
struct Kept {
    context: pg_sys::MemoryContext,
    report: *mut pg_sys::ErrorData,
}

/// Runs a text outside of a transaction, for at most so many milliseconds (0: no limit); each
/// statement also for at most the session's `statement_timeout`. `encoding` is that of the text.
/// Leaves no transaction open. The log has it as that of a client, by the session's settings.
pub fn run(text: &[u8], encoding: i32, timeout: i32) -> Result<Completed, Failure> {
    run_as(text, encoding, timeout, true)
}

/// Discards all that was left in the session; `timeout` as of `run`. False: that failed.
pub fn discard(timeout: i32) -> bool {
    // SAFETY: reads this process's state.
    let encoding = unsafe { pg_sys::GetDatabaseEncoding() };
    run_as(b"DISCARD ALL", encoding, timeout, false).is_ok()
}

fn run_as(text: &[u8], encoding: i32, timeout: i32, is_logged: bool) -> Result<Completed, Failure> {
    // SAFETY: this process is connected to a database and outside of a transaction. What an error
    // leaves behind is cleared away below, as PostgreSQL's main loop does.
    unsafe {
        let context = pg_sys::AllocSetContextCreateInternal(
            pg_sys::TopMemoryContext,
            c"scylla SQL command".as_ptr(),
            0,
            8 << 10,
            8 << 20,
        );
        let mut kept = Kept { context, report: ptr::null_mut() };
        let callbacks = pg_sys::error_context_stack;
        let mut callback = pg_sys::ErrorContextCallback {
            previous: callbacks,
            callback: Some(keep_report),
            arg: (&raw mut kept).cast(),
        };
        pg_sys::error_context_stack = &mut callback;
        let work = AssertUnwindSafe(|| {
            memory::with_reserve(|| execute(context, text, encoding, timeout, is_logged))
        });
        let mut answer = PgTryBuilder::new(work)
            .catch_others(|error| Err(failure(error, kept.report)))
            .execute();
        disable_timeout(STATEMENT_TIMEOUT, false);
        pg_sys::error_context_stack = callbacks;
        if answer.is_ok() && pg_sys::TransactionBlockStatusCode() as u8 != b'I' {
            answer = Err(Failure::new(b"25001", "the command left a transaction open"));
        }
        pg_sys::AbortOutOfAnyTransaction();
        pg_sys::PortalErrorCleanup();
        pg_sys::debug_query_string = ptr::null();
        pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
        pg_sys::MemoryContextDelete(context);
        pg_sys::pgstat_report_stat(false);
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, ptr::null());
        answer
    }
}

impl Failure {
    pub fn new(sqlstate: &[u8; 5], message: &str) -> Failure {
        let message = message.as_bytes().to_vec();
        Failure { sqlstate: *sqlstate, message, detail: Vec::new(), hint: Vec::new() }
    }
}

/// The five characters of an error code.
pub fn sqlstate(code: i32) -> [u8; 5] {
    std::array::from_fn(|at| (code >> (6 * at) & 0x3f) as u8 + b'0')
}

fn failure(error: CaughtError, kept: *const pg_sys::ErrorData) -> Failure {
    let report = match &error {
        CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => report,
        CaughtError::RustPanic { ereport, .. } => ereport,
    };
    // SAFETY: null, or a report in a memory context that is still there; its texts are null, or end
    // with a zero.
    let kept = unsafe {
        let bytes = |text: *const c_char| {
            if text.is_null() { Vec::new() } else { CStr::from_ptr(text).to_bytes().to_vec() }
        };
        kept.as_ref().map(|kept| Failure {
            sqlstate: sqlstate(kept.sqlerrcode),
            message: bytes(kept.message),
            detail: bytes(kept.detail),
            hint: bytes(kept.hint),
        })
    };
    // The last one that was reported may have been handled, and this one not be PostgreSQL's.
    let is_same = |it: &Failure| String::from_utf8_lossy(&it.message) == report.message();
    let text = |it: Option<&str>| it.unwrap_or_default().as_bytes().to_vec();
    kept.filter(is_same).unwrap_or_else(|| Failure {
        sqlstate: sqlstate(report.sql_error_code() as i32),
        message: text(Some(report.message())),
        detail: text(report.detail()),
        hint: text(report.hint()),
    })
}

/// Whether a statement ends a transaction that has failed.
unsafe fn ends_failed_transaction(statement: *mut pg_sys::Node) -> bool {
    use TransactionStmtKind as Kind;
    // SAFETY: a parsed statement; its tag tells its type.
    unsafe {
        (*statement).type_ == NodeTag::T_TransactionStmt
            && [
                Kind::TRANS_STMT_COMMIT,
                Kind::TRANS_STMT_PREPARE,
                Kind::TRANS_STMT_ROLLBACK,
                Kind::TRANS_STMT_ROLLBACK_TO,
            ]
            .contains(&(*statement.cast::<pg_sys::TransactionStmt>()).kind)
    }
}

/// Whether a statement copies from or to the client.
unsafe fn copies_to_client(statement: *mut pg_sys::Node) -> bool {
    // SAFETY: as above.
    unsafe {
        (*statement).type_ == NodeTag::T_CopyStmt
            && (*statement.cast::<pg_sys::CopyStmt>()).filename.is_null()
    }
}

unsafe fn execute(
    context: pg_sys::MemoryContext,
    text: &[u8],
    encoding: i32,
    timeout: i32,
    is_logged: bool,
) -> Result<Completed, Failure> {
    let text = CString::new(text)
        .map_err(|_| Failure::new(b"22021", "the command contains a byte of value zero"))?;
    let mut done = Completed { tag: Vec::new(), rows: 0 };
    // SAFETY: the order of calls is that of PostgreSQL's exec_simple_query. What must survive a
    // commit within the text lives in `context`.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        let mut is_started = true;
        let end = (timeout > 0).then(|| time::monotonic() + Micros::from_millis(timeout.into()));
        limit_time(end);
        let before = pg_sys::MemoryContextSwitchTo(context);
        let length = text.as_bytes().len() as c_int;
        let text = pg_sys::pg_any_to_server(text.as_ptr(), length, encoding);
        pg_sys::debug_query_string = text;
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, text);
        let statements = pg_sys::pg_parse_query(text);
        pg_sys::MemoryContextSwitchTo(before);
        let was_logged = is_logged && logs_statements(statements);
        if was_logged {
            log(c"statement: %s", &[text]);
        }
        // An empty list is null.
        let count = if statements.is_null() { 0 } else { (*statements).length as usize };
        let is_block = count > 1;
        for at in 0..count {
            let raw = (*(*statements).elements.add(at)).ptr_value.cast::<pg_sys::RawStmt>();
            let statement = (*raw).stmt;
            if pg_sys::IsAbortedTransactionBlockState() && !ends_failed_transaction(statement) {
                return Err(Failure::new(
                    b"25P02",
                    "current transaction is aborted, commands ignored until end of transaction block",
                ));
            }
            if !is_started {
                pg_sys::StartTransactionCommand();
                is_started = true;
            }
            if is_block {
                pg_sys::BeginImplicitTransactionBlock();
            }
            limit_time(end);
            pgrx::check_for_interrupts!();
            if copies_to_client(statement) {
                let message = "COPY from or to the client is not possible in an SQL task";
                return Err(Failure::new(b"0A000", message));
            }
            let completion = run_statement(context, text, raw);
            let is_last = at + 1 == count;
            let is_transaction = (*statement).type_ == NodeTag::T_TransactionStmt;
            if is_last && is_block {
                pg_sys::EndImplicitTransactionBlock();
            }
            if is_last || is_transaction {
                pg_sys::CommitTransactionCommand();
                is_started = false;
            } else {
                pg_sys::CommandCounterIncrement();
            }
            done = completed(&completion);
        }
        if is_started {
            pg_sys::CommitTransactionCommand();
        }
        if is_logged {
            log_duration(text, was_logged);
        }
    }
    Ok(done)
}

/// Whether `log_statement` wants one of these statements.
unsafe fn logs_statements(statements: *const pg_sys::List) -> bool {
    // SAFETY: a list of parsed statements, or null; reads a setting.
    unsafe {
        let wanted = pg_sys::log_statement as u32;
        let count = if statements.is_null() { 0 } else { (*statements).length as usize };
        let level = |at: usize| {
            pg_sys::GetCommandLogLevel((*(*statements).elements.add(at)).ptr_value.cast())
        };
        wanted == pg_sys::LogStmtLevel::LOGSTMT_ALL
            || wanted != pg_sys::LogStmtLevel::LOGSTMT_NONE
                && (0..count).any(|at| level(at) <= wanted)
    }
}

/// Logs how long a text took, as the settings about that want it.
unsafe fn log_duration(text: *const c_char, was_logged: bool) {
    let mut duration: [c_char; 32] = [0; 32];
    // SAFETY: PostgreSQL writes up to 32 characters, and a zero at their end.
    unsafe {
        match pg_sys::check_log_duration(duration.as_mut_ptr(), was_logged) {
            1 => log(c"duration: %s ms", &[duration.as_ptr()]),
            2 => log(c"duration: %s ms  statement: %s", &[duration.as_ptr(), text]),
            _ => {}
        }
    }
}

/// Writes a line as PostgreSQL does of a client's command, in the encoding of the database.
/// `values`: one or two.
unsafe fn log(format: &CStr, values: &[*const c_char]) {
    // SAFETY: the format has a place for each value; these end with a zero, and are copied. A
    // second one that the format does not have is not read.
    unsafe {
        if errstart(PgLogLevel::LOG as c_int, ptr::null()) {
            errmsg(format.as_ptr(), values[0], values.last().copied().unwrap_or(ptr::null()));
            pg_sys::errhidestmt(true);
            let file = concat!(file!(), "\0").as_ptr();
            errfinish(file.cast(), line!() as c_int, ptr::null());
        }
    }
}

/// Bounds a statement by what is left of the text's time, and by the session's timeout.
fn limit_time(end: Option<Monotonic>) {
    let left = end.map(|end| (end - time::monotonic()).millis_up().max(1) as c_int);
    // SAFETY: sets a timer of this process.
    unsafe {
        let session = Some(pg_sys::StatementTimeout).filter(|it| *it > 0);
        match left.into_iter().chain(session).min() {
            Some(limit) => enable_timeout_after(STATEMENT_TIMEOUT, limit),
            None => disable_timeout(STATEMENT_TIMEOUT, false),
        }
    }
}

/// Runs one statement at top level.
unsafe fn run_statement(
    context: pg_sys::MemoryContext,
    text: *const c_char,
    raw: *mut pg_sys::RawStmt,
) -> pg_sys::QueryCompletion {
    // SAFETY: as in execute; the portal is dropped here, or by the abort.
    unsafe {
        let tag = pg_sys::CreateCommandTag((*raw).stmt);
        let has_snapshot = pg_sys::analyze_requires_snapshot(raw);
        if has_snapshot {
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        }
        let before = pg_sys::MemoryContextSwitchTo(context);
        let analyzed = query::analyze(raw, text);
        let options = pg_sys::CURSOR_OPT_PARALLEL_OK as c_int;
        let plans = pg_sys::pg_plan_queries(analyzed, text, options, ptr::null_mut());
        if has_snapshot {
            pg_sys::PopActiveSnapshot();
        }
        pgrx::check_for_interrupts!();
        let portal = pg_sys::CreatePortal(c"".as_ptr(), true, true);
        (*portal).visible = false;
        pg_sys::PortalDefineQuery(portal, ptr::null(), text, tag, plans, ptr::null_mut());
        pg_sys::PortalStart(portal, ptr::null_mut(), 0, ptr::null_mut());
        let receiver = pg_sys::CreateDestReceiver(pg_sys::CommandDest::DestNone);
        pg_sys::MemoryContextSwitchTo(before);
        let completion = query::run_portal(portal, receiver);
        if let Some(destroy) = (*receiver).rDestroy {
            destroy(receiver);
        }
        pg_sys::PortalDrop(portal, false);
        completion
    }
}

/// The tag of a statement as psql prints it, and its rows.
fn completed(completion: &pg_sys::QueryCompletion) -> Completed {
    let tag = completion.commandTag;
    // SAFETY: looks the tag up in a table of PostgreSQL's; its name ends with a zero.
    let (name, has_rows) = unsafe {
        let name = CStr::from_ptr(pg_sys::GetCommandTagName(tag));
        (name.to_string_lossy(), pg_sys::command_tag_display_rowcount(tag))
    };
    let rows = completion.nprocessed;
    let tag = match has_rows {
        // The zero was an oid once.
        true if tag == pg_sys::CommandTag::CMDTAG_INSERT => format!("{name} 0 {rows}"),
        true => format!("{name} {rows}"),
        false => name.into_owned(),
    };
    Completed { tag: tag.into_bytes(), rows: if has_rows { rows } else { 0 } }
}
