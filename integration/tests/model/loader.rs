//! Checkpoints as they are on the hub, and what is refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use streamweir_integration::dsv4::LayerKind::{C4, C128, Window};
use streamweir_integration::dsv4::checkpoint::{
    Checkpoint, CheckpointError, ConfigError, Dtype, ExpertFormat, FormatName, ModelConfig, Part,
    Progress, Routing, Shards, Source, Stored, TensorFault, Weights,
};
use streamweir_integration::dsv4::plain::PlainModel;
use tempfile::TempDir;

use crate::generator::{BASE, FLASH, Generator};
use crate::goldens::{Goldens, folder};

/// A checkpoint in memory, to be changed and written.
struct Files {
    config: Value,
    tensors: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>,
}

impl Files {
    /// The one that Python wrote.
    fn flash() -> Self {
        let folder = folder().join("models/flash");
        let mut tensors = BTreeMap::new();
        for shard in ["model-00001-of-00002", "model-00002-of-00002"] {
            let bytes = fs::read(folder.join(format!("{shard}.safetensors"))).unwrap();
            for (name, tensor) in SafeTensors::deserialize(&bytes).unwrap().iter() {
                let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
                tensors.insert(name.to_owned(), (dtype, shape, tensor.data().to_vec()));
            }
        }
        let config = serde_json::from_str(FLASH.config).unwrap();
        Self { config, tensors }
    }

    /// One file, without a list.
    fn write(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), self.config.to_string()).unwrap();
        write_shard(
            &folder.path().join("model.safetensors"),
            self.tensors.iter(),
        );
        folder
    }

    fn faults(&self) -> Vec<TensorFault> {
        match Checkpoint::open(self.write().path(), |_| {}).unwrap_err() {
            CheckpointError::Tensors { faults } => faults,
            other => panic!("{other}"),
        }
    }
}

type Named<'a> = (&'a String, &'a (Dtype, Vec<usize>, Vec<u8>));

