//! Values as datums, and arrays of them.

use crate::memory;
use crate::pg::time;
use board::{Micros, Wall};
use pgrx::pg_sys::panic::CaughtError;
use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::{PgSqlErrorCode, PgTryBuilder};
use std::borrow::Cow;

/// A type of parameters, and how PostgreSQL stores its values in arrays.
#[derive(Clone, Copy)]
pub struct Kind {
    pub oid: Oid,
    element: Oid,
    len: i16,
    by_value: bool,
    align: u8,
}

impl Kind {
    /// The type of an array's elements. It serves as the type of a parameter only.
    pub const fn element(self) -> Kind {
        Kind { oid: self.element, ..self }
    }
}

const fn kind(oid: u32, element: u32, len: i16, by_value: bool, align: u8) -> Kind {
    Kind { oid: Oid::from_u32(oid), element: Oid::from_u32(element), len, by_value, align }
}

// The oids of built-in types are the same in each version.
pub const BOOL: Kind = kind(16, 16, 1, true, b'c');
pub const BIGINT: Kind = kind(20, 20, 8, true, b'd');
pub const INTEGER: Kind = kind(23, 23, 4, true, b'i');
pub const OID: Kind = kind(26, 26, 4, true, b'i');
pub const TEXT: Kind = kind(25, 25, -1, false, b'i');
pub const FLOAT: Kind = kind(701, 701, 8, true, b'd');
pub const TIMESTAMPTZ: Kind = kind(1184, 1184, 8, true, b'd');
pub const INTERVAL: Kind = kind(1186, 1186, 16, false, b'd');
pub const UUID: Kind = kind(2950, 2950, 16, false, b'c');
pub const JSONB: Kind = kind(3802, 3802, -1, false, b'i');

pub const BOOLS: Kind = kind(1000, 16, 1, true, b'c');
pub const BYTEAS: Kind = kind(1001, 17, -1, false, b'i');
pub const INTEGERS: Kind = kind(1007, 23, 4, true, b'i');
pub const OIDS: Kind = kind(1028, 26, 4, true, b'i');
pub const TEXTS: Kind = kind(1009, 25, -1, false, b'i');
pub const BIGINTS: Kind = kind(1016, 20, 8, true, b'd');
pub const FLOATS: Kind = kind(1022, 701, 8, true, b'd');
pub const TIMESTAMPTZS: Kind = kind(1185, 1184, 8, true, b'd');
pub const INTERVALS: Kind = kind(1187, 1186, 16, false, b'd');
pub const UUIDS: Kind = kind(2951, 2950, 16, false, b'c');
pub const JSONBS: Kind = kind(3807, 3802, -1, false, b'i');

/// The bytes of a text or bytea, copied.
///
/// # Safety
/// The datum must be a varlena's.
pub unsafe fn bytes(datum: Datum) -> Vec<u8> {
    // SAFETY: the caller promises a varlena; the bytes are copied at once.
    unsafe { slice(datum) }.to_vec()
}

/// The bytes of a text or bytea, in place if it is neither compressed nor stored out of line.
///
/// # Safety
/// The datum must be a varlena's. The bytes are valid as long as the datum and the memory context
/// that is current now.
pub unsafe fn slice<'d>(datum: Datum) -> &'d [u8] {
    // SAFETY: detoasting gives a whole varlena, in place or in the current context.
    unsafe {
        let whole = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
        pgrx::varlena::varlena_to_byte_slice(whole)
    }
}

/// A function that copies varlenas into the memory context that is current now, also while another
/// one is current.
pub fn copy_to_caller_context() -> impl Fn(Datum) -> Datum {
    // SAFETY: the caller's context outlives the call; detoasting gives a whole copy.
    unsafe {
        let caller = pg_sys::CurrentMemoryContext;
        move |value: Datum| {
            let before = pg_sys::MemoryContextSwitchTo(caller);
            let copy = pg_sys::pg_detoast_datum_copy(value.cast_mut_ptr());
            pg_sys::MemoryContextSwitchTo(before);
            Datum::from(copy)
        }
    }
}

