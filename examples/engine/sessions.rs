//! Sessions: who has which pages, and who goes through the model next.

use std::collections::VecDeque;

use super::Failure;
use super::engine::{Engine, Row};
use super::kernels::PAGE;

struct Session {
    number: usize,
    /// The prompt, and what was generated.
    tokens: Vec<u32>,
    prompt: usize,
    pages: Vec<u32>,
}

impl Session {
    fn row(&self, position: usize) -> Row<'_> {
        Row {
            id: self.tokens[position],
            position: position as u32,
            pages: &self.pages,
        }
    }
}

/// Generates `count` tokens for each prompt, with as many sessions at once as there are
/// pages for.
pub fn generate(
    engine: &mut Engine,
    prompts: &[Vec<u32>],
    count: usize,
) -> Result<Vec<Vec<u32>>, Failure> {
    // Page 0 is where rows write that nobody asked for.
    let mut free: Vec<u32> = (1..engine.cache_pages()).rev().collect();
    let mut waiting: VecDeque<usize> = (0..prompts.len()).collect();
    let mut active: Vec<Session> = Vec::new();
    let mut done = vec![Vec::new(); prompts.len()];
    while !(waiting.is_empty() && active.is_empty()) {
        while let Some(&number) = waiting.front() {
            let prompt = &prompts[number];
            let needs = (prompt.len() + count).div_ceil(PAGE as usize);
            if needs > free.len() {
                break;
            }
            waiting.pop_front();
            let mut session = Session {
                number,
                tokens: prompt.clone(),
                prompt: prompt.len(),
                pages: free.split_off(free.len() - needs),
            };
            // The prompt goes through as one step: a bucket, or an eager run.
            let mut last = None;
            let all: Vec<usize> = (0..prompt.len()).collect();
            for part in all.chunks(engine.most_rows() as usize) {
                let rows: Vec<Row<'_>> = part.iter().map(|&at| session.row(at)).collect();
                last = engine.step(&rows)?.last().copied();
            }
            session.tokens.push(last.ok_or("an empty prompt")?);
            active.push(session);
        }
        if active.is_empty() {
            return Err("no session fits the cache".into());
        }
        for batch in active.chunks_mut(engine.largest() as usize) {
            let rows: Vec<Row<'_>> = (batch.iter())
                .map(|session| session.row(session.tokens.len() - 1))
                .collect();
            let next = engine.step(&rows)?;
            for (session, token) in batch.iter_mut().zip(next) {
                session.tokens.push(token);
            }
        }
        let ends = |session: &mut Session| session.tokens.len() >= session.prompt + count;
        for mut session in active.extract_if(.., ends) {
            free.append(&mut session.pages);
            session.tokens.truncate(session.prompt + count);
            done[session.number] = session.tokens.split_off(session.prompt);
        }
    }
    Ok(done)
}
