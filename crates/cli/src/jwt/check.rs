//! `foregate jwt check`: tells why a token is accepted or refused.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, ensure};
use filter_api::Moment;
use filter_api::config::StringMatcher;
use jwt_reject::algorithm::Algorithm;
use jwt_reject::keys::{KeyError, KeySet};
use jwt_reject::token::Padding;
use jwt_reject::verify::Policy;

use super::report::{self, Question, Verdict};
use super::vectors;
use crate::terminal;

const NANOS: u64 = 1_000_000_000;

const MORE: &str = "\
Exit code: 0 accepted, 1 refused, 2 nothing could be checked (wrong arguments, an unreadable file, unusable keys).

With --json, one object on the standard output:
  verdict   \"accept\" or \"reject\"
  reason    the label of jwt_reject's metric, such as \"token_expired\"; null if accepted
  status    the HTTP status that a client would get; null if accepted
  body      the body that a client would get; null if accepted
  header    the decoded header; null if it cannot be decoded
  claims    the decoded claims, verified only if accepted; null if they cannot be decoded
  checks    each check in order: {\"check\", \"result\": \"passed\" | \"failed\" | \"not_reached\", \"reason\"}
  notes     texts for people, such as keys that are passed over

With --vectors, FILE is a JSON array of objects: id, token, jwks, expect (accept, reject, either), and
optionally now (UNIX seconds; null: --now or the clock), issuer, audiences, clock_skew (seconds), weak_key
(what is weak: `expect` is then with weak keys allowed, and without them it must be a reject), signature_only
(the verdict on header, key and signature alone), policy (\"exp_boundary\": no skew). Other members are
not looked at. Exit code: 0 all are as expected, 1 some differ, 2 FILE cannot be read, is not of this form,
or is empty. With --json, one object: {\"total\", \"as_expected\",
\"differences\": [{\"id\", \"part\": \"whole\" | \"signature\" | \"without_weak_keys\", \"expected\", \"got\",
\"reason\"}]}.

Examples:
  foregate jwt check --jwks jwks.json --token \"$TOKEN\" --issuer https://issuer.example --audience api
  pbpaste | foregate jwt check --pem public.pem --token -";

/// Tell why a token is accepted or refused, by the very code of the jwt_reject filter
#[derive(Debug, clap::Args)]
#[command(after_long_help = MORE)]
pub struct Args {
    /// The keys: a JWK set, as in local_jwks; - reads the standard input
    #[arg(long, value_name = "FILE", required_unless_present_any = ["pem", "vectors"], conflicts_with = "pem")]
    jwks: Option<PathBuf>,
    /// The keys: public keys in PEM; - reads the standard input
    #[arg(long, value_name = "FILE")]
    pem: Option<PathBuf>,
    /// The token alone, without "Bearer"; - reads the standard input, which keeps it out of the shell's history
    #[arg(long, value_name = "TOKEN", required_unless_present = "vectors", allow_hyphen_values = true)]
    token: Option<String>,
    /// What `iss` must be
    #[arg(long, value_name = "ISSUER")]
    issuer: Option<String>,
    /// What `aud` must name; of several, one
    #[arg(long = "audience", value_name = "AUDIENCE")]
    audiences: Vec<String>,
    /// What `sub` must be; of several, one
    #[arg(long = "subject", value_name = "SUBJECT")]
    subjects: Vec<String>,
    /// An algorithm that is allowed; without, all are that the keys are for
    #[arg(long = "algorithm", value_name = "ALG", value_parser = algorithm)]
    algorithms: Vec<Algorithm>,
    /// The time to check at; without, the clock
    #[arg(long, value_name = "UNIX_SECONDS")]
    now: Option<u64>,
    /// How far clocks may differ
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(..=86_400))]
    skew: u64,
    /// Refuse a token without `exp`
    #[arg(long)]
    require_expiration: bool,
    /// The most that `exp` may be ahead; asks for `exp` too
    #[arg(long, value_name = "SECONDS")]
    max_lifetime: Option<u64>,
    /// Take RSA keys below 2048 bits, and secrets shorter than their hash
    #[arg(long)]
    allow_weak_keys: bool,
    /// Take base64url with `=` at its end
    #[arg(long)]
    allow_padding: bool,
    /// The most bytes that a token may have
    #[arg(long, value_name = "BYTES", default_value_t = 8192)]
    max_token_bytes: usize,
    /// Check header, key and signature alone, whatever the payload is
    #[arg(long, conflicts_with_all = ["issuer", "audiences", "subjects", "require_expiration", "max_lifetime"])]
    signature_only: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Check every token of a file against the verdict that the file expects
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "jwks", "pem", "token", "issuer", "audiences", "subjects", "algorithms", "skew", "require_expiration",
        "max_lifetime", "allow_weak_keys", "allow_padding", "max_token_bytes", "signature_only",
    ])]
    vectors: Option<PathBuf>,
}

