//! The greatest flow through a network, by Dinic's method: what the floors of
//! the planner and of the report rest on.
//!
//! Rounds of blocking flows over the shortest paths that have room; the number of
//! rounds is bounded by the number of nodes, whatever the arcs can carry. All
//! walks are loops, so that a network as deep as it has nodes is no danger to the
//! call stack.

/// A network under construction, and its flow.
#[derive(Debug)]
pub struct Flow {
    arcs: Vec<Arc>,
    /// For each node its arcs, those that lead back included.
    of: Vec<Vec<u32>>,
    level: Vec<u32>,
    next: Vec<u32>,
}

#[derive(Debug)]
struct Arc {
    to: u32,
    room: u64,
}

const UNSEEN: u32 = u32::MAX;

impl Flow {
    /// A network of so many nodes and no arcs.
    pub fn new(nodes: usize) -> Self {
        Self {
            arcs: Vec::new(),
            of: vec![Vec::new(); nodes],
            level: vec![UNSEEN; nodes],
            next: vec![0; nodes],
        }
    }

    /// Adds an arc from one node to another that carries at most `room`, and says its number
    /// for [`send`](Self::send).
    ///
    /// # Panics
    /// When there is no such node.
    pub fn arc(&mut self, from: usize, to: usize, room: u64) -> usize {
        // The arc at `index ^ 1` leads back.
        let index = self.arcs.len() as u32;
        self.of[from].push(index);
        self.of[to].push(index + 1);
        self.arcs.push(Arc {
            to: to as u32,
            room,
        });
        self.arcs.push(Arc {
            to: from as u32,
            room: 0,
        });
        index as usize
    }

    /// Sends so much over an arc, before the greatest flow is looked for: a start that
    /// shortens the search. What comes into a node, other than the source and the sink,
    /// must leave it too.
    ///
    /// # Panics
    /// When there is no such arc, or it has not that much room.
    pub fn send(&mut self, arc: usize, more: u64) {
        let room = self.arcs[arc].room.checked_sub(more);
        self.arcs[arc].room = room.expect("an arc carries no more than its room");
        let back = &mut self.arcs[arc ^ 1].room;
        *back = back.saturating_add(more);
    }

    /// The greatest flow from one node to another, less what has been [sent](Self::send)
    /// already. What leaves the source has to fit 64 bits.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn greatest(&mut self, source: usize, sink: usize) -> u64 {
        let mut total = 0;
        while self.levels(source, sink) {
            self.next.fill(0);
            total += self.blocking(source, sink);
        }
        total
    }

    /// Numbers the nodes by their distance to the sink; false when the source
    /// does not reach it.
    fn levels(&mut self, source: usize, sink: usize) -> bool {
        self.level.fill(UNSEEN);
        self.level[sink] = 0;
        let mut queue = vec![sink as u32];
        let mut head = 0;
        while let Some(&node) = queue.get(head) {
            head += 1;
            for &index in &self.of[node as usize] {
                let from = self.arcs[index as usize].to as usize;
                let room = self.arcs[index as usize ^ 1].room;
                if room > 0 && self.level[from] == UNSEEN {
                    self.level[from] = self.level[node as usize] + 1;
                    queue.push(from as u32);
                }
            }
        }
        self.level[source] != UNSEEN
    }

    /// Fills the shortest paths until each has a full arc.
    fn blocking(&mut self, source: usize, sink: usize) -> u64 {
        let mut total = 0;
        let mut path: Vec<u32> = Vec::new();
        let mut at = source;
        loop {
            if at == sink {
                let room = |&index: &u32| self.arcs[index as usize].room;
                let more = path.iter().map(room).min().unwrap_or(0);
                let mut full = 0;
                for (depth, &index) in path.iter().enumerate().rev() {
                    self.send(index as usize, more);
                    if self.arcs[index as usize].room == 0 {
                        full = depth;
                    }
                }
                total += more;
                path.truncate(full);
                at = self.head(source, &path);
                continue;
            }
            let arcs = &self.of[at];
            let onward = arcs[self.next[at] as usize..].iter().position(|&index| {
                let arc = &self.arcs[index as usize];
                let next = self.level[arc.to as usize];
                arc.room > 0 && next != UNSEEN && next + 1 == self.level[at]
            });
            match onward {
                Some(skipped) => {
                    self.next[at] += skipped as u32;
                    path.push(arcs[self.next[at] as usize]);
                    at = self.head(source, &path);
                }
                None => {
                    // A dead end: nobody need come here again in this round.
                    self.level[at] = UNSEEN;
                    if path.pop().is_none() {
                        return total;
                    }
                    at = self.head(source, &path);
                }
            }
        }
    }

    fn head(&self, source: usize, path: &[u32]) -> usize {
        path.last()
            .map_or(source, |&index| self.arcs[index as usize].to as usize)
    }
}