fn write_shard<'a>(path: &Path, tensors: impl Iterator<Item = Named<'a>>) {
    let views = tensors.map(|(name, (dtype, shape, bytes))| {
        (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// Python's files give the same model as the generator, to the logits.
#[test]
fn the_checkpoint_that_python_wrote_is_opened() {
    let mut progress = Vec::new();
    let folder = folder().join("models/flash");
    let checkpoint = Checkpoint::open(&folder, |step| progress.push(step)).unwrap();
    assert_eq!(
        checkpoint.left_out, 1,
        "the tensor of multi-token prediction"
    );
    assert_eq!(
        progress[..2],
        [1, 2].map(|done| Progress::Shards { done, of: 2 })
    );
    let Some(&Progress::Tensors { done, of }) = progress.last() else {
        panic!("no tensors");
    };
    assert_eq!(done + checkpoint.left_out, of);

    let weights = &checkpoint.weights;
    let layer = &weights.layers()[1];
    assert!(matches!(layer.attention.q_b.stored(), Stored::E4m3(_)));
    assert!(matches!(
        layer.feed_forward.experts[0].up.stored(),
        Stored::E2m1(_)
    ));
    assert!(matches!(
        layer.feed_forward.shared.up.stored(),
        Stored::E4m3(_)
    ));
    let compressor = layer.attention.compressor.as_ref().unwrap();
    assert!(matches!(compressor.kv.stored(), Stored::Bf16));
    assert!(matches!(
        layer.attention_hyper.function.stored(),
        Stored::F32
    ));

    let shares = weights.inventory();
    let of = |part| shares.iter().find(|share| share.part == part).unwrap();
    // Three matrices of 16 experts in four layers, half a byte a weight and one for 32.
    let (experts, router) = (4 * 16 * 3 * 32 * 64, 4 * 16 * 64);
    assert_eq!(of(Part::RoutedExperts).weights, experts + router);
    let bytes = experts / 2 + experts / 32 + 2 * router;
    assert_eq!(of(Part::RoutedExperts).bytes, bytes);
    let formats = [FormatName::Bf16, FormatName::E2m1];
    assert_eq!(of(Part::RoutedExperts).formats, formats.into());
    assert_eq!(of(Part::Compressors).weights, 2 * 64 * (1024 + 512 + 1024));
    let indexer = 2 * 64 * 256 + 2048 * 32 + 16 * 64;
    assert_eq!(of(Part::Indexers).weights, 2 * indexer);

    let model = PlainModel::new(weights);
    let states = model
        .extend(&mut model.begin(), &FLASH.prompt(129))
        .unwrap();
    let off = Goldens::of(FLASH).logits_off(129, &states.logits());
    assert!(off <= 1e-4, "{off}");
}

/// The generators of both languages make the same bytes.
#[test]
fn generated_tensors_are_those_that_python_wrote() {
    let files = Files::flash();
    let mut generator = Generator::new(FLASH.seed, &files.config, |name, tensor| {
        // Whatever the model asks for is compared.
        let folder = folder().join("models/flash");
        let mut shards = Shards::open(&folder, |_, _| {}).unwrap();
        let written = shards.tensor(name, &tensor.shape, &[tensor.dtype]).unwrap();
        assert_eq!(written.dtype, tensor.dtype, "{name}");
        assert_eq!(written.shape, tensor.shape, "{name}");
        assert!(*written.bytes == *tensor.bytes, "{name}");
    });
    let config = ModelConfig::parse(FLASH.config).unwrap();
    let read = Weights::read(&config, &mut generator, || {});
    assert!(read.is_ok());
}

#[test]
fn all_that_is_wrong_is_one_list() {
    let mut files = Files::flash();
    assert!(Checkpoint::open(files.write().path(), |_| {}).is_ok());
    let tensors = &mut files.tensors;
    tensors.remove("layers.1.attn.indexer.wq_b.scale").unwrap();
    tensors.insert(
        "layers.4.attn_norm.weight".into(),
        (Dtype::BF16, vec![1], vec![0; 2]),
    );
    // A bias in a hash layer, and a scale of what has none.
    tensors.insert(
        "layers.0.ffn.gate.bias".into(),
        (Dtype::F32, vec![16], vec![0; 64]),
    );
    let scale = (Dtype::F8_E8M0, vec![8, 1], vec![127; 8]);
    tensors.insert("layers.1.attn.compressor.wkv.scale".into(), scale);
    tensors.get_mut("norm.weight").unwrap().1 = vec![8, 8];
    tensors.get_mut("layers.2.attn.wq_a.weight").unwrap().0 = Dtype::I8;
    let expert = tensors.get_mut("layers.0.ffn.gate.tid2eid").unwrap();
    expert.2[8..16].copy_from_slice(&16_i64.to_le_bytes());
    let faults = files.faults();
    let mut lines: Vec<String> = faults.iter().map(TensorFault::to_string).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "layers.0.ffn.gate.bias is in model.safetensors, and the model has no such tensor",
            "layers.0.ffn.gate.tid2eid has 16 for token 0, twice or not one of the layer's 16 experts",
            "layers.1.attn.compressor.wkv.scale is in model.safetensors, and the model has no such tensor",
            "layers.1.attn.indexer.wq_b.scale is missing",
            "layers.2.attn.wq_a.weight is I8; by the configuration it is F8_E4M3",
            "layers.4.attn_norm.weight is in model.safetensors, and the model has no such tensor",
            "norm.weight has the shape [8, 8]; by the configuration it is [64]",
        ]
    );
    let error = Checkpoint::open(files.write().path(), |_| {}).unwrap_err();
    assert_eq!(
        error.to_string().lines().count(),
        1 + lines.len(),
        "{error}"
    );
}

#[test]
fn what_transformers_saved_is_refused_by_name() {
    // The first is what version 5.24 writes.
    for name in [
        "model.layers.0.attn.wq_a.weight",
        "model.layers.0.self_attn.q_a_proj.weight",
        "lm_head.weight",
    ] {
        let mut files = Files::flash();
        let tensor = files.tensors["head.weight"].clone();
        files.tensors.insert(name.to_owned(), tensor);
        let error = Checkpoint::open(files.write().path(), |_| {}).unwrap_err();
        let CheckpointError::SavedByTransformers { name: found, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(found, name);
    }
}

#[test]
fn blocks_that_do_not_cover_a_weight_are_refused() {
    let mut config: Value = serde_json::from_str(BASE.config).unwrap();
    config["q_lora_rank"] = json!(192);
    let parsed = ModelConfig::parse(&config.to_string()).unwrap();
    let mut generator = Generator::new(BASE.seed, &config, |_, _| {});
    let read = Weights::read(&parsed, &mut generator, || {});
    let faults = read.unwrap_err();
    // wq_a and wq_b of four layers, and the indexer's.
    assert_eq!(faults.len(), 9);
    let first = "layers.0.attn.wq_a.weight is [192, 256] in e4m3: a size above 128 has to be a multiple of 128";
    assert_eq!(faults[0].to_string(), first);
}

#[test]
fn shards_and_their_list_have_to_agree() {
    let files = Files::flash();
    let folder = files.write();
    let path = |name: &str| folder.path().join(name);
    let split = |first: bool| {
        let tensors = files.tensors.iter().enumerate();
        tensors
            .filter(move |(i, _)| (i % 2 == 0) == first)
            .map(|(_, tensor)| tensor)
    };
    write_shard(&path("a.safetensors"), split(true));
    write_shard(&path("b.safetensors"), split(false));
    let list = |change: &dyn Fn(&mut BTreeMap<&str, &str>)| {
        let shard = |i| {
            if i % 2 == 0 {
                "a.safetensors"
            } else {
                "b.safetensors"
            }
        };
        let names = files.tensors.keys().enumerate();
        let mut map = names.map(|(i, name)| (name.as_str(), shard(i))).collect();
        change(&mut map);
        let json = json!({ "metadata": {}, "weight_map": map });
        fs::write(path("model.safetensors.index.json"), json.to_string()).unwrap();
        Checkpoint::open(folder.path(), |_| {})
    };
    assert!(list(&|_| {}).is_ok());

    let misplaced = list(&|map| *map.get_mut("norm.weight").unwrap() = "a.safetensors");
    let twice = || write_shard(&path("b.safetensors"), files.tensors.iter());
    let faults = |opened: Result<Checkpoint, CheckpointError>| match opened.unwrap_err() {
        CheckpointError::Tensors { faults } => faults,
        other => panic!("{other}"),
    };
    let norm = files.tensors.keys().position(|name| name == "norm.weight");
    if norm.unwrap() % 2 == 1 {
        let wrong = TensorFault::Misplaced {
            name: "norm.weight".to_owned(),
            shard: "a.safetensors".to_owned(),
        };
        assert_eq!(faults(misplaced), [wrong]);
    }
    twice();
    let found = faults(list(&|_| {}));
    let doubles = found
        .iter()
        .filter(|fault| matches!(fault, TensorFault::Twice { .. }));
    assert_eq!(doubles.count(), files.tensors.len().div_ceil(2));

    let outside = list(&|map| {
        map.insert("norm.weight", "../a.safetensors");
    });
    assert!(matches!(outside, Err(CheckpointError::ShardName { .. })));
    let absent = list(&|map| {
        map.insert("norm.weight", "c.safetensors");
    });
    assert!(matches!(absent, Err(CheckpointError::Io { .. })));
    fs::write(path("a.safetensors"), [7; 40]).unwrap();
    assert!(matches!(list(&|_| {}), Err(CheckpointError::Shard { .. })));
}

/// `compress_ratios` of the published models; the last entry is the MTP layer's.
#[test]
fn schedules_are_those_of_the_published_models() {
    let parse = |first: u32, layers: usize| {
        let mut config: Value = serde_json::from_str(FLASH.config).unwrap();
        let turns = (2..layers).map(|layer| if layer % 2 == 0 { 4 } else { 128 });
        let ratios: Vec<u32> = [first, first].into_iter().chain(turns).chain([0]).collect();
        config["compress_ratios"] = json!(ratios);
        config["num_hidden_layers"] = json!(layers);
        config["num_hash_layers"] = json!(3);
        ModelConfig::parse(&config.to_string()).unwrap()
    };
    for (config, expected) in [(parse(0, 43), [2, 21, 20]), (parse(128, 61), [0, 30, 31])] {
        let layers = &config.layers;
        let count = |kind| layers.iter().filter(|layer| layer.kind == kind).count();
        assert_eq!([Window, C4, C128].map(count), expected);
        let hashed = |layer: usize| layers[layer].routing == Routing::Hash;
        assert_eq!([0, 2, 3].map(hashed), [true, true, false]);
    }
}

#[test]
fn the_experts_format_may_stand_in_two_places() {
    let parse = |edit: fn(&mut Value)| {
        let mut config: Value = serde_json::from_str(FLASH.config).unwrap();
        edit(&mut config);
        ModelConfig::parse(&config.to_string()).map(|config| config.quantisation.unwrap().experts)
    };
    assert_eq!(parse(|_| {}).unwrap(), ExpertFormat::Fp4);
    let inside = parse(|config| {
        config["quantization_config"]["expert_dtype"] = config["expert_dtype"].take();
    });
    assert_eq!(inside.unwrap(), ExpertFormat::Fp4);
    let neither = parse(|config| config["expert_dtype"] = Value::Null);
    assert_eq!(neither.unwrap(), ExpertFormat::Fp8);
    let both = parse(|config| config["quantization_config"]["expert_dtype"] = json!("fp8"));
    assert!(
        both.unwrap_err()
            .to_string()
            .contains("expert_dtype is fp4")
    );
}

#[test]
fn a_configuration_without_a_model_is_refused_with_the_whole_list() {
    let mut config: Value = serde_json::from_str(FLASH.config).unwrap();
    config["scoring_func"] = json!("sigmoid");
    config["compress_ratios"][1] = json!(8);
    config["o_groups"] = json!(3);
    config["index_topk"] = json!(0);
    config["quantization_config"]["weight_block_size"] = json!([64, 64]);
    config["rope_scaling"]["type"] = json!("linear");
    let ConfigError::Refused(list) = ModelConfig::parse(&config.to_string()).unwrap_err() else {
        panic!("it is JSON");
    };
    let mut fields: Vec<&str> = list.iter().map(|refusal| refusal.field).collect();
    fields.sort_unstable();
    let expected = [
        "compress_ratios",
        "index_topk",
        "o_groups",
        "rope_scaling",
        "scoring_func",
        "weight_block_size",
    ];
    assert_eq!(fields, expected);
    config.as_object_mut().unwrap().remove("hidden_size");
    let error = ModelConfig::parse(&config.to_string())
        .unwrap_err()
        .to_string();
    assert!(error.contains("hidden_size"), "{error}");
}
