//! Sessions that are decoded together: who is in the batch at which step.
//!
//! A session has rounds: its prompt grows, then it decodes so many tokens, then
//! it waits for its user. Whoever is ready stands in line; a step takes as many
//! from the front as the largest bucket holds. Nothing of it depends on what the
//! model says, so every arm runs the same batches, with the same padding.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};

use super::config::Config;
use super::decoder::{Chosen, Decoder};
use super::error::Error;
use super::inputs::Row;
use super::pages::{Pages, Sequence};

/// What the sessions do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Sessions.
    pub sessions: u32,
    /// Rounds of each.
    pub rounds: u32,
    /// Tokens decoded in a round.
    pub steps: u32,
    /// The shortest and the longest growth of a prompt in a round.
    pub prompt: (u32, u32),
    /// Decides prompts and pauses.
    pub seed: u64,
}

/// One session as it will go, whatever the model says.
#[derive(Clone, Debug)]
struct Script {
    /// How much the prompt grows in each round.
    growth: Vec<u32>,
    /// Steps of others before each round.
    pause: Vec<u32>,
}

/// A session in progress.
struct Session {
    script: Script,
    sequence: Sequence,
    token: i32,
    round: usize,
    left: u32,
    digests: Vec<u64>,
    digest: DefaultHasher,
}

/// What a run of all sessions came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    /// For each session and round, a digest of its tokens and of the bits of its
    /// hidden states.
    pub digests: Vec<Vec<u64>>,
    /// Steps that were made.
    pub steps: u64,
    /// Tokens that were decoded.
    pub tokens: u64,
}

impl Transcript {
    /// Sessions that differ from those of a reference in any round.
    pub fn wrong_sessions(&self, reference: &Self) -> usize {
        self.digests
            .iter()
            .zip(&reference.digests)
            .filter(|(ours, theirs)| ours != theirs)
            .count()
    }
}

impl Load {
    /// The longest context that a session comes to.
    pub fn longest(&self) -> u32 {
        self.rounds * (self.prompt.1 + self.steps)
    }

    fn scripts(&self) -> Vec<Script> {
        let mut random = StdRng::seed_from_u64(self.seed);
        let (least, most) = self.prompt;
        (0..self.sessions)
            .map(|_| Script {
                growth: (0..self.rounds)
                    .map(|_| random.random_range(least..=most))
                    .collect(),
                pause: (0..self.rounds)
                    .map(|round| {
                        let longest = if round == 0 {
                            self.sessions
                        } else {
                            self.steps
                        };
                        random.random_range(0..=longest)
                    })
                    .collect(),
            })
            .collect()
    }

    /// Runs all sessions to their end, each step's tokens going into the next.
    /// `done` hears of every step.
    ///
    /// # Errors
    /// When the caches are too small for the load, or a step fails.
    pub fn run(
        &self,
        decoder: &mut Decoder<'_>,
        mut pages: Pages,
        mut done: impl FnMut(u64),
    ) -> Result<Transcript, Error> {
        let config = decoder.engine().setup().config;
        let most = decoder.engine().largest_batch();
        let mut sessions = self
            .scripts()
            .into_iter()
            .enumerate()
            .map(|(number, script)| Session::new(&mut pages, &config, number, script))
            .collect::<Result<Vec<_>, _>>()?;
        // Who comes back at which step, and who is ready.
        let mut pausing: Vec<(u64, usize)> = (sessions.iter().enumerate())
            .map(|(number, session)| (u64::from(session.script.pause[0]), number))
            .collect();
        let mut ready: VecDeque<usize> = VecDeque::new();
        let mut transcript = Transcript {
            digests: Vec::new(),
            steps: 0,
            tokens: 0,
        };
        let mut now = 0;
        while !(pausing.is_empty() && ready.is_empty()) {
            pausing.sort_unstable();
            while pausing.first().is_some_and(|&(when, _)| when <= now) {
                let (_, number) = pausing.remove(0);
                sessions[number].begin_round(&mut pages, self.steps)?;
                ready.push_back(number);
            }
            now += 1;
            let batch: Vec<usize> = ready.drain(..ready.len().min(most as usize)).collect();
            if batch.is_empty() {
                continue;
            }
            for &number in &batch {
                sessions[number].take_token(&mut pages)?;
            }
            let rows: Vec<Row<'_>> = batch.iter().map(|&number| sessions[number].row()).collect();
            decoder.step(&rows)?;
            let chosen = decoder.chosen(batch.len())?;
            transcript.steps += 1;
            transcript.tokens += batch.len() as u64;
            done(transcript.steps);
            for (row, &number) in batch.iter().enumerate() {
                let session = &mut sessions[number];
                session.hear(&chosen, row);
                if session.left > 0 {
                    ready.push_back(number);
                } else if let Some(&pause) = session.script.pause.get(session.round) {
                    pausing.push((now + u64::from(pause), number));
                }
            }
        }
        for session in sessions {
            transcript.digests.push(session.digests);
            pages.end(session.sequence)?;
        }
        Ok(transcript)
    }
}

impl Session {
    fn new(
        pages: &mut Pages,
        config: &Config,
        number: usize,
        script: Script,
    ) -> Result<Self, Error> {
        Ok(Self {
            script,
            sequence: pages.begin()?,
            token: (number % config.vocabulary as usize) as i32,
            round: 0,
            left: 0,
            digests: Vec::new(),
            digest: DefaultHasher::new(),
        })
    }

    /// The prompt grows.
    fn begin_round(&mut self, pages: &mut Pages, steps: u32) -> Result<(), Error> {
        let tokens = self.sequence.tokens() + self.script.growth[self.round];
        pages.grow(&mut self.sequence, tokens)?;
        self.left = steps;
        Ok(())
    }

    /// Room for the token that the next step takes in.
    fn take_token(&mut self, pages: &mut Pages) -> Result<(), Error> {
        let tokens = self.sequence.tokens() + 1;
        Ok(pages.grow(&mut self.sequence, tokens)?)
    }

    fn row(&self) -> Row<'_> {
        Row {
            sequence: &self.sequence,
            token: self.token,
        }
    }

    /// What the step said of this session.
    fn hear(&mut self, chosen: &Chosen, row: usize) {
        self.token = chosen.tokens[row];
        self.token.hash(&mut self.digest);
        chosen.hidden[row].hash(&mut self.digest);
        self.left -= 1;
        if self.left == 0 {
            self.digests.push(self.digest.finish());
            self.round += 1;
        }
    }
}
