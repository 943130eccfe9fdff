//! jsonb, read one level deep. Nested objects and arrays are copied unread.

use crate::pg::datum;
use pgrx::pg_sys::{self, Datum, JsonbIteratorToken as Token, jbvType};
use std::ffi::CStr;
use std::ptr;

/// A member of an object, or an element of an array.
pub enum Json {
    Null,
    Bool(bool),
    String(Vec<u8>),
    /// In decimal form.
    Number(String),
    Object(Container),
    Array(Container),
}

/// An object or an array.
#[derive(Clone, Copy)]
pub struct Container(Datum);

impl Container {
    /// The jsonb.
    pub fn datum(self) -> Datum {
        self.0
    }
}

impl Json {
    /// The value as a jsonb, in the current memory context.
    pub fn datum(&self) -> Datum {
        let text = match self {
            Json::Object(container) | Json::Array(container) => return container.0,
            Json::Null => "null".to_owned(),
            Json::Bool(value) => value.to_string(),
            Json::Number(number) => number.clone(),
            Json::String(bytes) => return string(bytes),
        };
        parse(&text)
    }
}

/// The jsonb of a text, which must be valid JSON, in the current memory context.
pub fn parse(text: &str) -> Datum {
    let text = std::ffi::CString::new(text).unwrap_or_default();
    // SAFETY: the text ends with a zero.
    unsafe {
        pgrx::direct_function_call_as_datum(pg_sys::jsonb_in, &[Some(Datum::from(text.as_ptr()))])
    }
    .unwrap_or(Datum::from(0))
}

/// The object `{}`, in the current memory context.
pub fn empty_object() -> Container {
    Container(parse("{}"))
}

/// Whether a value is an object without members.
///
/// # Safety
/// The datum must be a jsonb's.
pub unsafe fn is_empty(datum: Datum) -> bool {
    // SAFETY: the caller's promise.
    match unsafe { read(datum) } {
        Json::Object(object) => inside(object).is_empty(),
        _ => false,
    }
}

/// JSON null.
pub fn null() -> Datum {
    parse("null")
}

/// The jsonb of a string.
fn string(bytes: &[u8]) -> Datum {
    // SAFETY: PostgreSQL copies the bytes of the string.
    Datum::from(unsafe { pg_sys::JsonbValueToJsonb(&mut scalar(Some(bytes))) })
}

/// An object of members that are strings (`None`: null), and of `last`, a member that is an object.
pub fn object(members: &[(&str, Option<&[u8]>)], last: (&str, Container)) -> Datum {
    let mut state: *mut pg_sys::JsonbParseState = ptr::null_mut();
    // SAFETY: the tokens make an object. PostgreSQL copies the strings and `last`, a detoasted
    // object.
    unsafe {
        let mut push = |token, value: Option<&mut pg_sys::JsonbValue>| {
            let value = value.map_or(ptr::null_mut(), |it| it as *mut _);
            pg_sys::pushJsonbValue(&mut state, token, value)
        };
        push(Token::WJB_BEGIN_OBJECT, None);
        for (name, text) in members {
            push(Token::WJB_KEY, Some(&mut scalar(Some(name.as_bytes()))));
            push(Token::WJB_VALUE, Some(&mut scalar(*text)));
        }
        push(Token::WJB_KEY, Some(&mut scalar(Some(last.0.as_bytes()))));
        push(Token::WJB_VALUE, Some(&mut whole(last.1.datum().cast_mut_ptr())));
        let whole = push(Token::WJB_END_OBJECT, None);
        Datum::from(pg_sys::JsonbValueToJsonb(whole))
    }
}

/// An object of members that are strings.
pub fn strings(members: &[(&str, &[u8])]) -> Container {
    let mut state: *mut pg_sys::JsonbParseState = ptr::null_mut();
    // SAFETY: the tokens make an object. PostgreSQL copies the strings.
    unsafe {
        pg_sys::pushJsonbValue(&mut state, Token::WJB_BEGIN_OBJECT, ptr::null_mut());
        for (name, text) in members {
            let (mut name, mut text) = (scalar(Some(name.as_bytes())), scalar(Some(text)));
            pg_sys::pushJsonbValue(&mut state, Token::WJB_KEY, &mut name);
            pg_sys::pushJsonbValue(&mut state, Token::WJB_VALUE, &mut text);
        }
        let whole = pg_sys::pushJsonbValue(&mut state, Token::WJB_END_OBJECT, ptr::null_mut());
        Container(Datum::from(pg_sys::JsonbValueToJsonb(whole)))
    }
}

