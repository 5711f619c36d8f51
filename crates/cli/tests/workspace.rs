//! Guards the structure of the workspace: which crates may use which, and that every source file says what it is.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("crates/ is above this crate")
        .to_owned()
}

/// The table of crates in ARCHITECTURE.md: each crate and the crates of ours that it uses.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(crates().join("../ARCHITECTURE.md")).unwrap();
    let names = |cell: &str| -> BTreeSet<String> {
        let quoted = cell.split('`').skip(1).step_by(2);
        quoted.map(str::to_owned).collect()
    };
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let mut table: BTreeMap<_, _> = cells
        .map(|cells| (cells[1].trim_matches('`').to_owned(), names(cells[3])))
        .collect();
    let all: BTreeSet<String> = table
        .keys()
        .filter(|name| !["cli", "python"].contains(&name.as_str()))
        .cloned()
        .collect();
    table.insert("cli".to_owned(), all);
    table
}

/// Internal crates that a manifest names among its normal dependencies.
fn used(manifest: &str, ours: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let normal = manifest
        .split("\n[")
        .filter(|section| section.starts_with("dependencies]"));
    normal
        .flat_map(str::lines)
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| ours.contains_key(*name))
        .map(str::to_owned)
        .collect()
}

#[test]
fn crates_use_what_the_map_in_architecture_md_says() {
    let documented = documented();
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(crates()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap();
        found.insert(name, used(&manifest, &documented));
    }
    assert_eq!(found, documented);
}

/// The words in backticks, each with the text before it.
fn quoted(text: &str) -> Vec<(&str, &str)> {
    let pieces: Vec<&str> = text.split('`').collect();
    let pairs = pieces.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    // A drawing has several lines.
    pairs.filter(|(_, word)| !word.contains('\n')).collect()
}

/// Whether code declares this name: an item, or a field or variant with a line of its own.
fn declares(code: &str, name: &str) -> bool {
    const KINDS: [&str; 10] = [
        "fn", "struct", "enum", "trait", "type", "const", "static", "mod", "union", "pub",
    ];
    code.lines().any(|line| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let mut before = "";
        words.any(|word| {
            let found = word == name && KINDS.contains(&before);
            before = word;
            found
        })
    })
}

/// Whether `crate::module::item` is there.
fn is_item(path: &str) -> bool {
    let mut segments = path.split("::");
    let mut at = vec![crates().join(segments.next().unwrap()).join("src")];
    if !at[0].is_dir() {
        return false;
    }
    for segment in segments {
        let inside = at[0].with_extension("").join(segment);
        let module = [inside.clone(), inside.with_extension("rs")];
        let module: Vec<PathBuf> = module.into_iter().filter(|path| path.exists()).collect();
        if !module.is_empty() {
            at = module;
            continue;
        }
        let mut found = false;
        let mut look = |path: &Path| {
            found |= declares(&fs::read_to_string(path).unwrap(), segment);
        };
        for path in &at {
            match path.is_dir() {
                true => visit(path, &mut look),
                false => look(path),
            }
        }
        if !found {
            return false;
        }
    }
    true
}

