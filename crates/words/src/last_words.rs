//! Which of the last lines of a process says what went wrong.
//!
//! The last line is often not the one: a traceback of Python ends with the error, but a report of ours may end with the
//! source line that it is about, and a process that was killed ends with a line of its log.

/// The error message in these lines, without the name of the process before it; `None` if no line reports an error.
pub fn error_line(lines: &[&str]) -> Option<String> {
    let lines: Vec<&str> = lines.iter().map(|line| bare(line)).collect();
    let node = lines
        .iter()
        .rev()
        .find_map(|line| line.strip_prefix("canoe node: "));
    // A node that ends because of one of its processes repeats the error that it found in that process's log.
    if let Some(words) = node.filter(|words| !words.contains(" ended with code ")) {
        return Some(words.to_owned());
    }
    if let Some(at) = lines.iter().rposition(|line| line.starts_with("canoe: ")) {
        let head = &lines[at]["canoe: ".len()..];
        let exception = lines[at..].iter().rev().find(|line| is_exception(line));
        return Some(match exception {
            Some(exception) if head.ends_with(':') => format!("{head} {exception}"),
            _ => head.to_owned(),
        });
    }
    let exception = lines.iter().rev().find(|line| is_exception(line));
    let error = || lines.iter().rev().find(|line| line.starts_with("error:"));
    if let Some(line) = exception.or_else(error) {
        return Some((*line).to_owned());
    }
    if let Some(words) = node {
        return Some(words.to_owned());
    }
    let last = lines.iter().rev().find(|line| !line.is_empty())?;
    (!is_log(last)).then(|| (*last).to_owned())
}

/// Without space and without `trainer 0: ` in front.
fn bare(line: &str) -> &str {
    let line = line.trim();
    for role in ["trainer ", "pserver "] {
        let number = line
            .strip_prefix(role)
            .and_then(|rest| rest.split_once(": "));
        if let Some((id, rest)) = number
            && id.bytes().all(|byte| byte.is_ascii_digit())
        {
            return rest.trim();
        }
    }
    line
}

/// The last line of a traceback: `OSError: the file cannot be read`.
fn is_exception(line: &str) -> bool {
    let Some((name, _)) = line.split_once(':') else {
        return false;
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    let class = name.rsplit('.').next().unwrap_or_default();
    name.bytes().all(is_name) && (class.ends_with("Error") || class.ends_with("Exception"))
}

/// A line of a log, in v1's form: `I1116 11:07:32.449641 …`.
fn is_log(line: &str) -> bool {
    let mut bytes = line.bytes();
    matches!(bytes.next(), Some(b'I' | b'W' | b'E' | b'F'))
        && bytes.by_ref().take(4).all(|byte| byte.is_ascii_digit())
        && bytes.next() == Some(b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_told_and_not_the_source_line() {
        let lines = [
            "trainer 0: ended with code 78",
            "trainer 0: canoe: trainer_config.lr.py:32: NameError: name 'SoftmaxActivatoin' is not defined",
            "trainer 0:   trainer_config.lr.py:32",
            "trainer 0:     output = fc_layer(input=words, act=SoftmaxActivatoin())",
            "canoe node: trainer 0 ended with code 78, which a restart cannot mend: output = fc_layer(input=words, act=SoftmaxActivatoin())",
        ];
        let expected =
            "trainer_config.lr.py:32: NameError: name 'SoftmaxActivatoin' is not defined";
        assert_eq!(error_line(&lines).unwrap(), expected);
        assert_eq!(error_line(&lines[1..4]).unwrap(), expected);
    }

    #[test]
    fn a_traceback_ends_with_its_error() {
        let lines = [
            "trainer 0: canoe: data provider p.process failed in data/train.txt, sample 1:",
            "trainer 0: Traceback (most recent call last):",
            "trainer 0:     raise OSError('the reviews cannot be read')",
            "trainer 0: OSError: the reviews cannot be read",
            "pserver 0: I1116 11:07:40.045530    20 ParameterServerController.cpp:80] worker begin to finish, peer = 10.244.2.13",
        ];
        assert_eq!(
            error_line(&lines).unwrap(),
            "data provider p.process failed in data/train.txt, sample 1: OSError: the reviews cannot be read"
        );
        assert_eq!(
            error_line(&lines[1..]).unwrap(),
            "OSError: the reviews cannot be read"
        );
    }

    #[test]
    fn a_node_speaks_for_itself_and_a_log_is_no_error() {
        let waited = [
            "canoe: old",
            "canoe node: waited 60 s for the data shard: it is empty",
        ];
        assert_eq!(
            error_line(&waited).unwrap(),
            "waited 60 s for the data shard: it is empty"
        );
        let killed = ["pserver 1: I1116 11:17:58.735468    20 Controller.cpp:80] worker begin"];
        assert_eq!(error_line(&killed), None);
        assert_eq!(
            error_line(&["a", "JOB_NAME is not set", ""]).unwrap(),
            "JOB_NAME is not set"
        );
        assert_eq!(error_line(&[]), None);
    }
}
