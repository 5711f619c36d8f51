//! `canoe doctor`: what works on this machine, what does not, and what to do about it.
//!
//! Each check is a fact with a verdict. Nothing is changed, and nothing outside this machine is contacted without
//! `--online`.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::Serialize;

use crate::exit::Exit;
use crate::form::Form;
use crate::table::wrapped;

/// Arguments of `canoe doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Python interpreter.
    #[arg(long, visible_alias = "python_bin", default_value = "python3")]
    python: PathBuf,
    /// Also ask the cluster of the kubeconfig for its version.
    #[arg(long)]
    online: bool,
    #[command(flatten)]
    form: Form,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// It works.
    Ok,
    /// It works, but not as well as it could, or only some commands need it.
    Warning,
    /// Training on this machine does not work.
    Fault,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    what: &'static str,
    verdict: Verdict,
    /// What was found.
    found: String,
    /// What to do, unless it works.
    #[serde(skip_serializing_if = "String::is_empty")]
    way_out: String,
}

fn check(what: &'static str, verdict: Verdict, found: impl Into<String>, way_out: &str) -> Check {
    Check {
        what,
        verdict,
        found: found.into(),
        way_out: if verdict == Verdict::Ok {
            String::new()
        } else {
            way_out.to_owned()
        },
    }
}

/// Runs the command; ends with 1 if training on this machine does not work.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<Exit> {
    let mut checks = vec![
        check("canoe", Verdict::Ok, env!("CARGO_PKG_VERSION"), ""),
        python(&args.python),
        kernel(),
        processor(),
        memory(&read("/proc/meminfo")),
        open_files(),
        large_pages(&read("/sys/kernel/mm/transparent_hugepage/enabled")),
        shared_memory(free_bytes(Path::new("/dev/shm"))),
        disk(free_bytes(Path::new("."))),
    ];
    checks.push(cluster(args.online)?);
    checks.push(aws());
    let broken = checks.iter().any(|check| check.verdict == Verdict::Fault);
    if args.form.json() {
        println!("{}", serde_json::to_string_pretty(&checks)?);
    } else {
        let width = crate::display::help_width();
        for check in &checks {
            let word = match check.verdict {
                Verdict::Ok => "ok",
                Verdict::Warning => "note",
                Verdict::Fault => "FAULT",
            };
            let found = wrapped(&check.found, 22, width);
            println!("{word:<6} {:<14} {found}", check.what);
            if !check.way_out.is_empty() {
                println!("{:<21} → {}", "", wrapped(&check.way_out, 24, width));
            }
        }
    }
    Ok(if broken { Exit::Failure } else { Exit::Success })
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn python(program: &Path) -> Check {
    let script = "import sys; print('%d.%d.%d %s' % (sys.version_info[:3] + (sys.executable,)))";
    let out = Command::new(program).args(["-c", script]).output();
    let text = match &out {
        Ok(out) if out.status.success() => String::from_utf8_lossy(&out.stdout).trim().to_owned(),
        Ok(out) => String::from_utf8_lossy(&out.stderr).trim().to_owned(),
        Err(error) => format!("{} cannot be started: {error}", program.display()),
    };
    python_verdict(&text, out.is_ok_and(|out| out.status.success()))
}

fn python_verdict(text: &str, ran: bool) -> Check {
    let way_out = "install Python 3.8 or newer, or name one with --python_bin; configurations and data providers need it";
    let mut numbers = text
        .split(['.', ' '])
        .map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let verdict = if ran && version >= (3, 8) {
        Verdict::Ok
    } else {
        Verdict::Fault
    };
    check("Python", verdict, text, way_out)
}

fn kernel() -> Check {
    let release = read("/proc/sys/kernel/osrelease").trim().to_owned();
    let verdict = if release.is_empty() {
        Verdict::Warning
    } else {
        Verdict::Ok
    };
    let found = format!("{} {release}", std::env::consts::OS);
    check("system", verdict, found, "only Linux is tested")
}

fn processor() -> Check {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let text = read("/proc/cpuinfo");
    let has = |flag: &str| {
        text.lines()
            .any(|line| line.split_whitespace().any(|word| word == flag))
    };
    let wide = ["avx512f", "avx2", "asimd"]
        .into_iter()
        .find(|flag| has(flag));
    let verdict = if wide.is_some() {
        Verdict::Ok
    } else {
        Verdict::Warning
    };
    let found = format!("{cores} cores, {}", wide.unwrap_or("no wide vectors"));
    check(
        "processor",
        verdict,
        found,
        "without AVX2 or NEON training takes several times as long",
    )
}

/// Bytes of a line of /proc/meminfo.
pub(crate) fn meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line
        .trim_start_matches(':')
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    Some(kilobytes * 1024)
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

fn memory(text: &str) -> Check {
    let (all, free) = (meminfo(text, "MemTotal"), meminfo(text, "MemAvailable"));
    let verdict = match free {
        Some(free) if free > 1_000_000_000 => Verdict::Ok,
        _ => Verdict::Warning,
    };
    let found = match (all, free) {
        (Some(all), Some(free)) => format!("{} of {} are free", gigabytes(free), gigabytes(all)),
        _ => "unknown".to_owned(),
    };
    check(
        "memory",
        verdict,
        found,
        "end other programs: a node needs at least 150 MB besides its model",
    )
}

fn open_files() -> Check {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = limit.current.unwrap_or(u64::MAX);
    let verdict = if most >= 1024 {
        Verdict::Ok
    } else {
        Verdict::Warning
    };
    let found = format!("{most} open files per process");
    check(
        "limits",
        verdict,
        found,
        "raise it with `ulimit -n 4096`: a server has a connection per trainer and port",
    )
}

