//! `streamweir checkpoint` as it is run.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn checkpoint(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_streamweir"));
    command.arg("checkpoint").args(arguments).output().unwrap()
}

/// The small checkpoint that the loader is tested on.
fn flash() -> String {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../integration/reference/models/flash");
    folder.to_str().unwrap().to_owned()
}

#[test]
fn a_whole_checkpoint_is_described() {
    let output = checkpoint(&[&flash(), "--json"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        output.stderr.is_empty(),
        "no bar where there is no terminal"
    );
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let layers = json!({ "window": 1, "c4": 2, "c128": 1, "hash": 2 });
    assert_eq!(found["layers"], layers);
    assert_eq!(found["left_out_tensors"], 1);
    let parts = found["parts"].as_array().unwrap();
    let sum = |field: &str| -> u64 { parts.iter().map(|part| part[field].as_u64().unwrap()).sum() };
    assert_eq!(
        [found["weights"].as_u64(), found["bytes"].as_u64()],
        ["weights", "bytes"].map(|f| Some(sum(f)))
    );
    let shared = parts
        .iter()
        .find(|part| part["part"] == "shared experts")
        .unwrap();
    assert_eq!(shared["formats"], json!(["e4m3"]));

    let output = checkpoint(&[&flash()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("4 layers: 1 window, 2 C4, 1 C128"), "{text}");
    assert!(text.contains("prediction left out: 1"), "{text}");
}

#[test]
fn what_is_wrong_is_listed_and_the_exit_code_says_of_what_kind() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().to_str().unwrap();
    let copy = |file: &str| {
        let from = Path::new(&flash()).join(file);
        fs::copy(from, folder.path().join(file)).unwrap();
    };
    let output = checkpoint(&[name]);
    assert_eq!(output.status.code(), Some(2), "nothing to read");
    copy("config.json");
    copy("model-00001-of-00002.safetensors");
    copy("model-00002-of-00002.safetensors");
    copy("model.safetensors.index.json");
    assert_eq!(checkpoint(&[name]).status.code(), Some(0));

    let config = folder.path().join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(
        &config,
        text.replace("\"hidden_size\": 64", "\"hidden_size\": 128"),
    )
    .unwrap();
    let output = checkpoint(&[name]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    for line in [
        "norm.weight has the shape [64]; by the configuration it is [128]",
        "layers.3.ffn.experts.15.w3.weight has the shape [32, 32]; by the configuration it is [32, 64]",
    ] {
        assert!(errors.contains(line), "{errors}");
    }
}