/// A text or bytea in the current memory context.
pub fn varlena(bytes: &[u8]) -> Datum {
    // SAFETY: copies `bytes`.
    Datum::from(unsafe {
        pg_sys::cstring_to_text_with_len(bytes.as_ptr().cast(), bytes.len() as i32)
    })
}

/// An array in the current memory context. `kind` is the array's, the values are of its element
/// type.
pub fn array(kind: Kind, values: impl Iterator<Item = Option<Datum>>) -> Datum {
    let (mut items, mut nulls) = (Vec::new(), Vec::new());
    for value in values {
        items.push(value.unwrap_or(Datum::from(0)));
        nulls.push(value.is_none());
    }
    let (mut dims, mut lower) = (items.len() as i32, 1);
    // SAFETY: items and nulls have the length of dims; the layout is that of the element type.
    Datum::from(unsafe {
        pg_sys::construct_md_array(
            items.as_mut_ptr(),
            nulls.as_mut_ptr(),
            1,
            &mut dims,
            &mut lower,
            kind.element,
            kind.len.into(),
            kind.by_value,
            kind.align as _,
        )
    })
}

/// The number of elements of an array, read from its header: nothing else of it is copied.
///
/// # Safety
/// The datum must be an array's.
pub unsafe fn count(datum: Datum) -> usize {
    let array = datum.cast_mut_ptr::<pg_sys::varlena>();
    // SAFETY: a tag says whether an array is expanded. From any other array only
    // as much is fetched as its dimensions can take.
    unsafe {
        let (dimensions, lengths) = if is_expanded(array) {
            let header = pg_sys::DatumGetEOHP(datum).cast::<pg_sys::ExpandedArrayHeader>();
            ((*header).ndims, (*header).dims)
        } else {
            let most = size_of::<pg_sys::ArrayType>() + size_of::<i32>() * pg_sys::MAXDIM as usize
                - pg_sys::VARHDRSZ;
            let header = pg_sys::pg_detoast_datum_slice(array, 0, most as i32);
            let header = header.cast::<pg_sys::ArrayType>();
            ((*header).ndim, header.add(1).cast::<i32>())
        };
        pg_sys::ArrayGetNItems(dimensions, lengths) as usize
    }
}

/// Whether a value is in the form that PL/pgSQL keeps.
///
/// # Safety
/// A varlena, toasted or not.
unsafe fn is_expanded(value: *const pg_sys::varlena) -> bool {
    use pg_sys::vartag_external::{VARTAG_EXPANDED_RO, VARTAG_EXPANDED_RW};
    // SAFETY: a toast pointer begins with its tag.
    unsafe {
        pgrx::varlena::varatt_is_1b_e(value) && {
            let tag = (*value.cast::<pg_sys::varattrib_1b_e>()).va_tag;
            [VARTAG_EXPANDED_RO, VARTAG_EXPANDED_RW].contains(&tag.into())
        }
    }
}

