//! Fetching from a small server on loopback that misbehaves on request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::*;

/// How the server handles one request.
#[derive(Clone, Copy)]
enum Manner {
    /// Correctly, ranges included.
    Right,
    /// Sends only so many bytes of the body, then disconnects.
    CutAfter(usize),
    /// Does not support ranges.
    Whole,
    /// Ignores `If-Range` and sends the rest of another version, as a careless cache does.
    RestOfAnother,
    /// Replies with a status and no body.
    Status(u16),
    /// Sends nothing.
    Silent,
}

struct Server {
    url: String,
    /// The `Range` header of every request.
    ranges: Arc<Mutex<Vec<Option<String>>>>,
}

/// Serves `content` once for every manner, then repeats the last one.
fn serve(content: Vec<u8>, tag: Option<&'static str>, manners: Vec<Manner>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/set/file.bin?x=1", listener.local_addr().unwrap());
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ranges);
    thread::spawn(move || {
        for (index, stream) in listener.incoming().enumerate() {
            let manner = manners[index.min(manners.len() - 1)];
            answer(&stream.unwrap(), &content, tag, manner, &seen);
        }
    });
    Server { url, ranges }
}

fn answer(
    stream: &TcpStream,
    content: &[u8],
    tag: Option<&str>,
    manner: Manner,
    seen: &Mutex<Vec<Option<String>>>,
) {
    let mut headers = BufReader::new(stream.try_clone().unwrap())
        .lines()
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty());
    let lines: Vec<String> = headers.by_ref().collect();
    let find = |name: &str| {
        lines
            .iter()
            .find_map(|line| line.to_lowercase().strip_prefix(name).map(str::to_owned))
    };
    let range = find("range: bytes=");
    let fits = match (find("if-range: "), tag) {
        _ if matches!(manner, Manner::RestOfAnother) => true,
        (Some(wanted), Some(tag)) => wanted == tag,
        (Some(_), None) => false,
        (None, _) => true,
    };
    let start = range
        .as_ref()
        .filter(|_| fits)
        .and_then(|range| range.trim_end_matches('-').parse::<usize>().ok());
    seen.lock().unwrap().push(range);
    let mut out = stream;
    let other = matches!(manner, Manner::RestOfAnother).then_some("\"another\"");
    let tag = other
        .or(tag)
        .map(|tag| format!("ETag: {tag}\r\n"))
        .unwrap_or_default();
    let mut send = |status: &str, extra: &str, body: &[u8], keep: usize| {
        let head = format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{tag}{extra}\r\n",
            body.len()
        );
        let _ = out.write_all(head.as_bytes());
        let _ = out.write_all(&body[..keep.min(body.len())]);
    };
    let keep = if let Manner::CutAfter(keep) = manner {
        keep
    } else {
        usize::MAX
    };
    match (manner, start) {
        (Manner::Status(status), _) => send(&format!("{status} No"), "", b"", 0),
        (Manner::Silent, _) => {
            // Until the other side disconnects.
            let _ = { stream }.read(&mut [0]);
        }
        (Manner::Whole, _) | (_, None) => send("200 OK", "", content, keep),
        (_, Some(start)) if start >= content.len() => {
            send(
                "416 No",
                &format!("Content-Range: bytes */{}\r\n", content.len()),
                b"",
                0,
            );
        }
        (_, Some(start)) => {
            let extra = format!(
                "Content-Range: bytes {start}-{}/{}\r\n",
                content.len() - 1,
                content.len()
            );
            send("206 Part", &extra, &content[start..], keep);
        }
    }
}

const HASTE: FetchPatience = FetchPatience {
    attempts: 3,
    pause: Duration::from_millis(1),
    longest_pause: Duration::from_millis(5),
    silence: Duration::from_secs(20),
};

const LARGEST: u64 = 1 << 20;

fn content() -> Vec<u8> {
    (0..100_000u32).flat_map(|i| i.to_le_bytes()).collect()
}

struct TestFolder {
    directory: tempfile::TempDir,
}

impl TestFolder {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn target(&self) -> PathBuf {
        self.directory.path().join("file.bin")
    }

    fn fetch(&self, url: &str, checksum: Option<Checksum>) -> Result<Fetched, FetchError> {
        let request = FetchRequest {
            source: url,
            target: &self.target(),
            checksum,
            force: false,
            largest: LARGEST,
        };
        fetch(&request, HASTE, &|_| ())
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    }
}

fn checksum_of(content: &[u8]) -> Checksum {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), content).unwrap();
    sha256(file.path()).unwrap()
}

#[test]
fn a_file_arrives_and_is_not_fetched_twice() {
    let server = serve(content(), Some("\"v1\""), vec![Manner::Right]);
    let place = TestFolder::new();
    let fetched = place
        .fetch(&server.url, Some(checksum_of(&content())))
        .unwrap();
    assert_eq!((fetched.bytes, fetched.unchanged), (400_000, false));
    assert_eq!(fs::read(place.target()).unwrap(), content());
    assert_eq!(place.names(), ["file.bin"]);
    assert!(
        place
            .fetch(&server.url, Some(checksum_of(&content())))
            .unwrap()
            .unchanged
    );
    assert_eq!(server.ranges.lock().unwrap().len(), 1);
}