/// An object without some of its members.
pub fn without(object: Container, names: &[&str]) -> Container {
    let names = names.iter().map(|name| Some(datum::varlena(name.as_bytes())));
    let names = datum::array(datum::TEXTS, names);
    // SAFETY: the function takes a jsonb and an array of texts.
    let rest = unsafe {
        pgrx::direct_function_call_as_datum(
            pg_sys::jsonb_delete_array,
            &[Some(object.0), Some(names)],
        )
    };
    rest.map_or(object, Container)
}

/// The members of both objects; where both have one, that of `over`.
pub fn merged(under: Datum, over: Container) -> Datum {
    // SAFETY: the function takes two jsonb.
    let both = unsafe {
        pgrx::direct_function_call_as_datum(pg_sys::jsonb_concat, &[Some(under), Some(over.0)])
    };
    both.unwrap_or(under)
}

/// A jsonb as text.
pub fn text(jsonb: Datum) -> Vec<u8> {
    // SAFETY: the function takes a jsonb and returns a text that ends with a zero.
    unsafe {
        let text = pgrx::direct_function_call_as_datum(pg_sys::jsonb_out, &[Some(jsonb)]);
        text.map_or(Vec::new(), |it| CStr::from_ptr(it.cast_mut_ptr()).to_bytes().to_vec())
    }
}

/// A string or null, as PostgreSQL builds jsonb from.
fn scalar(text: Option<&[u8]>) -> pg_sys::JsonbValue {
    let mut value = pg_sys::JsonbValue { type_: jbvType::jbvNull, val: Default::default() };
    if let Some(bytes) = text {
        value.type_ = jbvType::jbvString;
        value.val.string.len = bytes.len() as i32;
        value.val.string.val = bytes.as_ptr().cast_mut().cast();
    }
    value
}

/// The value of a whole jsonb.
///
/// # Safety
/// The datum must be a jsonb's.
pub unsafe fn read(datum: Datum) -> Json {
    // SAFETY: the jsonb is detoasted; the flags of its header tell its type.
    unsafe {
        let whole = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::Jsonb>();
        let header = (*whole).root.header;
        if header & pg_sys::JB_FSCALAR != 0 {
            return walk(&raw mut (*whole).root).pop().map_or(Json::Null, |(_, value)| value);
        }
        container(header, Datum::from(whole))
    }
}

/// The members of an object with their names, or the elements of an array.
pub fn inside(container: Container) -> Vec<(Vec<u8>, Json)> {
    // SAFETY: a container is detoasted.
    unsafe { walk(&raw mut (*container.0.cast_mut_ptr::<pg_sys::Jsonb>()).root) }
}

/// The number of elements of a jsonb that is an array, read from its header: nothing else of it is
/// copied.
///
/// # Safety
/// The datum must be a jsonb's.
pub unsafe fn count(datum: Datum) -> Option<usize> {
    // SAFETY: a jsonb begins with the header of its outermost container.
    let header = unsafe {
        let len = size_of::<u32>() as i32;
        let start = pg_sys::pg_detoast_datum_slice(datum.cast_mut_ptr(), 0, len);
        (*start.cast::<pg_sys::Jsonb>()).root.header
    };
    let is_array = header & (pg_sys::JB_FARRAY | pg_sys::JB_FSCALAR) == pg_sys::JB_FARRAY;
    is_array.then_some((header & pg_sys::JB_CMASK) as usize)
}

/// The size of a jsonb in bytes, uncompressed.
///
/// # Safety
/// The datum must be a jsonb's.
pub unsafe fn size(datum: Datum) -> usize {
    // SAFETY: reads the header of a varlena.
    unsafe { pg_sys::toast_raw_datum_size(datum) }
}

/// An array with one more element at its end. Elements at its beginning go, so that no more than
/// `most` are left, of no more than `most_bytes`. Any other jsonb counts as an empty array.
///
/// # Safety
/// The data must be of jsonbs.
pub unsafe fn with_last(array: Datum, last: Datum, most: usize, most_bytes: usize) -> Datum {
    // SAFETY: detoasted jsonbs, which outlive the values that point into them.
    unsafe {
        let last = pg_sys::pg_detoast_datum(last.cast_mut_ptr()).cast::<pg_sys::Jsonb>();
        let array = pg_sys::pg_detoast_datum(array.cast_mut_ptr()).cast::<pg_sys::Jsonb>();
        let count = count(Datum::from(array)).unwrap_or(0);
        let mut values = vec![whole(last)];
        let mut bytes = size_inside(&values[0]);
        for at in (0..count as u32).rev().take(most - 1) {
            let value = *pg_sys::getIthJsonbValueFromContainer(&raw mut (*array).root, at);
            bytes += size_inside(&value);
            if bytes > most_bytes {
                break;
            }
            values.push(value);
        }
        let mut state: *mut pg_sys::JsonbParseState = ptr::null_mut();
        pg_sys::pushJsonbValue(&mut state, Token::WJB_BEGIN_ARRAY, ptr::null_mut());
        for value in values.iter_mut().rev() {
            pg_sys::pushJsonbValue(&mut state, Token::WJB_ELEM, value);
        }
        let made = pg_sys::pushJsonbValue(&mut state, Token::WJB_END_ARRAY, ptr::null_mut());
        Datum::from(pg_sys::JsonbValueToJsonb(made))
    }
}

