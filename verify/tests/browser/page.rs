//! What people do with a report, done in the browser.

use serde_json::json;
use streamweir_trace::{Access, AccessMode, Buffer, ByteRange, NodeId, Trace};
use streamweir_verify::{html, verify};

use crate::chromium::Page;
use crate::generate::{hostile, layers};

const WIDE: [u32; 2] = [1400, 850];

fn open(name: &str, trace: &Trace) -> Page {
    let report = verify(trace).expect("a verdict");
    let markup = html(trace, &report).expect("a page");
    let mut page = Page::open(name, &markup, WIDE);
    page.until("document.getElementById('verdict').textContent !== ''");
    page.drawn();
    page
}

#[track_caller]
fn nothing_to_complain_of(page: &mut Page) {
    page.drawn();
    assert_eq!(page.complaints, Vec::<String>::new());
}

/// Searches, takes the first hit, and gives what is then selected.
fn search(page: &mut Page, words: &str) -> String {
    page.value("search.focus(), search.select()");
    page.type_text(words);
    page.until("!document.getElementById('found').hidden");
    page.press("Enter");
    page.until("!document.getElementById('selected').hidden");
    page.text("document.getElementById('selected').textContent")
}

#[test]
fn a_hazard_is_shown_searched_selected_and_named() {
    let mut page = open("hazard", &layers(6, &[3]));
    assert_eq!(
        page.text("document.getElementById('verdict').textContent"),
        "hazard"
    );
    let notes = page.text("document.getElementById('notes').textContent");
    assert!(notes.contains("page ids below 4096"), "{notes}");

    // The first hazard is marked from the start: clear that, then click on it.
    let marked = page.picture("#lanes");
    page.press("Escape");
    page.until("document.querySelector('button.hazard[aria-pressed=true]') === null");
    let plain = page.picture("#lanes");
    assert_ne!(marked, plain, "the hazard is not drawn");
    let at = page.middle("button.hazard");
    page.click(at);
    page.until("document.querySelector('button.hazard[aria-pressed=true]') !== null");
    let words = page.text("document.querySelector('#hazards li').textContent");
    assert!(
        words.contains("topk_512") && words.contains("add a join"),
        "{words}"
    );
    let drawing = page.text("document.querySelector('#hazards pre').textContent");
    let lines: Vec<&str> = drawing.lines().collect();
    assert!(
        lines[0].starts_with("stream \"main\"") && drawing.contains(" missing "),
        "{drawing}"
    );
    assert_ne!(page.picture("#lanes"), plain, "the click draws nothing");

    // A search brings the node to the middle; there the mouse names it.
    let found = search(&mut page, "n27");
    assert!(
        found.contains("n27") && found.contains("store_kv<bf16, 128>"),
        "{found}"
    );
    assert!(found.contains("layer 3/cache"), "{found}");
    let lane =
        page.value("laneY(nodes[27].lane) + LANE / 2 + canvases.lanes.getBoundingClientRect().top");
    let column = page.value("middle(nodes[27]) + canvases.lanes.getBoundingClientRect().left");
    page.point([column.as_f64().unwrap(), lane.as_f64().unwrap()]);
    page.until("!document.getElementById('tip').hidden");
    let tip = page.text("document.getElementById('tip').textContent");
    assert!(tip.starts_with("n27 store_kv<bf16, 128>"), "{tip}");
    assert!(tip.contains("writes keys 3"), "{tip}");

    // Keys go from node to node.
    page.value("document.getElementById('lanes').focus()");
    page.press("ArrowRight");
    page.until("document.querySelector('#selected h2').textContent.includes('n35')");
    nothing_to_complain_of(&mut page);
}

