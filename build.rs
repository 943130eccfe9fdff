//! Reads the declarations of the SQL functions in sql/schema, and writes for
//! `src/api/call/declared.rs` what they say: the arguments of each function, what its caller needs,
//! and whether it writes. The head of sql/schema/02_functions.sql explains the line above each
//! declaration.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

type Result<T> = std::result::Result<T, String>;

/// The declaration of a function that is written in C.
struct Declaration<'t> {
    /// As `own_tasks`.
    name: &'t str,
    /// As `own_tasks_0_2`.
    symbol: &'t str,
    arguments: Vec<Argument<'t>>,
    /// As `needs work on queue; writes`.
    needs: &'t str,
}

struct Argument<'t> {
    /// `value`, if the declaration gives it none.
    name: &'t str,
    sql_type: &'t str,
    /// It has a place among the arguments, and only tells the answer.
    is_answer: bool,
}

fn main() {
    println!("cargo:rerun-if-changed=sql");
    let generated = generate().unwrap_or_else(|error| {
        eprintln!("{error}");
        process::exit(1);
    });
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(folder.join("declared.rs"), generated).expect("the folder can be written");
}

fn generate() -> Result<String> {
    let (mut code, mut lists) = (String::new(), String::new());
    let mut symbols = BTreeSet::new();
    for file in sql_files("sql/schema") {
        let text = read(&file);
        for declaration in declarations(&file, &text)? {
            let (line, declaration) = declaration;
            let at = |error| format!("{}:{line}: {error}", file.display());
            write_function(&mut code, &declaration).map_err(at)?;
            write_lists(&mut lists, &declaration);
            if !symbols.insert(declaration.symbol.to_owned()) {
                return Err(at(format!("scylla_{} is declared twice", declaration.symbol)));
            }
        }
    }
    for symbol in released_symbols().difference(&symbols) {
        writeln!(code, "export_outdated!(\"{symbol}\");").unwrap();
    }
    write!(code, "macro_rules! declared {{\n{lists}}}\npub(crate) use declared;\n").unwrap();
    Ok(code)
}

fn sql_files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let mut files: Vec<PathBuf> = entries.map(|it| it.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|it| it == "sql"));
    files.sort();
    files
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).expect("the file can be read")
}

/// The symbols of released versions. A database whose extension is not updated yet calls them.
fn released_symbols() -> BTreeSet<String> {
    let mut symbols = BTreeSet::new();
    for file in sql_files("sql") {
        for part in read(&file).split("'MODULE_PATHNAME', 'scylla_").skip(1) {
            symbols.extend(part.split('\'').next().map(str::to_owned));
        }
    }
    symbols
}

/// The functions of a file, each with its line.
fn declarations<'t>(file: &Path, text: &'t str) -> Result<Vec<(usize, Declaration<'t>)>> {
    let (mut found, mut from, mut before) = (Vec::new(), 0, "");
    for (number, line) in text.lines().enumerate() {
        let is_function = ["create function scylla.", "create procedure scylla."]
            .iter()
            .any(|head| line.starts_with(head));
        let needs = before.strip_prefix("-- ").filter(|it| it.starts_with("needs "));
        let at = |error: String| format!("{}:{}: {error}", file.display(), number + 1);
        if needs.is_some() && !is_function {
            return Err(at("what a function needs is not above its declaration".into()));
        }
        if is_function {
            let end = text[from..].find(";\n").map_or(text.len(), |length| from + length);
            let declaration = declaration(&text[from..end], needs).map_err(at)?;
            found.extend(declaration.map(|it| (number + 1, it)));
        }
        (before, from) = (line, from + line.len() + 1);
    }
    Ok(found)
}

/// Reads a declaration; `None`: it is not in C.
fn declaration<'t>(text: &'t str, needs: Option<&'t str>) -> Result<Option<Declaration<'t>>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if !words.windows(2).any(|pair| pair == ["language", "c"]) {
        return match needs {
            None => Ok(None),
            Some(_) => Err("only functions in C check what their caller needs".into()),
        };
    }
    let needs = needs.ok_or("the line above does not say what the caller needs")?;
    let (head, rest) = text.split_once('(').ok_or("no arguments")?;
    let name = head.rsplit('.').next().unwrap_or_default();
    let end = closing(rest).ok_or("the arguments have no end")?;
    let arguments = split(&rest[..end]).into_iter().map(argument).collect();
    let symbol = rest.rsplit('\'').nth(1).and_then(|it| it.strip_prefix("scylla_"));
    let symbol = symbol.ok_or("the symbol does not begin with scylla_")?;
    Ok(Some(Declaration { name, symbol, arguments, needs }))
}