fn large_pages(text: &str) -> Check {
    let chosen = text
        .split(['[', ']'])
        .nth(1)
        .unwrap_or("unknown")
        .to_owned();
    let verdict = match chosen.as_str() {
        "always" | "madvise" => Verdict::Ok,
        _ => Verdict::Warning,
    };
    let way_out = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root): large sparse tables are faster with them";
    check("large pages", verdict, chosen, way_out)
}

/// Bytes that are free on the file system of a path.
fn free_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail * found.f_frsize)
}

fn shared_memory(free: Option<u64>) -> Check {
    let verdict = match free {
        Some(free) if free > 200_000_000 => Verdict::Ok,
        _ => Verdict::Warning,
    };
    let found = free.map_or("no /dev/shm".to_owned(), |free| {
        format!("{} free in /dev/shm", gigabytes(free))
    });
    check(
        "shared memory",
        verdict,
        found,
        "mount a larger /dev/shm: without room there, values go through sockets, which is slower",
    )
}

fn disk(free: Option<u64>) -> Check {
    let verdict = match free {
        Some(free) if free > 1_000_000_000 => Verdict::Ok,
        _ => Verdict::Warning,
    };
    let found = free.map_or("unknown".to_owned(), |free| {
        format!("{} free in this folder", gigabytes(free))
    });
    check(
        "disk",
        verdict,
        found,
        "models and snapshots need room: remove old outputs, or use --keep=best",
    )
}

/// The kubeconfig; with `online`, whether its cluster replies.
fn cluster(online: bool) -> anyhow::Result<Check> {
    let way_out =
        "only `canoe job` needs it: set KUBECONFIG, or make a cluster with `canoe cluster init`";
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".kube/config"));
    let named = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    let files: Vec<PathBuf> = match named {
        Some(value) => std::env::split_paths(&value).collect(),
        None => home.into_iter().collect(),
    };
    let Some(found) = files.iter().find(|file| file.is_file()) else {
        return Ok(check(
            "Kubernetes",
            Verdict::Warning,
            "no kubeconfig",
            way_out,
        ));
    };
    let name = found.display().to_string();
    if !online {
        return Ok(check(
            "Kubernetes",
            Verdict::Ok,
            format!("{name} (--online asks the cluster)"),
            "",
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let reached = runtime.block_on(async {
        let access = k8s::cluster::ClusterAccess {
            kubeconfigs: files.clone(),
            context: None,
            request_timeout: std::time::Duration::from_secs(10),
            program: std::env::current_exe().ok(),
        };
        let cluster = access.connect().await?;
        // Every namespace has this ConfigMap; any reply shows that the cluster can be used.
        cluster
            .get::<ConfigMap>("default", "kube-root-ca.crt")
            .await
    });
    Ok(match reached {
        Ok(_) => check(
            "Kubernetes",
            Verdict::Ok,
            format!("{name}: the cluster replies"),
            "",
        ),
        Err(error) => {
            let text = format!("{name}: {}", words::causes::chain(&error));
            check("Kubernetes", Verdict::Warning, text, way_out)
        }
    })
}

fn aws() -> Check {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let home = std::env::var_os("HOME");
    let file = |name: &str| {
        home.as_ref()
            .is_some_and(|home| Path::new(home).join(name).is_file())
    };
    let found = if set("AWS_ACCESS_KEY_ID") {
        Some("credentials from the environment")
    } else if set("AWS_PROFILE") || file(".aws/credentials") || file(".aws/config") {
        Some("a profile in ~/.aws")
    } else if set("AWS_WEB_IDENTITY_TOKEN_FILE") || set("AWS_CONTAINER_CREDENTIALS_FULL_URI") {
        Some("credentials of this machine's role")
    } else {
        None
    };
    let verdict = if found.is_some() {
        Verdict::Ok
    } else {
        Verdict::Warning
    };
    let way_out = "only `canoe cluster` needs it: run `aws configure`, or set AWS_PROFILE";
    check("AWS", verdict, found.unwrap_or("no credentials"), way_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_way_out_and_nothing_else_has() {
        let checks = [
            python_verdict("3.12.1 /usr/bin/python3", true),
            python_verdict("2.7.18 /usr/bin/python", true),
            python_verdict("python3 cannot be started: No such file", false),
            memory("MemTotal: 2000000 kB\nMemAvailable:  500000 kB\n"),
            memory(""),
            large_pages("always [madvise] never\n"),
            large_pages("always madvise [never]\n"),
            shared_memory(None),
            disk(Some(5_000_000_000)),
        ];
        let verdicts: Vec<Verdict> = checks.iter().map(|check| check.verdict).collect();
        use Verdict::{Fault, Ok, Warning};
        assert_eq!(
            verdicts,
            [Ok, Fault, Fault, Warning, Warning, Ok, Warning, Warning, Ok]
        );
        for check in checks {
            assert_eq!(check.verdict == Ok, check.way_out.is_empty(), "{check:?}");
        }
    }

    #[test]
    fn figures_are_those_of_the_machine() {
        assert_eq!(
            meminfo("A: 1 kB\nMemTotal:   20 kB\n", "MemTotal"),
            Some(20 * 1024)
        );
        assert!(free_bytes(Path::new("/")).is_some());
        assert_eq!(free_bytes(Path::new("/nowhere/at/all")), None);
    }
}
