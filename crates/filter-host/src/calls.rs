//! The host calls that a filter's life takes. Each returns what the host said; none panics, which
//! the SDK's own wrappers do on a status that they do not expect.

use filter_api::{HeaderName, HeaderValue, Level};

use crate::pairs;

/// The host refused a call, with this status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed(pub(crate) u32);

/// No such property, function or key.
pub(crate) const NOT_FOUND: u32 = 1;

const OK: u32 = 0;
const REQUEST_HEADERS: u32 = 0;
const PLUGIN_CONFIGURATION: u32 = 7;
const COUNTER: u32 = 0;

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn proxy_log(level: u32, text: *const u8, length: usize) -> u32;
    fn proxy_get_log_level(level: *mut u32) -> u32;
    fn proxy_get_current_time_nanoseconds(time: *mut u64) -> u32;
    fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
    fn proxy_get_buffer_bytes(
        buffer: u32,
        start: usize,
        most: usize,
        data: *mut *mut u8,
        length: *mut usize,
    ) -> u32;
    fn proxy_get_header_map_pairs(map: u32, data: *mut *mut u8, length: *mut usize) -> u32;
    fn proxy_replace_header_map_value(
        map: u32,
        name: *const u8,
        name_length: usize,
        value: *const u8,
        value_length: usize,
    ) -> u32;
    fn proxy_add_header_map_value(
        map: u32,
        name: *const u8,
        name_length: usize,
        value: *const u8,
        value_length: usize,
    ) -> u32;
    fn proxy_remove_header_map_value(map: u32, name: *const u8, name_length: usize) -> u32;
    fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_length: usize,
        body: *const u8,
        body_length: usize,
        headers: *const u8,
        headers_length: usize,
        grpc_status: i32,
    ) -> u32;
    fn proxy_call_foreign_function(
        name: *const u8,
        name_length: usize,
        argument: *const u8,
        argument_length: usize,
        data: *mut *mut u8,
        length: *mut usize,
    ) -> u32;
    fn proxy_define_metric(kind: u32, name: *const u8, name_length: usize, id: *mut u32) -> u32;
    fn proxy_increment_metric(id: u32, by: i64) -> u32;
}

fn outcome(status: u32) -> Result<(), Failed> {
    if status == OK { Ok(()) } else { Err(Failed(status)) }
}

