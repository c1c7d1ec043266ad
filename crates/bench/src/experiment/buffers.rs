//! How much memory do connections take whose clients read slowly, with large and with small buffers?

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::pair;
use super::{About, Effort, Found};
use crate::cpu::Pinning;
use crate::rival::Running;

pub(super) const ABOUT: About = About {
    name: "buffers",
    what: "1,000 connections, idle and then each with a response of 16 MiB that its client reads slowly, with \
           per_connection_buffer_limit_bytes of 1 MiB and of 32 KiB: Envoy's resident memory",
    claim: "published claim: 12 GB to 1.8 GB at 10,000 connections",
    pair: ["1mib", "32kib"],
    differs: "here there are 1,000 connections and all of them stall at once; buffers of the kernel are kept small where \
              that is ours to say, and are in no figure. The claim's memory a connection is 1.2 MB and 180 KB.",
};

const FILES: [&str; 2] = ["1mib", "32kib"];
/// Connections, each of which is two of Envoy's.
const CONNECTIONS: u64 = 1000;
/// What a response holds: more than all buffers on its way, the kernel's too, which grow.
const RESPONSE: usize = 16 << 20;
/// Of the kernel's buffers: as small as it lets them be, or they would take in what is to be in Envoy's.
const KERNEL_BUFFER: u32 = 16 << 10;
/// Descriptors of one process: both ends that are ours, and some.
const DESCRIPTORS: u64 = 3 * CONNECTIONS;
/// How much a client reads at a time, and how often.
const SIP: usize = 1 << 10;
const EVERY: Duration = Duration::from_millis(500);
/// However long buffers take to fill.
const FILLED: Duration = Duration::from_secs(20);

pub(super) async fn run(effort: Effort, pinning: &Pinning) -> anyhow::Result<Found> {
    allow_descriptors(DESCRIPTORS)?;
    let upstream = Upstream::start().await?;
    let mut resident = [Vec::new(), Vec::new()];
    for _ in 0..effort.long_rounds {
        for (name, resident) in FILES.iter().zip(&mut resident) {
            resident.push(once(name, upstream.address, pinning).await.with_context(|| (*name).to_owned())?);
        }
    }
    let mut found = Found::default();
    let [large, small] = &resident;
    let pick = |all: &[Resident], of: fn(&Resident) -> f64| all.iter().map(of).collect::<Vec<_>>();
    let megabytes: [Of; 3] = [
        ("resident memory, no connection", |it| it.before / 1024.0),
        ("resident memory, 1,000 idle connections", |it| it.idle / 1024.0),
        ("resident memory, 1,000 connections read slowly", |it| it.filled / 1024.0),
    ];
    for (what, value) in megabytes {
        let change = found.figure(what, "MiB", &pick(large, value), &pick(small, value))?;
        if what.ends_with("read slowly") {
            found.beside("All of Envoy's memory", -85.0, change);
        }
    }
    let each = |it: &Resident| (it.filled - it.before) / CONNECTIONS as f64;
    found.figure(
        "memory of a connection that is read slowly",
        "KiB",
        &pick(large, each),
        &pick(small, each),
    )?;
    Ok(found)
}

/// What is told of a round, and how it is found.
type Of = (&'static str, fn(&Resident) -> f64);

/// Kilobytes resident in one round.
#[derive(Debug)]
struct Resident {
    before: f64,
    idle: f64,
    filled: f64,
}

/// Starts an Envoy and looks at it without connections, with idle ones, and with full ones.
async fn once(name: &str, upstream: SocketAddr, pinning: &Pinning) -> anyhow::Result<Resident> {
    let config = pair::config(ABOUT.name, name)?.upstream("upstream", upstream)?;
    let running = pair::start(name, config, pinning).await?;
    let before = settled(&running).await?;
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(Client::connect(running.address).await?);
    }
    for client in &mut clients {
        client.ask_for_little().await?;
    }
    let idle = settled(&running).await?;
    let mut reading = JoinSet::new();
    for client in clients {
        reading.spawn(client.read_slowly());
    }
    let filled = settled(&running).await?;
    let active = running.envoy.stat("http.ingress.downstream_rq_active").await?;
    ensure!(active == CONNECTIONS, "{active} requests were under way, and not {CONNECTIONS}");
    if let Some(ended) = reading.try_join_next() {
        ended??;
    }
    drop(reading);
    running.envoy.stop().await?;
    Ok(Resident { before, idle, filled })
}

