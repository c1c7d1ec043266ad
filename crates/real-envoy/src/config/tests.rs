//! Tests of the rewrites, on a configuration with the traits of the shipped ones.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::Config;

/// As the shipped files are: literal ports, anchors, multi-line strings, relative module paths.
const GATEWAY: &str = r#"
admin:
  address: &admin_address
    socket_address: {address: 0.0.0.0, port_value: 9901}
static_resources:
  listeners:
  - name: ingress
    address:
      socket_address: {address: 0.0.0.0, port_value: 10000}
    additional_addresses:
    - address: *admin_address
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          access_log:
          - name: sampled_log
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.wasm.v3.WasmAccessLog
              config:
                name: log_plugin
                vm_config: &vm
                  vm_id: one
                  code: {local: {filename: dist/jwt_reject.wasm}}
          http_filters:
          - name: jwt_reject
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
              config:
                name: plugin
                vm_config: *vm
                configuration:
                  "@type": type.googleapis.com/google.protobuf.Struct
                  value: {rules: []}
          - name: text
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
              config:
                vm_config: {code: {local: {filename: other/dir/header_rewrite.wasm}}}
                configuration:
                  "@type": type.googleapis.com/google.protobuf.StringValue
                  value: |
                    {"a":
                      1}
          - name: script
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
              default_source_code: {filename: x.lua, local: {filename: x.lua}}
  clusters:
  - name: api
    load_assignment:
      cluster_name: api
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: api.internal, port_value: 80}}}
        - endpoint: {address: {pipe: {path: /tmp/x}}}
  - name: empty
"#;

const FILTERS: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";

fn gateway() -> Config {
    Config::parse(GATEWAY).unwrap()
}

fn at<'a>(config: &'a Config, pointer: &str) -> &'a Value {
    config.value().pointer(pointer).unwrap()
}

fn message(outcome: anyhow::Result<Config>) -> String {
    format!("{:#}", outcome.unwrap_err())
}