/// A jsonb as a value inside of another; the value points into the jsonb.
///
/// # Safety
/// A detoasted jsonb.
unsafe fn whole(jsonb: *mut pg_sys::Jsonb) -> pg_sys::JsonbValue {
    let mut value = pg_sys::JsonbValue { type_: jbvType::jbvBinary, val: Default::default() };
    // SAFETY: a scalar is the one element of an array; anything else is what follows the length.
    unsafe {
        let root = &raw mut (*jsonb).root;
        if (*root).header & pg_sys::JB_FSCALAR != 0 {
            pg_sys::JsonbExtractScalar(root, &mut value);
        } else {
            value.val.binary.len = (size(Datum::from(jsonb)) - pg_sys::VARHDRSZ) as i32;
            value.val.binary.data = root;
        }
    }
    value
}

/// How many bytes a value takes inside of another, with its entry there.
fn size_inside(value: &pg_sys::JsonbValue) -> usize {
    // SAFETY: the union is read according to its tag.
    let bytes = unsafe {
        match value.type_ {
            jbvType::jbvString => value.val.string.len as usize,
            jbvType::jbvBinary => value.val.binary.len as usize,
            jbvType::jbvNumeric => size(Datum::from(value.val.numeric.cast::<u8>())),
            _ => 0,
        }
    };
    bytes + size_of::<pg_sys::JEntry>()
}

/// An object or an array, by the flags of its header. The datum is a detoasted jsonb.
fn container(header: u32, datum: Datum) -> Json {
    let container = Container(datum);
    if header & pg_sys::JB_FOBJECT != 0 { Json::Object(container) } else { Json::Array(container) }
}

/// The members or elements of a container.
unsafe fn walk(container: *mut pg_sys::JsonbContainer) -> Vec<(Vec<u8>, Json)> {
    let mut found = Vec::new();
    let mut name = Vec::new();
    // SAFETY: the iterator skips nested containers. Each value is read by its type, while its
    // container lives.
    unsafe {
        let mut iterator = pg_sys::JsonbIteratorInit(container);
        let mut value: pg_sys::JsonbValue = std::mem::zeroed();
        loop {
            match pg_sys::JsonbIteratorNext(&mut iterator, &mut value, true) {
                Token::WJB_DONE => return found,
                Token::WJB_KEY => name = string_of(&value),
                Token::WJB_ELEM | Token::WJB_VALUE => {
                    found.push((std::mem::take(&mut name), value_of(&mut value)));
                }
                // Where the container begins and ends. A scalar has an array of its own around it.
                _ => {}
            }
        }
    }
}

/// The bytes of a string.
unsafe fn string_of(value: &pg_sys::JsonbValue) -> Vec<u8> {
    // SAFETY: the caller has checked that it is a string.
    unsafe {
        let string = value.val.string;
        std::slice::from_raw_parts(string.val.cast::<u8>(), string.len as usize).to_vec()
    }
}

/// A value with what it points to, copied.
unsafe fn value_of(value: &mut pg_sys::JsonbValue) -> Json {
    // SAFETY: the union is read according to its tag.
    unsafe {
        match value.type_ {
            jbvType::jbvNull => Json::Null,
            jbvType::jbvBool => Json::Bool(value.val.boolean),
            jbvType::jbvString => Json::String(string_of(value)),
            jbvType::jbvNumeric => Json::Number(decimal(value.val.numeric)),
            _ => {
                let header = (*value.val.binary.data).header;
                container(header, Datum::from(pg_sys::JsonbValueToJsonb(value)))
            }
        }
    }
}

/// The decimal form of a number.
unsafe fn decimal(number: pg_sys::Numeric) -> String {
    // SAFETY: numeric_out of a whole numeric gives a text that ends with a zero.
    unsafe {
        let text = pgrx::direct_function_call_as_datum(
            pg_sys::numeric_out,
            &[Some(Datum::from(number.cast::<u8>()))],
        );
        let text =
            text.map_or(ptr::null(), |it| it.cast_mut_ptr::<std::ffi::c_char>().cast_const());
        if text.is_null() {
            String::new()
        } else {
            // All of it: it may have more digits than a message shows.
            String::from_utf8_lossy(std::ffi::CStr::from_ptr(text).to_bytes()).into_owned()
        }
    }
}