/// Where the parenthesis ends that is open.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.char_indices().find_map(|(at, letter)| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        (depth == 0).then_some(at)
    })
}

/// The parts between commas that are in no parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        if letter == ',' && depth == 0 {
            parts.push(text[from..at].trim());
            from = at + 1;
        }
    }
    parts.push(text[from..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn argument(text: &str) -> Argument<'_> {
    let text = text.split(" default ").next().unwrap_or_default();
    let (is_answer, text) = match text.strip_prefix("inout ") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (name, sql_type) = text.split_once(' ').unwrap_or(("value", text));
    Argument { name, sql_type, is_answer }
}

impl Declaration<'_> {
    /// The name of the Rust type with the arguments: that of the symbol without the version.
    fn type_name(&self) -> String {
        let is_word = |it: &&str| it.starts_with(|letter: char| letter.is_ascii_alphabetic());
        let words = self.symbol.split('_').filter(is_word);
        words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
    }

    /// The number of an argument, of one of these types.
    fn number(&self, name: &str, types: &[&str]) -> Result<usize> {
        let at = self.arguments.iter().position(|it| it.name == name);
        let at = at.ok_or_else(|| format!("no argument \"{name}\""))?;
        match types.contains(&self.arguments[at].sql_type) {
            true => Ok(at),
            false => Err(format!("argument \"{name}\" is not of type {}", types.join(" or "))),
        }
    }
}

/// Writes the type with a function's arguments, what the function's line says, and its symbol.
fn write_function(code: &mut String, it: &Declaration) -> Result<()> {
    let (mut fields, mut values) = (String::new(), String::new());
    for (number, argument) in it.arguments.iter().enumerate().filter(|(_, it)| !it.is_answer) {
        let (name, of) = (argument.name, rust_type(argument.sql_type)?);
        write!(fields, "pub {name}: Argument<{of}>, ").unwrap();
        write!(values, "{name}: call.argument({number}, \"{name}\"), ").unwrap();
    }
    let (of, needs, symbol) = (it.type_name(), needs(it)?, it.symbol);
    write!(
        code,
        "/// The arguments of `scylla.{}`.\n\
         pub struct {of} {{ {fields}}}\n\
         impl Declared for {of} {{\n\
             const DECLARATION: &'static Declaration = &Declaration {{ {needs} }};\n\
             #[inline(always)]\n\
             #[allow(unused_variables, reason = \"of a function without arguments\")]\n\
             fn read(call: &Call) -> Self {{ {of} {{ {values}}} }}\n\
         }}\n\
         export!({of}, \"{symbol}\");\n",
        it.name
    )
    .unwrap();
    Ok(())
}

/// Writes what `declared!` gives: the arguments of a call as a list, with and without their names,
/// and the names with the types.
fn write_lists(lists: &mut String, it: &Declaration) {
    let of = it.type_name();
    let given = || it.arguments.iter().filter(|it| !it.is_answer);
    let mut list = |what: &str, element: &dyn Fn(&Argument) -> String| {
        let elements: Vec<String> = given().map(element).collect();
        writeln!(lists, "({what}{of}) => {{ [{}] }};", elements.join(", ")).unwrap();
    };
    list("each of $args:ident: ", &|it| format!("$args.{}.named()", it.name));
    list("values of $args:ident: ", &|it| format!("$args.{}.datum()", it.name));
    list("signature of ", &|it| format!("(\"{}\", \"{}\")", it.name, it.sql_type));
}

