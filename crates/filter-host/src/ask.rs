//! What a filter may ask for, answered by the host's calls.

use std::cell::Cell;

use filter_api::{
    Background, Fetch, FetchRefused, Head, Host, HostVerdict, Level, Moment, Response, SharedValue,
    SignatureCheck, Waiting,
};

use crate::calls::{self, Failed};
use crate::pairs::PairsHead;
use crate::vm::Vm;

/// What a filter asks while it decides about one request.
pub(crate) struct Request<'vm> {
    vm: &'vm Vm,
    waiting: Waiting,
    moment: Cell<Option<Moment>>,
}

impl<'vm> Request<'vm> {
    pub(crate) fn new(vm: &'vm Vm, waiting: Waiting) -> Self {
        Self { vm, waiting, moment: Cell::new(None) }
    }
}

impl Host for Request<'_> {
    fn moment(&self) -> Moment {
        if let Some(moment) = self.moment.get() {
            return moment;
        }
        let moment = now(self.vm);
        self.moment.set(Some(moment));
        moment
    }

    fn logs(&self, level: Level) -> bool {
        self.vm.logs(level)
    }

    fn verify_signature(&self, check: &SignatureCheck<'_>) -> HostVerdict {
        self.vm.verify_signature(check)
    }

    fn waiting(&self) -> Waiting {
        self.waiting
    }
}

/// What a filter may do between requests.
pub(crate) struct Behind<'vm>(pub(crate) &'vm Vm);

impl Background for Behind<'_> {
    fn moment(&self) -> Moment {
        now(self.0)
    }

    fn shared(&self, cell: &str) -> Option<SharedValue> {
        calls::shared(cell).ok()
    }

    fn share(&self, cell: &str, content: &[u8]) -> bool {
        calls::share(cell, content, 0).is_ok()
    }

    fn share_if(&self, cell: &str, content: &[u8], version: u32) -> bool {
        // The host takes 0 for "whatever it has".
        version != 0 && calls::share(cell, content, version).is_ok()
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Result<u32, FetchRefused> {
        calls::http_call(fetch).map_err(|Failed(status)| FetchRefused(status))
    }
}

fn now(vm: &Vm) -> Moment {
    // A clock that cannot be read shows the end of time: every token has expired then.
    Moment { unix_nanos: calls::unix_nanos().unwrap_or(u64::MAX), dice: vm.random() }
}

/// The response to a fetch, while the host tells of it.
pub(crate) struct CallResponse {
    headers: Vec<u8>,
    body_length: usize,
}

impl CallResponse {
    /// The response; none where its headers cannot be read, which is as good as none.
    pub(crate) fn read(body_length: usize) -> Option<Self> {
        let headers = calls::call_response_headers().ok()?;
        PairsHead::parse(&headers).ok()?;
        Some(Self { headers, body_length })
    }
}

impl Response for CallResponse {
    fn header(&self, name: &str) -> Option<Vec<u8>> {
        let head = PairsHead::parse(&self.headers).ok()?;
        let values: Vec<&[u8]> = head.get_all(name).collect();
        (!values.is_empty()).then(|| values.join(&b','))
    }

    fn body_length(&self) -> usize {
        self.body_length
    }

    fn body(&self) -> Option<Vec<u8>> {
        calls::call_response_body().ok()
    }
}
