//! The graph in the language of Graphviz: a cluster for each stream, hazards in
//! red, missing joins dashed.
//!
//! Nodes are called `n0`, `n1` and so on, as in every report. Names stand in
//! quoted labels only, so none of them can be read as syntax, and no label of
//! Graphviz's HTML kind is written.

use std::fmt::{self, Write};

use streamweir_trace::{EdgeKind, NodeId, Trace, shown};

use super::layout::Layout;
use super::marked::missing;
use super::model::Report;
use crate::error::VerifyError;

/// The most characters of a name that a box shows; its tooltip has all of them.
const SHOWN: usize = 48;

/// The graph of `trace` with the hazards of `report`, as input of `dot -Tsvg`.
///
/// `trace` is the one that the report is about, as for [`html`](crate::html).
///
/// # Errors
/// When the tables of the trace do not fit together or its edges form a cycle.
pub fn dot(trace: &Trace, report: &Report) -> Result<String, VerifyError> {
    let layout = Layout::new(trace)?;
    let mut text = String::new();
    write(&mut text, trace, report, &layout).expect("a string takes all that is written");
    Ok(text)
}

fn write(out: &mut String, trace: &Trace, report: &Report, layout: &Layout) -> fmt::Result {
    let known = |node: &NodeId| node.index() < trace.nodes.len();
    let named = report.marked();
    writeln!(out, "digraph {} {{", quoted(&trace.name))?;
    writeln!(out, "  rankdir=LR;")?;
    writeln!(
        out,
        "  node [shape=box, fontname=\"sans-serif\", fontsize=10];"
    )?;
    for (lane, drawn) in layout.lanes.iter().enumerate() {
        writeln!(out, "  subgraph \"cluster_{lane}\" {{")?;
        writeln!(out, "    label={};", quoted(&drawn.name))?;
        let of_lane = |node: &&NodeId| layout.lane[node.index()] as usize == lane;
        for &id in layout.order.iter().filter(of_lane) {
            let node = trace.node(id);
            let mut short: String = node.name.chars().take(SHOWN).collect();
            if short.len() < node.name.len() {
                short.push('…');
            }
            let mut full = format!("{id} {}", node.name);
            if let Some(scope) = trace.scope_of(id) {
                full.push_str(&format!(" in {scope}"));
            }
            if let Some(launch) = &node.launch {
                full.push_str(&format!(" at {launch}"));
            }
            let label = quoted(&format!("{id} {short}"));
            write!(out, "    {id} [label={label}, tooltip={}", quoted(&full))?;
            if named.contains(&id) {
                write!(out, ", color=red, fontcolor=red, penwidth=2")?;
            }
            if !node.analysed {
                write!(out, ", style=dashed")?;
            }
            writeln!(out, "];")?;
        }
        writeln!(out, "  }}")?;
    }
    for edge in &trace.edges {
        let style = match edge.kind {
            EdgeKind::Full => "",
            EdgeKind::Programmatic => " [style=dotted]",
        };
        writeln!(out, "  {} -> {}{style};", edge.from, edge.to)?;
    }
    for (edge, rules) in missing(report) {
        let [from, to] = edge;
        if known(&from) && known(&to) {
            let label = quoted(&format!("missing: {rules}"));
            writeln!(
                out,
                "  {from} -> {to} [style=dashed, color=red, fontcolor=red, label={label}];"
            )?;
        }
    }
    writeln!(out, "}}")
}

/// A quoted string of the language. It knows one escape that matters, the
/// quote; a backslash is doubled, so that a label shows it and does not begin
/// one of its own escapes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in shown(text).to_string().chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            // HTML entities are read even in quotes.
            '&' => quoted.push_str("&amp;"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