/// The type in `src/api/call/argument.rs` of an SQL type.
fn rust_type(sql_type: &str) -> Result<String> {
    if let Some(element) = sql_type.strip_suffix("[]") {
        return Ok(format!("Array<{}>", rust_type(element)?));
    }
    let name = match sql_type {
        "bigint" => "Bigint",
        "boolean" => "Boolean",
        "cstring" => "Cstring",
        "double precision" => "Float",
        "integer" => "Integer",
        "interval" => "Interval",
        "jsonb" => "Jsonb",
        "name" => "Name",
        "regrole" | "scylla.role" | "scylla.database" => "Oid",
        "text" => "Text",
        "timestamptz" => "Timestamptz",
        "uuid" => "Uuid",
        "xid" => "Xid",
        _ => return Err(format!("no argument can be of type {sql_type} yet: add it to build.rs")),
    };
    Ok(name.to_owned())
}

/// The fields of a `Declaration`.
fn needs(it: &Declaration) -> Result<String> {
    let mut parts = it.needs.split("; ");
    let needs = parts.next().and_then(|part| part.strip_prefix("needs ")).unwrap_or_default();
    let (needs, queue) = needed(it, needs)?;
    let mut name = format!("scylla.{}()", it.name);
    let (mut writes, mut on_primary, mut at_top_level) = ("Writes::No".to_owned(), false, false);
    for part in parts {
        match part.split_once(' ') {
            Some(("writes", condition)) if condition.starts_with("unless ") => {
                let unless = it.number(&condition["unless ".len()..], &["boolean"])?;
                writes = format!("Writes::Unless({unless})");
            }
            Some(("writes", shown)) if shown.starts_with("as ") => {
                writes = "Writes::Always".into();
                shown["as ".len()..].clone_into(&mut name);
            }
            None if part == "writes" => writes = "Writes::Always".into(),
            _ if part == "on a primary" => on_primary = true,
            _ if part == "at top level" => at_top_level = true,
            _ => return Err(format!("unrecognized: \"{part}\"")),
        }
    }
    Ok(format!(
        "name: \"{name}\", needs: {needs}, queue: {queue}, writes: {writes}, \
         on_primary: {on_primary}, at_top_level: {at_top_level}"
    ))
}

/// What the caller needs, and the queue that a call names.
fn needed(it: &Declaration, text: &str) -> Result<(String, String)> {
    let none = || "NamedQueue::None".to_owned();
    match text {
        "nothing" => return Ok(("Needs::Nothing".into(), none())),
        "ownership" => return Ok(("Needs::Ownership".into(), none())),
        _ => {}
    }
    let (words, on) = text.split_once(" on ").ok_or_else(|| format!("unrecognized: \"{text}\""))?;
    // The second one is checked by the body.
    let (words, second) = words.split_once(" and ").map_or((words, None), |it| (it.0, Some(it.1)));
    second.map(privilege).transpose()?;
    let privileges = words.split(" or ").map(privilege).collect::<Result<Vec<_>>>()?;
    let privileges = privileges.into_iter().reduce(|all, one| format!("{all}.with({one})"));
    let privileges = privileges.unwrap_or_default();
    let words: Vec<&str> = on.split(' ').collect();
    let queue = match words[..] {
        ["all", "queues"] => return Ok((format!("Needs::OnAll({privileges})"), none())),
        ["all", "queues,", "which", "its", "body", "checks"] => {
            return Ok(("Needs::Nothing".into(), none()));
        }
        ["a", "queue"] => none(),
        ["the", "queue", "sql"] => "NamedQueue::Sql".into(),
        ["the", "task", name] => format!("NamedQueue::Task({})", it.number(name, &["uuid"])?),
        ["the", "tasks", name] => it.number(name, &["uuid[]"]).map(|_| none())?,
        ["the", "queues", "in", name] => it.number(name, &["jsonb"]).map(|_| none())?,
        [name] => match it.number(name, &["text", "text[]"])? {
            number if it.arguments[number].sql_type == "text" => {
                format!("NamedQueue::Argument({number})")
            }
            _ => none(),
        },
        _ => return Err(format!("unrecognized: \"on {on}\"")),
    };
    Ok((format!("Needs::On({privileges})"), queue))
}

fn privilege(word: &str) -> Result<String> {
    match word {
        "submit" | "work" | "cancel" | "look" | "manage" => {
            Ok(format!("Privileges::{}", word.to_uppercase()))
        }
        _ => Err(format!("no privilege \"{word}\"")),
    }
}
