//! One call of an SQL function: its arguments, and the rows that it returns.

use crate::api::access::needs::{NamedQueue, Needs};
use crate::api::trigger::Trigger;
use crate::api::validate::{self, ELEMENTS_MAX};
use crate::error::{self, Error, Result};
use crate::memory;
use crate::ops::sql::QUEUE;
use crate::pg::datum::{self, Kind};
use crate::pg::named::role;
use crate::pg::process;
use crate::pg::uuid::Uuid;
use crate::shmem::on_board::current_database;
use crate::storage::privileges::{Access, Privileges, access_of};
use board::{Micros, Wall};
use pgrx::pg_sys::submodules::panic::pgrx_extern_c_guard;
use pgrx::pg_sys::{self, Datum, Oid};
use std::collections::HashSet;
use std::ptr;
use std::rc::Rc;

/// A call in progress.
pub struct Call {
    info: pg_sys::FunctionCallInfo,
    needs: Needs,
    named: NamedQueue,
    /// What the caller may do; `None`: the call needs nothing.
    access: Option<Rc<Access>>,
}

/// The body of an SQL function. It gives the value, `None` for null or when it returns rows.
pub type Body = fn(&mut Call) -> Result<Option<Datum>>;

/// Runs an SQL function, if the caller may call it, and gives PostgreSQL its value or its error.
///
/// # Safety
/// Only a V1 function may call this, with its own argument, as the last thing it does.
pub unsafe fn run(
    info: pg_sys::FunctionCallInfo,
    needs: Needs,
    named: NamedQueue,
    body: Body,
) -> Datum {
    // SAFETY: PostgreSQL called the caller. Neither of the two has anything left to drop when an
    // error is thrown.
    unsafe {
        let value = pgrx_extern_c_guard(|| {
            memory::with_reserve(|| {
                let call = Call::admitted(info, needs, named);
                call.and_then(|mut call| body(&mut call)).map_err(Error::into_report)
            })
        });
        match value {
            Ok(value) => {
                (*info).isnull = value.is_none();
                value.unwrap_or(Datum::from(0))
            }
            Err(error) => error.throw(),
        }
    }
}

impl Call {
    /// A call whose caller has what it needs, as far as that can be told before the arguments are
    /// read.
    fn admitted(info: pg_sys::FunctionCallInfo, needs: Needs, named: NamedQueue) -> Result<Call> {
        match needs {
            Needs::Nothing => Ok(Call { info, needs, named, access: None }),
            _ => Call::of_role(info, needs, named, role::current()),
        }
    }

    fn of_role(
        info: pg_sys::FunctionCallInfo,
        needs: Needs,
        named: NamedQueue,
        role: Oid,
    ) -> Result<Call> {
        let access = access_of(&current_database(), role);
        let mut call = Call { info, needs, named, access: None };
        match needs {
            Needs::On(one) if !access.may_anywhere(one) => {
                return Err(call.denied_everywhere(&access, one, named));
            }
            Needs::OnAll(one) if !access.everywhere.has_any(one) => {
                return Err(error::denied_on_all(one.words()));
            }
            Needs::Ownership if !access.is_owner => return Err(error::not_owner()),
            _ => {}
        }
        call.access = Some(access);
        Ok(call)
    }

    /// The error of a caller that has a privilege on no queue. It names the queue that the call is
    /// about, if the caller may know it.
    fn denied_everywhere(&self, access: &Access, one: Privileges, named: NamedQueue) -> Error {
        let on_queue = |queue: Vec<u8>| error::denied_on_queue(&queue, one.words());
        let error = match named {
            NamedQueue::Argument(number) => {
                let queue = self.optional_text(number).map(validate::queue);
                queue.and_then(Result::ok).map(on_queue)
            }
            NamedQueue::Task(number) => self.optional_uuid(number).and_then(|id| {
                let queue = access.visible_queue_of(id)?;
                Some(error::denied_on_task(role::current(), id, Some(&queue), one.words()))
            }),
            NamedQueue::Sql => Some(on_queue(QUEUE.to_vec())),
            NamedQueue::None => None,
        };
        error.unwrap_or_else(|| error::denied_everywhere(one.words()))
    }

    /// The same call by what its caller may do now, for one that has waited.
    pub fn again(&self) -> Result<Call> {
        // Not the current role: a session that is open acts as the tables' owner.
        match &self.access {
            None => Ok(Call { access: None, ..*self }),
            Some(access) => Call::of_role(self.info, self.needs, self.named, access.role),
        }
    }

    /// The privileges of which the function needs one on each of its queues.
    fn needed(&self) -> Privileges {
        match self.needs {
            Needs::On(one) | Needs::OnAll(one) => one,
            Needs::Nothing | Needs::Ownership => Privileges::NONE,
        }
    }