/// Files, modules, types and functions that ARCHITECTURE.md names: those of its walks with the file in which they are.
#[test]
fn what_architecture_md_names_exists() {
    let root = crates().join("..");
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (mut paths, mut items, mut functions) = (0, 0, 0);
    let (mut missing, mut file) = (Vec::new(), String::new());
    for (before, word) in quoted(&text) {
        let first = word.split(['/', ':']).next().unwrap();
        let is_ours = crates().join(first).is_dir() || (root.join(first).is_dir() && first != "..");
        let is_path =
            word.contains("/src/") || (word.contains('/') && !first.is_empty() && is_ours);
        let is_name = word.chars().all(|c| c.is_alphanumeric() || c == '_');
        let of_file = !file.is_empty() && (before == " (" || before == ", ") && is_name;
        let there = if is_path {
            paths += 1;
            file = word.to_owned();
            crates().join(word).exists() || root.join(word).exists()
        } else if word.contains("::") {
            items += 1;
            is_item(word)
        } else if of_file {
            functions += 1;
            declares(&fs::read_to_string(crates().join(&file)).unwrap(), word)
        } else {
            file.clear();
            true
        };
        if !there {
            missing.push(format!("{word} {file}"));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    let counts = [paths, items, functions];
    assert!(counts.iter().all(|count| *count >= 20), "{counts:?}");
}

#[test]
fn every_source_file_opens_with_a_head() {
    let mut without = Vec::new();
    visit(&crates(), &mut |path| {
        let text = fs::read_to_string(path).unwrap();
        if !text.starts_with("//!") {
            without.push(path.to_owned());
        }
    });
    assert!(without.is_empty(), "no head: {without:?}");
}

/// Names of types that may stand in several crates, with the reason.
const SHARED_TYPE_NAMES: [(&str, &str); 0] = [];

/// A newcomer who reads a type's name knows which thing of GLOSSARY.md it is, without looking for the crate.
#[test]
fn no_type_name_stands_in_two_crates() {
    let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    visit(&crates(), &mut |path| {
        let inside = path.strip_prefix(crates()).unwrap();
        let mut parts = inside.components().map(|part| part.as_os_str());
        let name = parts.next().unwrap().to_string_lossy().into_owned();
        if parts.next().is_none_or(|folder| folder != "src") {
            return;
        }
        for line in fs::read_to_string(path).unwrap().lines() {
            if let Some(found) = declared(line) {
                users.entry(found).or_default().insert(name.clone());
            }
        }
    });
    assert!(users.len() > 1000, "only {} types were found", users.len());
    users.retain(|found, crates| {
        let shared = SHARED_TYPE_NAMES.iter().any(|(name, _)| name == found);
        crates.len() > 1 && !shared
    });
    assert!(users.is_empty(), "in several crates: {users:#?}");
}

/// The type that a line declares, if code outside its module can name it.
fn declared(line: &str) -> Option<String> {
    let mut words = line
        .split_whitespace()
        .skip_while(|word| *word == "unsafe" || word.starts_with("pub"));
    let kind = words.next()?;
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&kind);
    let name: String = words
        .next()?
        .chars()
        .take_while(|c| c.is_alphanumeric())
        .collect();
    (line.trim_start().starts_with("pub") && is_type && !name.is_empty()).then_some(name)
}

/// Lines of a file that compute something, outside of its tests, with their numbers.
fn code(text: &str) -> Vec<(usize, &str)> {
    let end = text.find("\n#[cfg(test)]").unwrap_or(text.len());
    let lines = text[..end].lines().map(str::trim).enumerate();
    lines
        .map(|(at, line)| (at + 1, line))
        .filter(|(_, line)| {
            let word = line.chars().any(char::is_alphanumeric);
            let skipped = ["//", "use ", "pub use ", "mod ", "pub mod "];
            word && !skipped.iter().any(|begin| line.starts_with(begin))
        })
        .collect()
}

/// What stands twice is changed once.
#[test]
fn no_eleven_lines_of_code_stand_in_two_places() {
    const LINES: usize = 11;
    let mut files = Vec::new();
    visit(&crates(), &mut |path| {
        let inside = path.strip_prefix(crates()).unwrap();
        let is_code = inside.components().nth(1).unwrap().as_os_str() == "src";
        let is_test = path.to_string_lossy().contains("test");
        if is_code && !is_test && !inside.starts_with("dataset/src/demo/files") {
            files.push((inside.to_owned(), fs::read_to_string(path).unwrap()));
        }
    });
    let mut seen: BTreeMap<Vec<&str>, (&Path, usize)> = BTreeMap::new();
    let mut twins = Vec::new();
    for (path, text) in &files {
        let code = code(text);
        for window in code.windows(LINES) {
            let lines = window.iter().map(|(_, line)| *line).collect();
            let (first, twin) = (window[0].0, seen.get(&lines));
            match twin {
                // Lists whose lines are alike overlap with themselves.
                Some((other, at)) if *other != path || at + LINES <= first => {
                    twins.push(format!("{other:?}:{at} and {path:?}:{first}"));
                }
                Some(_) => {}
                None => drop(seen.insert(lines, (path, first))),
            }
        }
    }
    assert!(seen.len() > 50_000, "only {} windows", seen.len());
    assert!(twins.is_empty(), "{twins:#?}");
}

/// A library is told by its caller; only the two programs, the binary and the Python module, look at their surroundings.
#[test]
fn libraries_do_not_read_the_environment() {
    let mut readers = Vec::new();
    visit(&crates(), &mut |path| {
        let inside = path.strip_prefix(crates()).unwrap();
        let is_code = inside.components().nth(1).unwrap().as_os_str() == "src";
        let program = ["cli", "python"]
            .iter()
            .any(|name| inside.starts_with(name));
        let text = fs::read_to_string(path).unwrap();
        let reads = |(_, line): &(usize, &str)| line.contains("env::var");
        if is_code && !program && code(&text).iter().any(reads) {
            readers.push(inside.to_owned());
        }
    });
    assert!(readers.is_empty(), "{readers:?}");
}

/// `flags.text("…")` ends the program if no table has the flag; so all names that are written in the source are looked up here.
#[test]
fn flags_that_commands_ask_for_are_in_a_table() {
    let source = crates().join("cli/src");
    let mut declared = BTreeSet::new();
    visit(&source, &mut |path| {
        let text = fs::read_to_string(path).unwrap();
        for begin in ["flag(", "ignored("] {
            let entries = text.split(begin).skip(1);
            let names = entries.filter_map(|rest| rest.trim_start().strip_prefix('"'));
            declared.extend(names.map(|rest| rest.split('"').next().unwrap().to_owned()));
        }
    });
    let (mut asked, mut unknown) = (0, Vec::new());
    visit(&source, &mut |path| {
        let text = fs::read_to_string(path).unwrap();
        for (number, line) in code(&text) {
            for ask in ["text", "bool", "int", "float", "given"] {
                let begin = format!("flags.{ask}(\"");
                for rest in line.split(begin.as_str()).skip(1) {
                    let name = rest.split('"').next().unwrap();
                    asked += 1;
                    if !declared.contains(name) {
                        unknown.push(format!("{}:{number}: {name}", path.display()));
                    }
                }
            }
        }
    });
    assert!(asked > 50, "only {asked} places were found");
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// Phrases of GLOSSARY.md, "Words we do not use", and of the bad sentences in CONTRIBUTING.md that no other meaning excuses.
const AVOIDED: [&str; 15] = [
    "go on",
    "goes on",
    "going on",
    "went on",
    "wish",
    "wishes",
    "tray",
    "trays",
    "answers",
    "number of numbers",
    "over each other",
    "whom you name",
    "one a port",
    "starts died",
    "memcache.go",
];

/// Where the other meaning of a word is needed: questions to people have answers, and a test knows what kubectl prints.
const MEANT: [(&str, &str); 2] = [
    ("cli/src/commands/cluster/questions.rs", "answers"),
    ("provision/src/command/", "answers"),
];

/// The words of [`AVOIDED`] that a line of text has.
fn avoided(line: &str) -> impl Iterator<Item = &'static str> + use<> {
    let words: Vec<&str> = line
        .split(|c: char| !c.is_alphanumeric() && c != '.')
        .filter(|word| !word.is_empty())
        .collect();
    let line = format!(" {} ", words.join(" ").to_lowercase());
    AVOIDED
        .into_iter()
        .filter(move |words| line.contains(&format!(" {words} ")))
}

/// What a line of source says to people: its comment, and its texts.
fn told(line: &str) -> String {
    let pieces: Vec<&str> = line.split('"').collect();
    let texts = pieces.iter().skip(1).step_by(2).copied();
    let comment = pieces.iter().step_by(2).find_map(|code| {
        let at = code.find("//")?;
        line.find(&code[at..]).map(|at| &line[at..])
    });
    texts.chain(comment).collect::<Vec<_>>().join(" ")
}

/// Comments and messages say one thing by one word, too.
#[test]
fn comments_and_messages_use_the_words_of_the_glossary() {
    let mut found = Vec::new();
    visit(&crates(), &mut |path| {
        let inside = path.strip_prefix(crates()).unwrap();
        if inside == Path::new("cli/tests/workspace.rs") {
            return;
        }
        let is_meant = |word: &str| {
            let mut meant = MEANT.iter();
            meant.any(|(begin, own)| inside.starts_with(begin) && *own == word)
        };
        for (number, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
            let words = avoided(&told(line)).filter(|word| !is_meant(word));
            found.extend(words.map(|word| format!("{}:{}: {word}", inside.display(), number + 1)));
        }
    });
    assert!(found.is_empty(), "{found:#?}");
}

/// README, docs and help (`docs/reference/` is generated from it) say one thing by one word.
#[test]
fn texts_for_users_use_the_words_of_the_glossary() {
    let root = crates().join("..");
    let mut pages = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.push(path);
            }
        }
    }
    assert!(pages.len() > 10, "only {} pages were found", pages.len());
    let mut found = Vec::new();
    for page in pages {
        for (number, line) in fs::read_to_string(&page).unwrap().lines().enumerate() {
            let words = avoided(line);
            found.extend(words.map(|word| format!("{}:{}: {word}", page.display(), number + 1)));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

fn visit(directory: &Path, look: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|n| n != "target") {
            visit(&path, look);
        } else if path.extension().is_some_and(|e| e == "rs") {
            look(&path);
        }
    }
}