/// The elements of an array; `None` when it has more than one dimension.
///
/// # Safety
/// The datum must be an array of this kind.
pub unsafe fn elements(kind: Kind, datum: Datum) -> Option<Vec<Option<Datum>>> {
    let (mut items, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
    // SAFETY: the array is detoasted; deconstruct_array allocates both results, `count` long.
    unsafe {
        let whole = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
        if (*whole).ndim > 1 {
            return None;
        }
        pg_sys::deconstruct_array(
            whole,
            kind.element,
            kind.len.into(),
            kind.by_value,
            kind.align as _,
            &mut items,
            &mut nulls,
            &mut count,
        );
        Some((0..count as usize).map(|i| (!*nulls.add(i)).then(|| *items.add(i))).collect())
    }
}

/// The bytes of a text column, in the database's encoding, which need not be UTF-8. Empty for null.
pub fn text(datum: Option<Datum>) -> Vec<u8> {
    // SAFETY: the callers pass texts only.
    datum.map_or_else(Vec::new, |it| unsafe { bytes(it) })
}

/// As `text`, `None` for null.
pub fn optional_text(datum: Option<Datum>) -> Option<Vec<u8>> {
    datum.map(|it| text(Some(it)))
}

/// An oid column, 0 for null.
pub fn oid(datum: Option<Datum>) -> Oid {
    datum.map_or(Oid::INVALID, |it| Oid::from_u32(it.value() as u32))
}

/// A text column as a string, for words of the extension and for messages.
pub fn string(datum: Option<Datum>) -> String {
    printable(text(datum))
}

/// How many bytes of a text are whole letters, of so many at most.
pub fn clipped_length(text: &[u8], most: usize) -> usize {
    // SAFETY: reads so many bytes of a text in the database's encoding.
    let length =
        unsafe { pg_sys::pg_mbcliplen(text.as_ptr().cast(), text.len() as i32, most as i32) };
    length as usize
}

/// How many characters of a text messages show: a caller chooses the text, and the log has the
/// message.
const SHOWN_MAX: usize = 256;

/// A text as messages show it. A string has to be UTF-8: in a text that is not, each byte that is
/// not ASCII is escaped, so that different texts look different.
pub fn printable(text: impl Into<Vec<u8>>) -> String {
    let text = String::from_utf8(text.into()).unwrap_or_else(|bad| {
        let escape = |byte: &u8| match byte {
            0..128 => char::from(*byte).to_string(),
            128.. => format!("\\x{byte:02x}"),
        };
        bad.as_bytes().iter().map(escape).collect()
    });
    clipped(&text).into_owned()
}

/// As much of a text as messages show.
pub fn clipped(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN_MAX) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
    }
}

/// A bigint or integer column; 0 for null.
pub fn number(datum: Option<Datum>) -> i64 {
    datum.map_or(0, |it| it.value() as i64)
}

/// The time of a timestamptz.
pub fn wall(datum: Datum) -> Wall {
    Wall(datum.value() as i64)
}

/// A timestamptz.
pub fn timestamptz(at: Wall) -> Datum {
    Datum::from(at.0)
}

/// The length of an interval column or argument; zero for null.
pub fn interval_length(datum: Option<Datum>) -> Micros {
    // SAFETY: the callers pass intervals only.
    datum
        .map_or(Micros::ZERO, |it| time::length(unsafe { &*it.cast_mut_ptr::<pg_sys::Interval>() }))
}

/// An interval with this length, in the current memory context.
pub fn interval(length: Micros) -> Datum {
    // SAFETY: the new memory has the size of an interval.
    unsafe {
        let interval = pg_sys::palloc(size_of::<pg_sys::Interval>()).cast::<pg_sys::Interval>();
        *interval = pg_sys::Interval { time: length.0, day: 0, month: 0 };
        Datum::from(interval)
    }
}

/// A double precision.
pub fn float(value: f64) -> Datum {
    Datum::from(value.to_bits())
}

/// An input function.
type Input = unsafe fn(pg_sys::FunctionCallInfo) -> Datum;

/// The value of a text, by a type's input function; `None` if the text is not one of the type's.
pub fn parse(input: Input, text: &[u8]) -> Option<Datum> {
    let text = std::ffi::CString::new(text).ok()?;
    // Catching the error needs no subtransaction: an input function changes nothing that would
    // have to be undone.
    PgTryBuilder::new(std::panic::AssertUnwindSafe(|| {
        // SAFETY: an input function takes a text that ends with a zero, a type's oid and a
        // modifier.
        unsafe {
            pgrx::direct_function_call_as_datum(
                input,
                &[Some(Datum::from(text.as_ptr())), Some(Datum::from(0)), Some(Datum::from(-1))],
            )
        }
    }))
    .catch_others(|error| {
        if !is_data_exception(&error) {
            error.rethrow();
        }
        memory::replenish();
        None
    })
    .execute()
}

/// Whether an error is about a value (class 22), and not about what the server lacks.
fn is_data_exception(error: &CaughtError) -> bool {
    const CLASS: i32 = 0xfff;
    let (CaughtError::PostgresError(report)
    | CaughtError::ErrorReport(report)
    | CaughtError::RustPanic { ereport: report, .. }) = error;
    let class = |code: PgSqlErrorCode| code as i32 & CLASS;
    class(report.sql_error_code()) == class(PgSqlErrorCode::ERRCODE_DATA_EXCEPTION)
}
