//! Makes of a compiled filter the module that Envoy loads.
//!
//! Envoy enters the VM for every callback that a module exports, and the SDK exports all of them. So:
//! 1. Kept are the exports that every module needs ([`ALWAYS_KEPT`], the allocator, the ABI version) and
//!    those that the filter names in the custom section [`SECTION`].
//! 2. All other exports go, then all code that nothing reaches any more.
//! 3. All custom sections go: names, producers, and the list itself.
//! 4. A module that Envoy would refuse is an error here, where the message can say why.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use walrus::{Module, ModuleConfig};

/// The custom section that names the callbacks of a filter: ASCII, export names separated by commas.
/// An empty name is nothing, so that sections which a linker joins may each end with a comma.
pub const SECTION: &str = "foregate.callbacks";

/// Kept in every module that has them: its memory, its start-up, and what gives a filter its contexts
/// and its configuration.
pub const ALWAYS_KEPT: [&str; 6] = [
    "memory",
    "_initialize",
    "proxy_on_context_create",
    "proxy_on_delete",
    "proxy_on_vm_start",
    "proxy_on_configure",
];

/// The two names under which a module may offer its allocator to the host. One is needed.
const ALLOCATORS: [&str; 2] = ["malloc", "proxy_on_memory_allocate"];
/// Start of the export that tells the host which version of the ABI the module speaks.
const ABI_VERSION: &str = "proxy_abi_version_";

/// A module ready for Envoy.
pub struct Pruned {
    /// The module.
    pub bytes: Vec<u8>,
    /// The names that it exports, in the module's order.
    pub exports: Vec<String>,
}

/// Prunes a compiled module. Fails if it does not list its callbacks, lists one that it does not export,
/// or could not be loaded by Envoy.
pub fn prune(wasm: &[u8]) -> Result<Pruned> {
    let mut module = ModuleConfig::new()
        .generate_name_section(false)
        .generate_producers_section(false)
        .parse(wasm)
        .context("not a valid wasm module")?;
    let callbacks = callbacks(&mut module)?;
    keep_exports(&mut module, &callbacks)?;
    walrus::passes::gc::run(&mut module);
    check_imports(&module)?;
    let sections: Vec<_> = module.customs.iter().map(|(id, _)| id).collect();
    for section in sections {
        module.customs.delete(section);
    }
    let exports = module.exports.iter().map(|export| export.name.clone()).collect();
    Ok(Pruned { bytes: module.emit_wasm(), exports })
}

/// Takes the names of the filter's callbacks from the custom section.
fn callbacks(module: &mut Module) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut sections = 0;
    while let Some(section) = module.customs.remove_raw(SECTION) {
        sections += 1;
        let text = std::str::from_utf8(&section.data).ok().filter(|text| text.is_ascii());
        let text = text.with_context(|| {
            format!("the custom section {SECTION:?} is not ASCII text: it must hold export names and commas")
        })?;
        names.extend(text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(String::from));
    }
    ensure!(
        sections > 0,
        "the module has no custom section {SECTION:?}, so it is unknown which callbacks it needs: \
         declare the filter through filter-host, which writes it"
    );
    Ok(names)
}

fn keep_exports(module: &mut Module, callbacks: &BTreeSet<String>) -> Result<()> {
    let present: BTreeSet<&str> = module.exports.iter().map(|export| export.name.as_str()).collect();
    let missing: Vec<&str> =
        callbacks.iter().map(String::as_str).filter(|name| !present.contains(name)).collect();
    ensure!(
        missing.is_empty(),
        "the custom section {SECTION:?} names callbacks that the module does not export: {missing:?}; \
         it exports {present:?}"
    );
    ensure!(present.contains("memory"), "the module does not export its \"memory\", which Envoy needs");
    ensure!(
        ALLOCATORS.iter().any(|name| present.contains(name)),
        "the module exports none of {ALLOCATORS:?}, one of which Envoy needs"
    );
    ensure!(
        present.iter().any(|name| name.starts_with(ABI_VERSION)),
        "the module exports no {ABI_VERSION:?} with a version, without which Envoy refuses it: \
         is the crate's feature \"module\" on?"
    );
    let superfluous: Vec<_> = module
        .exports
        .iter()
        .filter(|export| {
            let name = export.name.as_str();
            !(ALWAYS_KEPT.contains(&name)
                || ALLOCATORS.contains(&name)
                || name.starts_with(ABI_VERSION)
                || callbacks.contains(name))
        })
        .map(|export| export.id())
        .collect();
    for export in superfluous {
        module.exports.delete(export);
    }
    Ok(())
}

