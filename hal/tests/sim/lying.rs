//! The wrapper that lies about graphs.

use streamweir_hal::driver::{
    Driver, GraphCalls, GraphEdge, GraphHandle, MemoryCalls, NodeHandle, StreamCalls,
};
use streamweir_hal::sim::SimDriver;
use streamweir_hal::testing::lying::{Lie, LyingDriver};
use streamweir_trace::NodeKind;

use super::common::{begin, download, end, load, replay, upload};

type Said = (Vec<NodeHandle>, Vec<GraphEdge>, Vec<NodeKind>);

fn said(driver: &dyn Driver, graph: GraphHandle) -> Said {
    let nodes = unsafe { driver.graph_nodes(graph) }.unwrap();
    let edges = unsafe { driver.graph_edges(graph) }.unwrap();
    let kinds = nodes
        .iter()
        .map(|&node| unsafe { driver.graph_node(node) }.unwrap())
        .collect();
    (nodes, edges, kinds)
}

#[test]
fn each_lie_alters_what_it_names_and_nothing_that_runs() {
    let sim = SimDriver::new(0);
    let lying = LyingDriver::new(sim.clone(), None);
    let code = load(&*lying).unwrap();
    let stream = lying.stream_create(0).unwrap();
    let data = upload(&*lying, &[0; 8]);
    begin(&*lying, stream).unwrap();
    unsafe { lying.fill_async(stream, data, 0, 32) }.unwrap();
    code.bump(&*lying, stream, data, 8).unwrap();
    code.bump(&*lying, stream, data, 8).unwrap();
    let graph = end(&*lying, stream).unwrap();
    let exec = unsafe { lying.graph_instantiate(graph) }.unwrap();

    let truth = said(&*sim, graph);
    assert_eq!(said(&*lying, graph), truth);
    let lies = [
        Lie::DropEdge(1),
        Lie::TurnEdge(0),
        Lie::HideNode(1),
        Lie::RepeatNode(2),
        Lie::AlterParam {
            node: 1,
            param: 0,
            xor: 0x100,
        },
        Lie::SwapFunction {
            node: 2,
            function: "other".to_owned(),
        },
        Lie::GrowGrid(1),
        Lie::MoveTarget {
            node: 0,
            bytes: 256,
        },
        Lie::CallEmpty(0),
    ];
    let mut told = Vec::new();
    for lie in lies {
        lying.tell(Some(lie.clone()));
        let now = said(&*lying, graph);
        assert_ne!(now, truth, "{lie:?}");
        assert!(!told.contains(&now), "{lie:?} is told like another lie");
        told.push(now);
        replay(&*lying, exec, stream).unwrap();
        assert_eq!(download(&*lying, data, 8), [2; 8], "{lie:?}");
    }
    let hidden = &told[2];
    assert_eq!(hidden.0.len(), 2);
    assert!(hidden.1.is_empty(), "both edges touched the hidden node");
    for lie in [
        Lie::DropEdge(9),
        Lie::HideNode(9),
        Lie::GrowGrid(0),
        Lie::CallEmpty(3),
    ] {
        lying.tell(Some(lie.clone()));
        assert_eq!(said(&*lying, graph), truth, "{lie:?}");
    }
    lying.tell(None);
    assert_eq!(said(&*lying, graph), truth);
}
