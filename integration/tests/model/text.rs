//! Text to tokens and back. A plain `cargo test` leaves this out, for the tokenizers
//! take longer to build than the rest of the crate: `--features tokenizers`.

use std::fs;

use serde_json::json;
use streamweir_integration::dsv4::checkpoint::{ModelConfig, Tokenizer, TokenizerError};

use crate::generator::FLASH;

#[test]
fn a_text_becomes_tokens_of_the_model_and_text_again() {
    let config = ModelConfig::parse(FLASH.config).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let open = |largest: u32| {
        let tokenizer = json!({
            "version": "1.0",
            "added_tokens": [{
                "id": 0, "content": "<begin>", "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true
            }],
            "pre_tokenizer": { "type": "WhitespaceSplit" },
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [
                    { "SpecialToken": { "id": "<begin>", "type_id": 0 } },
                    { "Sequence": { "id": "A", "type_id": 0 } }
                ],
                "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }],
                "special_tokens": {
                    "<begin>": { "id": "<begin>", "ids": [0], "tokens": ["<begin>"] }
                }
            },
            "model": {
                "type": "WordLevel",
                "vocab": { "<begin>": 0, "water": 7, "falls": 300, "?": largest },
                "unk_token": "?"
            }
        });
        fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
        Tokenizer::open(folder.path(), &config)
    };
    let tokenizer = open(319).unwrap();
    let tokens = tokenizer.encode("water falls up").unwrap();
    assert_eq!(tokens, [0, 7, 300, 319]);
    assert_eq!(tokenizer.decode(&tokens).unwrap(), "water falls ?");

    let error = open(320).unwrap_err();
    let TokenizerError::Vocabulary {
        largest,
        vocabulary,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((largest, vocabulary), (320, 320));
    fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    let absent = Tokenizer::open(folder.path(), &config).unwrap_err();
    assert!(matches!(absent, TokenizerError::Open { .. }));
}
