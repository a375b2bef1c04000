//! Processes of plugins: the end of one whose host is gone, also while a thread holds the interpreter, and the parent of
//! one that another process has forked.

use std::ffi::c_int;
use std::io::Error;
use std::os::fd::BorrowedFd;
use std::thread;

use pyo3::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
#[cfg(target_os = "linux")]
use rustix::process::{Pid, child_subreaper, set_child_subreaper};

// SAFETY: this is the function of POSIX, which any thread may call.
unsafe extern "C" {
    /// Ends the process without calling what was registered for its end.
    safe fn _exit(code: c_int) -> !;
}

/// Ends this process with an exit code as soon as the other end of a socket has closed.
///
/// At once, since another host may run the plugin by then: no thread may send anything more, also one that goes on
/// before Python could notice. `socket` is a file descriptor that stays open. `OSError` if no thread can be started.
#[pyfunction]
pub(crate) fn end_with(socket: i32, code: i32) -> PyResult<()> {
    thread::Builder::new()
        .name("lifeline".to_owned())
        .spawn(move || {
            wait_for_end(socket);
            _exit(code)
        })
        .map_err(Error::into)
        .map(drop)
}

/// Begins or ends to become the parent of descendants whose own parent ends; returns whether this process did before.
///
/// `OSError` where the kernel refuses it.
#[cfg(target_os = "linux")]
#[pyfunction]
pub(crate) fn adopt_orphans(adopts: bool) -> PyResult<bool> {
    let before = child_subreaper().map_err(Error::from)?;
    // The number only has to be one.
    set_child_subreaper(adopts.then_some(Pid::INIT)).map_err(Error::from)?;
    Ok(before.is_some())
}

fn wait_for_end(socket: i32) {
    // SAFETY: the caller keeps the descriptor open until the process ends.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    loop {
        // Without events to wait for, `poll` reports only the end of the connection.
        let mut watched = [PollFd::new(&socket, PollFlags::empty())];
        match poll(&mut watched, None) {
            Ok(0) | Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(_) | Err(_) => return,
        }
    }
}
