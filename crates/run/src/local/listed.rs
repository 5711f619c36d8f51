//! Divides data files that a list names between nodes; the files may be anywhere, as for `canoe train`.
//!
//! Of N nodes, each gets every N-th file of the list, or, if there are fewer files than nodes, a part of each file, cut
//! at line ends. Its working directory has a list of its own instead of the whole one. Names in it are not changed if
//! they lead to the same file from there.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Beginning of a file in which a zero byte shows that it is not text.
const LOOK: usize = 8192;

/// The folder in a node's working directory with the files that are written for this node alone: its parts of data files,
/// and its lists if the configuration names the files itself.
pub(crate) const OWN: &str = ".split";

/// How a configuration names data files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataList {
    /// In a list file.
    File(PathBuf),
    /// Itself.
    Names(Vec<String>),
}

impl DataList {
    /// Whether a folder has the list file, or the first of the files.
    fn is_in(&self, folder: &Path) -> bool {
        match self {
            DataList::File(list) => folder.join(list).is_file(),
            DataList::Names(files) => files.first().is_some_and(|file| folder.join(file).exists()),
        }
    }

    /// The path that messages show for the list.
    fn path(&self) -> PathBuf {
        match self {
            DataList::File(list) => list.clone(),
            DataList::Names(_) => PathBuf::from("the configuration"),
        }
    }

    /// Where the list of a node is, in its working directory.
    fn in_work(&self, kind: &str) -> PathBuf {
        match self {
            DataList::File(list) => list.clone(),
            DataList::Names(_) => Path::new(OWN).join(format!("{kind}.list")),
        }
    }
}

/// The lists of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lists {
    /// Of the training files.
    pub train: DataList,
    /// Of the test files, if there are any.
    pub test: Option<DataList>,
    /// Whether the first line of each training file is a header, which every part of it gets.
    pub header: bool,
}

/// Lists of data files, with the folder that their names are relative to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedData {
    /// The folder to which the lists and their files are relative.
    pub base: PathBuf,
    /// Those of training and of testing.
    pub lists: Lists,
}

/// Why listed data cannot be divided.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum ListedError {
    /// A file could not be read or written.
    #[error("{action} {path}")]
    Io {
        action: &'static str,
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A list names no file.
    #[error("{path} names no file; write one file per line")]
    Empty {
        /// The list.
        path: PathBuf,
    },
    /// There are fewer files than nodes, and one of them is not text.
    #[error(
        "{list} names {files} files for {nodes} nodes, and {file} is not text, so it cannot be cut at line ends; \
         make at least {nodes} files, or use --nodes {files}"
    )]
    NotText {
        list: PathBuf,
        /// Number of files.
        files: usize,
        /// Number of nodes.
        nodes: u32,
        file: PathBuf,
    },
}

fn io_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> ListedError + 'a {
    move |source| ListedError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

impl ListedData {
    /// The lists relative to the first of these folders that has the list of training files.
    pub fn find(lists: &Lists, folders: &[&Path]) -> Option<ListedData> {
        let base = folders.iter().find(|folder| lists.train.is_in(folder))?;
        Some(ListedData {
            base: (*base).to_owned(),
            lists: lists.clone(),
        })
    }

    /// Writes the lists of one node into its working directory, which has links to everything else.
    pub fn write(&self, work: &Path, node: u32, nodes: u32) -> Result<(), ListedError> {
        let train = self.files(&self.lists.train)?;
        let own = if train.len() >= nodes as usize {
            every(&train, node, nodes)
        } else {
            let mut parts = Vec::new();
            for (number, file) in train.iter().enumerate() {
                parts.push(self.cut(work, number, file, train.len(), NodeShare { node, nodes })?);
            }
            parts
        };
        self.write_list(work, &self.lists.train.in_work("train"), &own)?;
        if let Some(test) = self.test_list() {
            self.write_list(work, &test.in_work("test"), &self.files(test)?)?;
        }
        Ok(())
    }

    /// The training files, as paths.
    pub fn training_files(&self) -> Result<Vec<PathBuf>, ListedError> {
        let files = self.files(&self.lists.train)?;
        Ok(files.iter().map(|file| self.base.join(file)).collect())
    }

    /// The files that the lists name, as paths.
    pub fn paths(&self) -> Result<Vec<PathBuf>, ListedError> {
        let mut paths = Vec::new();
        for list in std::iter::once(&self.lists.train).chain(self.test_list()) {
            let files = self.files(list)?;
            paths.extend(files.iter().map(|file| self.base.join(file)));
        }
        Ok(paths)
    }

    /// The list of test files, if it is there.
    fn test_list(&self) -> Option<&DataList> {
        let test = self.lists.test.as_ref();
        test.filter(|list| list.is_in(&self.base))
    }

