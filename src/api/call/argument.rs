//! The arguments of a call, by their SQL types.

use crate::api::validate::{self, ELEMENTS_MAX};
use crate::error::{self, Result};
use crate::pg::datum::{self, Kind};
use crate::pg::uuid;
use board::{Micros, Wall};
use pgrx::pg_sys::{self, Datum};
use std::ffi::CStr;
use std::marker::PhantomData;

/// An argument of an SQL type.
pub struct Argument<T> {
    pub name: &'static str,
    value: Option<Datum>,
    sql_type: PhantomData<T>,
}

/// An SQL type, and the Rust type of its values.
pub trait SqlType {
    type Value;

    /// # Safety
    /// The datum must be of the type.
    unsafe fn read(datum: Datum) -> Self::Value;
}

/// An SQL type that an array of the declarations has.
pub trait Element {
    const ARRAY: Kind;
}

/// An array of a type.
pub struct Array<T>(PhantomData<T>);

macro_rules! sql_types {
    ($($name:ident => $value:ty, |$datum:ident| $read:expr;)+) => {
        $(
            pub enum $name {}

            impl SqlType for $name {
                type Value = $value;

                #[inline]
                unsafe fn read($datum: Datum) -> $value {
                    // SAFETY: as the caller says.
                    #[allow(unused_unsafe, reason = "some of the types are values themselves")]
                    unsafe { $read }
                }
            }
        )+
    };
}

sql_types! {
    Bigint => i64, |it| it.value() as i64;
    Boolean => bool, |it| it.value() != 0;
    Cstring => &'static CStr, |it| CStr::from_ptr(it.cast_mut_ptr());
    Float => f64, |it| f64::from_bits(it.value() as u64);
    // As a bigint, which the checks of numbers take.
    Integer => i64, |it| i64::from(it.value() as i32);
    // With its length.
    Interval => (Datum, Micros), |it| (it, datum::interval_length(Some(it)));
    Jsonb => Datum, |it| it;
    Name => Vec<u8>, |it| {
        // Its bytes end with a zero.
        let name = it.cast_mut_ptr::<pg_sys::NameData>();
        CStr::from_ptr((*name).data.as_ptr()).to_bytes().to_vec()
    };
    Oid => pg_sys::Oid, |it| datum::oid(Some(it));
    Text => Vec<u8>, |it| datum::bytes(it);
    Timestamptz => Wall, |it| datum::wall(it);
    Uuid => uuid::Uuid, |it| uuid::Uuid::read(it);
    Xid => Datum, |it| it;
}

impl Element for Bigint {
    const ARRAY: Kind = datum::BIGINTS;
}

impl Element for Float {
    const ARRAY: Kind = datum::FLOATS;
}

impl Element for Jsonb {
    const ARRAY: Kind = datum::JSONBS;
}

impl Element for Text {
    const ARRAY: Kind = datum::TEXTS;
}

impl Element for Timestamptz {
    const ARRAY: Kind = datum::TIMESTAMPTZS;
}

impl Element for Uuid {
    const ARRAY: Kind = datum::UUIDS;
}

impl<T> Argument<T> {
    /// # Safety
    /// The value must be of the type.
    #[inline]
    pub unsafe fn new(name: &'static str, value: Option<Datum>) -> Argument<T> {
        Argument { name, value, sql_type: PhantomData }
    }

    /// The value as PostgreSQL passes it; `None`: null.
    #[inline]
    pub fn datum(&self) -> Option<Datum> {
        self.value
    }

    /// The name, and the value as PostgreSQL passes it.
    pub fn named(&self) -> (&'static str, Option<Datum>) {
        (self.name, self.value)
    }
}

impl<T: SqlType> Argument<T> {
    /// The value; an error where it is null.
    pub fn required(&self) -> Result<T::Value> {
        self.optional().ok_or_else(|| error::missing(self.name))
    }

    /// The value; `None`: null.
    pub fn optional(&self) -> Option<T::Value> {
        // SAFETY: the value is of the type.
        self.value.map(|it| unsafe { T::read(it) })
    }
}

impl<T: Element> Argument<Array<T>> {
    /// The elements, at most so many; an error where the array is null.
    pub fn required_elements(&self, most: usize) -> Result<Vec<Option<Datum>>> {
        self.elements(most)?.ok_or_else(|| error::missing(self.name))
    }

    /// The elements, at most so many; `None`: the array is null.
    pub fn elements(&self, most: usize) -> Result<Option<Vec<Option<Datum>>>> {
        // SAFETY: the value is an array of the type.
        self.value.map(|it| unsafe { elements(self.name, T::ARRAY, it, most) }).transpose()
    }

    /// The elements of an array that has one for each element of another; nulls if the array is
    /// null.
    pub fn column<U>(&self, other: &Argument<U>, len: usize) -> Result<Vec<Option<Datum>>> {
        match self.elements(ELEMENTS_MAX)? {
            None => Ok(vec![None; len]),
            Some(elements) if elements.len() == len => Ok(elements),
            Some(_) => Err(error::lengths_differ(other.name, self.name)),
        }
    }
}

impl Argument<Array<Uuid>> {
    /// The ids or tokens, none of them null. A null array is an empty one, so that `array_agg` over
    /// no row does no harm.
    pub fn uuids(&self) -> Result<Vec<uuid::Uuid>> {
        // SAFETY: the value is an array of uuids.
        self.value.map_or(Ok(Vec::new()), |it| unsafe { uuids(self.name, it) })
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
pub unsafe fn uuids(name: &str, array: Datum) -> Result<Vec<uuid::Uuid>> {
    let missing = || error::missing(&format!("an element of {name}"));
    // SAFETY: as the caller says.
    unsafe {
        let uuid = |it: Option<Datum>| it.map(|it| uuid::Uuid::read(it)).ok_or_else(missing);
        elements(name, datum::UUIDS, array, ELEMENTS_MAX)?.into_iter().map(uuid).collect()
    }
}
