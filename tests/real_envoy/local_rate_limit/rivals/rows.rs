//! The rows: what is sent, and what each answers.

use std::time::Duration;

use real_envoy::client::Request;

use super::implementation::{FREE, MostClients, Policy};

/// A row: what is sent by which policy, and what is seen of the answers.
pub(super) struct Row {
    pub(super) what: &'static str,
    pub(super) policy: Policy,
    pub(super) workers: u32,
    pub(super) steps: Vec<Step>,
    pub(super) seen: Seen,
    pub(super) native: &'static str,
    pub(super) lua: &'static str,
    pub(super) ours: &'static str,
    /// Why they are not the same; empty where they are.
    pub(super) why: &'static str,
}

/// What happens.
#[derive(Clone)]
pub(super) enum Step {
    Send(Request),
    Wait(Duration),
    /// So many other clients have a request each, which must pass and is not shown.
    Others(u8),
    /// One request over each of so many connections.
    Crowd(usize),
}

/// What a row looks at, of every answer.
#[derive(Clone, Copy)]
pub(super) enum Seen {
    Status,
    /// Of refusals type and body too.
    Refusal,
    /// The values of these, or `-`.
    Headers(&'static [&'static str]),
    /// Response-code details and response flags, by the access log.
    Log,
}

const X_RATELIMIT: Seen = Seen::Headers(&["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]);

/// A request of one of several clients.
fn of(client: &str, method: &str, path: &str) -> Step {
    Step::Send(Request::new(method, path).header("x-forwarded-for", client))
}

fn get(client: &str) -> Step {
    of(client, "GET", "/orders")
}

fn login(client: &str) -> Step {
    of(client, "POST", "/login")
}

pub(super) const A: &str = "198.51.100.1";
pub(super) const B: &str = "198.51.100.2";
const C: &str = "198.51.100.3";

/// The time of one token, where a row waits for one, and a little more.
const LATER: Duration = Duration::from_millis(3200);

fn same(what: &'static str, policy: Policy, steps: Vec<Step>, all: &'static str) -> Row {
    Row { what, policy, workers: 1, steps, seen: Seen::Status, native: all, lua: all, ours: all, why: "" }
}

/// Where all three let the same through.
pub(super) fn agreement() -> Vec<Row> {
    let drained = vec![get(A); 6];
    let later = vec![Step::Wait(LATER), get(A), get(A)];
    vec![
        same(
            "a bucket for all",
            Policy { together: (3, 3, 600.0), ..FREE },
            vec![get(A), get(B), get(C), get(A), get(C)],
            "200 200 200 429 429",
        ),
        same(
            "a bucket for each client",
            Policy { client: (2, 2, 600.0), ..FREE },
            vec![get(A), get(A), get(A), get(B), of("198.51.100.9, 198.51.100.1", "GET", "/"), get(C)],
            "200 200 429 200 429 200",
        ),
        same(
            "a bucket for each client's logins",
            Policy { login: (2, 2, 600.0), ..FREE },
            vec![
                login(A),
                of(A, "POST", "/login?next=/"),
                login(A),
                of(A, "GET", "/login"),
                of(A, "POST", "/login/x"),
                login(B),
            ],
            "200 200 429 200 200 200",
        ),
        same(
            "a path that is exempt",
            Policy { together: (1, 1, 600.0), ..FREE },
            vec![
                get(A),
                of(A, "GET", "/health"),
                of(A, "GET", "/health?x"),
                of(A, "GET", "//health"),
                of(A, "HEAD", "/health"),
                of(A, "GET", "/healthy"),
            ],
            "200 200 200 200 429 429",
        ),
        same(
            "a forged x-forwarded-for, as shipped",
            Policy { client: (2, 2, 600.0), by_forwarded: false, ..FREE },
            vec![get(A), get(B), get(C)],
            "200 200 429",
        ),
        // 5 in 15 s are one in 3 s, not five at the end of 15.
        same(
            "tokens flow in evenly",
            Policy { client: (5, 5, 15.0), ..FREE },
            [drained, later].concat(),
            "200 200 200 200 200 429 200 429",
        ),
        same(
            "a client that is refused takes nothing from the bucket for all",
            Policy { together: (2, 2, 600.0), client: (1, 1, 600.0), ..FREE },
            vec![get(A), get(A), get(A), get(B), get(C)],
            "200 429 429 200 429",
        ),
        same(
            "an interval that is no multiple of the default's",
            Policy { client: (1, 1, 600.7), ..FREE },
            vec![get(A), get(A)],
            "200 429",
        ),
    ]
}

/// Where they let different requests through.
pub(super) fn differences_in_what_passes() -> Vec<Row> {
    let row = |what, policy, steps, native, lua, ours, why| Row {
        what,
        policy,
        workers: 1,
        steps,
        seen: Seen::Status,
        native,
        lua,
        ours,
        why,
    };
    vec![
        row(
            "a client that is too fast loses its logins",
            Policy { client: (1, 1, 3.0), login: (2, 2, 600.0), ..FREE },
            vec![get(A), login(A), login(A), Step::Wait(LATER), login(A)],
            "200 429 429 429",
            "200 429 429 200",
            "200 429 429 200",
            "Envoy's asks the slowest bucket first, and what it took there is not given back when the next refuses",
        ),
        row(
            "a bucket for all that is empty empties those of clients",
            Policy { together: (1, 1, 3.0), client: (2, 2, 600.0), ..FREE },
            vec![get(A), get(A), get(A), Step::Wait(LATER), get(A)],
            "200 429 429 429",
            "200 429 429 200",
            "200 429 429 200",
            "Envoy's asks the bucket for all last",
        ),
        row(
            "two addresses of one IPv6 subscriber",
            Policy { client: (1, 1, 600.0), ..FREE },
            vec![get("2001:db8::1"), get("2001:db8::2"), get("2001:db8:0:1::1")],
            "200 429 200",
            "200 200 200",
            "200 429 200",
            "the script compares whole addresses, the others their first 64 bits",
        ),
        row(
            "a client that waits until it is forgotten",
            Policy { client: (2, 2, 600.0), most_clients: MostClients::This(2), ..FREE },
            vec![get(A), get(A), get(A), get(B), get(C), get(A)],
            "200 200 429 200 200 200",
            "200 200 429 200 200 200",
            "200 200 429 200 200 429",
            "ours forgets the bucket that is fullest, the others the one that was used longest ago, empty or not",
        ),
        row(
            "how many clients are remembered where nothing is said of it",
            Policy { client: (2, 2, 600.0), most_clients: MostClients::Unsaid, ..FREE },
            vec![get(A), get(A), get(A), Step::Others(20), get(A)],
            "200 200 429 200",
            "200 200 429 429",
            "200 200 429 429",
            "Envoy's remembers 20 of each descriptor, ours and the script 10,000",
        ),
        row(
            "other spellings of the path that a limit is for",
            Policy { login: (1, 1, 600.0), ..FREE },
            ["/login", "/%6cogin", "/./login", "//login", "/x/..;/login", "/login;x", "/login/", "/LOGIN"]
                .map(|path| of(A, "POST", path))
                .into(),
            "200 429 429 429 429 200 200 200",
            "200 429 429 429 429 200 200 200",
            "200 429 429 429 429 429 200 200",
            "ours charges a path to every limit that one of its readings is for",
        ),
    ]
}

/// Where the answers tell different things.
pub(super) fn differences_in_what_is_told() -> Vec<Row> {
    let row = |what, policy, steps, seen, [native, lua, ours]: [&'static str; 3], why| Row {
        what,
        policy,
        workers: 1,
        steps,
        seen,
        native,
        lua,
        ours,
        why,
    };
    let twice = || vec![get(A), get(A)];
    let refused_twice = Policy { client: (1, 1, 60.0), login: (1, 1, 600.0), ..FREE };
    let grpc = Request::post("/orders.Service/List", "")
        .header("content-type", "application/grpc")
        .header("x-forwarded-for", A);
    vec![
        row(
            "retry-after",
            refused_twice,
            vec![login(A), login(A), get(A)],
            Seen::Headers(&["retry-after"]),
            ["- - -", "- 600 60", "- 600 60"],
            "Envoy's has nothing to add to a refusal that knows how long to wait",
        ),
        row(
            "body and type of a refusal",
            Policy { client: (1, 1, 60.0), ..FREE },
            twice(),
            Seen::Refusal,
            ["200 429/text/plain/local_rate_limited"; 3],
            "",
        ),
        row(
            "details and flags of a refusal",
            Policy { client: (1, 1, 60.0), ..FREE },
            twice(),
            Seen::Log,
            [
                "via_upstream/- local_rate_limited/RL",
                "via_upstream/- lua_response/-",
                "via_upstream/- local_rate_limited{per-client}/-",
            ],
            "ours names the limit; a module cannot set Envoy's flag RL",
        ),
        row(
            "x-ratelimit headers",
            Policy { client: (3, 3, 60.0), ..FREE },
            vec![get(A), get(A), get(A), get(A)],
            X_RATELIMIT,
            ["3/2/0 3/1/0 3/0/20 3/0/20", "3/2/20 3/1/40 3/0/60 3/0/60", "3/2/20 3/1/40 3/0/60 3/0/60"],
            "the reset of Envoy's is when there is a token, ours when the bucket is full",
        ),
        row(
            "which of several limits they tell of",
            Policy { together: (2, 2, 600.0), client: (5, 5, 1500.0), ..FREE },
            vec![get(A), get(A), get(A)],
            Seen::Headers(&["x-ratelimit-limit", "x-ratelimit-remaining"]),
            ["5/4 5/3 2/0", "2/1 2/0 2/0", "2/1 2/0 2/0"],
            "Envoy's tells of the slowest descriptor, and of the bucket for all where that refuses; ours of the one \
             with the fewest tokens",
        ),
        row(
            "gRPC",
            Policy { client: (1, 1, 60.0), ..FREE },
            vec![get(A), Step::Send(grpc)],
            Seen::Headers(&["grpc-status"]),
            ["- 8", "- 14", "- 8"],
            "a script's answer has the gRPC status of its HTTP status",
        ),
    ]
}

/// Where the number of workers counts.
pub(super) fn workers() -> Vec<Row> {
    let row = |what, workers, policy, [native, lua, ours]: [&'static str; 3], why| Row {
        what,
        policy,
        workers,
        steps: vec![Step::Crowd(100)],
        seen: Seen::Status,
        native,
        lua,
        ours,
        why,
    };
    let together = Policy { together: (10, 1, 600.0), ..FREE };
    let client = Policy { client: (10, 1, 600.0), ..FREE };
    let (ten, twenty) = ("10 x 200, 90 x 429", "20 x 200, 80 x 429");
    let why = "a script's state is that of its worker";
    vec![
        row("one worker", 1, together, [ten; 3], ""),
        row("two workers, one bucket for all", 2, together, [ten, twenty, ten], why),
        row("two workers, one bucket for a client", 2, client, [ten, twenty, ten], why),
    ]
}