/// Makes a call that hands over memory, and takes it.
fn received(call: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Result<Vec<u8>, Failed> {
    let mut data = std::ptr::null_mut();
    let mut length = 0;
    outcome(call(&raw mut data, &raw mut length))?;
    if data.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the host got this memory from the SDK's `proxy_on_memory_allocate`, which makes it as
    // a boxed slice of exactly this length with the global allocator, and gave up ownership.
    Ok(unsafe { Vec::from_raw_parts(data, length, length) })
}

/// Writes a line to the host's log.
pub(crate) fn log(level: Level, text: &str) {
    let level = match level {
        Level::Trace => 0,
        Level::Debug => 1,
        Level::Info => 2,
        Level::Warn => 3,
        Level::Error => 4,
    };
    // SAFETY: pointer and length are of one live string. A line that cannot be written is lost.
    unsafe { proxy_log(level, text.as_ptr(), text.len()) };
}

/// The least level that is written.
pub(crate) fn log_level() -> Result<Level, Failed> {
    let mut level = 0;
    // SAFETY: the host writes one 32-bit number to a live variable.
    outcome(unsafe { proxy_get_log_level(&raw mut level) })?;
    Ok(match level {
        0 => Level::Trace,
        1 => Level::Debug,
        2 => Level::Info,
        3 => Level::Warn,
        _ => Level::Error,
    })
}

/// Nanoseconds since 1970.
pub(crate) fn unix_nanos() -> Result<u64, Failed> {
    let mut time = 0;
    // SAFETY: the host writes one 64-bit number to a live variable.
    outcome(unsafe { proxy_get_current_time_nanoseconds(&raw mut time) })?;
    Ok(time)
}

/// Has the host call `proxy_on_tick` this often.
pub(crate) fn tick_every(milliseconds: u32) -> Result<(), Failed> {
    // SAFETY: takes a number only.
    outcome(unsafe { proxy_set_tick_period_milliseconds(milliseconds) })
}

/// The plugin's configuration.
pub(crate) fn plugin_configuration() -> Result<Vec<u8>, Failed> {
    // SAFETY: the host writes a pointer and a length to live variables.
    match received(|data, length| unsafe {
        proxy_get_buffer_bytes(PLUGIN_CONFIGURATION, 0, usize::MAX, data, length)
    }) {
        Err(Failed(NOT_FOUND)) => Ok(Vec::new()),
        other => other,
    }
}

/// All request headers, in the format of [`pairs`].
pub(crate) fn request_headers() -> Result<Vec<u8>, Failed> {
    // SAFETY: the host writes a pointer and a length to live variables.
    received(|data, length| unsafe { proxy_get_header_map_pairs(REQUEST_HEADERS, data, length) })
}

/// Replaces every line of the name by one.
pub(crate) fn set_request_header(name: &HeaderName, value: &HeaderValue) -> Result<(), Failed> {
    let (name, value) = (name.as_str(), value.as_bytes());
    // SAFETY: pointers and lengths are of live slices.
    outcome(unsafe {
        proxy_replace_header_map_value(
            REQUEST_HEADERS,
            name.as_ptr(),
            name.len(),
            value.as_ptr(),
            value.len(),
        )
    })
}

/// Adds a line.
pub(crate) fn add_request_header(name: &HeaderName, value: &HeaderValue) -> Result<(), Failed> {
    let (name, value) = (name.as_str(), value.as_bytes());
    // SAFETY: pointers and lengths are of live slices.
    outcome(unsafe {
        proxy_add_header_map_value(REQUEST_HEADERS, name.as_ptr(), name.len(), value.as_ptr(), value.len())
    })
}

/// Removes every line of the name.
pub(crate) fn remove_request_header(name: &HeaderName) -> Result<(), Failed> {
    let name = name.as_str();
    // SAFETY: pointer and length are of a live slice.
    outcome(unsafe { proxy_remove_header_map_value(REQUEST_HEADERS, name.as_ptr(), name.len()) })
}

/// Answers the request. `grpc_status` is -1 where the caller does not speak gRPC.
pub(crate) fn send_local_response(
    status: u16,
    details: &str,
    body: &str,
    headers: &[(HeaderName, HeaderValue)],
    grpc_status: i32,
) -> Result<(), Failed> {
    let headers = pairs::serialize(headers);
    // SAFETY: pointers and lengths are of live slices.
    outcome(unsafe {
        proxy_send_local_response(
            u32::from(status),
            details.as_ptr(),
            details.len(),
            body.as_ptr(),
            body.len(),
            headers.as_ptr(),
            headers.len(),
            grpc_status,
        )
    })
}

/// Calls a function of the host's by name.
pub(crate) fn foreign_function(name: &str, argument: &[u8]) -> Result<Vec<u8>, Failed> {
    // SAFETY: pointers and lengths are of live slices, and the host writes a pointer and a length
    // to live variables.
    received(|data, length| unsafe {
        proxy_call_foreign_function(
            name.as_ptr(),
            name.len(),
            argument.as_ptr(),
            argument.len(),
            data,
            length,
        )
    })
}

/// Defines a counter and returns its id.
pub(crate) fn define_counter(name: &str) -> Result<u32, Failed> {
    let mut id = 0;
    // SAFETY: pointer and length are of a live slice; the host writes one number to a live variable.
    outcome(unsafe { proxy_define_metric(COUNTER, name.as_ptr(), name.len(), &raw mut id) })?;
    Ok(id)
}

/// Adds one to a counter.
pub(crate) fn increment(id: u32) -> Result<(), Failed> {
    // SAFETY: takes numbers only.
    outcome(unsafe { proxy_increment_metric(id, 1) })
}
