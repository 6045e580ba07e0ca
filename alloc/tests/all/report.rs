use streamweir_alloc::Policy;

use crate::pools::pools;

#[test]
fn the_report_counts_per_stream_and_sorts_by_size() {
    let pools = pools(Policy::ISOLATED);
    let main = pools.add_stream("main", "main").unwrap();
    let side = pools.add_stream("side", "indexer").unwrap();
    pools.alloc(main, 1000, "query").unwrap();
    let scores = pools.alloc(side, 6000, "scores").unwrap();
    pools.workspace(side, 2048, "cublasLt").unwrap();
    pools.free(scores.id).unwrap();
    pools.alloc(side, 3000, "topk").unwrap();

    let report = pools.report();
    assert_eq!(
        (report.used, report.peak),
        (1024 + 2048 + 3072, 1024 + 6144 + 2048)
    );
    assert_eq!(report.reserved, 4096 + 8192);
    let [side, main] = &report.streams[..] else {
        panic!("two streams: {report:?}");
    };
    assert_eq!(
        (&*side.tag, side.used, side.peak, side.reserved),
        ("indexer", 5120, 8192, 8192)
    );
    assert_eq!(
        (&*main.tag, main.used, main.peak, main.reserved),
        ("main", 1024, 1024, 4096)
    );
    let names: Vec<_> = report.buffers.iter().map(|b| b.name.as_ref()).collect();
    assert_eq!(names, ["topk", "cublasLt", "query"]);
    assert_eq!(
        report.to_string(),
        "\
arena \"decode\", isolated: 6.0 KiB used, 9.0 KiB at peak, 12.0 KiB reserved
  stream  tag         used     peak  reserved
  side    indexer  5.0 KiB  8.0 KiB   8.0 KiB
  main    main     1.0 KiB  1.0 KiB   4.0 KiB
held, largest first:
  buffer    stream  kind       addresses             bytes
  topk      side    scratch    0x101000..0x101bb8  2.9 KiB
  cublasLt  side    workspace  0x102800..0x103000  2.0 KiB
  query     main    scratch    0x100000..0x1003e8   1000 B
"
    );
}