/// Kilobytes resident, once that changes no more.
async fn settled(running: &Running) -> anyhow::Result<f64> {
    let began = Instant::now();
    let mut last = running.envoy.resident_kilobytes()?;
    let mut still = 0;
    while still < 3 {
        ensure!(began.elapsed() < FILLED, "memory still changes after {FILLED:?}");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = running.envoy.resident_kilobytes()?;
        still = if now.abs_diff(last) <= last / 200 { still + 1 } else { 0 };
        last = now;
    }
    Ok(last as f64)
}

/// One that is slow.
struct Client(TcpStream);

impl Client {
    async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(KERNEL_BUFFER)?;
        Ok(Self(socket.connect(address).await?))
    }

    /// A request whose answer is read to its end.
    async fn ask_for_little(&mut self) -> anyhow::Result<()> {
        self.0.write_all(b"GET /little HTTP/1.1\r\nhost: gateway.example\r\n\r\n").await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"ok") {
            let count = self.0.read_buf(&mut answer).await?;
            ensure!(count > 0, "the gateway hung up after {:?}", String::from_utf8_lossy(&answer));
        }
        ensure!(answer.starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(&answer));
        Ok(())
    }

    /// A request whose answer is never read to its end, for as long as this is let live.
    async fn read_slowly(mut self) -> anyhow::Result<()> {
        self.0.write_all(b"GET /large HTTP/1.1\r\nhost: gateway.example\r\n\r\n").await?;
        let mut sip = [0; SIP];
        loop {
            let count = self.0.read(&mut sip).await?;
            ensure!(count > 0, "the gateway hung up");
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// What stands behind the gateway: HTTP/1.1, as little of it as is needed, and responses as fast as they are taken.
struct Upstream {
    address: SocketAddr,
    accepting: tokio::task::JoinHandle<()>,
}

impl Upstream {
    async fn start() -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        // Connections that are accepted inherit it.
        socket.set_send_buffer_size(KERNEL_BUFFER)?;
        socket.bind("127.0.0.1:0".parse()?)?;
        let listener = socket.listen(1024)?;
        let address = listener.local_addr()?;
        Ok(Self { address, accepting: tokio::spawn(Self::accept(listener)) })
    }

    async fn accept(listener: TcpListener) {
        let mut serving = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            // A gateway that hangs up is no failure here.
            serving.spawn(async move { drop(Self::serve(stream).await) });
            while serving.try_join_next().is_some() {}
        }
    }

    async fn serve(mut stream: TcpStream) -> anyhow::Result<()> {
        // An answer in two parts would otherwise wait for the gateway's word that it has the first.
        stream.set_nodelay(true)?;
        let piece = vec![b'x'; 64 << 10];
        let mut asked = Vec::new();
        loop {
            while !asked.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut asked).await? == 0 {
                    return Ok(());
                }
            }
            let length = if asked.starts_with(b"GET /large") { RESPONSE } else { b"ok".len() };
            asked.clear();
            stream
                .write_all(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").as_bytes())
                .await?;
            if length < piece.len() {
                stream.write_all(b"ok").await?;
                continue;
            }
            for _ in 0..length / piece.len() {
                stream.write_all(&piece).await?;
            }
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Lets this process and those that it starts have so many descriptors open.
#[cfg(target_os = "linux")]
fn allow_descriptors(count: u64) -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= count) {
        return Ok(());
    }
    ensure!(
        maximum.is_none_or(|maximum| maximum >= count),
        "this needs {count} open files, and no more than {} may be open here; raise the hard limit (ulimit -Hn)",
        maximum.unwrap_or_default()
    );
    setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum })
        .context("cannot raise the limit of open files")
}

#[cfg(not(target_os = "linux"))]
fn allow_descriptors(_: u64) -> anyhow::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_upstream_answers_little_at_once_and_much_as_fast_as_it_is_taken() {
        let upstream = Upstream::start().await.unwrap();
        let mut client = Client::connect(upstream.address).await.unwrap();
        client.ask_for_little().await.unwrap();
        client.ask_for_little().await.unwrap();
        let asked = b"GET /large HTTP/1.1\r\nhost: gateway.example\r\n\r\n";
        client.0.write_all(asked).await.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {RESPONSE}\r\n\r\n").len();
        let mut taken = 0;
        let mut piece = vec![0; 1 << 16];
        while taken < head + RESPONSE {
            let count = client.0.read(&mut piece).await.unwrap();
            assert!(count > 0, "{taken}");
            taken += count;
        }
        assert_eq!(taken, head + RESPONSE);
        client.ask_for_little().await.unwrap();
    }

    #[test]
    fn more_descriptors_than_there_can_be_are_refused_with_the_remedy() {
        let error = allow_descriptors(u64::MAX - 1);
        assert!(error.is_ok() || error.unwrap_err().to_string().contains("ulimit -Hn"));
        allow_descriptors(8).unwrap();
    }
}
