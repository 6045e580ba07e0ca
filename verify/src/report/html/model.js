"use strict";
// The data of the page, with what is looked up again and again: which accesses
// a node has, which edges it has, where it stands in its lane.

const data = JSON.parse(document.getElementById("data").textContent);
const report = data.report;
const text = (at) => (at < 0 ? "" : data.texts[at]);
const MODES = ["reads", "writes", "reads and writes", "updates atomically", "may touch"];

/** The last part of a name, without template arguments and parameters. */
function short(name) {
  let depth = 0, plain = "";
  for (const c of name) {
    if (c === "<") depth += 1;
    else if (c === ">") depth = Math.max(0, depth - 1);
    else if (c === "(" && depth === 0 && plain.trim() && !plain.endsWith("::")) break;
    else if (depth === 0) plain += c;
  }
  const parts = plain.trim().split("::");
  return parts[parts.length - 1].split(" ").pop() || name;
}

const nodes = data.nodes.map(([name, lane, column, scope, kind, launch, analysed], id) => ({
  id, lane, column, analysed,
  name: text(name), label: short(text(name)), scope: text(scope), kind: text(kind), launch: text(launch),
  into: [], from: [], accesses: [], hazard: false,
}));
const buffers = data.buffers.map(([name, kind, owner, first, last, low, high], id) => ({
  id, owner, first, last, name: text(name), kind: text(kind), low: low / 10, high: high / 10,
  range: data.ranges[id][0], size: data.ranges[id][1], accesses: [],
}));
const accesses = data.accesses.map(([node, buffer, mode, low, high], id) => {
  const access = { id, node, buffer, mode, low: low / 10, high: high / 10, bytes: text(data.bytes[id]) };
  nodes[node].accesses.push(access);
  buffers[buffer].accesses.push(access);
  return access;
});
const byLane = data.lanes.map(() => []);
for (const node of nodes) byLane[node.lane].push(node);
for (const lane of byLane) {
  lane.sort((a, b) => a.column - b.column);
  lane.forEach((node, at) => { node.at = at; });
}
// An edge to the next node of the lane is a line; of the others, only those
// that no chain of such lines says already are worth an arrow.
const edges = data.edges.map(([from, to, programmatic]) => {
  const edge = { from: nodes[from], to: nodes[to], programmatic };
  edge.same = edge.from.lane === edge.to.lane;
  edge.next = edge.same && edge.to.at === edge.from.at + 1;
  edge.from.from.push(edge);
  edge.to.into.push(edge);
  return edge;
});
for (const edge of edges) if (edge.next) edge.to.linked = true;
for (const lane of byLane) {
  let start = 0;
  lane.forEach((node, at) => { if (!node.linked) start = at; node.run = start; });
}
const arrows = edges.filter((edge) => !edge.next && !(edge.same && edge.to.run <= edge.from.at));

const hazards = report.hazards.map((hazard, id) => ({ ...hazard, id, mark: data.marks[id] }));
for (const hazard of hazards) for (const node of hazard.mark.nodes) nodes[node].hazard = true;

/** Names as people read them. */
const nodeTitle = (node) => `n${node.id} ${node.name}`;
const laneName = (lane) => (lane < 0 ? "" : data.lanes[lane][0]);
function nodeTip(node) {
  const lines = [nodeTitle(node), `${node.kind} on ${laneName(node.lane)}`];
  if (node.scope) lines.push(`in ${node.scope}`);
  if (node.launch) lines.push(`at ${node.launch}`);
  if (!node.analysed) lines.push("not analysed");
  for (const access of node.accesses.slice(0, 6)) {
    lines.push(`${MODES[access.mode]} ${buffers[access.buffer].name}`);
  }
  if (node.accesses.length > 6) lines.push(`… and ${node.accesses.length - 6} more`);
  return lines.join("\n");
}
function laneTip(lane) {
  if (!data.lanes[lane]) return "";
  const [name, tag] = data.lanes[lane];
  return [name, tag && `tag ${tag}`, `${byLane[lane].length} nodes`].filter(Boolean).join("\n");
}
function bufferTip(buffer) {
  const owner = buffer.owner < 0 ? "" : ` of ${laneName(buffer.owner)}`;
  return `b${buffer.id} ${buffer.name}\n${buffer.kind}${owner}, ${buffer.size}\n${buffer.range}\n${buffer.accesses.length} accesses`;
}
