//! The recommendation demo: how many stars will a user give a movie?

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::DemoError;
use super::job::Staging;
use super::movies::features::meta_file;
use super::movies::generator::World;
use super::movies::movielens::{self, RawFiles};
use super::movies::ratings::{Parts, divide};
use super::movies::records::{BadLine, LineFault, Movie, Rating, User, decode};

/// The folder with the configuration and data provider.
pub(crate) const CONFIG_FOLDER: &str = "recommendation";
/// Lines of `pred.txt`.
const PREDICTION_LINES: usize = 100;

const FILES: &[(&str, &str)] = &[
    (
        "trainer_config.py",
        include_str!("files/recommendation/trainer_config.py"),
    ),
    (
        "dataprovider.py",
        include_str!("files/recommendation/dataprovider.py"),
    ),
    ("README.md", include_str!("files/recommendation/README.md")),
];

/// The small files that name the others.
const LISTS: [(&str, &str); 3] = [
    ("train.list", "data/ratings.dat.train\n"),
    ("test.list", "data/ratings.dat.test\n"),
    ("pred.list", "data/pred.txt\n"),
];

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Number of users.
    pub users: usize,
    /// Number of movies.
    pub movies: usize,
    /// Ratings for training.
    pub train: usize,
    /// Ratings for testing.
    pub test: usize,
}

/// Writes the demo with generated data into `directory`.
pub fn write_generated(directory: &Path, world: World, force: bool) -> Result<Summary, DemoError> {
    write(directory, world.seed, force, || {
        let files = world.generate()?;
        Ok(RawFiles {
            users: files.users.into_bytes(),
            movies: files.movies.into_bytes(),
            ratings: files.ratings.into_bytes(),
        })
    })
}

/// Writes the demo with the MovieLens files of a zip or folder into `directory`.
pub fn write_real(
    directory: &Path,
    source: &Path,
    seed: u64,
    force: bool,
) -> Result<Summary, DemoError> {
    write(directory, seed, force, || movielens::read(source))
}

fn write(
    directory: &Path,
    seed: u64,
    force: bool,
    raw: impl FnOnce() -> Result<RawFiles, DemoError>,
) -> Result<Summary, DemoError> {
    let staging = Staging::new(directory, force)?;
    staging.check_free(&[CONFIG_FOLDER, "data"])?;
    staging.files(CONFIG_FOLDER, FILES)?;
    staging.files("data", &LISTS)?;
    let summary = prepare(&raw()?, &staging.folder("data")?, seed)?;
    staging.publish()?;
    Ok(summary)
}

/// Writes features, training and test ratings and pairs to predict.
fn prepare(raw: &RawFiles, data: &Path, seed: u64) -> Result<Summary, DemoError> {
    let (user_text, movie_text) = (decode(&raw.users), decode(&raw.movies));
    let users = records(&user_text, "users.dat", User::parse)?;
    let movies = records(&movie_text, "movies.dat", Movie::parse)?;
    let ratings = check_ratings(raw, &users, &movies)?;
    let parts = divide(ratings.into_iter(), seed);
    if parts.train.is_empty() || parts.test.is_empty() {
        return Err(DemoError::TooFewRatings {
            ratings: parts.train.len(),
        });
    }
    let files: [(&str, &[u8]); 6] = [
        ("meta.bin", &meta_file(&movies, &users)),
        ("users.dat", &raw.users),
        ("movies.dat", &raw.movies),
        ("ratings.dat.train", &joined(&parts.train)),
        ("ratings.dat.test", &joined(&parts.test)),
        ("pred.txt", &pairs(&parts)),
    ];
    for (name, content) in files {
        let path = data.join(name);
        fs::write(&path, content).map_err(|source| DemoError::write(&path, source))?;
    }
    Ok(Summary {
        users: users.len(),
        movies: movies.len(),
        train: parts.train.len(),
        test: parts.test.len(),
    })
}

fn records<T>(
    text: &str,
    file: &str,
    parse: impl Fn(&str) -> Result<T, LineFault>,
) -> Result<Vec<T>, DemoError> {
    text.lines()
        .enumerate()
        .map(|(index, line)| parse(line).map_err(|reason| bad_line(file, index, reason)))
        .collect()
}

fn bad_line(file: &str, index: usize, reason: LineFault) -> DemoError {
    DemoError::BadRecord(BadLine {
        file: file.into(),
        line: index + 1,
        reason,
    })
}

