//! The features of a movie and of a user that the network gets: `meta.bin`.
//!
//! Per movie: the title as a sequence of characters and its genres as zeros and ones. Per user: gender, age group and
//! occupation as numbers. Characters, genres and genders are numbered in the order in which they first appear, age
//! groups and occupations in the order of their text; that is v1's numbering.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use super::pickle::Value;
use super::records::{Movie, User};

/// The bytes of `meta.bin`.
pub(crate) fn meta_file(movies: &[Movie], users: &[User]) -> Vec<u8> {
    Value::named([("movie", movie_meta(movies)), ("user", user_meta(users))]).pickle()
}

fn movie_meta(movies: &[Movie]) -> Value {
    let characters = Numbering::by_first_use(movies.iter().flat_map(|movie| movie.title.chars()));
    let genres = Numbering::by_first_use(movies.iter().flat_map(|movie| movie.genres.iter()));
    let fields = vec![
        id_field(movies.iter().map(|movie| movie.id)),
        embedding_field("title", "sequence", characters.texts()),
        Value::named([
            ("name", Value::text("genres")),
            ("dict", genres.texts()),
            ("type", Value::text("one_hot_dense")),
        ]),
    ];
    let rows = movies.iter().map(|movie| {
        let title = Value::ints(movie.title.chars().map(|c| characters.number(&c)));
        let mut flags = vec![Value::Float(0.0); genres.order.len()];
        for genre in &movie.genres {
            flags[genres.number(&genre) as usize] = Value::Float(1.0);
        }
        (movie.id, vec![title, Value::List(flags)])
    });
    kind(fields, rows)
}

fn user_meta(users: &[User]) -> Value {
    // v1 uses the first character of the gender.
    let first = |user: &User| user.gender.chars().next();
    let genders = Numbering::by_first_use(users.iter().flat_map(|user| user.gender.chars()));
    let ages = Numbering::sorted(users.iter().map(|user| &user.age));
    let occupations = Numbering::sorted(users.iter().map(|user| &user.occupation));
    let fields = vec![
        id_field(users.iter().map(|user| user.id)),
        embedding_field("gender", "no_sequence", genders.texts()),
        embedding_field("age", "no_sequence", ages.texts()),
        embedding_field("occupation", "no_sequence", occupations.texts()),
    ];
    let rows = users.iter().map(|user| {
        let gender = first(user).map_or(0, |c| genders.number(&c));
        let numbers = [
            gender,
            ages.number(&&user.age),
            occupations.number(&&user.occupation),
        ];
        (
            user.id,
            numbers.map(|number| Value::Int(number as i32)).to_vec(),
        )
    });
    kind(fields, rows)
}

/// The entry of movies or of users: how to read the fields, then a row for each id.
fn kind(fields: Vec<Value>, rows: impl Iterator<Item = (u32, Vec<Value>)>) -> Value {
    let map = Value::ints(1..fields.len() as u32);
    let meta = Value::named([("raw_meta", Value::List(fields)), ("feature_map", map)]);
    let mut entries = vec![(Value::text("__meta__"), meta)];
    entries.extend(rows.map(|(id, row)| (Value::Int(id as i32), Value::List(row))));
    Value::Dict(entries)
}

fn id_field(ids: impl Iterator<Item = u32> + Clone) -> Value {
    let number = |value: Option<u32>| Value::Int(value.unwrap_or(0) as i32);
    Value::named([
        ("is_key", Value::Bool(true)),
        ("max", number(ids.clone().max())),
        ("min", number(ids.clone().min())),
        ("count", Value::Int(ids.count() as i32)),
        ("type", Value::text("id")),
    ])
}

fn embedding_field(name: &str, sequence: &str, dictionary: Value) -> Value {
    Value::named([
        ("name", Value::text(name)),
        ("dict", dictionary),
        ("type", Value::text("embedding")),
        ("seq", Value::text(sequence)),
    ])
}

/// Distinct values and their numbers.
struct Numbering<T> {
    order: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Copy + Eq + Hash + Ord + ToString> Numbering<T> {
    fn by_first_use(values: impl Iterator<Item = T>) -> Self {
        let mut numbering = Self {
            order: Vec::new(),
            numbers: HashMap::new(),
        };
        for value in values {
            let next = numbering.order.len() as u32;
            numbering.numbers.entry(value).or_insert_with(|| {
                numbering.order.push(value);
                next
            });
        }
        numbering
    }

    fn sorted(values: impl Iterator<Item = T>) -> Self {
        Self::by_first_use(values.collect::<BTreeSet<T>>().into_iter())
    }

    fn number(&self, value: &T) -> u32 {
        self.numbers[value]
    }

    fn texts(&self) -> Value {
        Value::List(
            self.order
                .iter()
                .map(|value| Value::Text(value.to_string()))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_as_v1_does() {
        let movies = [
            Movie::parse("3::Ab a (1990)::Drama|Comedy").unwrap(),
            Movie::parse("1::b (1991)::Action").unwrap(),
        ];
        let Value::Dict(entries) = movie_meta(&movies) else {
            panic!()
        };
        let row = |at: usize| entries[at].clone();
        assert_eq!(
            row(1),
            (
                Value::Int(3),
                Value::List(vec![
                    Value::ints([0, 1, 2, 3, 2]),
                    Value::List(vec![
                        Value::Float(1.0),
                        Value::Float(1.0),
                        Value::Float(0.0)
                    ]),
                ])
            )
        );
        assert_eq!(row(2).0, Value::Int(1));
    }

    #[test]
    fn ages_are_ordered_as_text() {
        let user = |id: u32, age: &str| User::parse(&format!("{id}::M::{age}::4::0")).unwrap();
        let Value::Dict(entries) = user_meta(&[user(1, "56"), user(2, "1"), user(3, "18")]) else {
            panic!()
        };
        assert_eq!(entries[1].1, Value::ints([0, 2, 0]));
        assert_eq!(entries[3].1, Value::ints([0, 1, 0]));
    }
}