/// Envoy refuses a module with an import that it does not provide.
fn check_imports(module: &Module) -> Result<()> {
    let foreign: Vec<String> = module
        .imports
        .iter()
        .filter(|import| match import.module.as_str() {
            "env" => !import.name.starts_with("proxy_"),
            "wasi_snapshot_preview1" | "wasi_unstable" => false,
            _ => true,
        })
        .map(|import| format!("{}.{}", import.module, import.name))
        .collect();
    if foreign.is_empty() {
        return Ok(());
    }
    let remedy = if foreign.iter().any(|import| import.starts_with("__wbindgen")) {
        "a dependency pulled in wasm-bindgen; look for a `js` feature of getrandom \
         (`cargo tree --target wasm32-wasip1 -i wasm-bindgen` tells which crate it is)"
    } else {
        "a dependency calls functions of another host; find the crate that declares them and do without it"
    };
    bail!("the module imports what Envoy does not provide: {}; {remedy}", foreign.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use walrus::{FunctionBuilder, RawCustomSection};

    /// A module with those exports, each a function that calls one host function of its own.
    fn module(section: Option<&str>, exports: &[&str], imports: &[(&str, &str)]) -> Vec<u8> {
        let mut module = Module::default();
        let kind = module.types.add(&[], &[]);
        let mut body = FunctionBuilder::new(&mut module.types, &[], &[]);
        for (from, name) in imports {
            let (function, _) = module.add_import_func(from, name, kind);
            body.func_body().call(function);
        }
        let body = body.finish(vec![], &mut module.funcs);
        for name in exports {
            if *name == "memory" {
                let memory = module.memories.add_local(false, false, 1, None, None);
                module.exports.add("memory", memory);
            } else if imports.is_empty() {
                let own = FunctionBuilder::new(&mut module.types, &[], &[]).finish(vec![], &mut module.funcs);
                module.exports.add(name, own);
            } else {
                module.exports.add(name, body);
            }
        }
        if let Some(text) = section {
            module.customs.add(RawCustomSection { name: SECTION.into(), data: text.as_bytes().to_vec() });
        }
        module.customs.add(RawCustomSection { name: "target_features".into(), data: vec![0] });
        module.emit_wasm()
    }

    const FULL: [&str; 12] = [
        "memory",
        "_initialize",
        "proxy_abi_version_0_2_1",
        "proxy_on_memory_allocate",
        "proxy_on_context_create",
        "proxy_on_delete",
        "proxy_on_vm_start",
        "proxy_on_configure",
        "proxy_on_request_headers",
        "proxy_on_tick",
        "proxy_on_log",
        "__data_end",
    ];

    fn error(section: Option<&str>, exports: &[&str], imports: &[(&str, &str)]) -> String {
        format!("{:#}", prune(&module(section, exports, imports)).err().unwrap())
    }

    #[test]
    fn keeps_what_every_module_needs_and_what_the_section_names() {
        for (section, also) in [
            ("", &[][..]),
            ("proxy_on_tick", &["proxy_on_tick"][..]),
            ("proxy_on_request_headers,proxy_on_log", &["proxy_on_request_headers", "proxy_on_log"][..]),
            (" proxy_on_tick ,\nproxy_on_log,", &["proxy_on_tick", "proxy_on_log"][..]),
        ] {
            let pruned = prune(&module(Some(section), &FULL, &[])).unwrap();
            let mut expected = FULL[..8].to_vec();
            expected.extend(also);
            assert_eq!(pruned.exports, expected, "{section:?}");
            let again = Module::from_buffer(&pruned.bytes).unwrap();
            assert_eq!(again.exports.iter().count(), expected.len());
            assert_eq!(again.funcs.iter().count(), expected.len() - 1, "dead functions are gone");
            assert_eq!(again.customs.iter().count(), 0, "custom sections are gone");
        }
    }

    #[test]
    fn gives_the_same_bytes_each_time() {
        let wasm = module(Some("proxy_on_tick"), &FULL, &[]);
        assert_eq!(prune(&wasm).unwrap().bytes, prune(&wasm).unwrap().bytes);
    }

    #[test]
    fn refuses_a_module_without_the_section() {
        assert_eq!(
            error(None, &FULL, &[]),
            "the module has no custom section \"foregate.callbacks\", so it is unknown which callbacks it \
             needs: declare the filter through filter-host, which writes it"
        );
    }

    #[test]
    fn names_a_callback_that_does_not_exist() {
        let message = error(Some("proxy_on_tick,proxy_on_tock"), &FULL, &[]);
        assert!(message.contains("names callbacks that the module does not export: [\"proxy_on_tock\"]"));
        assert!(message.contains("\"proxy_on_tick\""), "says what there is: {message}");
    }

    #[test]
    fn refuses_a_module_that_lacks_what_envoy_needs() {
        for (missing, message) in [
            ("memory", "does not export its \"memory\""),
            ("proxy_on_memory_allocate", "exports none of [\"malloc\", \"proxy_on_memory_allocate\"]"),
            ("proxy_abi_version_0_2_1", "exports no \"proxy_abi_version_\" with a version"),
        ] {
            let exports: Vec<&str> = FULL.into_iter().filter(|name| *name != missing).collect();
            let said = error(Some(""), &exports, &[]);
            assert!(said.contains(message), "{said}");
        }
    }

    #[test]
    fn takes_either_allocator() {
        let exports = FULL.map(|name| if name == "proxy_on_memory_allocate" { "malloc" } else { name });
        assert!(prune(&module(Some(""), &exports, &[])).unwrap().exports.contains(&"malloc".to_string()));
    }

    #[test]
    fn takes_the_imports_that_envoy_provides() {
        for import in
            [("env", "proxy_log"), ("wasi_snapshot_preview1", "fd_write"), ("wasi_unstable", "random_get")]
        {
            prune(&module(Some(""), &FULL, &[import])).unwrap();
        }
    }

    #[test]
    fn names_every_import_that_envoy_lacks_and_the_remedy() {
        assert_eq!(
            error(Some(""), &FULL, &[("env", "proxy_log"), ("env", "now"), ("other", "proxy_x")]),
            "the module imports what Envoy does not provide: env.now, other.proxy_x; a dependency calls \
             functions of another host; find the crate that declares them and do without it"
        );
        let message = error(Some(""), &FULL, &[("__wbindgen_placeholder__", "__wbindgen_describe")]);
        assert!(
            message.contains(
                ": __wbindgen_placeholder__.__wbindgen_describe; a dependency pulled in wasm-bindgen"
            )
        );
        assert!(message.contains("look for a `js` feature of getrandom"));
    }

    #[test]
    fn an_import_that_only_dead_code_calls_does_no_harm() {
        let mut module = Module::from_buffer(&module(Some(""), &FULL, &[])).unwrap();
        let kind = module.types.add(&[], &[]);
        let (function, _) = module.add_import_func("elsewhere", "f", kind);
        module.exports.add("dead", function);
        assert_eq!(
            Module::from_buffer(&prune(&module.emit_wasm()).unwrap().bytes).unwrap().imports.iter().count(),
            0
        );
    }

    #[test]
    fn refuses_what_is_no_module() {
        assert!(format!("{:#}", prune(b"\0asm").err().unwrap()).starts_with("not a valid wasm module: "));
    }
}
