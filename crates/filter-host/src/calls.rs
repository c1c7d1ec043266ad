//! The host calls that a filter's life takes. Each returns what the host said; none panics, which
//! the SDK's own wrappers do on a status that they do not expect.

use filter_api::{Fetch, HeaderName, HeaderOp, HeaderValue, HostFailed as Failed, Level, SharedValue};

use crate::pairs;

/// No such property, function or key.
pub(crate) const NOT_FOUND: u32 = 1;

const OK: u32 = 0;
/// A cell has another version.
const CAS_MISMATCH: u32 = 8;
const REQUEST_HEADERS: u32 = 0;
const RESPONSE_HEADERS: u32 = 2;
const HTTP_CALL_RESPONSE_HEADERS: u32 = 6;
const HTTP_CALL_RESPONSE_BODY: u32 = 4;
const PLUGIN_CONFIGURATION: u32 = 7;
const REQUEST_STREAM: u32 = 0;
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
    fn proxy_get_property(path: *const u8, path_length: usize, data: *mut *mut u8, length: *mut usize)
    -> u32;
    fn proxy_set_property(name: *const u8, name_length: usize, value: *const u8, value_length: usize) -> u32;
    fn proxy_get_shared_data(
        cell: *const u8,
        cell_length: usize,
        data: *mut *mut u8,
        length: *mut usize,
        version: *mut u32,
    ) -> u32;
    fn proxy_set_shared_data(
        cell: *const u8,
        cell_length: usize,
        content: *const u8,
        content_length: usize,
        version: u32,
    ) -> u32;
    fn proxy_http_call(
        cluster: *const u8,
        cluster_length: usize,
        headers: *const u8,
        headers_length: usize,
        body: *const u8,
        body_length: usize,
        trailers: *const u8,
        trailers_length: usize,
        timeout: u32,
        number: *mut u32,
    ) -> u32;
    fn proxy_set_effective_context(context: u32) -> u32;
    fn proxy_continue_stream(stream: u32) -> u32;
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
    // SAFETY: the host got this memory from `allocate`, which makes it as a boxed slice of exactly this
    // length with the global allocator, and gave up ownership.
    Ok(unsafe { Vec::from_raw_parts(data, length, length) })
}

/// Memory for what the host hands over; the host gives it back by the call that it answers.
pub(crate) fn allocate(length: usize) -> *mut u8 {
    Box::into_raw(Box::<[u8]>::new_uninit_slice(length)).cast()
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
    buffer(PLUGIN_CONFIGURATION)
}

/// The body of the response to an HTTP call, while the host tells of it.
pub(crate) fn call_response_body() -> Result<Vec<u8>, Failed> {
    buffer(HTTP_CALL_RESPONSE_BODY)
}

fn buffer(buffer: u32) -> Result<Vec<u8>, Failed> {
    // SAFETY: the host writes a pointer and a length to live variables.
    match received(|data, length| unsafe { proxy_get_buffer_bytes(buffer, 0, usize::MAX, data, length) }) {
        Err(Failed(NOT_FOUND)) => Ok(Vec::new()),
        other => other,
    }
}

/// All headers of a request or a response, in the format of [`pairs`].
pub(crate) fn headers(headers: Headers) -> Result<Vec<u8>, Failed> {
    header_map(headers.map())
}

/// The headers of the response to an HTTP call, while the host tells of it.
pub(crate) fn call_response_headers() -> Result<Vec<u8>, Failed> {
    header_map(HTTP_CALL_RESPONSE_HEADERS)
}

fn header_map(map: u32) -> Result<Vec<u8>, Failed> {
    // SAFETY: the host writes a pointer and a length to live variables.
    received(|data, length| unsafe { proxy_get_header_map_pairs(map, data, length) })
}

/// Which headers an operation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Headers {
    /// The request's.
    Request,
    /// The response's.
    Response,
}

impl Headers {
    fn map(self) -> u32 {
        match self {
            Self::Request => REQUEST_HEADERS,
            Self::Response => RESPONSE_HEADERS,
        }
    }
}