    /// Whether the caller has a privilege on a queue.
    pub fn may(&self, privilege: Privileges, queue: &[u8]) -> bool {
        self.access.as_ref().is_some_and(|access| access.on(queue).has_any(privilege))
    }

    /// Whether the caller has the privileges of a role, to which something belongs.
    pub fn has_those_of(&self, role: Oid) -> bool {
        self.access.as_ref().is_some_and(|access| access.has_those_of(role))
    }

    /// Whether the caller may change what runs with the rights of a role.
    pub fn acts_for(&self, role: Oid) -> bool {
        self.access.as_ref().is_some_and(|access| access.acts_for(role))
    }

    /// Those of some tasks that the caller does not have the privilege for.
    pub fn denied(&self, privilege: Privileges, tasks: &[Uuid]) -> HashSet<Uuid> {
        match &self.access {
            Some(access) => access.denied(privilege, tasks),
            None => tasks.iter().copied().collect(),
        }
    }

    /// Refuses the call where the caller may not call the function for this queue.
    pub fn permit(&self, queue: &[u8]) -> Result<()> {
        self.permit_with(self.needed(), queue)
    }

    /// As `permit`, for a privilege that the arguments need.
    pub fn permit_with(&self, privilege: Privileges, queue: &[u8]) -> Result<()> {
        match self.may(privilege, queue) {
            true => Ok(()),
            false => Err(error::denied_on_queue(queue, privilege.words())),
        }
    }

    /// As `permit`, for the queue of each of these tasks.
    pub fn permit_tasks(&self, tasks: &[Uuid]) -> Result<()> {
        self.permit_tasks_with(self.needed(), tasks)
    }

    /// As `permit_with`, for the queue of each of these tasks.
    pub fn permit_tasks_with(&self, privilege: Privileges, tasks: &[Uuid]) -> Result<()> {
        let denied = self.denied(privilege, tasks);
        match tasks.iter().find(|id| denied.contains(id)) {
            None => Ok(()),
            Some(id) => Err(self.denied_on_task(*id, privilege)),
        }
    }

    /// As `permit_tasks`, for a task that was found, or whose row is locked: decides by its queue,
    /// and by what the caller may do now. When the call began, the id may have been another task's.
    pub fn permit_found(&self, id: Uuid, queue: &[u8]) -> Result<()> {
        self.permit_found_with(self.needed(), id, queue)
    }

    /// As `permit_found`, for a privilege that the arguments need.
    pub fn permit_found_with(&self, privilege: Privileges, id: Uuid, queue: &[u8]) -> Result<()> {
        let now = self.again()?;
        match now.may(privilege, queue) {
            true => Ok(()),
            false => Err(now.denied_on_task(id, privilege)),
        }
    }

    /// The error of a task on whose queue the caller lacks a privilege.
    pub fn denied_on_task(&self, id: Uuid, privilege: Privileges) -> Error {
        let queue = self.access.as_ref().and_then(|access| access.visible_queue_of(id));
        // Not the current role: see `again`.
        let asking = self.access.as_ref().map_or_else(role::current, |access| access.role);
        error::denied_on_task(asking, id, queue.as_deref(), privilege.words())
    }

    /// Refuses the call in a read-only transaction, and on a standby.
    pub fn require_writable(&self, function: &str) -> Result<()> {
        if process::is_read_only() {
            return Err(error::read_only(function));
        }
        Ok(())
    }

    /// Refuses the call on a standby, which hands out no tasks.
    pub fn require_primary(&self, function: &str) -> Result<()> {
        match process::is_in_recovery() {
            true => Err(error::on_standby(function)),
            false => Ok(()),
        }
    }

    /// Refuses the call where a procedure may not end the transaction: in a function and in a
    /// transaction block, which a pipeline is from its second command on.
    pub fn require_top_level(&self, function: &str) -> Result<()> {
        // SAFETY: only CALL gives a context of this type.
        let is_top_level = unsafe {
            let context = (*self.info).context;
            !context.is_null()
                && (*context).type_ == pg_sys::NodeTag::T_CallContext
                && !(*context.cast::<pg_sys::CallContext>()).atomic
                && !pg_sys::IsInTransactionBlock(true)
        };
        if is_top_level { Ok(()) } else { Err(error::not_top_level(function)) }
    }

    /// The call as a trigger's; `None`: it is not.
    pub fn trigger<'c>(&self) -> Option<Trigger<'c>> {
        // SAFETY: the call is in progress, until its body returns.
        unsafe { Trigger::of((*self.info).context) }
    }

