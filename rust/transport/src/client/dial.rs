//! TCP connections: names are resolved, and the addresses of both families are tried (RFC 8305).

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep_until};

use super::failure::io_text;
use super::progress::Progress;
use super::{Failure, Stage};

/// The next address is tried while this one has not answered for so long.
const PATIENCE: Duration = Duration::from_millis(250);
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_PROBES: u32 = 3;
/// Bytes that the peer does not acknowledge for so long end the connection.
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_secs(25);

/// Return the addresses of a name; on the resolver threads unless it is an address.
pub(super) async fn resolve(
    host: &str,
    port: u16,
    progress: &Progress,
) -> Result<Vec<SocketAddr>, Failure> {
    progress.enter(Stage::Resolve);
    let fail = |text: &str| {
        let text = format!("cannot connect: cannot resolve {host}: {text}");
        Failure::new(Stage::Resolve, text)
    };
    let answer = lookup_host((host, port)).await;
    let answer = answer.map_err(|error| fail(&io_text(&error)))?;
    let addresses = interleave(answer.collect());
    if addresses.is_empty() {
        return Err(fail("it has no address"));
    }
    Ok(addresses)
}

/// Connect to a name or address.
pub(super) async fn dial(host: &str, port: u16, progress: &Progress) -> Result<TcpStream, Failure> {
    let addresses = resolve(host, port, progress).await?;
    progress.enter(Stage::Connect);
    let fail = |error: &io::Error| {
        Failure::new(
            Stage::Connect,
            format!("cannot connect: {}", io_text(error)),
        )
    };
    let stream = race(addresses).await.map_err(|error| fail(&error))?;
    configure(&stream).map_err(|error| fail(&error.into()))?;
    Ok(stream)
}

fn configure(stream: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(stream, true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_PROBES)?;
    #[cfg(target_os = "linux")]
    {
        let millis = u32::try_from(USER_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(stream, millis)?;
    }
    Ok(())
}

/// Return the addresses with the families taking turns, beginning with that of the first.
fn interleave(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let count = addresses.len();
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let turns = (0..count).flat_map(|_| [first.next(), second.next()]);
    turns.flatten().collect()
}

type Attempt = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Return the first connection. The next attempt begins when one fails, or does not answer for a while.
async fn race(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut next = Box::pin(sleep_until(Instant::now()));
    let mut failed = io::Error::other("no address");
    poll_fn(|context| {
        loop {
            let mut index = 0;
            let mut begin = attempts.is_empty();
            while let Some(attempt) = attempts.get_mut(index) {
                match attempt.as_mut().poll(context) {
                    Poll::Ready(Ok(stream)) => return Poll::Ready(Ok(stream)),
                    Poll::Ready(Err(error)) => {
                        failed = error;
                        begin = true;
                        drop(attempts.swap_remove(index));
                    }
                    Poll::Pending => index += 1,
                }
            }
            begin |= next.as_mut().poll(context).is_ready();
            if !begin {
                return Poll::Pending;
            }
            let Some(address) = waiting.next() else {
                if attempts.is_empty() {
                    return Poll::Ready(Err(std::mem::replace(&mut failed, io::Error::other(""))));
                }
                return Poll::Pending;
            };
            attempts.push(Box::pin(TcpStream::connect(address)));
            next.as_mut().reset(Instant::now() + PATIENCE);
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "it is a test")]

    use super::*;

    // behaviour: scale/SC13
    #[test]
    fn families_take_turns() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let [a, b, c] = ["[::1]:1", "[::2]:1", "[::3]:1"].map(parse);
        let [d] = ["127.0.0.1:1"].map(parse);
        assert_eq!(interleave(vec![a, b, c, d]), [a, d, b, c]);
        assert_eq!(interleave(vec![d, a]), [d, a]);
    }

    fn connect(addresses: Vec<SocketAddr>) -> io::Result<SocketAddr> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        let connected = runtime.block_on(race(addresses));
        connected.and_then(|stream| stream.peer_addr())
    }

    // behaviour: scale/SC13
    #[test]
    fn the_first_address_that_answers_is_used() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let answers = listener.local_addr().unwrap();
        let refuses: SocketAddr = ([0, 0, 0, 0, 0, 0, 0, 1], answers.port()).into();
        assert_eq!(connect(vec![refuses, answers]).unwrap(), answers);
        // A listener whose queue is full drops SYNs.
        let full = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&full, 0).unwrap();
        let silent = full.local_addr().unwrap();
        let _queue: Vec<_> = (0..4)
            .map(|_| std::net::TcpStream::connect_timeout(&silent, PATIENCE))
            .collect();
        assert_eq!(connect(vec![silent, answers]).unwrap(), answers);
        assert_eq!(connect(vec![refuses, silent, answers]).unwrap(), answers);
        let none = connect(vec![refuses]).unwrap_err();
        assert!(
            ["Connection refused", "Cannot assign requested address"].contains(&&*io_text(&none))
        );
    }
}
