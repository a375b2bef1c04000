//! Names with several addresses, and names that resolve slowly. Alone in its process, whose resolver it is.
#![expect(clippy::unwrap_used, reason = "it is a test")]

mod support;

use std::ffi::{CStr, c_char, c_int};
use std::mem::zeroed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::ptr;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use ctrlhost_transport::client::{Client, Stage};
use support::{SOON, Server, call, get, ok, settings};

/// Answers of the name `slow.test` wait for it.
static GO_ON: OnceLock<Mutex<Receiver<()>>> = OnceLock::new();

/// Return an entry of a list, which is never freed: `freeaddrinfo` does nothing here.
fn entry(address: IpAddr, next: *mut libc::addrinfo) -> *mut libc::addrinfo {
    let family = |family: c_int| libc::sa_family_t::try_from(family).unwrap();
    // SAFETY: zeros are valid values of these types.
    let (mut info, mut four, mut six): (libc::addrinfo, libc::sockaddr_in, libc::sockaddr_in6) =
        unsafe { (zeroed(), zeroed(), zeroed()) };
    let (kind, socket, size) = match address {
        IpAddr::V4(address) => {
            four.sin_family = family(libc::AF_INET);
            four.sin_addr.s_addr = u32::from_ne_bytes(address.octets());
            let socket = Box::into_raw(Box::new(four)).cast();
            (libc::AF_INET, socket, size_of::<libc::sockaddr_in>())
        }
        IpAddr::V6(address) => {
            six.sin6_family = family(libc::AF_INET6);
            six.sin6_addr.s6_addr = address.octets();
            let socket = Box::into_raw(Box::new(six)).cast();
            (libc::AF_INET6, socket, size_of::<libc::sockaddr_in6>())
        }
    };
    info.ai_family = kind;
    info.ai_socktype = libc::SOCK_STREAM;
    info.ai_addrlen = libc::socklen_t::try_from(size).unwrap();
    info.ai_addr = socket;
    info.ai_next = next;
    Box::into_raw(Box::new(info))
}

/// The resolver of this process, in place of libc's: `both.test` is `::1`, then 127.0.0.1.
///
/// # Safety
/// `node` is a string, and `found` a place for a pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    _service: *const c_char,
    _hints: *const libc::addrinfo,
    found: *mut *mut libc::addrinfo,
) -> c_int {
    // SAFETY: as the caller says.
    let name = unsafe { CStr::from_ptr(node) };
    if name == c"slow.test" {
        GO_ON.get().unwrap().lock().unwrap().recv().unwrap();
    }
    let mut list = entry(Ipv4Addr::LOCALHOST.into(), ptr::null_mut());
    if name == c"both.test" {
        list = entry(Ipv6Addr::LOCALHOST.into(), list);
    }
    // SAFETY: as the caller says.
    unsafe { *found = list };
    0
}

#[unsafe(no_mangle)]
extern "C" fn freeaddrinfo(_list: *mut libc::addrinfo) {}

// behaviour: scale/SC13
#[test]
fn one_address_that_refuses_and_a_slow_name_delay_nobody() {
    let (go_on, going) = channel();
    GO_ON.set(Mutex::new(going)).unwrap();
    let (server, requests) = Server::answering(|_| ok("here"));
    let port = server.address.port();
    // Nothing listens on the IPv6 address.
    assert!(TcpStream::connect(("::1", port)).is_err());
    let slow = Client::new(settings("slow.test", port), None);
    let (done, answer) = channel();
    slow.begin(get(), Box::new(move |result| done.send(result).unwrap()));
    // Neither an address nor another name waits for it.
    assert_eq!(server.client().call(get()).unwrap().status, 200);
    let both = Client::new(settings("both.test", port), None);
    for _ in 0..2 {
        let soon = call("GET", "", Duration::from_secs(5));
        assert_eq!(&*both.call(soon).unwrap().body, b"here");
        both.close();
    }
    assert_eq!(requests.try_iter().count(), 3);
    // A call whose time ends meanwhile says where it was.
    let hurried = call("GET", "", Duration::from_millis(200));
    let error = slow.call(hurried).unwrap_err();
    let text = "no connection in time: the name was not resolved";
    assert_eq!((error.stage, &*error.text), (Stage::Resolve, text));
    assert!(error.timed_out && !error.sent);
    assert!(answer.try_recv().is_err());
    for _ in 0..2 {
        go_on.send(()).unwrap();
    }
    assert_eq!(answer.recv_timeout(SOON).unwrap().unwrap().status, 200);
}
