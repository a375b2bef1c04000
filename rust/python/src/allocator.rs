//! What the allocator of the process is asked to do: glibc's keeps freed memory, which others return by themselves.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) use glibc::return_early;

/// Do nothing: this is not glibc.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn return_early() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::env;
    use std::ffi::c_int;
    use std::sync::Once;

    use ctrlhost_core::memory::set_release;

    // SAFETY: these are functions of glibc, which any thread may call at any time.
    unsafe extern "C" {
        safe fn mallopt(option: c_int, value: c_int) -> c_int;
        safe fn malloc_trim(pad: usize) -> c_int;
    }

    /// Options of glibc's `malloc.h`, the variables by which an operator may set them, and their values.
    ///
    /// `M_TRIM_THRESHOLD` is what is kept at the end of an arena, and `M_MMAP_THRESHOLD` the size from which on a block is
    /// mapped by itself; buffers of the transport are smaller. By default glibc raises both with each large block that is
    /// freed: after a list it keeps tens of megabytes. Without `M_MXFAST`, small free blocks join the end of an arena
    /// only when `malloc_trim` joins all of them, and that end stays.
    const OPTIONS: [(Option<&str>, c_int, c_int); 3] = [
        (Some("MALLOC_TRIM_THRESHOLD_"), -1, 128 << 10),
        (Some("MALLOC_MMAP_THRESHOLD_"), -3, 1 << 20),
        (None, 1, 0),
    ];

    /// Make the allocator return freed memory early, from the first informer of the process on.
    pub(crate) fn return_early() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            for (variable, option, value) in OPTIONS {
                if variable.and_then(env::var_os).is_none() {
                    mallopt(option, value);
                }
            }
            set_release(|| {
                malloc_trim(0);
            });
        });
    }
}