#[test]
fn scalars_mean_what_they_mean_to_envoy() {
    for (yaml, expected) in [
        ("a: 100", json!(100)),
        ("a: 0x10", json!(16)),
        ("a: -5", json!(-5)),
        ("a: 1.5", json!(1.5)),
        ("a: 1e3", json!(1000.0)),
        ("a: 18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
        ("a: 5s", json!("5s")),
        ("a: 0.25s", json!("0.25s")),
        ("a: \"100\"", json!("100")),
        ("a: '0x10'", json!("0x10")),
        ("a: \"true\"", json!("true")),
        ("a: true", json!(true)),
        ("a: on", json!(true)),
        ("a: No", json!(false)),
        ("a: ~", json!(null)),
        ("a: 12:30", json!("12:30")),
        ("a: 2024-01-01", json!("2024-01-01")),
        ("a: 1.40.0", json!("1.40.0")),
        ("a: \"%REQ(:path)%\\n\"", json!("%REQ(:path)%\n")),
        ("a: |\n  one\n    two\n\n  three\n", json!("one\n  two\n\nthree\n")),
        ("a: |-\n  one\n  two\n", json!("one\ntwo")),
        ("a: >-\n  one\n  two\n", json!("one two")),
        ("b: &x {c: [1, 2]}\na: *x", json!({"c": [1, 2]})),
        ("{\"a\": {\"b\": \"\\u00e9\"}}", json!({"b": "\u{e9}"})),
    ] {
        assert_eq!(at(&Config::parse(yaml).unwrap(), "/a"), &expected, "{yaml}");
    }
}

#[test]
fn refuses_yaml_that_envoy_reads_otherwise() {
    for yaml in ["a: &x {b: 1}\nc: {<<: *x}", "a: 1\na: 2", "- a", "", "a: [", "a: 1\n---\na: 2"] {
        assert!(Config::parse(yaml).is_err(), "{yaml}");
    }
}

#[test]
fn on_free_ports_moves_listeners_and_admin() {
    let config = gateway().on_free_ports().unwrap();
    let free = json!({"socket_address": {"address": "127.0.0.1", "port_value": 0}});
    assert_eq!(at(&config, "/admin/address"), &free);
    assert_eq!(at(&config, "/static_resources/listeners/0/address"), &free);
    assert_eq!(at(&config, "/static_resources/listeners/0/additional_addresses/0/address"), &free);
    assert_eq!(message(Config::parse("admin: {}").unwrap().on_free_ports()), "there are no static listeners");
}

#[test]
fn single_ports() {
    let config = gateway().listener_port(10001).unwrap().admin_port(9902).unwrap();
    let listener = at(&config, "/static_resources/listeners/0/address/socket_address");
    assert_eq!(listener, &json!({"address": "0.0.0.0", "port_value": 10001}));
    let admin = at(&config, "/admin/address/socket_address");
    assert_eq!(admin, &json!({"address": "127.0.0.1", "port_value": 9902}));
    let two = Config::parse("static_resources: {listeners: [{name: a}, {name: b}]}").unwrap();
    assert_eq!(message(two.listener_port(1)), "there are several static listeners");
    let pipe = Config::parse("static_resources: {listeners: [{address: {pipe: {path: x}}}]}").unwrap();
    assert_eq!(message(pipe.listener_port(1)), "the listener has no port");
}

#[test]
fn upstream_moves_every_endpoint_of_one_cluster() {
    let config = gateway().upstream("api", "127.0.0.1:4000".parse().unwrap()).unwrap();
    let endpoints = at(&config, "/static_resources/clusters/0/load_assignment/endpoints/0/lb_endpoints");
    let moved =
        json!({"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 4000}}}});
    assert_eq!(endpoints, &json!([moved, moved]));
    let address = "127.0.0.1:4000".parse().unwrap();
    assert_eq!(message(gateway().upstream("other", address)), "there is no static cluster \"other\"");
    assert_eq!(message(gateway().upstream("empty", address)), "cluster \"empty\" has no endpoints");
}

#[test]
fn modules_are_resolved_once_by_name() {
    let mut asked = Vec::new();
    let config = gateway().modules(|name| {
        asked.push(name.to_owned());
        Ok(PathBuf::from(format!("/modules/{name}.wasm")))
    });
    let config = config.unwrap();
    assert_eq!(asked, ["jwt_reject", "header_rewrite"]);
    let text = config.value().to_string();
    assert_eq!(text.matches("\"/modules/jwt_reject.wasm\"").count(), 2);
    assert_eq!(text.matches("\"/modules/header_rewrite.wasm\"").count(), 1);
    assert_eq!(text.matches("\"x.lua\"").count(), 2, "other files stay");

    let none = Config::parse("a: {local: {filename: x.lua}}").unwrap();
    assert_eq!(
        message(none.modules(|_| Ok(PathBuf::new()))),
        "there is no local.filename that ends in .wasm"
    );
    let failing = gateway().modules(|_| anyhow::bail!("it does not build"));
    assert_eq!(message(failing), "no module for \"dist/jwt_reject.wasm\": it does not build");
}

#[test]
fn plugin_configuration_keeps_its_kind() {
    let new = json!({"a": [1, "x"]});
    let as_struct = json!({"@type": "type.googleapis.com/google.protobuf.Struct", "value": new});
    let as_string =
        json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": "{\"a\":[1,\"x\"]}"});
    let http = format!("{FILTERS}/0/typed_config/config/configuration");
    let text = format!("{FILTERS}/1/typed_config/config/configuration");
    let log = FILTERS.replace("http_filters", "access_log/0/typed_config/config/configuration");
    for (name, pointer, expected) in [
        ("jwt_reject", &http, &as_struct),
        ("plugin", &http, &as_struct),
        ("text", &text, &as_string),
        ("sampled_log", &log, &as_struct),
        ("log_plugin", &log, &as_struct),
    ] {
        let config = gateway().plugin_configuration(name, &new).unwrap();
        assert_eq!(at(&config, pointer), expected, "{name}");
    }
    let broken = gateway().plugin_configuration("text", &json!("{not json")).unwrap();
    assert_eq!(at(&broken, &format!("{text}/value")), "{not json");
    assert_eq!(message(gateway().plugin_configuration("script", &new)), "there is no Wasm plugin \"script\"");
}

#[test]
fn edit_fails_with_its_closure() {
    let config = gateway().edit(|value| {
        value["node"] = json!({"id": "x"});
        Ok(())
    });
    assert_eq!(at(&config.unwrap(), "/node/id"), "x");
    assert_eq!(message(gateway().edit(|_| anyhow::bail!("nothing there"))), "nothing there");
}

#[test]
fn a_missing_file_is_named() {
    assert!(message(Config::load("envoy-configs/no-such.yaml")).contains("envoy-configs/no-such.yaml"));
}