    /// The files that a list names.
    fn files(&self, list: &DataList) -> Result<Vec<String>, ListedError> {
        let list = match list {
            DataList::Names(files) => return Ok(files.clone()),
            DataList::File(list) => list,
        };
        let path = self.base.join(list);
        let text = fs::read_to_string(&path).map_err(io_error("read", &path))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let files: Vec<String> = lines.map(str::to_owned).collect();
        if files.is_empty() {
            return Err(ListedError::Empty { path });
        }
        Ok(files)
    }

    fn write_list(&self, work: &Path, list: &Path, files: &[String]) -> Result<(), ListedError> {
        let path = work.join(list);
        let parent = path.parent().unwrap_or(work).to_owned();
        // A linked folder is the user's own: the list goes to a real folder with links to the entries of the linked one.
        if parent != work && parent.is_symlink() {
            let target = fs::canonicalize(&parent).map_err(io_error("find", &parent))?;
            fs::remove_file(&parent).map_err(io_error("replace", &parent))?;
            fs::create_dir(&parent).map_err(io_error("create", &parent))?;
            let entries = fs::read_dir(&target).map_err(io_error("list", &target))?;
            for entry in entries.flatten() {
                let link = parent.join(entry.file_name());
                std::os::unix::fs::symlink(entry.path(), &link).map_err(io_error("link", &link))?;
            }
        }
        fs::create_dir_all(&parent).map_err(io_error("create", &parent))?;
        if path.is_symlink() {
            fs::remove_file(&path).map_err(io_error("replace", &path))?;
        }
        let mut text = String::new();
        for file in files {
            let reachable = work.join(file).exists();
            let name = if reachable {
                file.clone()
            } else {
                self.base.join(file).display().to_string()
            };
            text += &name;
            text.push('\n');
        }
        fs::write(&path, text).map_err(io_error("write", &path))
    }

    /// Writes one node's lines of a file into its working directory; returns the name of the part.
    fn cut(
        &self,
        work: &Path,
        number: usize,
        file: &str,
        files: usize,
        share: NodeShare,
    ) -> Result<String, ListedError> {
        let path = self.base.join(file);
        let mut source = File::open(&path).map_err(io_error("read", &path))?;
        let mut start = vec![0; LOOK];
        let read = source.read(&mut start).map_err(io_error("read", &path))?;
        if start[..read].contains(&0) {
            return Err(ListedError::NotText {
                list: self.lists.train.path(),
                files,
                nodes: share.nodes,
                file: path,
            });
        }
        let header = if self.lists.header {
            first_line(&path).map_err(io_error("read", &path))?
        } else {
            Vec::new()
        };
        let after = header.len() as u64;
        let bytes = share.bytes(&path, after).map_err(io_error("read", &path))?;
        let name = Path::new(file).file_name().unwrap_or_default();
        let name = format!("{OWN}/{number}-{}", name.to_string_lossy());
        let part = work.join(&name);
        fs::create_dir_all(work.join(OWN)).map_err(io_error("create", &part))?;
        source
            .seek(SeekFrom::Start(bytes.start))
            .map_err(io_error("read", &path))?;
        let mut out = File::create(&part).map_err(io_error("write", &part))?;
        out.write_all(&header).map_err(io_error("write", &part))?;
        io::copy(&mut source.take(bytes.end - bytes.start), &mut out)
            .map_err(io_error("write", &part))?;
        out.flush().map_err(io_error("write", &part))?;
        Ok(name)
    }
}

/// Every `nodes`-th file, beginning with that of the node's number.
fn every(files: &[String], node: u32, nodes: u32) -> Vec<String> {
    let own = files
        .iter()
        .skip(node as usize)
        .step_by(nodes.max(1) as usize);
    own.cloned().collect()
}

/// The first line of a file, with its line feed.
fn first_line(path: &Path) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    BufReader::new(File::open(path)?).read_until(b'\n', &mut line)?;
    Ok(line)
}

/// Which part of the lines of a file a node reads.
#[derive(Clone, Copy)]
struct NodeShare {
    node: u32,
    nodes: u32,
}

impl NodeShare {
    /// The bytes of a file that are this part of the lines behind the first `after` bytes.
    fn bytes(self, path: &Path, after: u64) -> io::Result<Range<u64>> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(after))?;
        let lines = lines(&file)?;
        let bound = |node: u32| lines * u64::from(node) / u64::from(self.nodes.max(1));
        let (first, last) = (bound(self.node), bound(self.node + 1));
        file.seek(SeekFrom::Start(after))?;
        let mut reader = BufReader::new(file);
        let (mut line, mut at, mut from) = (0, after, after);
        let mut text = Vec::new();
        while line < last {
            if line == first {
                from = at;
            }
            text.clear();
            let read = reader.read_until(b'\n', &mut text)?;
            if read == 0 {
                break;
            }
            at += read as u64;
            line += 1;
        }
        Ok(if first == last { at..at } else { from..at })
    }
}