#[test]
fn a_download_continues_where_its_connection_broke() {
    let server = serve(
        content(),
        Some("\"v1\""),
        vec![
            Manner::CutAfter(150_000),
            Manner::CutAfter(50_000),
            Manner::Right,
        ],
    );
    let place = TestFolder::new();
    place.fetch(&server.url, None).unwrap();
    assert_eq!(fs::read(place.target()).unwrap(), content());
    let ranges = server.ranges.lock().unwrap().clone();
    assert_eq!(
        ranges,
        [None, Some("150000-".to_owned()), Some("200000-".to_owned())]
    );
}

#[test]
fn a_later_run_continues_too() {
    let place = TestFolder::new();
    let server = serve(
        content(),
        Some("\"v1\""),
        vec![
            Manner::CutAfter(150_000),
            Manner::Status(503),
            Manner::Status(503),
            Manner::Status(503),
            Manner::Right,
        ],
    );
    let error = place.fetch(&server.url, None).unwrap_err();
    assert!(
        matches!(error, FetchError::GaveUp { bytes: 150_000, .. }),
        "{error:?}"
    );
    assert_eq!(place.names(), ["file.bin.part", "file.bin.part.json"]);
    let fetched = place.fetch(&server.url, None).unwrap();
    assert_eq!(fetched.resumed_from, 150_000);
    assert_eq!(fs::read(place.target()).unwrap(), content());
}

#[test]
fn a_part_of_an_older_version_is_dropped() {
    let place = TestFolder::new();
    let part = place.directory.path().join("file.bin.part");
    let server = serve(content(), Some("\"new\""), vec![Manner::Right]);
    fs::write(&part, b"old bytes").unwrap();
    let origin = serde_json::json!({ "source": server.url, "validator": "\"old\"" });
    fs::write(
        place.directory.path().join("file.bin.part.json"),
        origin.to_string(),
    )
    .unwrap();
    place.fetch(&server.url, None).unwrap();
    assert_eq!(fs::read(place.target()).unwrap(), content());
    assert_eq!(*server.ranges.lock().unwrap(), [Some("9-".to_owned())]);
}

#[test]
fn half_of_one_version_and_half_of_another_are_no_file() {
    let manners = vec![
        Manner::CutAfter(150_000),
        Manner::RestOfAnother,
        Manner::Right,
    ];
    let server = serve(content(), Some("\"v1\""), manners);
    let place = TestFolder::new();
    place.fetch(&server.url, None).unwrap();
    let ranges = server.ranges.lock().unwrap().clone();
    assert_eq!(ranges, [None, Some("150000-".to_owned()), None]);
    assert_eq!(fs::read(place.target()).unwrap(), content());
}

#[test]
fn a_file_larger_than_allowed_is_not_stored() {
    let server = serve(content(), None, vec![Manner::Right]);
    let place = TestFolder::new();
    let request = FetchRequest {
        source: &server.url,
        target: &place.target(),
        checksum: None,
        force: false,
        largest: 1000,
    };
    let error = fetch(&request, HASTE, &|_| ()).unwrap_err();
    assert!(
        matches!(error, FetchError::TooLarge { bytes: 400_000, .. }),
        "{error:?}"
    );
    assert!(!place.target().exists());
}

#[test]
fn a_server_without_ranges_or_versions_starts_over() {
    for (tag, manners) in [
        (Some("\"v1\""), vec![Manner::CutAfter(1_000), Manner::Whole]),
        (None, vec![Manner::CutAfter(1_000), Manner::Whole]),
    ] {
        let server = serve(content(), tag, manners);
        let place = TestFolder::new();
        place.fetch(&server.url, None).unwrap();
        assert_eq!(fs::read(place.target()).unwrap(), content());
    }
}

#[test]
fn a_complete_part_needs_no_more_bytes() {
    let place = TestFolder::new();
    let server = serve(content(), Some("\"v1\""), vec![Manner::Right]);
    fs::write(place.directory.path().join("file.bin.part"), content()).unwrap();
    let origin = serde_json::json!({ "source": server.url, "validator": "\"v1\"" });
    fs::write(
        place.directory.path().join("file.bin.part.json"),
        origin.to_string(),
    )
    .unwrap();
    place
        .fetch(&server.url, Some(checksum_of(&content())))
        .unwrap();
    assert_eq!(fs::read(place.target()).unwrap(), content());
}

#[test]
fn the_wrong_content_does_not_stay() {
    let server = serve(content(), None, vec![Manner::Right]);
    let place = TestFolder::new();
    let error = place
        .fetch(&server.url, Some(checksum_of(b"something else")))
        .unwrap_err();
    assert!(matches!(error, FetchError::Checksum { .. }), "{error:?}");
    assert!(place.names().is_empty());
}

