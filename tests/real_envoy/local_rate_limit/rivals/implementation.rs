//! The three that can do the job, and one policy for all of them: the shipped one with other numbers.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use real_envoy::Config;
use serde_json::{Value, json};

use crate::local_rate_limit::LOCAL_RATE_LIMIT;
use crate::suite::hcm_mut;

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Implementation {
    /// Envoy's own local_ratelimit.
    Native,
    Lua,
    /// local_rate_limit.
    Ours,
}

pub(super) const ALL: [Implementation; 3] =
    [Implementation::Native, Implementation::Lua, Implementation::Ours];

/// A bucket: the most tokens, and how many flow in, in how many seconds.
pub(super) type Bucket = (u32, u32, f64);

/// The shipped policy's numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    /// For all requests together.
    pub(super) together: Bucket,
    /// For each client.
    pub(super) client: Bucket,
    /// For each client's logins.
    pub(super) login: Bucket,
    pub(super) most_clients: MostClients,
    /// Whether the client is whom `x-forwarded-for` names last, so that a test can be several. As shipped it is
    /// whoever is connected.
    pub(super) by_forwarded: bool,
}

/// How many clients are remembered.
#[derive(Debug, Clone, Copy)]
pub(super) enum MostClients {
    /// As many as the shipped file says.
    AsShipped,
    /// As many as it is without a word of it.
    Unsaid,
    This(u32),
}

const PLENTY: Bucket = (1000, 1000, 1.0);

/// Nobody is refused.
pub(super) const FREE: Policy = Policy {
    together: PLENTY,
    client: PLENTY,
    login: PLENTY,
    most_clients: MostClients::AsShipped,
    by_forwarded: true,
};

/// The shipped configuration with this policy. Its access log tells of each request, by its header `x-case`, the
/// response-code details and the response flags.
pub(super) fn configuration(
    implementation: Implementation,
    policy: Policy,
    upstream: SocketAddr,
) -> anyhow::Result<Config> {
    let file = match implementation {
        Implementation::Native => "envoy-configs/local-rate-limit/native.yaml",
        Implementation::Lua => "envoy-configs/local-rate-limit/lua.yaml",
        Implementation::Ours => LOCAL_RATE_LIMIT.config,
    };
    let config = Config::load(file)?.on_free_ports()?.upstream("upstream", upstream)?;
    let config = config.edit(|bootstrap| {
        let hcm = hcm_mut(bootstrap)?;
        let format = hcm
            .get_mut("access_log")
            .and_then(|logs| logs.pointer_mut("/0/typed_config/log_format/text_format_source/inline_string"));
        *format.context("no format of an access log")? =
            "case %REQ(X-CASE)%: %RESPONSE_CODE_DETAILS% %RESPONSE_FLAGS%\n".into();
        if policy.by_forwarded {
            hcm.insert("use_remote_address".to_owned(), false.into());
        }
        let filter = hcm.get_mut("http_filters").and_then(|filters| filters.pointer_mut("/0/typed_config"));
        let filter = filter.context("no filter")?;
        match implementation {
            Implementation::Native => set_numbers(filter, policy, true),
            Implementation::Lua => set_lines(filter, policy),
            Implementation::Ours => {
                let value = filter.pointer_mut("/config/configuration/value");
                set_numbers(value.context("no configuration")?, policy, false)
            }
        }
    })?;
    match implementation {
        Implementation::Ours => config.modules(xtask::modules::ensure),
        _ => Ok(config),
    }
}

/// Of the two that have the same fields.
fn set_numbers(value: &mut Value, policy: Policy, names_most_clients: bool) -> anyhow::Result<()> {
    let buckets = [
        ("/token_bucket", policy.together),
        ("/descriptors/0/token_bucket", policy.client),
        ("/descriptors/1/token_bucket", policy.login),
    ];
    for (place, (max, filled, seconds)) in buckets {
        *value.pointer_mut(place).with_context(|| format!("no {place}"))? =
            json!({ "max_tokens": max, "tokens_per_fill": filled, "fill_interval": format!("{seconds}s") });
    }
    const MOST: &str = "max_dynamic_descriptors";
    let value = value.as_object_mut().context("no object")?;
    ensure!(value.contains_key(MOST) == names_most_clients, "{MOST}");
    match policy.most_clients {
        MostClients::AsShipped => {}
        MostClients::Unsaid => drop(value.remove(MOST)),
        MostClients::This(most) => drop(value.insert(MOST.to_owned(), most.into())),
    }
    Ok(())
}

fn set_lines(filter: &mut Value, policy: Policy) -> anyhow::Result<()> {
    let code = filter.pointer_mut("/default_source_code/inline_string").context("no code")?;
    let mut lines: Vec<String> =
        code.as_str().context("code is no text")?.lines().map(str::to_owned).collect();
    let limit = |(max, filled, seconds): Bucket, by_client: bool| {
        format!("limit({max}, {filled}, {seconds}, {by_client})")
    };
    let mut new = vec![
        ("TOGETHER", limit(policy.together, false)),
        ("CLIENT", limit(policy.client, true)),
        ("LOGIN", limit(policy.login, true)),
    ];
    if let MostClients::This(most) = policy.most_clients {
        new.push(("MOST_CLIENTS", most.to_string()));
    }
    for (name, value) in new {
        let start = format!("local {name} = ");
        let line = lines.iter_mut().find(|line| line.starts_with(&start));
        *line.with_context(|| format!("no line {start:?}"))? = format!("{start}{value}");
    }
    *code = lines.join("\n").into();
    Ok(())
}
