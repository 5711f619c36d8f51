//! Whole splits on small directories.

use std::collections::BTreeMap;

use super::*;

const PLAIN: SplitOptions = SplitOptions {
    shards: 3,
    by: By::Lines,
    shuffle: None,
    layout: ShardLayout::Data,
    header: false,
};

fn job(lines: usize) -> tempfile::TempDir {
    let job = tempfile::tempdir().unwrap();
    let data = job.path().join("data");
    fs::create_dir(&data).unwrap();
    let text: String = (0..lines)
        .map(|i| format!("{}\tword {i}\n", i % 2))
        .collect();
    for (name, content) in [
        ("train.txt", text.as_str()),
        ("test.txt", "0\ttest\n"),
        ("dict.txt", "unk\t-1\nword\t5\n"),
        ("train.list", "data/train.txt\n"),
        ("test.list", "data/test.txt\n"),
    ] {
        fs::write(data.join(name), content).unwrap();
    }
    job
}

fn run(job: &Path, options: SplitOptions) -> Result<SplitReport, SplitError> {
    split(&Sources::job(job, None)?, options, false, &|_| ())
}

/// Every file below `directory` with its content.
fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.insert(
                    path.strip_prefix(directory).unwrap().to_owned(),
                    fs::read(&path).unwrap(),
                );
            }
        }
    }
    files
}

fn shard_lines(job: &Path, id: u32) -> Vec<String> {
    let path = job.join(format!("data/{id}/train.txt"));
    fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn each_shard_is_a_complete_data_directory() {
    let job = job(10);
    let report = run(job.path(), PLAIN).unwrap();
    assert!(!report.unchanged);
    assert_eq!(report.manifest.lines(), 10);
    let mut all = Vec::new();
    for id in 0..3 {
        let shard = job.path().join(format!("data/{id}"));
        for name in ["test.txt", "dict.txt", "train.list", "test.list"] {
            assert_eq!(
                fs::read(shard.join(name)).unwrap(),
                fs::read(job.path().join("data").join(name)).unwrap()
            );
        }
        all.extend(shard_lines(job.path(), id));
    }
    assert_eq!(
        all.join("\n") + "\n",
        fs::read_to_string(job.path().join("data/train.txt")).unwrap()
    );
    assert!(!job.path().join("data/.split-stage").exists());
}

#[test]
fn the_tutorial_layout_puts_data_below_the_id() {
    let job = job(9);
    let report = run(
        job.path(),
        SplitOptions {
            layout: ShardLayout::Tutorial,
            ..PLAIN
        },
    )
    .unwrap();
    assert_eq!(report.shards[2], job.path().join("2/data"));
    assert_eq!(
        fs::read_to_string(job.path().join("2/data/train.txt"))
            .unwrap()
            .lines()
            .count(),
        3
    );
}

#[test]
fn a_second_run_changes_nothing_and_a_changed_source_is_noticed() {
    let job = job(12);
    run(job.path(), PLAIN).unwrap();
    let before = tree(job.path());
    assert!(run(job.path(), PLAIN).unwrap().unchanged);
    assert_eq!(tree(job.path()), before);

    let train = job.path().join("data/train.txt");
    let mut text = fs::read_to_string(&train).unwrap();
    text.push_str("1\tone more\n");
    fs::write(&train, text).unwrap();
    let report = run(job.path(), PLAIN).unwrap();
    assert!(!report.unchanged);
    assert_eq!(report.manifest.lines(), 13);
}

#[test]
fn fewer_shards_leave_no_old_ones() {
    let job = job(12);
    run(job.path(), SplitOptions { shards: 5, ..PLAIN }).unwrap();
    run(job.path(), SplitOptions { shards: 2, ..PLAIN }).unwrap();
    assert!(!job.path().join("data/2").exists());
    assert!(!job.path().join("data/4").exists());
    assert_eq!(shard_lines(job.path(), 1).len(), 6);
}

#[test]
fn a_damaged_shard_is_made_again() {
    let job = job(12);
    run(job.path(), PLAIN).unwrap();
    let want = tree(job.path());
    fs::write(job.path().join("data/1/train.txt"), "0\tshort\n").unwrap();
    assert!(!run(job.path(), PLAIN).unwrap().unchanged);
    assert_eq!(tree(job.path()), want);
}

#[test]
fn foreign_directories_are_not_replaced_unless_forced() {
    let job = job(12);
    let foreign = job.path().join("data/1");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("precious"), "").unwrap();
    assert!(matches!(
        run(job.path(), PLAIN),
        Err(SplitError::ForeignShard { .. })
    ));
    assert!(foreign.join("precious").exists());
    let sources = Sources::job(job.path(), None).unwrap();
    split(&sources, PLAIN, true, &|_| ()).unwrap();
    assert!(!foreign.join("precious").exists());
}

