//! The C library's own functions behind the symbols of `calls`: for threads and descriptors that are not simulated.

use std::{
    ffi::{CStr, c_void},
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
};

/// A function of the C library, which is looked up at its first call.
pub(crate) struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Returns its address.
    ///
    /// # Panics
    /// If the C library has no such function.
    pub(crate) fn address(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name ends with a zero; the next symbol after this program's own is the C library's.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        assert!(!found.is_null(), "the C library has no {:?}", self.name);
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Calls the function of the C library with this name and type.
macro_rules! real {
    ($name:ident as fn($($type:ty),* $(,)?) -> $result:ty; $($argument:expr),*) => {{
        static REAL: $crate::real::Real = {
            const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name without a zero in it"),
            };
            $crate::real::Real::new(NAME)
        };
        type Function = unsafe extern "C" fn($($type),*) -> $result;
        // SAFETY: the symbol of that name has that type in every C library that Rust's standard library runs on.
        let function = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(REAL.address()) };
        // SAFETY: the caller's arguments are passed on unchanged, and the caller keeps the contract of that function.
        unsafe { function($($argument),*) }
    }};
}

pub(crate) use real;

/// Waits, in the real kernel, while `word` is `value`; may return early.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32) {
    let null: *const c_void = std::ptr::null();
    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    _ = real!(syscall as fn(libc::c_long, *const AtomicU32, libc::c_int, u32, *const c_void) -> libc::c_long;
        libc::SYS_futex, std::ptr::from_ref(word), wait, value, null);
}

/// Wakes a thread that waits for `word`.
pub(crate) fn futex_wake(word: &AtomicU32) {
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    _ = real!(syscall as fn(libc::c_long, *const AtomicU32, libc::c_int, u32) -> libc::c_long;
        libc::SYS_futex, std::ptr::from_ref(word), wake, 1);
}

/// Returns the real kernel's number of this thread.
pub(crate) fn own_number() -> i32 {
    let number = real!(syscall as fn(libc::c_long) -> libc::c_long; libc::SYS_gettid);
    i32::try_from(number).unwrap_or(0)
}

/// Returns whether this process has a thread of that number.
pub(crate) fn is_alive(number: i32) -> bool {
    let process = i32::try_from(std::process::id()).unwrap_or(0);
    real!(syscall as fn(libc::c_long, libc::c_int, libc::c_int, libc::c_int) -> libc::c_long;
        libc::SYS_tgkill, process, number, 0)
        == 0
}

/// Lets other threads of the real kernel run.
pub(crate) fn give_up_processor() {
    _ = real!(sched_yield as fn() -> libc::c_int;);
}

/// Prints to the real standard error.
pub(crate) fn print(text: &[u8]) {
    _ = real!(write as fn(libc::c_int, *const c_void, usize) -> isize; libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
}