/// Performs an operation on headers.
pub(crate) fn edit(headers: Headers, operation: &HeaderOp) -> Result<(), Failed> {
    let map = headers.map();
    let line = |name: &HeaderName, value: &HeaderValue, write: Write| {
        let (name, value) = (name.as_str(), value.as_bytes());
        // SAFETY: pointers and lengths are of live slices.
        unsafe { write(map, name.as_ptr(), name.len(), value.as_ptr(), value.len()) }
    };
    outcome(match operation {
        HeaderOp::Set(name, value) => line(name, value, proxy_replace_header_map_value),
        HeaderOp::Add(name, value) => line(name, value, proxy_add_header_map_value),
        HeaderOp::Remove(name) => {
            let name = name.as_str();
            // SAFETY: pointer and length are of a live slice.
            unsafe { proxy_remove_header_map_value(map, name.as_ptr(), name.len()) }
        }
    })
}

/// A call that writes a line of a header map: the map, then name and value, each with its length.
type Write = unsafe extern "C" fn(u32, *const u8, usize, *const u8, usize) -> u32;

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

/// A property of the request, by its path: names, with a NUL between them.
pub(crate) fn property(path: &str) -> Result<Vec<u8>, Failed> {
    // SAFETY: pointer and length are of a live slice; the host writes a pointer and a length to live variables.
    received(|data, length| unsafe { proxy_get_property(path.as_ptr(), path.len(), data, length) })
}

/// Sets a property of the request: an entry of its filter state, under `wasm.` and this name.
pub(crate) fn set_property(name: &str, value: &HeaderValue) -> Result<(), Failed> {
    let value = value.as_bytes();
    // SAFETY: pointers and lengths are of live slices.
    outcome(unsafe { proxy_set_property(name.as_ptr(), name.len(), value.as_ptr(), value.len()) })
}

/// A cell that all workers share.
pub(crate) fn shared(cell: &str) -> Result<SharedValue, Failed> {
    let mut version = 0;
    // SAFETY: pointer and length are of a live slice; the host writes two numbers and a pointer to live
    // variables.
    let bytes = received(|data, length| unsafe {
        proxy_get_shared_data(cell.as_ptr(), cell.len(), data, length, &raw mut version)
    })?;
    Ok(SharedValue { bytes, version })
}

/// Writes such a cell if it has this version, or is not there; with version 0, whatever it has. Returns whether
/// it was written.
pub(crate) fn share(cell: &str, content: &[u8], version: u32) -> Result<bool, Failed> {
    // SAFETY: pointers and lengths are of live slices.
    let status =
        unsafe { proxy_set_shared_data(cell.as_ptr(), cell.len(), content.as_ptr(), content.len(), version) };
    if status == CAS_MISMATCH { Ok(false) } else { outcome(status).map(|()| true) }
}

/// Starts an HTTP call, and returns its number.
pub(crate) fn http_call(fetch: &Fetch<'_>) -> Result<u32, Failed> {
    let headers = pairs::serialize(fetch.headers);
    let trailers = pairs::serialize(&[]);
    let mut number = 0;
    // SAFETY: pointers and lengths are of live slices; the host writes one number to a live variable.
    outcome(unsafe {
        proxy_http_call(
            fetch.cluster.as_ptr(),
            fetch.cluster.len(),
            headers.as_ptr(),
            headers.len(),
            fetch.body.as_ptr(),
            fetch.body.len(),
            trailers.as_ptr(),
            trailers.len(),
            fetch.timeout_millis,
            &raw mut number,
        )
    })?;
    Ok(number)
}

/// Makes the calls that follow be about this context: another stream than the one the host is calling for.
pub(crate) fn act_for(context: u32) -> Result<(), Failed> {
    // SAFETY: takes a number only.
    outcome(unsafe { proxy_set_effective_context(context) })
}

/// Lets the request go on that was held.
pub(crate) fn continue_request() -> Result<(), Failed> {
    // SAFETY: takes a number only.
    outcome(unsafe { proxy_continue_stream(REQUEST_STREAM) })
}

/// Defines a counter and returns its id.
pub(crate) fn define_counter(name: &str) -> Result<u32, Failed> {
    let mut id = 0;
    // SAFETY: pointer and length are of a live slice; the host writes one number to a live variable.
    outcome(unsafe { proxy_define_metric(COUNTER, name.as_ptr(), name.len(), &raw mut id) })?;
    Ok(id)
}

/// Adds to a counter.
pub(crate) fn increment(id: u32, by: u32) -> Result<(), Failed> {
    // SAFETY: takes numbers only.
    outcome(unsafe { proxy_increment_metric(id, i64::from(by)) })
}