/// A run killed at any point leaves some mixture of stage, manifest and shards; here each kind, one by one.
#[test]
fn whatever_a_killed_run_left_the_next_one_ends_right() {
    let want = {
        let job = job(12);
        run(job.path(), PLAIN).unwrap();
        shard_lines(job.path(), 1)
    };
    let leave_stage = |data: &Path| {
        fs::create_dir_all(data.join(".split-stage/0")).unwrap();
        fs::write(data.join(".split-stage/0/train.txt"), "half").unwrap();
    };
    let leave_half_published = |data: &Path| {
        let mut manifest: SplitManifest =
            serde_json::from_slice(&fs::read(data.join("split.json")).unwrap()).unwrap();
        manifest.complete = false;
        fs::write(
            data.join("split.json"),
            serde_json::to_vec(&manifest).unwrap(),
        )
        .unwrap();
        fs::remove_dir_all(data.join("2")).unwrap();
        fs::write(data.join("1/train.txt"), "of another split\n").unwrap();
    };
    let job = job(12);
    let data = job.path().join("data");
    leave_stage(&data);
    run(job.path(), PLAIN).unwrap();
    assert_eq!(shard_lines(job.path(), 1), want);
    leave_stage(&data);
    leave_half_published(&data);
    run(job.path(), PLAIN).unwrap();
    assert_eq!(shard_lines(job.path(), 1), want);
    assert_eq!(shard_lines(job.path(), 2).len(), 4);
}

#[test]
fn two_runs_at_once_do_not_mix() {
    let job = job(12);
    let sources = Sources::job(job.path(), None).unwrap();
    let _running = Shards::open(&sources, PLAIN).unwrap();
    assert!(matches!(
        run(job.path(), PLAIN),
        Err(SplitError::Busy { .. })
    ));
}

#[test]
fn a_shuffled_split_is_even_seeded_and_complete() {
    let shuffled = |seed| SplitOptions {
        shuffle: Some(seed),
        ..PLAIN
    };
    let (one, two) = (job(100), job(100));
    run(one.path(), shuffled(1)).unwrap();
    run(two.path(), shuffled(1)).unwrap();
    assert_eq!(shard_lines(one.path(), 2), shard_lines(two.path(), 2));
    let counts: Vec<usize> = (0..3).map(|id| shard_lines(one.path(), id).len()).collect();
    assert_eq!(counts, [33, 33, 34]);
    let first = shard_lines(two.path(), 0);
    run(two.path(), shuffled(2)).unwrap();
    assert_ne!(first, shard_lines(two.path(), 0));

    let mut all: Vec<String> = (0..3).flat_map(|id| shard_lines(one.path(), id)).collect();
    let text = fs::read_to_string(one.path().join("data/train.txt")).unwrap();
    let mut want: Vec<&str> = text.lines().collect();
    assert_ne!(all, want);
    all.sort_unstable();
    want.sort_unstable();
    assert_eq!(all, want);
}

#[test]
fn too_many_shards_are_refused_and_leave_nothing() {
    let job = job(2);
    let before = tree(job.path());
    for shuffle in [None, Some(1)] {
        let error = run(job.path(), SplitOptions { shuffle, ..PLAIN }).unwrap_err();
        assert!(
            matches!(
                error,
                SplitError::TooFewLines {
                    lines: 2,
                    shards: 3,
                    ..
                }
            ),
            "{error}"
        );
    }
    assert!(matches!(
        run(job.path(), SplitOptions { shards: 0, ..PLAIN }),
        Err(SplitError::NoShards)
    ));
    let mut after = tree(job.path());
    after.remove(Path::new("data/.split-lock"));
    assert_eq!(after, before);
}