/// Runs `foregate jwt check`.
///
/// # Errors
/// What kept it from checking: [`super::EXIT_USAGE`].
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let now = args.now.map_or_else(clock, Moment::at);
    match &args.vectors {
        Some(file) => run_vectors(file, now, args.json),
        None => run_token(args, now),
    }
}

fn run_token(args: &Args, now: Moment) -> anyhow::Result<ExitCode> {
    let file = args.jwks.as_ref().or(args.pem.as_ref()).context("--jwks or --pem is needed")?;
    let token = args.token.as_deref().context("--token is needed")?;
    let both = is_stdin(file) && token == "-";
    ensure!(!both, "the keys and the token cannot both come from the standard input");
    let (keys, mut notes) = read_keys(file, args.allow_weak_keys)?;
    let token = if token == "-" { read(Path::new("-")).context("--token")? } else { token.to_owned() };
    let question = args.question();
    if keys.mixes_secrets_and_public_keys() && args.algorithms.is_empty() {
        notes.push(
            "the set holds secrets beside public keys, which the filter takes only with a list of algorithms"
                .to_owned(),
        );
    }
    if question.signature_only {
        notes.push("header, key and signature alone were checked, not what the token claims".to_owned());
    }
    let mut report = report::examine(token.trim().as_bytes(), &question, &keys, now);
    report.notes = notes;
    terminal::print(&if args.json { report.json() } else { report.text(now) })
        .context("cannot write the report")?;
    Ok(exit_code(report.verdict() == Verdict::Accept))
}

fn run_vectors(file: &Path, now: Moment, json: bool) -> anyhow::Result<ExitCode> {
    let vectors = vectors::parse(&read(file)?).with_context(|| file.display().to_string())?;
    let summary = vectors::run(&vectors, now);
    terminal::print(&if json { summary.json() } else { summary.text() })
        .context("cannot write the report")?;
    Ok(exit_code(summary.differences.is_empty()))
}

impl Args {
    fn question(&self) -> Question {
        let policy = Policy {
            issuer: self.issuer.clone(),
            audiences: self.audiences.clone(),
            subjects: self.subjects.iter().cloned().map(StringMatcher::Exact).collect(),
            algorithms: if self.algorithms.is_empty() {
                Algorithm::ALL.to_vec()
            } else {
                self.algorithms.clone()
            },
            clock_skew: self.skew.saturating_mul(NANOS),
            require_expiration: self.require_expiration,
            max_lifetime: self.max_lifetime.map(|seconds| seconds.saturating_mul(NANOS)),
            padding: if self.allow_padding { Padding::Tolerated } else { Padding::Refused },
            ..Policy::default()
        };
        Question { policy, max_token_bytes: self.max_token_bytes, signature_only: self.signature_only }
    }
}

/// The keys of a file, and notes on those that are passed over.
fn read_keys(file: &Path, allow_weak: bool) -> anyhow::Result<(KeySet, Vec<String>)> {
    let text = read(file)?;
    let (keys, skipped) = KeySet::parse(&text, allow_weak).map_err(|errors| {
        let problems: Vec<String> = errors.iter().map(KeyError::to_string).collect();
        let weak = problems.iter().any(|problem| problem.contains("allow_weak_keys"));
        let hint = if weak { "\n(here: --allow-weak-keys)" } else { "" };
        anyhow!("{}: no usable keys:\n  {}{hint}", file.display(), problems.join("\n  "))
    })?;
    let notes = skipped.iter().map(|key| format!("{key}; the key is passed over")).collect();
    Ok((keys, notes))
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    if is_stdin(file) {
        std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read the standard input")?;
    } else {
        bytes = std::fs::read(file).with_context(|| format!("cannot read {file:?}"))?;
    }
    String::from_utf8(bytes).map_err(|_| {
        anyhow!(
            "{}: is no text in UTF-8; a key in DER becomes one by: openssl pkey -pubin -inform DER -in FILE",
            file.display()
        )
    })
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

fn algorithm(name: &str) -> Result<Algorithm, String> {
    Algorithm::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = Algorithm::ALL.into_iter().map(Algorithm::name).collect();
        format!("there are {}", known.join(", "))
    })
}

fn exit_code(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The time of the machine's clock.
#[allow(clippy::disallowed_methods, reason = "a tool reads the clock here, and hands it on as an input")]
fn clock() -> Moment {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    let nanos = since.map(|since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)).unwrap_or_default();
    Moment { unix_nanos: nanos, dice: 0 }
}
