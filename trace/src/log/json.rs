//! The file of an allocation log: one JSON object; docs/trace-format.md has an
//! example.

use std::collections::HashMap;
use std::collections::HashSet;

use serde::Deserialize;

use super::error::LogError;
use super::model::{
    ALLOC_LOG_FORMAT, AllocLog, LOG_ALIGNMENT, LogBuffer, LogEvent, MOST_BYTES, MOST_STREAMS,
};
use crate::id::{BufferId, StreamId};

#[derive(Deserialize)]
struct Head {
    format: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "format")]
    _format: String,
    streams: u64,
    #[serde(default)]
    origin: u64,
    events: Vec<Event>,
}

/// Any event; which one it is shows from the fields that are there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    join: Option<[u64; 2]>,
    alloc: Option<u64>,
    kernel: Option<u64>,
    free: Option<u64>,
    stream: Option<u64>,
    bytes: Option<u64>,
    reads: Option<Vec<u64>>,
    writes: Option<Vec<u64>>,
}

struct Held {
    id: BufferId,
    taken: usize,
    freed: Option<usize>,
}

impl AllocLog {
    /// Reads a log.
    ///
    /// # Errors
    /// When the bytes are no log, or one that is not sound by itself; names the
    /// event.
    pub fn from_json(bytes: &[u8]) -> Result<Self, LogError> {
        let head: Head = serde_json::from_slice(bytes)?;
        if head.format != ALLOC_LOG_FORMAT {
            return Err(LogError::Format(head.format));
        }
        let file: File = serde_json::from_slice(bytes)?;
        let (streams, origin) = (file.streams, file.origin);
        if !(1..=MOST_STREAMS).contains(&streams) || origin != 0 {
            return Err(LogError::Streams { streams, origin });
        }
        let mut reader = Reader {
            log: Self {
                streams: streams as u32,
                ..Self::default()
            },
            held: HashMap::new(),
            kernels: HashSet::new(),
            bytes: 0,
        };
        for (at, event) in file.events.into_iter().enumerate() {
            if at >= u32::MAX as usize {
                return Err(LogError::TableFull { event: at });
            }
            let event = reader.event(at, event)?;
            reader.log.events.push(event);
        }
        Ok(reader.log)
    }
}

struct Reader {
    log: AllocLog,
    held: HashMap<u64, Held>,
    kernels: HashSet<u64>,
    bytes: u64,
}

impl Reader {
    fn event(&mut self, at: usize, event: Event) -> Result<LogEvent, LogError> {
        match event {
            Event {
                join: Some([from, to]),
                alloc: None,
                kernel: None,
                free: None,
                stream: None,
                bytes: None,
                reads: None,
                writes: None,
            } => {
                let (from_id, to_id) = (self.stream(at, from)?, self.stream(at, to)?);
                if from == to {
                    return Err(LogError::SelfJoin {
                        event: at,
                        stream: from,
                    });
                }
                Ok(LogEvent::Join {
                    from: from_id,
                    to: to_id,
                })
            }
            Event {
                join: None,
                alloc: Some(buffer),
                kernel: None,
                free: None,
                stream: Some(stream),
                bytes: Some(bytes),
                reads: None,
                writes: None,
            } => self.alloc(at, buffer, stream, bytes),
            Event {
                join: None,
                alloc: None,
                kernel: Some(kernel),
                free: None,
                stream: Some(stream),
                bytes: None,
                reads: Some(reads),
                writes: Some(writes),
            } => {
                let stream = self.stream(at, stream)?;
                if !self.kernels.insert(kernel) {
                    return Err(LogError::KernelTwice { event: at, kernel });
                }
                let read = |&buffer: &u64| Ok(self.live(at, "reads", buffer)?.id);
                let reads = reads.iter().map(read).collect::<Result<_, LogError>>()?;
                let write = |&buffer: &u64| Ok(self.live(at, "writes", buffer)?.id);
                let writes = writes.iter().map(write).collect::<Result<_, LogError>>()?;
                Ok(LogEvent::Kernel {
                    stream,
                    reads,
                    writes,
                })
            }
            Event {
                join: None,
                alloc: None,
                kernel: None,
                free: Some(buffer),
                stream: None,
                bytes: None,
                reads: None,
                writes: None,
            } => {
                let id = self.live(at, "frees", buffer)?.id;
                if let Some(held) = self.held.get_mut(&buffer) {
                    held.freed = Some(at);
                }
                Ok(LogEvent::Free(id))
            }
            _ => Err(LogError::Event { event: at }),
        }
    }

    fn alloc(
        &mut self,
        at: usize,
        buffer: u64,
        stream: u64,
        bytes: u64,
    ) -> Result<LogEvent, LogError> {
        let stream = self.stream(at, stream)?;
        if let Some(held) = self.held.get(&buffer) {
            return Err(LogError::AllocTwice {
                event: at,
                buffer,
                earlier: held.taken,
            });
        }
        let sum = bytes.checked_add(2 * LOG_ALIGNMENT);
        let sum = sum.and_then(|bytes| bytes.checked_add(self.bytes));
        self.bytes = sum
            .filter(|&sum| sum <= MOST_BYTES)
            .ok_or(LogError::TooLarge { event: at })?;
        let id = BufferId::at(self.log.buffers.len());
        let held = Held {
            id,
            taken: at,
            freed: None,
        };
        self.held.insert(buffer, held);
        self.log.buffers.push(LogBuffer {
            name: format!("buffer {buffer}"),
            stream,
            bytes,
            align: LOG_ALIGNMENT,
        });
        Ok(LogEvent::Alloc(id))
    }

    fn stream(&self, event: usize, stream: u64) -> Result<StreamId, LogError> {
        let count = self.log.streams;
        match u32::try_from(stream) {
            Ok(id) if id < count => Ok(StreamId(id)),
            _ => Err(LogError::NoSuchStream {
                event,
                stream,
                count,
            }),
        }
    }

    fn live(&self, event: usize, what: &'static str, buffer: u64) -> Result<&Held, LogError> {
        let held = self.held.get(&buffer).ok_or(LogError::NotAllocated {
            event,
            what,
            buffer,
        })?;
        match held.freed {
            None => Ok(held),
            Some(freed) => Err(LogError::Freed {
                event,
                what,
                buffer,
                freed,
            }),
        }
    }
}
