//! The lines of the MovieLens 1M files.
//!
//! Fields are separated by `::`. The files are Latin-1, so every byte is one character; that keeps the numbering of
//! title characters equal to v1's, which read bytes.

use std::fmt;
use std::path::PathBuf;

/// A line of `users.dat`: `id::gender::age::occupation::zip`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    /// From 1.
    pub id: u32,
    /// `F` or `M`.
    pub gender: String,
    /// The first year of an age group: 1, 18, 25, 35, 45, 50 or 56.
    pub age: String,
    /// Number of an occupation, 0 to 20.
    pub occupation: String,
}

/// A line of `movies.dat`: `id::title (year)::genre|genre`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Movie {
    /// From 1; not all numbers are used.
    pub id: u32,
    /// The text before the year in parentheses, with the blank between them, as v1 kept it.
    pub title: String,
    /// At least one.
    pub genres: Vec<String>,
}

/// A line of `ratings.dat`: `user::movie::stars::time`. Only the user matters here; the line stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rating {
    /// [`User::id`].
    pub user: u32,
    /// [`Movie::id`].
    pub movie: u32,
    /// 1 to 5.
    pub stars: u8,
}

/// A line that does not have the right form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of {file}: {reason}")]
pub struct BadLine {
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// Which rule the line breaks.
    pub reason: LineFault,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineFault {
    /// The number of `::` is wrong.
    Fields {
        /// Fields found.
        got: usize,
        /// Fields needed.
        want: usize,
    },
    /// Not a number from 1 on.
    Id(String),
    /// Stars are not 1 to 5.
    Stars(String),
    /// A title does not end with a year in parentheses.
    Year(String),
    /// A rating names a user or movie that the other files do not have.
    Unknown(&'static str, u32),
    /// A field is empty.
    Empty(&'static str),
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fields { got, want } => {
                write!(f, "{got} fields separated by \"::\", expected {want}")
            }
            Self::Id(text) => write!(
                f,
                "{text:?} is not an id (a whole number from 1 to 9999999)"
            ),
            Self::Stars(text) => write!(f, "{text:?} is not a rating from 1 to 5"),
            Self::Year(text) => write!(f, "title {text:?} does not end with a year in parentheses"),
            Self::Unknown(kind, id) => write!(f, "there is no {kind} {id}"),
            Self::Empty(field) => write!(f, "the {field} is empty"),
        }
    }
}

/// Larger ids count as damage: tables are as long as the largest id.
const LARGEST_ID: u32 = 9_999_999;

/// Latin-1 bytes as text: every byte is one character.
pub(crate) fn decode(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

impl User {
    /// Parses a line without its line feed.
    pub(crate) fn parse(line: &str) -> Result<Self, LineFault> {
        let [id, gender, age, occupation, _zip] = fields(line)?;
        for (field, text) in [("gender", gender), ("age", age), ("occupation", occupation)] {
            if text.is_empty() {
                return Err(LineFault::Empty(field));
            }
        }
        Ok(Self {
            id: parse_id(id)?,
            gender: gender.to_owned(),
            age: age.to_owned(),
            occupation: occupation.to_owned(),
        })
    }
}

impl Movie {
    /// Parses a line without its line feed.
    pub(crate) fn parse(line: &str) -> Result<Self, LineFault> {
        let [id, title, genres] = fields(line)?;
        let (title, genres) = (
            without_year(title)?,
            genres.split('|').map(str::to_owned).collect(),
        );
        Ok(Self {
            id: parse_id(id)?,
            title: title.to_owned(),
            genres,
        })
    }
}

impl Rating {
    /// Parses a line without its line feed.
    pub(crate) fn parse(line: &str) -> Result<Self, LineFault> {
        let [user, movie, stars, _time] = fields(line)?;
        let stars = match stars.parse() {
            Ok(number @ 1..=5) => number,
            _ => return Err(LineFault::Stars(stars.to_owned())),
        };
        Ok(Self {
            user: parse_id(user)?,
            movie: parse_id(movie)?,
            stars,
        })
    }
}

fn fields<const N: usize>(line: &str) -> Result<[&str; N], LineFault> {
    let fields: Vec<&str> = line.trim_end_matches('\r').split("::").collect();
    let got = fields.len();
    fields
        .try_into()
        .map_err(|_| LineFault::Fields { got, want: N })
}

fn parse_id(text: &str) -> Result<u32, LineFault> {
    match text.parse() {
        Ok(id @ 1..=LARGEST_ID) => Ok(id),
        _ => Err(LineFault::Id(text.to_owned())),
    }
}

/// Cuts off `(1995)`, whatever the number of digits.
fn without_year(title: &str) -> Result<&str, LineFault> {
    let wrong = || LineFault::Year(title.to_owned());
    let inner = title.strip_suffix(')').ok_or_else(wrong)?;
    let (before, year) = inner.rsplit_once('(').ok_or_else(wrong)?;
    let is_year = !year.is_empty() && year.bytes().all(|byte| byte.is_ascii_digit());
    if is_year { Ok(before) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let user = User::parse("6040::M::25::6::11106").unwrap();
        assert_eq!(
            (
                user.id,
                user.gender.as_str(),
                user.age.as_str(),
                user.occupation.as_str()
            ),
            (6040, "M", "25", "6")
        );
        let movie = Movie::parse("1::A (Long) Day (1995)::Comedy|Drama").unwrap();
        assert_eq!(
            (movie.title.as_str(), movie.genres.len()),
            ("A (Long) Day ", 2)
        );
        assert_eq!(
            Rating::parse("1::2::5::978300760"),
            Ok(Rating {
                user: 1,
                movie: 2,
                stars: 5
            })
        );
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        let wrong = [
            (
                Rating::parse("1,2,5").unwrap_err(),
                "1 fields separated by \"::\", expected 4",
            ),
            (
                Rating::parse("1::2::6::0").unwrap_err(),
                "\"6\" is not a rating from 1 to 5",
            ),
            (
                Rating::parse("0::2::5::0").unwrap_err(),
                "\"0\" is not an id (a whole number from 1 to 9999999)",
            ),
            (
                Movie::parse("1::Day::Comedy").unwrap_err(),
                "title \"Day\" does not end with a year in parentheses",
            ),
            (
                Movie::parse("1::Day ()::Comedy").unwrap_err(),
                "title \"Day ()\" does not end with a year in parentheses",
            ),
            (
                User::parse("1::::25::6::1").unwrap_err(),
                "the gender is empty",
            ),
        ];
        for (reason, text) in wrong {
            assert_eq!(reason.to_string(), text);
        }
    }
}