#[test]
fn another_file_in_the_way_is_kept_unless_forced() {
    let server = serve(content(), None, vec![Manner::Right]);
    let place = TestFolder::new();
    fs::write(place.target(), "mine").unwrap();
    let want = Some(checksum_of(&content()));
    assert!(matches!(
        place.fetch(&server.url, want),
        Err(FetchError::Exists { .. })
    ));
    assert_eq!(fs::read(place.target()).unwrap(), b"mine");
    let request = FetchRequest {
        source: &server.url,
        target: &place.target(),
        checksum: want,
        force: true,
        largest: LARGEST,
    };
    fetch(&request, HASTE, &|_| ()).unwrap();
    assert_eq!(fs::read(place.target()).unwrap(), content());
}

#[test]
fn a_file_of_the_same_name_is_not_taken_for_another() {
    let server = serve(content(), None, vec![Manner::Right]);
    let place = TestFolder::new();
    let source = place.directory.path().join("source");
    fs::write(&source, "mine").unwrap();
    for (text, from, same) in [
        ("mine", source.to_str().unwrap(), true),
        ("them", source.to_str().unwrap(), false),
        ("them", &server.url, false),
    ] {
        fs::write(place.target(), text).unwrap();
        match place.fetch(from, None) {
            Ok(fetched) => assert!(same && fetched.unchanged, "{text} {from}"),
            Err(error) => assert!(!same && error.to_string().contains("--force"), "{error}"),
        }
        assert_eq!(fs::read_to_string(place.target()).unwrap(), text);
    }
    fs::write(place.target(), content()).unwrap();
    assert!(place.fetch(&server.url, None).unwrap().unchanged);
    // Nobody can be asked: what is there is used.
    let refused = serve(content(), None, vec![Manner::Status(500)]);
    assert!(place.fetch(&refused.url, None).unwrap().unchanged);
}

#[test]
fn what_cannot_be_had_is_not_tried_for_ever() {
    let place = TestFolder::new();
    let missing = serve(content(), None, vec![Manner::Status(404)]);
    assert!(matches!(
        place.fetch(&missing.url, None),
        Err(FetchError::Status { status: 404, .. })
    ));
    assert_eq!(missing.ranges.lock().unwrap().len(), 1);
    let silent = serve(content(), None, vec![Manner::Silent]);
    let request = FetchRequest {
        source: &silent.url,
        target: &place.target(),
        checksum: None,
        force: false,
        largest: LARGEST,
    };
    let short = FetchPatience {
        silence: Duration::from_millis(50),
        ..HASTE
    };
    let error = fetch(&request, short, &|_| ()).unwrap_err();
    assert!(
        matches!(error, FetchError::GaveUp { attempts: 3, .. }),
        "{error:?}"
    );
    let nobody = {
        format!(
            "http://{}/f",
            TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
        )
    };
    assert!(matches!(
        place.fetch(&nobody, None),
        Err(FetchError::GaveUp { .. })
    ));
    let left = fs::read_dir(place.target().parent().unwrap()).unwrap();
    assert_eq!(left.count(), 0, "an empty part is of no use");
    assert!(matches!(
        place.fetch("http://", None),
        Err(FetchError::Request { .. })
    ));
}

#[test]
fn a_local_file_is_copied() {
    let place = TestFolder::new();
    let source = place.directory.path().join("source");
    fs::write(&source, content()).unwrap();
    place
        .fetch(source.to_str().unwrap(), Some(checksum_of(&content())))
        .unwrap();
    assert_eq!(fs::read(place.target()).unwrap(), content());
    let missing = place.directory.path().join("missing");
    fs::remove_file(place.target()).unwrap();
    assert!(matches!(
        place.fetch(missing.to_str().unwrap(), None),
        Err(FetchError::Read { .. })
    ));
}

#[test]
fn the_target_gets_the_name_of_the_source() {
    let directory = tempfile::tempdir().unwrap();
    let named = |source: &str, out: Option<&Path>| target(source, out).ok();
    assert_eq!(named("http://h/a/b.zip?x#y", None), Some("b.zip".into()));
    assert_eq!(
        named("http://h/a/b.zip", Some(directory.path())),
        Some(directory.path().join("b.zip"))
    );
    assert_eq!(
        named("http://h/a/b.zip", Some(Path::new("new/"))),
        Some("new/b.zip".into())
    );
    assert_eq!(
        named("http://h/a/b.zip", Some(Path::new("c.zip"))),
        Some("c.zip".into())
    );
    assert_eq!(named("/tmp/b.zip", None), Some("b.zip".into()));
    for source in ["http://h", "http://h/", "http://h/a/", "http://h/.."] {
        assert_eq!(named(source, None), None, "{source}");
        assert_eq!(
            named(source, Some(Path::new("c.zip"))),
            Some("c.zip".into())
        );
    }
}
