//! The CPU time of a process, and which cores it may run on.

use std::fs;

use anyhow::{Context as _, bail};

/// The CPU time of a process in nanoseconds: the sum over its threads. A thread that ended is not in it.
pub fn nanoseconds(pid: u32) -> anyhow::Result<u64> {
    let mut total = 0_u64;
    for thread in threads(pid)? {
        let path = format!("/proc/{pid}/task/{thread}/schedstat");
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let on_cpu = text.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
        total = total.saturating_add(on_cpu.with_context(|| format!("{path}: no number in {text:?}"))?);
    }
    if total == 0 {
        bail!("this kernel keeps no times of threads (/proc/{pid}/task/*/schedstat is 0 everywhere)");
    }
    Ok(total)
}

fn threads(pid: u32) -> anyhow::Result<Vec<i32>> {
    let folder = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&folder);
    let entries = entries.with_context(|| format!("{folder}: measuring needs the /proc of Linux"))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Which core is whose.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pinning {
    /// Envoy has one core to itself, the load another.
    Pinned {
        /// Envoy's.
        envoy: usize,
        /// The load's.
        load: usize,
        /// Those between, which only an Envoy with several workers uses.
        others: Vec<usize>,
    },
    /// They may disturb each other, for this reason.
    NotPinned(String),
}

impl Pinning {
    /// Chooses two cores of those that this process may use, and takes one of them for this thread.
    pub fn choose() -> Self {
        match affinity::cores().as_deref() {
            Ok([envoy, others @ .., load]) => match affinity::pin(None, &[*load]) {
                Ok(()) => Self::Pinned { envoy: *envoy, load: *load, others: others.to_vec() },
                Err(error) => Self::NotPinned(format!("{error:#}")),
            },
            Ok(cores) => Self::NotPinned(format!("there are not two cores but {}", cores.len())),
            Err(error) => Self::NotPinned(format!("{error:#}")),
        }
    }

    /// Lets this thread, and whatever it starts, run on Envoy's cores too.
    pub(crate) fn widen(&self) -> anyhow::Result<()> {
        let Self::Pinned { envoy, load, others } = self else { return Ok(()) };
        let cores: Vec<usize> = others.iter().chain([envoy, load]).copied().collect();
        affinity::pin(None, &cores)
    }

    /// Puts this thread back on the load's core.
    pub(crate) fn narrow(&self) -> anyhow::Result<()> {
        let Self::Pinned { load, .. } = self else { return Ok(()) };
        affinity::pin(None, &[*load])
    }

    /// Puts every thread of an upstream on a core that is not Envoy's, the load's only if there is no other: what it
    /// does is no cost of Envoy's.
    pub(crate) fn apply_to_upstream(&self, pid: u32) -> anyhow::Result<()> {
        let Self::Pinned { load, others, .. } = self else { return Ok(()) };
        let core = *others.first().unwrap_or(load);
        for thread in threads(pid)? {
            affinity::pin(Some(thread), &[core])
                .with_context(|| format!("cannot pin the upstream to core {core}"))?;
        }
        Ok(())
    }

    /// Puts every thread of that process on Envoy's core; where it has several workers, on as many cores as it has of
    /// these. The load's is among them only if there would be fewer than two.
    pub fn apply(&self, pid: u32, workers: u32) -> anyhow::Result<()> {
        let Self::Pinned { envoy, load, others } = self else { return Ok(()) };
        let mut cores = vec![*envoy];
        if workers > 1 {
            let more = usize::try_from(workers)?.saturating_sub(1);
            cores.extend(others.iter().take(more));
            if others.is_empty() {
                cores.push(*load);
            }
        }
        for thread in threads(pid)? {
            affinity::pin(Some(thread), &cores)
                .with_context(|| format!("cannot pin Envoy to cores {cores:?}"))?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Pinning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pinned { envoy, load, .. } => write!(f, "Envoy on core {envoy}, the load on core {load}"),
            Self::NotPinned(why) => write!(f, "NOT pinned to cores, so less exact: {why}"),
        }
    }
}

#[cfg(target_os = "linux")]
mod affinity {
    use anyhow::Context as _;
    use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

    pub(super) fn cores() -> anyhow::Result<Vec<usize>> {
        let set = sched_getaffinity(None).context("cannot learn which cores there are")?;
        Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
    }

    /// Pins a thread, or the calling one.
    pub(super) fn pin(thread: Option<i32>, cores: &[usize]) -> anyhow::Result<()> {
        let mut set = CpuSet::new();
        cores.iter().for_each(|core| set.set(*core));
        sched_setaffinity(thread.and_then(Pid::from_raw), &set).with_context(|| format!("cores {cores:?}"))
    }
}

#[cfg(not(target_os = "linux"))]
mod affinity {
    pub(super) fn cores() -> anyhow::Result<Vec<usize>> {
        anyhow::bail!("only Linux can be told which core a thread is for")
    }

    pub(super) fn pin(_: Option<i32>, _: &[usize]) -> anyhow::Result<()> {
        anyhow::bail!("only Linux can be told which core a thread is for")
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// What another process uses in 300 ms. This one runs other tests meanwhile.
    fn used_by(program: &str, arguments: &[&str]) -> u64 {
        let mut child = std::process::Command::new(program).args(arguments).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        let before = nanoseconds(child.id()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        let used = nanoseconds(child.id()).unwrap() - before;
        child.kill().unwrap();
        child.wait().unwrap();
        used
    }

    #[test]
    fn work_takes_time_and_sleep_does_not() {
        let asleep = used_by("sleep", &["60"]);
        assert!(asleep < 1_000_000, "{asleep}");
        let busy = used_by("sh", &["-c", "while :; do :; done"]);
        assert!((10_000_000..1_000_000_000).contains(&busy), "{busy}");
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(nanoseconds(u32::MAX).is_err());
    }
}
