//! Lists of lifetimes: `id,lower,upper,size` and, if wanted, `alignment`, in any
//! order as the first line says; half-open lifetimes on one axis.

use std::collections::{BTreeMap, HashMap};

use super::error::LogError;
use super::model::{AllocLog, LogBuffer, LogEvent, MOST_BYTES};
use crate::id::{BufferId, StreamId};

const COLUMNS: [&str; 5] = ["id", "lower", "upper", "size", "alignment"];

struct Row<'a> {
    id: &'a str,
    lower: u64,
    upper: u64,
    size: u64,
    align: u64,
}

impl AllocLog {
    /// Reads a list of lifetimes as a log of one stream. At each moment at which
    /// a life begins or ends, those that have ended are freed, those that begin
    /// are taken, and one kernel writes these and reads the ones whose last
    /// moment it is. Without a column `alignment` buffers may begin anywhere.
    ///
    /// # Errors
    /// When a line is not as the first one says, a number is none, a life ends
    /// before it has begun, an id occurs twice, or the sizes do not fit an
    /// address; names the line.
    pub fn from_csv(text: &str) -> Result<Self, LogError> {
        let mut lines = (1_usize..)
            .zip(text.lines())
            .filter(|(_, line)| !line.trim().is_empty());
        let (line, head) = lines
            .next()
            .ok_or_else(|| wrong(1, "the file is empty, expected `id,lower,upper,size`"))?;
        let places = columns(line, head)?;
        let mut rows = Vec::new();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut total = 0_u64;
        for (line, text) in lines {
            let row = row(line, text, &places)?;
            if let Some(earlier) = seen.insert(row.id, line) {
                return Err(wrong(
                    line,
                    format!("id {:?} occurs on line {earlier} already", row.id),
                ));
            }
            let sum = (row.align.checked_mul(2))
                .and_then(|align| align.checked_add(row.size))
                .and_then(|bytes| bytes.checked_add(total));
            total = sum
                .filter(|&sum| sum <= MOST_BYTES)
                .ok_or_else(|| wrong(line, "the sizes up to here need more than 2^61 bytes"))?;
            rows.push(row);
        }
        Ok(log(&rows))
    }
}

fn wrong(line: usize, what: impl Into<String>) -> LogError {
    LogError::Line {
        line,
        what: what.into(),
    }
}

/// Where each column stands.
fn columns(line: usize, head: &str) -> Result<[Option<usize>; 5], LogError> {
    let mut places = [None; 5];
    for (at, name) in head.split(',').map(str::trim).enumerate() {
        let Some(column) = COLUMNS.iter().position(|&column| column == name) else {
            return Err(wrong(
                line,
                format!(
                    "no column is called {name:?}; there are {}",
                    COLUMNS.join(", ")
                ),
            ));
        };
        if places[column].replace(at).is_some() {
            return Err(wrong(line, format!("column {name:?} occurs twice")));
        }
    }
    match COLUMNS[..4]
        .iter()
        .zip(places)
        .find(|(_, place)| place.is_none())
    {
        Some((missing, _)) => Err(wrong(line, format!("column {missing:?} is missing"))),
        None => Ok(places),
    }
}

fn row<'a>(line: usize, text: &'a str, places: &[Option<usize>; 5]) -> Result<Row<'a>, LogError> {
    let cells: Vec<&str> = text.split(',').map(str::trim).collect();
    let expected = places.iter().flatten().count();
    if cells.len() != expected {
        let found = cells.len();
        return Err(wrong(line, format!("{found} values, expected {expected}")));
    }
    let number = |column: usize| -> Result<Option<u64>, LogError> {
        let Some(place) = places[column] else {
            return Ok(None);
        };
        cells[place].parse().map(Some).map_err(|_| {
            let (name, found) = (COLUMNS[column], cells[place]);
            wrong(
                line,
                format!("{name} is {found:?}, expected a number from 0 to 2^64 - 1"),
            )
        })
    };
    let row = Row {
        id: places[0].map_or("", |place| cells[place]),
        lower: number(1)?.unwrap_or_default(),
        upper: number(2)?.unwrap_or_default(),
        size: number(3)?.unwrap_or_default(),
        align: number(4)?.unwrap_or(1),
    };
    if row.upper <= row.lower {
        let (lower, upper) = (row.lower, row.upper);
        return Err(wrong(
            line,
            format!("upper {upper} is not above lower {lower}; a lifetime is [lower, upper)"),
        ));
    }
    if row.align == 0 {
        return Err(wrong(line, "alignment is 0; 1 means none"));
    }
    Ok(row)
}

#[derive(Default)]
struct Moment {
    begin: Vec<BufferId>,
    end: Vec<BufferId>,
}

fn log(rows: &[Row<'_>]) -> AllocLog {
    let origin = StreamId(0);
    let mut moments: BTreeMap<u64, Moment> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let id = BufferId::at(at);
        moments.entry(row.lower).or_default().begin.push(id);
        moments.entry(row.upper).or_default().end.push(id);
    }
    let mut log = AllocLog {
        streams: 1,
        buffers: Vec::with_capacity(rows.len()),
        events: Vec::new(),
    };
    log.buffers.extend(rows.iter().map(|row| LogBuffer {
        name: format!("buffer {}", row.id),
        stream: origin,
        bytes: row.size,
        align: row.align,
    }));
    let mut moments = moments.into_values().peekable();
    while let Some(moment) = moments.next() {
        log.events
            .extend(moment.end.into_iter().map(LogEvent::Free));
        log.events
            .extend(moment.begin.iter().copied().map(LogEvent::Alloc));
        if let Some(next) = moments.peek() {
            // Ids rise with the rows.
            let begun = |id: &&BufferId| moment.begin.binary_search(id).is_ok();
            log.events.push(LogEvent::Kernel {
                stream: origin,
                reads: next.end.iter().filter(|id| !begun(id)).copied().collect(),
                writes: moment.begin.clone(),
            });
        }
    }
    log
}