    /// The values of a procedure's INOUT arguments.
    pub fn row<const N: usize>(&self, row: [Option<Datum>; N]) -> Datum {
        let mut values = row.map(|value| value.unwrap_or(Datum::from(0)));
        let mut nulls = row.map(|value| value.is_none());
        // SAFETY: the procedure is declared with values of these types; their number is checked.
        unsafe {
            let mut descriptor = ptr::null_mut();
            pg_sys::get_call_result_type(self.info, ptr::null_mut(), &mut descriptor);
            assert_eq!((*descriptor).natts as usize, N);
            let descriptor = pg_sys::BlessTupleDesc(descriptor);
            let tuple =
                pg_sys::heap_form_tuple(descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
            pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data)
        }
    }

    /// An argument; they count from 0. `None`: null.
    pub fn datum(&self, number: usize) -> Option<Datum> {
        // SAFETY: PostgreSQL passes `nargs` arguments; the slice checks the number.
        let argument = unsafe {
            let info = &*self.info;
            info.args.as_slice(info.nargs as usize)[number]
        };
        (!argument.isnull).then_some(argument.value)
    }

    pub fn not_null(&self, number: usize, name: &str) -> Result<Datum> {
        self.datum(number).ok_or_else(|| error::missing(name))
    }

    pub fn bool(&self, number: usize, name: &str) -> Result<bool> {
        Ok(self.not_null(number, name)?.value() != 0)
    }

    /// An argument of type bigint.
    pub fn bigint(&self, number: usize) -> Option<i64> {
        self.datum(number).map(|it| it.value() as i64)
    }

    /// An argument of type integer.
    pub fn int(&self, number: usize) -> Option<i64> {
        self.datum(number).map(|it| i64::from(it.value() as i32))
    }

    pub fn oid(&self, number: usize, name: &str) -> Result<Oid> {
        Ok(Oid::from_u32(self.not_null(number, name)?.value() as u32))
    }

    pub fn time(&self, number: usize, name: &str) -> Result<Wall> {
        Ok(datum::wall(self.not_null(number, name)?))
    }

    pub fn float(&self, number: usize) -> Option<f64> {
        self.datum(number).map(|it| f64::from_bits(it.value() as u64))
    }

    pub fn optional_uuid(&self, number: usize) -> Option<Uuid> {
        // SAFETY: declared as uuid.
        self.datum(number).map(|it| unsafe { Uuid::read(it) })
    }

    pub fn uuid(&self, number: usize, name: &str) -> Result<Uuid> {
        self.optional_uuid(number).ok_or_else(|| error::missing(name))
    }

    pub fn text(&self, number: usize, name: &str) -> Result<Vec<u8>> {
        self.optional_text(number).ok_or_else(|| error::missing(name))
    }

    pub fn optional_text(&self, number: usize) -> Option<Vec<u8>> {
        // SAFETY: declared as text.
        self.datum(number).map(|it| unsafe { datum::bytes(it) })
    }

    pub fn jsonb(&self, number: usize, name: &str) -> Result<Datum> {
        self.not_null(number, name)
    }

    pub fn interval(&self, number: usize) -> Option<(Datum, Micros)> {
        self.datum(number).map(|it| (it, datum::interval_length(Some(it))))
    }

    /// The elements of an array, at most so many; `None`: null.
    pub fn optional_array(
        &self,
        number: usize,
        name: &str,
        kind: Kind,
        most: usize,
    ) -> Result<Option<Vec<Option<Datum>>>> {
        // SAFETY: declared as an array of the kind.
        self.datum(number).map(|array| unsafe { elements(name, kind, array, most) }).transpose()
    }

    pub fn array(
        &self,
        number: usize,
        name: &str,
        kind: Kind,
        most: usize,
    ) -> Result<Vec<Option<Datum>>> {
        self.optional_array(number, name, kind, most)?.ok_or_else(|| error::missing(name))
    }

    /// The elements of an array that has one for each element of another; nulls if the array is
    /// null.
    pub fn column(
        &self,
        number: usize,
        name: &str,
        kind: Kind,
        (other, len): (&str, usize),
    ) -> Result<Vec<Option<Datum>>> {
        match self.optional_array(number, name, kind, ELEMENTS_MAX)? {
            None => Ok(vec![None; len]),
            Some(elements) if elements.len() == len => Ok(elements),
            Some(_) => Err(error::lengths_differ(other, name)),
        }
    }

    /// The elements of an array of ids or tokens, none of them null. A null array is an empty one,
    /// so that `array_agg` over no row does no harm.
    pub fn uuids(&self, number: usize, name: &str) -> Result<Vec<Uuid>> {
        // SAFETY: declared as an array of uuids.
        self.datum(number).map_or(Ok(Vec::new()), |array| unsafe { uuids(name, array) })
    }

    /// The memory of the statement that calls: all its calls have the same.
    pub fn statement(&self) -> pg_sys::MemoryContext {
        // SAFETY: PostgreSQL passes how the function was looked up.
        unsafe { (*(*self.info).flinfo).fn_mcxt }
    }

