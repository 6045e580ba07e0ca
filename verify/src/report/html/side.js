// The side: hazards, what is selected, what the verdict rests on. All names go
// to the page as text.

function make(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "click") made.addEventListener("click", value);
    else if (key === "class") made.className = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}
const byId = (id) => document.getElementById(id);
const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;
const nodeLink = (node) => make("button", { class: "link", click: () => selectNode(node.id) }, nodeTitle(node));
const bufferLink = (buffer) => make("button", { class: "link", click: () => selectBuffer(buffer.id) }, `b${buffer.id} ${buffer.name}`);

/** Terms and descriptions; those without a description are left out. */
function terms(...pairs) {
  const list = make("dl");
  for (const [term, ...what] of pairs) {
    const parts = what.filter((part) => part !== null && part !== "");
    if (parts.length) list.append(make("dt", {}, term), make("dd", {}, ...parts));
  }
  return list;
}
const MANY = 60;
function some(things, show) {
  const shown = things.slice(0, MANY).map(show);
  if (things.length > MANY) shown.push(make("span", { class: "none" }, `… and ${things.length - MANY} more`));
  return shown;
}

function siteTerms(term, site) {
  const node = site.node === null || site.node === undefined ? null : nodes[site.node];
  const verb = { read: "reads", write: "writes", read_write: "reads and writes", atomic: "updates atomically" };
  const words = [site.access ? `${verb[site.access]} ` : "", site.stream ? `on stream “${site.stream}” ` : "", site.scope ? `in ${site.scope} ` : ""].join("");
  const launch = site.launch ? `at ${site.launch.file}:${site.launch.line}` : "";
  return [term, node ? nodeLink(node) : site.name, make("div", {}, words, launch)];
}
function hazardMore(hazard) {
  const pairs = [siteTerms("①", hazard.first)];
  if (hazard.second) pairs.push(siteTerms("②", hazard.second));
  for (const note of hazard.buffers) {
    const known = hazard.mark.buffers.includes(note.id);
    const tag = note.tag ? `, tag “${note.tag}”` : "";
    pairs.push(["buffer", known ? bufferLink(buffers[note.id]) : note.name, make("div", {}, `${note.kind}${tag}, ${note.range.join("..")}`)]);
  }
  if (hazard.bytes[0] !== hazard.bytes[1]) {
    const length = BigInt(hazard.bytes[1]) - BigInt(hazard.bytes[0]);
    pairs.push(["bytes", `${hazard.bytes.join("..")} (${length} bytes)`]);
  }
  const rule = hazard.rule.toLowerCase();
  const page = /^r\d+$/.test(rule) ? `${data.docs}#${rule}` : data.docs;
  return make("div", { class: "more" },
    make("p", { class: "help" }, `Change: ${hazard.help}`),
    terms(...pairs),
    hazard.drawing && hazard.drawing.length ? make("pre", {}, hazard.drawing.join("\n")) : null,
    make("p", {}, make("a", { href: page, rel: "noopener noreferrer" }, `What ${hazard.rule} demands`)));
}
function fillHazards() {
  byId("hazard-count").textContent = report.hazards_total ? plural(report.hazards_total, "hazard") : "No hazards";
  const list = byId("hazards");
  for (const hazard of hazards) {
    const who = [hazard.first, hazard.second].filter(Boolean).map((site) => short(site.name || site.stream || "")).join(" · ");
    const button = make("button", { class: "hazard", "aria-pressed": "false", click: () => selectHazard(view.hazard === hazard.id ? null : hazard.id) },
      make("b", {}, hazard.rule), hazard.what, make("small", {}, hazard.proven ? who : `possible · ${who}`));
    list.append(make("li", { class: hazard.proven ? "" : "possible" }, button));
  }
  const unlisted = report.hazards_total - hazards.length;
  if (unlisted > 0) list.append(make("li", {}, make("p", {}, `… and ${unlisted} more that the report does not list`)));
}
/** The chosen hazard in full, or every one of them. */
function showHazards(all = false) {
  const items = byId("hazards").children;
  hazards.forEach((hazard, at) => {
    const chosen = all || view.hazard === at;
    const [button, more] = items[at].children;
    button.setAttribute("aria-pressed", String(chosen));
    if (more) more.remove();
    if (chosen) items[at].append(hazardMore(hazard));
  });
  // Below the panes the list has no scrolling of its own, and the panes stay in view.
  const side = document.querySelector("aside");
  if (!all && view.hazard !== null && side.scrollHeight > side.clientHeight) items[view.hazard].scrollIntoView({ block: "nearest" });
}
function showSelected() {
  const section = byId("selected");
  section.hidden = view.node === null && view.buffer === null;
  section.replaceChildren();
  const close = make("button", { class: "link", click: clear, "aria-label": "Clear the selection" }, "clear");
  if (view.node !== null) {
    const node = nodes[view.node];
    const edge = (other) => (e) => make("span", {}, nodeLink(e[other]), e.programmatic ? "programmatic" : "");
    section.append(make("h2", {}, `Node n${node.id} `, close), terms(
      ["name", node.name], ["kind", node.analysed ? node.kind : `${node.kind}, not analysed`], ["stream", laneName(node.lane)],
      ["scope", node.scope], ["launch", node.launch],
      ["after", ...some(node.into, edge("from"))], ["before", ...some(node.from, edge("to"))],
      ...some(node.accesses, (a) => [MODES[a.mode], bufferLink(buffers[a.buffer]), make("div", { class: "none" }, a.bytes)]).filter(Array.isArray)));
  } else if (view.buffer !== null) {
    const buffer = buffers[view.buffer];
    section.append(make("h2", {}, `Buffer b${buffer.id} `, close), terms(
      ["name", buffer.name], ["kind", buffer.kind], ["pool of", laneName(buffer.owner)],
      ["size", buffer.size], ["addresses", buffer.range],
      ["accesses", ...some(buffer.accesses, (a) => make("div", {}, nodeLink(nodes[a.node]), MODES[a.mode]))]));
  }
}
function fillNotes() {
  const lines = (title, list) => (list.length
    ? [make("h2", {}, title), make("ul", {}, ...list.map((line) => make("li", {}, line)))] : []);
  const bytes = (n) => (n < 1048576 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / 1048576).toFixed(1)} MiB`);
  const growth = (report.growth ?? []).map((g) => `${g.tag === null ? "all tags" : `tag “${g.tag}”`}: ${bytes(g.peak)} live at once, ${bytes(g.reserved)} held, ${g.floor_exact ? "" : "at least "}${bytes(g.floor)} needed`);
  const notes = byId("notes");
  notes.append(...lines("Taken for granted", report.assumptions), ...lines("Not analysed", report.not_analysed), ...lines("Scratch memory", growth));
  if (report.verdict === "safe") {
    notes.prepend(make("p", {}, report.certificate ? "The report carries a certificate of this verdict." : "The report carries no certificate."));
  }
}
function fillHeader() {
  const verdict = byId("verdict");
  verdict.textContent = report.verdict;
  verdict.classList.add(report.verdict);
  byId("capture").textContent = data.capture;
  const s = report.stats;
  byId("stats").textContent = [plural(s.nodes, "node"), plural(s.edges, "edge"), plural(s.streams, "stream"), plural(s.accesses, "access"), `${plural(buffers.length, "buffer")}`, `${s.comparisons.toLocaleString("en")} comparisons`].join(" · ");
}