#[test]
fn five_thousand_nodes_load_zoom_and_scroll() {
    let mut trace = layers(630, &[300, 500]);
    let range = ByteRange::new(1 << 36, 1 << 37);
    let weights = trace.add_buffer(Buffer::persistent("weights", range));
    for at in 0..trace.nodes.len() {
        for slice in [2 * at as u64, 2 * at as u64 + 1] {
            let bytes = ByteRange::new(slice << 16, (slice + 1) << 16);
            let node = NodeId::at(at);
            trace.add_access(Access::new(node, weights, bytes, AccessMode::Read));
        }
    }
    assert!(trace.nodes.len() >= 5000 && trace.accesses.len() >= 15_000);
    let mut page = open("large", &trace);
    let near = page.picture("#lanes");
    let at = page.middle("#fit");
    page.click(at);
    page.drawn();
    let whole = page.text("document.getElementById('zoom').value");
    let far = page.picture("#lanes");
    assert_ne!(near, far);
    let middle = page.middle("#lanes");
    page.wheel(middle, -600.0, true);
    page.until(&format!(
        "document.getElementById('zoom').value !== {}",
        json!(whole)
    ));
    assert_ne!(page.picture("#lanes"), far, "zooming draws nothing new");
    let found = search(&mut page, "layer 629/attention");
    assert!(found.contains("layer 629/attention"), "{found}");
    nothing_to_complain_of(&mut page);
}

#[test]
fn names_that_are_markup_stay_names() {
    let trace = hostile();
    let mut page = open("hostile", &trace);
    for at in 0..trace.nodes.len() {
        page.value(&format!("selectNode({at})"));
    }
    page.value("selectBuffer(0), selectHazard(0)");
    page.drawn();
    assert_eq!(page.text("typeof window.pwned"), "undefined");
    assert_eq!(
        page.value("document.querySelectorAll('img, svg, body script').length"),
        json!(2)
    );
    let title = page.text("document.getElementById('capture').textContent");
    assert_eq!(title, trace.name);
    // Markup that does get in finds a policy that stops it.
    page.value(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.pwned=1\">')",
    );
    page.drawn();
    assert_eq!(page.text("typeof window.pwned"), "undefined");
    assert!(
        page.complaints
            .iter()
            .any(|text| text.contains("Content Security Policy"))
    );
}

/// On paper every hazard stands in full and in light colours; afterwards the
/// page is as it was.
#[test]
fn printed_it_shows_every_hazard_in_full() {
    let mut page = open("paper", &layers(6, &[2, 3]));
    let open_ones = "document.querySelectorAll('#hazards .more').length";
    let listed = page.value("hazards.length").as_u64().unwrap();
    assert!(listed > 1);
    assert_eq!(page.value(open_ones), json!(1));
    page.call(
        "Emulation.setEmulatedMedia",
        json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]}),
    );
    page.until("palette.back !== '#ffffff'");
    let dark = page.text("palette.back");
    page.value(&format!(
        "addEventListener('beforeprint', () => {{ window.paper = [{open_ones}, palette.back]; }})"
    ));
    page.call("Page.printToPDF", json!({}));
    page.until("window.paper");
    assert_eq!(page.value("window.paper"), json!([listed, "#ffffff"]));
    page.until(&format!("{open_ones} === 1"));
    assert_eq!(page.text("palette.back"), dark);
    nothing_to_complain_of(&mut page);
}

/// A lane's name is cut to its place, and the mouse says it in full.
#[test]
fn the_mouse_names_a_lane() {
    let mut trace = layers(2, &[1]);
    let name = "the stream of the indexer, layers 0 to 43";
    trace.streams[1].name = name.into();
    let mut page = open("lane", &trace);
    let top = page.value("laneY(1) + LANE / 2 + canvases.lanes.getBoundingClientRect().top");
    let left = page.value("canvases.lanes.getBoundingClientRect().left + 40");
    page.point([left.as_f64().unwrap(), top.as_f64().unwrap()]);
    page.until("!document.getElementById('tip').hidden");
    let tip = page.text("document.getElementById('tip').textContent");
    assert_eq!(tip, format!("{name}\ntag indexer\n4 nodes"));
    nothing_to_complain_of(&mut page);
}