    /// Begins to return rows. All of them are made before the caller reads the first (I5).
    pub fn rows(&mut self) -> Result<Tuplestore> {
        // SAFETY: the result info is checked before it is used; the store and its descriptor live
        // in the query's memory.
        unsafe {
            let result = (*self.info).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            let materialize = pg_sys::SetFunctionReturnMode::SFRM_Materialize;
            if result.is_null()
                || (*result).type_ != pg_sys::NodeTag::T_ReturnSetInfo
                || (*result).allowedModes as u32 & materialize == 0
            {
                return Err(error::no_set_here());
            }
            let query = (*(*result).econtext).ecxt_per_query_memory;
            let before = pg_sys::MemoryContextSwitchTo(query);
            let mut descriptor = (*result).expectedDesc;
            if descriptor.is_null() {
                pg_sys::get_call_result_type(self.info, ptr::null_mut(), &mut descriptor);
            }
            // PostgreSQL frees the descriptor that it gets.
            let descriptor = pg_sys::CreateTupleDescCopy(descriptor);
            let store = pg_sys::tuplestore_begin_heap(true, false, pg_sys::work_mem);
            (*result).returnMode = materialize;
            (*result).setResult = store;
            (*result).setDesc = descriptor;
            pg_sys::MemoryContextSwitchTo(before);
            Ok(Tuplestore { store, descriptor })
        }
    }
}

/// The elements of an array, at most so many.
///
/// # Safety
/// The datum must be of the kind.
unsafe fn elements(
    name: &str,
    kind: Kind,
    array: Datum,
    most: usize,
) -> Result<Vec<Option<Datum>>> {
    // SAFETY: as the caller says.
    unsafe {
        validate::length(name, most, datum::count(array))?;
        datum::elements(kind, array).ok_or_else(|| error::not_one_dimension(name))
    }
}

/// The ids of an array, none of them null.
///
/// # Safety
/// The datum must be an array of uuids.
pub unsafe fn uuids(name: &str, array: Datum) -> Result<Vec<Uuid>> {
    let missing = || error::missing(&format!("an element of {name}"));
    // SAFETY: as the caller says.
    unsafe {
        let uuid = |it: Option<Datum>| it.map(|it| Uuid::read(it)).ok_or_else(missing);
        elements(name, datum::UUIDS, array, ELEMENTS_MAX)?.into_iter().map(uuid).collect()
    }
}

/// The rows that a call returns.
pub struct Tuplestore {
    store: *mut pg_sys::Tuplestorestate,
    descriptor: pg_sys::TupleDesc,
}

impl Tuplestore {
    /// Adds a row; its values are copied.
    pub fn add<const N: usize>(&mut self, row: [Option<Datum>; N]) {
        let mut values = row.map(|value| value.unwrap_or(Datum::from(0)));
        let mut nulls = row.map(|value| value.is_none());
        // SAFETY: the function is declared with columns of these types; their number is checked.
        unsafe {
            assert_eq!((*self.descriptor).natts as usize, N);
            pg_sys::tuplestore_putvalues(
                self.store,
                self.descriptor,
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            );
        }
    }
}

/// Exports bodies for `create function`, each as `scylla_` and its own name, or the name behind
/// `as`, with the record that PostgreSQL asks for.
macro_rules! sql_functions {
    ($($body:ident $(as $symbol:literal)?),+ $(,)?) => {
        $($crate::api::fcinfo::sql_function! { $body $($symbol)? })+
    };
}
pub(crate) use sql_functions;

macro_rules! sql_function {
    ($body:ident) => {
        $crate::api::fcinfo::sql_function! { $body, stringify!($body) }
    };
    ($body:ident $symbol:literal) => {
        $crate::api::fcinfo::sql_function! { $body, $symbol }
    };
    ($body:ident, $($symbol:tt)+) => {
        const _: () = {
            use pgrx::pg_sys::{Datum, FunctionCallInfo, Pg_finfo_record};

            const NEEDS: $crate::api::access::needs::Needs =
                $crate::api::access::needs::of(stringify!($body));
            const NAMED: $crate::api::access::needs::NamedQueue =
                $crate::api::access::needs::queue_of(stringify!($body));

            #[unsafe(export_name = concat!("pg_finfo_scylla_", $($symbol)+))]
            extern "C" fn record() -> &'static Pg_finfo_record {
                const V1: Pg_finfo_record = Pg_finfo_record { api_version: 1 };
                &V1
            }

            #[unsafe(export_name = concat!("scylla_", $($symbol)+))]
            unsafe extern "C-unwind" fn function(info: FunctionCallInfo) -> Datum {
                // SAFETY: PostgreSQL calls with the arguments that the function was declared with.
                unsafe { $crate::api::fcinfo::run(info, NEEDS, NAMED, $body) }
            }
        };
    };
}
pub(crate) use sql_function;