#[test]
fn a_long_line_that_starves_a_shard_is_reported() {
    let job = job(3);
    let long = format!("1\ta\n1\tb\n0\t{}\n", "x".repeat(500));
    fs::write(job.path().join("data/train.txt"), long).unwrap();
    let error = run(
        job.path(),
        SplitOptions {
            by: By::Bytes,
            ..PLAIN
        },
    )
    .unwrap_err();
    assert!(
        matches!(error, SplitError::EmptyShard { shard: 1, .. }),
        "{error}"
    );
    run(job.path(), PLAIN).unwrap();
}

#[test]
fn a_single_file_is_split_into_the_directory_given() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("train.txt");
    fs::write(&file, "a\nb\nc\nd").unwrap();
    let out = directory.path().join("out");
    let sources = Sources::file(&file, Some(&out)).unwrap();
    split(
        &sources,
        SplitOptions {
            shards: 2,
            by: By::Bytes,
            ..PLAIN
        },
        false,
        &|_| (),
    )
    .unwrap();
    assert_eq!(
        fs::read_to_string(out.join("0/train.txt")).unwrap(),
        "a\nb\n"
    );
    assert_eq!(fs::read_to_string(out.join("1/train.txt")).unwrap(), "c\nd");
    split(
        &sources,
        SplitOptions {
            shards: 2,
            shuffle: Some(3),
            ..PLAIN
        },
        false,
        &|_| (),
    )
    .unwrap();
    let tally = tally_file(&out.join("1/train.txt")).unwrap();
    assert_eq!(tally.lines, 2);
}

#[test]
fn an_unreadable_manifest_is_named() {
    let job = job(6);
    fs::write(job.path().join("data/split.json"), "{ not json").unwrap();
    assert!(matches!(
        run(job.path(), PLAIN),
        Err(SplitError::Manifest { .. })
    ));
}

#[test]
fn every_part_of_a_file_with_a_header_has_it_and_no_line_is_lost() {
    for shuffle in [None, Some(7)] {
        let job = job(0);
        let lines: Vec<String> = (0..10).map(|i| format!("{i},{}", i * i)).collect();
        let text = format!("width,area\n{}", lines.join("\n"));
        fs::write(job.path().join("data/train.txt"), text).unwrap();
        let options = SplitOptions {
            shuffle,
            header: true,
            ..PLAIN
        };
        let report = run(job.path(), options).unwrap();
        let mut found = Vec::new();
        for id in 0..3 {
            let mut part = shard_lines(job.path(), id);
            assert_eq!(part.remove(0), "width,area");
            assert!(part.len() == 3 || part.len() == 4);
            found.extend(part);
        }
        found.sort();
        assert_eq!(found, lines);
        assert_eq!(report.manifest.lines(), 10);
        assert!(run(job.path(), options).unwrap().unchanged);
        // What an older version wrote, which did not count the header.
        let path = job.path().join("data/split.json");
        let written = fs::read_to_string(&path).unwrap();
        let older = written.replace("\"version\": 2", "\"version\": 1");
        assert_ne!(older, written);
        fs::write(&path, older).unwrap();
        assert!(!run(job.path(), options).unwrap().unchanged);
        assert_eq!(fs::read_to_string(&path).unwrap(), written);
    }
}

#[test]
fn data_that_changed_are_split_again_in_the_same_way() {
    let job = job(9);
    let options = SplitOptions {
        shuffle: Some(3),
        ..PLAIN
    };
    run(job.path(), options).unwrap();
    assert!(refresh(job.path(), 3).unwrap().is_none(), "nothing changed");
    assert!(refresh(job.path(), 2).unwrap().is_none(), "other shards");
    let edited = job.path().join("data/1/train.txt");
    fs::write(&edited, "0\tmine\n").unwrap();
    assert!(refresh(job.path(), 3).unwrap().is_none());
    assert_eq!(fs::read_to_string(&edited).unwrap(), "0\tmine\n");
    fs::write(job.path().join("data/train.txt"), "0\ta\n1\tb\n0\tc\n").unwrap();
    let report = refresh(job.path(), 3).unwrap().unwrap();
    assert_eq!(report.manifest.options, options);
    assert_eq!(shard_lines(job.path(), 2).len(), 1);
    fs::remove_file(job.path().join("data/train.txt")).unwrap();
    assert!(
        refresh(job.path(), 3).unwrap().is_none(),
        "sources are gone"
    );
}
