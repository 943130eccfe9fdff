//! One call of an SQL function: its arguments, and the rows that it returns.

pub mod argument;
mod declaration;
pub mod declared;
pub mod trigger;

use crate::api::call::argument::Argument;
use crate::api::call::declaration::{Declaration, NamedQueue, Needs, Writes};
use crate::api::call::trigger::Trigger;
use crate::api::validate;
use crate::error::{self, Error, Result};
use crate::memory;
use crate::pg::datum;
use crate::pg::named::role;
use crate::pg::process;
use crate::pg::uuid::Uuid;
use crate::shmem::sql_record::QUEUE;
use crate::storage::privileges::{Granted, Privileges, granted_to};
use crate::xact::on_board::current_database;
use pgrx::pg_sys::submodules::panic::pgrx_extern_c_guard;
use pgrx::pg_sys::{self, Datum, Oid};
use std::collections::HashSet;
use std::ptr;
use std::rc::Rc;

/// A call in progress.
pub struct Call {
    info: pg_sys::FunctionCallInfo,
    declaration: &'static Declaration,
    /// What the caller may do; `None`: the call needs nothing.
    granted: Option<Rc<Granted>>,
}

/// Runs an SQL function, if the caller may call it, and gives PostgreSQL its value or its error.
///
/// # Safety
/// Only a V1 function may call this, with its own argument, as the last thing it does.
pub unsafe fn run(
    info: pg_sys::FunctionCallInfo,
    declaration: &'static Declaration,
    body: fn(&mut Call) -> Result<Option<Datum>>,
) -> Datum {
    // SAFETY: PostgreSQL called the caller. Neither of the two has anything left to drop when an
    // error is thrown.
    unsafe {
        let value = pgrx_extern_c_guard(|| {
            memory::with_reserve(|| {
                let call = Call::admitted(info, declaration);
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
    /// read, and which may change what it changes here.
    fn admitted(info: pg_sys::FunctionCallInfo, declaration: &'static Declaration) -> Result<Call> {
        let call = match declaration.needs {
            Needs::Nothing => Call { info, declaration, granted: None },
            _ => Call::of_role(info, declaration, role::current())?,
        };
        call.check_context()?;
        Ok(call)
    }

    fn of_role(
        info: pg_sys::FunctionCallInfo,
        declaration: &'static Declaration,
        role: Oid,
    ) -> Result<Call> {
        let granted = granted_to(&current_database(), role);
        let mut call = Call { info, declaration, granted: None };
        match declaration.needs {
            Needs::On(one) if !granted.may_anywhere(one) => {
                return Err(call.denied_everywhere(&granted, one));
            }
            Needs::OnAll(one) if !granted.everywhere.has_any(one) => {
                return Err(error::denied_on_all(role, one.words()));
            }
            Needs::Ownership if !granted.is_owner => return Err(error::not_owner()),
            _ => {}
        }
        call.granted = Some(granted);
        Ok(call)
    }

    /// Refuses a call that writes in a read-only transaction and on a standby, one that needs a
    /// primary on a standby, and one that ends its transaction where it may not.
    fn check_context(&self) -> Result<()> {
        let it = self.declaration;
        let writes = match it.writes {
            Writes::No => false,
            Writes::Always => true,
            Writes::Unless(number) => self.datum(number).is_none_or(|it| it.value() == 0),
        };
        if writes && process::is_read_only() {
            return Err(error::read_only(it.name));
        }
        if it.on_primary && process::is_in_recovery() {
            return Err(error::on_standby(it.name));
        }
        if it.at_top_level && !self.is_at_top_level() {
            return Err(error::not_top_level(it.name));
        }
        Ok(())
    }

    /// The error of a caller that has a privilege on no queue. It names the queue that the call is
    /// about, if the caller may know it.
    fn denied_everywhere(&self, granted: &Granted, one: Privileges) -> Error {
        let on_queue = |queue: Vec<u8>| error::denied_on_queue(granted.role, &queue, one.words());
        let error = match self.declaration.queue {
            NamedQueue::Argument(number) => {
                // SAFETY: the declaration has a text there.
                let name = self.datum(number).map(|it| unsafe { datum::bytes(it) });
                let queue = name.map(validate::queue);
                queue.and_then(Result::ok).map(on_queue)
            }
            NamedQueue::Task(number) => self.datum(number).and_then(|it| {
                // SAFETY: the declaration has a uuid there.
                let id = unsafe { Uuid::read(it) };
                let queue = granted.visible_queue_of(id)?;
                Some(error::denied_on_task(granted.role, id, Some(&queue), one.words()))
            }),
            NamedQueue::Sql => Some(on_queue(QUEUE.to_vec())),
            NamedQueue::None => None,
        };
        error.unwrap_or_else(|| error::denied_everywhere(granted.role, one.words()))
    }

    /// The same call by what its caller may do now, for one that has waited.
    pub fn again(&self) -> Result<Call> {
        // Not the current role: a session that is open acts as the tables' owner.
        match &self.granted {
            None => Ok(Call { granted: None, ..*self }),
            Some(granted) => Call::of_role(self.info, self.declaration, granted.role),
        }
    }

    /// The role that calls, also while a session is open: see `again`.
    pub fn role(&self) -> Oid {
        self.granted.as_ref().map_or_else(role::current, |granted| granted.role)
    }

    /// The privileges of which the function needs one on each of its queues.
    fn needed(&self) -> Privileges {
        match self.declaration.needs {
            Needs::On(one) | Needs::OnAll(one) => one,
            Needs::Nothing | Needs::Ownership => Privileges::NONE,
        }
    }

    /// Whether the caller has a privilege on a queue.
    pub fn may(&self, privilege: Privileges, queue: &[u8]) -> bool {
        self.granted.as_ref().is_some_and(|granted| granted.on(queue).has_any(privilege))
    }

    /// Whether the caller has the privileges of a role, to which something belongs.
    pub fn has_those_of(&self, role: Oid) -> bool {
        self.granted.as_ref().is_some_and(|granted| granted.has_those_of(role))
    }

    /// Whether the caller may change what runs with the rights of a role.
    pub fn acts_for(&self, role: Oid) -> bool {
        self.granted.as_ref().is_some_and(|granted| granted.acts_for(role))
    }

    /// Those of some tasks that the caller does not have the privilege for.
    pub fn denied(&self, privilege: Privileges, tasks: &[Uuid]) -> HashSet<Uuid> {
        match &self.granted {
            Some(granted) => granted.denied(privilege, tasks),
            None => tasks.iter().copied().collect(),
        }
    }

    /// Refuses the call where the caller may not call the function for this queue.
    pub fn authorize(&self, queue: &[u8]) -> Result<()> {
        self.authorize_with(self.needed(), queue)
    }

    /// As `authorize`, for a privilege that the arguments need.
    pub fn authorize_with(&self, privilege: Privileges, queue: &[u8]) -> Result<()> {
        match self.may(privilege, queue) {
            true => Ok(()),
            false => Err(error::denied_on_queue(self.role(), queue, privilege.words())),
        }
    }

    /// As `authorize`, for the queue of each of these tasks.
    pub fn authorize_tasks(&self, tasks: &[Uuid]) -> Result<()> {
        self.authorize_tasks_with(self.needed(), tasks)
    }

    /// As `authorize_with`, for the queue of each of these tasks.
    pub fn authorize_tasks_with(&self, privilege: Privileges, tasks: &[Uuid]) -> Result<()> {
        let denied = self.denied(privilege, tasks);
        match tasks.iter().find(|id| denied.contains(id)) {
            None => Ok(()),
            Some(id) => Err(self.denied_on_task(*id, privilege)),
        }
    }

    /// As `authorize_tasks`, for a task that was found, or whose row is locked: decides by its
    /// queue, and by what the caller may do now. When the call began, the id may have been another
    /// task's.
    pub fn authorize_found(&self, id: Uuid, queue: &[u8]) -> Result<()> {
        self.authorize_found_with(self.needed(), id, queue)
    }

    /// As `authorize_found`, for a privilege that the arguments need.
    pub fn authorize_found_with(
        &self,
        privilege: Privileges,
        id: Uuid,
        queue: &[u8],
    ) -> Result<()> {
        let now = self.again()?;
        match now.may(privilege, queue) {
            true => Ok(()),
            false => Err(now.denied_on_task(id, privilege)),
        }
    }

    /// The error of a task on whose queue the caller lacks a privilege.
    pub fn denied_on_task(&self, id: Uuid, privilege: Privileges) -> Error {
        let queue = self.granted.as_ref().and_then(|granted| granted.visible_queue_of(id));
        error::denied_on_task(self.role(), id, queue.as_deref(), privilege.words())
    }

    /// Whether a procedure may end the transaction here: neither in a function nor in a transaction
    /// block, which a pipeline is from its second command on.
    fn is_at_top_level(&self) -> bool {
        // SAFETY: only CALL gives a context of this type.
        unsafe {
            let context = (*self.info).context;
            !context.is_null()
                && (*context).type_ == pg_sys::NodeTag::T_CallContext
                && !(*context.cast::<pg_sys::CallContext>()).atomic
                && !pg_sys::IsInTransactionBlock(true)
        }
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

    /// The argument of a number and a name; they count from 0.
    #[inline(always)]
    fn argument<T>(&self, number: usize, name: &'static str) -> Argument<T> {
        // SAFETY: only `declared` asks, with what the declaration says.
        unsafe { Argument::new(name, self.datum(number)) }
    }

    /// The value of an argument; `None`: null.
    #[inline(always)]
    fn datum(&self, number: usize) -> Option<Datum> {
        // SAFETY: PostgreSQL passes `nargs` arguments; the slice checks the number.
        let argument = unsafe {
            let info = &*self.info;
            info.args.as_slice(info.nargs as usize)[number]
        };
        (!argument.isnull).then_some(argument.value)
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
