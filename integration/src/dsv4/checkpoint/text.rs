//! Text to tokens and back, by the `tokenizer.json` of a checkpoint.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::config::ModelConfig;

const FILE: &str = "tokenizer.json";

/// The tokenizer of a model.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
}

/// A tokenizer that cannot be used, or a text that it cannot take.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// Its file cannot be read or understood.
    #[error("{}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: tokenizers::Error,
    },
    /// It is another model's: it has tokens that this one does not.
    #[error(
        "{} has token {largest}, and the model {vocabulary} tokens: it is another model's",
        path.display()
    )]
    Vocabulary {
        /// The file.
        path: PathBuf,
        /// Its largest token.
        largest: u32,
        /// Tokens of the model.
        vocabulary: usize,
    },
    /// A text, or tokens, that it does not take.
    #[error("the tokenizer: {0}")]
    Text(tokenizers::Error),
}

impl Tokenizer {
    /// The tokenizer in a checkpoint's folder.
    ///
    /// # Errors
    /// When the file cannot be read, or has tokens that the model does not have.
    pub fn open(folder: &Path, config: &ModelConfig) -> Result<Self, TokenizerError> {
        let path = folder.join(FILE);
        let inner = match tokenizers::Tokenizer::from_file(&path) {
            Ok(inner) => inner,
            Err(source) => return Err(TokenizerError::Open { path, source }),
        };
        let largest = inner.get_vocab(true).into_values().max().unwrap_or(0);
        if largest as usize >= config.vocabulary {
            return Err(TokenizerError::Vocabulary {
                path,
                largest,
                vocabulary: config.vocabulary,
            });
        }
        Ok(Self { inner })
    }

    /// The tokens of a text, with those that the tokenizer puts around every text.
    ///
    /// # Errors
    /// When it does not take the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let encoded = self.inner.encode(text, true);
        Ok(encoded.map_err(TokenizerError::Text)?.get_ids().to_vec())
    }

    /// The text of tokens, without those that stand for no text.
    ///
    /// # Errors
    /// When it does not take the tokens.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, TokenizerError> {
        self.inner
            .decode(tokens, true)
            .map_err(TokenizerError::Text)
    }
}