/// The lines of `ratings.dat` with their users, if all of them can be joined with a user and a movie.
fn check_ratings<'a>(
    raw: &'a RawFiles,
    users: &[User],
    movies: &[Movie],
) -> Result<Vec<(u32, &'a [u8])>, DemoError> {
    let user_ids: HashSet<u32> = users.iter().map(|user| user.id).collect();
    let movie_ids: HashSet<u32> = movies.iter().map(|movie| movie.id).collect();
    let check = |line: &[u8]| {
        let rating = Rating::parse(&decode(line))?;
        if !user_ids.contains(&rating.user) {
            return Err(LineFault::Unknown("user", rating.user));
        }
        if !movie_ids.contains(&rating.movie) {
            return Err(LineFault::Unknown("movie", rating.movie));
        }
        Ok(rating.user)
    };
    let lines = raw
        .ratings
        .split(|&byte| byte == b'\n')
        .enumerate()
        .filter(|(_, line)| !line.is_empty());
    lines
        .map(|(index, line)| {
            let user = check(line).map_err(|reason| bad_line("ratings.dat", index, reason))?;
            Ok((user, line.strip_suffix(b"\r").unwrap_or(line)))
        })
        .collect()
}

fn joined(lines: &[&[u8]]) -> Vec<u8> {
    lines
        .iter()
        .flat_map(|line| line.iter().copied().chain([b'\n']))
        .collect()
}

/// `user::movie` of the first test ratings.
fn pairs(parts: &Parts<'_>) -> Vec<u8> {
    let mut text = String::new();
    for line in parts.test.iter().take(PREDICTION_LINES) {
        let line = decode(line);
        let fields: Vec<&str> = line.splitn(3, "::").collect();
        text.push_str(&format!("{}::{}\n", fields[0], fields[1]));
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const WORLD: World = World {
        users: 60,
        movies: 120,
        ratings: 1_800,
        seed: 1,
    };

    #[test]
    fn the_job_directory_is_complete_and_reproducible() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let summary = write_generated(one.path(), WORLD, false).unwrap();
        assert_eq!(
            (summary.users, summary.movies, summary.train + summary.test),
            (60, 120, 1_800)
        );
        write_generated(two.path(), WORLD, false).unwrap();
        for name in [
            "meta.bin",
            "ratings.dat.train",
            "ratings.dat.test",
            "pred.txt",
            "train.list",
        ] {
            let read = |job: &Path| fs::read(job.join("data").join(name)).unwrap();
            assert_eq!(read(one.path()), read(two.path()), "{name}");
        }
        assert!(one.path().join("recommendation/trainer_config.py").exists());
        assert!(matches!(
            write_generated(one.path(), WORLD, false),
            Err(DemoError::Exists { .. })
        ));
    }

    #[test]
    fn python_finds_every_rated_movie_and_user_in_the_features() {
        let job = tempfile::tempdir().unwrap();
        write_generated(job.path(), WORLD, false).unwrap();
        let script = "
import pickle
meta = pickle.load(open('data/meta.bin', 'rb'))
title, genres = [field['dict'] for field in meta['movie']['__meta__']['raw_meta'][1:]]
for line in open('data/ratings.dat.train'):
    user, movie, stars, _ = map(int, line.split('::'))
    letters, flags = meta['movie'][movie]
    assert max(letters) < len(title) and len(flags) == len(genres) and sum(flags) >= 1
    assert len(meta['user'][user]) == 3
print(meta['movie']['__meta__']['raw_meta'][0]['max'], len(meta['user']) - 1)";
        let output = Command::new("python3")
            .args(["-c", script])
            .current_dir(job.path())
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "120 60\n",
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    #[test]
    fn ratings_that_do_not_fit_are_named() {
        let raw = |ratings: &str| RawFiles {
            users: b"1::F::1::10::48067\n".to_vec(),
            movies: b"1::Caf\xe9 (1995)::Drama\n".to_vec(),
            ratings: ratings.as_bytes().to_vec(),
        };
        let data = tempfile::tempdir().unwrap();
        let error = |ratings: &str| {
            prepare(&raw(ratings), data.path(), 1)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("1::1::5::0\n1::2::5::0\n"),
            "line 2 of ratings.dat: there is no movie 2"
        );
        assert_eq!(
            error("3::1::5::0\n"),
            "line 1 of ratings.dat: there is no user 3"
        );
        assert!(
            error("1::1::5::0\n").contains("too few"),
            "{}",
            error("1::1::5::0\n")
        );
        let ten = "1::1::5::0\n".repeat(10);
        let summary = prepare(&raw(&ten), data.path(), 1).unwrap();
        assert_eq!((summary.train, summary.test), (9, 1));
    }
}