/// Number of lines from the file's present offset to its end.
fn lines(file: &File) -> io::Result<u64> {
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let (mut lines, mut ended) = (0, true);
    loop {
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            return Ok(lines + u64::from(!ended));
        }
        lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
        ended = piece.last() == Some(&b'\n');
        let read = piece.len();
        reader.consume(read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn listed(base: &Path, list: &str) -> ListedData {
        let lists = Lists {
            train: DataList::File(list.into()),
            test: Some(DataList::File("test.list".into())),
            header: false,
        };
        ListedData::find(&lists, &[base]).unwrap()
    }

    fn parts(listed: &ListedData, nodes: u32) -> Vec<(String, String)> {
        (0..nodes)
            .map(|node| {
                let work = tempfile::tempdir().unwrap();
                crate::local::workdir::prepare_listed(work.path(), &listed.base, &listed.base)
                    .unwrap();
                listed.write(work.path(), node, nodes).unwrap();
                let list =
                    fs::read_to_string(work.path().join(listed.lists.train.in_work("train")))
                        .unwrap();
                let read = |name: &str| fs::read_to_string(work.path().join(name)).unwrap();
                let text = list.lines().map(read).collect();
                (list, text)
            })
            .collect()
    }

    #[test]
    fn files_are_dealt_out_and_keep_their_names() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for name in ["a", "b", "c"] {
            write(root, &format!("corpus/{name}.txt"), &format!("{name}\n"));
        }
        write(
            root,
            "train.list",
            "corpus/a.txt\n\ncorpus/b.txt\ncorpus/c.txt",
        );
        let listed = listed(root, "train.list");
        let parts = parts(&listed, 2);
        assert_eq!(
            parts[0],
            ("corpus/a.txt\ncorpus/c.txt\n".into(), "a\nc\n".into())
        );
        assert_eq!(parts[1], ("corpus/b.txt\n".into(), "b\n".into()));
    }

    #[test]
    fn a_single_file_is_cut_at_line_ends_and_nothing_is_lost() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (text, nodes) in [
            ("1\n22\n333\n4\n5\n", 3),
            ("1\n2", 2),
            ("only\n", 3),
            ("a\nb\nc", 2),
        ] {
            write(root, "train.txt", text);
            write(root, "train.list", "train.txt\n");
            let parts = parts(&listed(root, "train.list"), nodes);
            let all: String = parts.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(all, text);
        }
    }

    #[test]
    fn files_that_the_configuration_names_leave_a_list_of_the_user_alone() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "a.txt", "a\n");
        write(root, "b.txt", "b\n");
        write(root, "train.list", "the user's");
        let names = |files: &[&str]| {
            let files = files.iter().map(|file| (*file).to_owned());
            DataList::Names(files.collect())
        };
        let lists = Lists {
            train: names(&["a.txt", "b.txt"]),
            test: Some(names(&["a.txt"])),
            header: false,
        };
        let listed = ListedData::find(&lists, &[&root.join("nowhere"), root]).unwrap();
        let parts = parts(&listed, 2);
        assert_eq!(parts[1], ("b.txt\n".into(), "b\n".into()));
        let users = fs::read_to_string(root.join("train.list")).unwrap();
        assert_eq!(users, "the user's");
    }

    #[test]
    fn every_part_of_a_file_with_a_header_has_it() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "train.csv", "a,b\n1,1\n2,2\n3,3\n");
        write(root, "train.list", "train.csv\n");
        let mut listed = listed(root, "train.list");
        listed.lists.header = true;
        let texts: Vec<String> = parts(&listed, 2).into_iter().map(|part| part.1).collect();
        assert_eq!(texts, ["a,b\n1,1\n", "a,b\n2,2\n3,3\n"]);
    }

    #[test]
    fn names_outside_the_folder_become_absolute_and_lists_in_folders_work() {
        let root = tempfile::tempdir().unwrap();
        let job = root.path().join("job");
        write(root.path(), "elsewhere/x.txt", "x\n");
        write(&job, "lists/train.list", "../elsewhere/x.txt\n");
        write(&job, "lists/other", "");
        write(&job, "test.list", "../elsewhere/x.txt\n");
        let parts = parts(&listed(&job, "lists/train.list"), 1);
        assert_eq!(parts[0].1, "x\n");
        assert!(parts[0].0.starts_with('/'), "{}", parts[0].0);
        let untouched = fs::read_to_string(job.join("lists/train.list")).unwrap();
        assert_eq!(untouched, "../elsewhere/x.txt\n", "the user's own list");
    }

    #[test]
    fn what_is_not_text_is_not_cut() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "data.bin", "a\0b");
        write(root.path(), "train.list", "data.bin\n");
        let work = tempfile::tempdir().unwrap();
        let error = listed(root.path(), "train.list").write(work.path(), 0, 2);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("data.bin is not text"), "{error}");
    }
}
