//! Memory and pointers that contradict each other.

use super::*;

/// Buffers of the graph's own memory that do not agree, or not with the nodes,
/// on which node frees it.
#[test]
fn free_nodes_that_are_contradicted() {
    let mut file = valid();
    file["trace"]["nodes"] = json!([
        { "kind": { "mem_alloc": { "at": "0x40", "bytes": 64 } }, "name": "alloc" },
        { "kind": { "mem_free": { "at": "0x40" } }, "name": "free" },
        { "kind": { "mem_alloc": { "at": "0x80", "bytes": 64 } }, "name": "alloc" },
        { "kind": { "mem_free": { "at": "0x80" } }, "name": "free" },
    ]);
    file["trace"]["accesses"] = json!([]);
    let claims = |claims: &[(u32, u32)]| {
        let mut file = file.clone();
        let buffers = claims.iter().map(|(alloc, free)| {
            json!({
                "name": format!("of {alloc}"),
                "kind": { "graph": { "alloc": alloc, "free": free } },
                "range": if *alloc == 0 { ["0x40", "0x80"] } else { ["0x80", "0xc0"] },
            })
        });
        file["trace"]["buffers"] = buffers.collect();
        read(&file)
    };
    claims(&[(0, 1), (0, 1), (2, 3)]).expect("each allocation has its free node");
    let says = |made: &[(u32, u32)], expected| {
        assert_says(&claims(made).expect_err("contradicted"), expected);
    };
    says(
        &[(0, 1), (0, 3)],
        "buffer \"of 0\" says that node n3 frees what node n0 allocates, but buffer \"of 0\" says that n1 does",
    );
    says(
        &[(0, 1), (2, 1)],
        "but buffer \"of 0\" has it free what n0 allocates",
    );
    says(&[(0, 3)], "but one is at 0x40, the other at 0x80");
    says(&[(0, 2)], "but that is no free node");
}

/// A buffer of the graph's own memory needs a node that allocates it.
#[test]
fn graph_memory_that_its_node_does_not_allocate() {
    let says = |kind: Value, range: [&str; 2], expected: &str| {
        let mut file = valid();
        file["trace"]["nodes"] =
            json!([{ "kind": kind, "name": "n" }, { "kind": "empty", "name": "end" }]);
        file["trace"]["accesses"] = json!([]);
        file["trace"]["edges"] = json!([]);
        file["trace"]["buffers"] =
            json!([{ "name": "g", "kind": { "graph": { "alloc": 0 } }, "range": range }]);
        assert_says(&read(&file).expect_err("not allocated"), expected);
    };
    let page = ["0x1000", "0x2000"];
    says(
        json!("empty"),
        page,
        "buffer \"g\" says that node n0 allocates it, but that is no allocation but a node of kind empty",
    );
    says(
        json!({ "mem_free": { "at": "0x1000" } }),
        page,
        "no allocation but a node of kind memory free",
    );
    let alloc = |at: &str, bytes: u64| json!({ "mem_alloc": { "at": at, "bytes": bytes } });
    says(
        alloc("0x1000", 0xfff),
        page,
        "but it allocates 0x1000..0x1fff",
    );
    says(
        alloc("0x1001", 0x1000),
        page,
        "but it allocates 0x1001..0x2001",
    );
    says(
        alloc("0xffffffffffffff00", 512),
        page,
        "has 0x200 bytes at 0xffffffffffffff00, which end beyond the address space",
    );
}

/// Memory that ends beyond the last address has no place, whatever says so.
#[test]
fn memory_beyond_the_address_space() {
    let top = u64::MAX;
    for (kind, at, bytes) in [
        (
            json!({ "mem_alloc": { "at": "0x1000", "bytes": top } }),
            "0x1000",
            "0xffffffffffffffff",
        ),
        (
            json!({ "memset": { "to": "0xfffffffffffffff0", "bytes": 17, "value": 0 } }),
            "0xfffffffffffffff0",
            "0x11",
        ),
        (
            json!({ "memset": { "to": "0x1000", "bytes": 16, "value": 0, "rows": 3, "pitch": top / 2 } }),
            "0x1000",
            "0x10",
        ),
        (
            json!({ "memcpy": { "to": "0xfffffffffffffff0", "from": "0x1000", "bytes": 17 } }),
            "0xfffffffffffffff0",
            "0x11",
        ),
        (
            json!({ "memcpy": { "to": "0x1000", "from": "0x100", "bytes": 1, "rows": 2, "from_pitch": top - 0xff } }),
            "0x100",
            "0xffffffffffffff01",
        ),
    ] {
        let says = format!(
            "node n1 (\"end\") has {bytes} bytes at {at}, which end beyond the address space"
        );
        assert_says(&refusal("/trace/nodes/1/kind", kind), &says);
    }
    // The last byte of all is a byte like any other.
    let mut file = valid();
    file["trace"]["nodes"][1]["kind"] =
        json!({ "mem_alloc": { "at": "0x1000", "bytes": top - 0x1000 } });
    read(&file).expect("it ends where addresses end");
}

/// A declared pointer says where it points; the reader holds it to that.
#[test]
fn pointers_outside_of_their_buffer() {
    let param = "/trace/nodes/0/kind/kernel/params/0";
    let refused = |bytes: &str, offset: u64| {
        let value = json!({ "name": "out", "offset": 0, "bytes": bytes, "pointer": { "buffer": 0, "offset": offset } });
        refusal(param, value)
    };
    assert_says(
        &refused("0020000000000000", 0x10_0000),
        "parameter 0 (\"out\") of node n0 (\"store\") points 0x100000 bytes into buffer \"keys\", which has 0x1000 bytes",
    );
    assert_says(
        &refused("0120000000000000", 0x1001),
        "points 0x1001 bytes into",
    );
    assert_says(
        &refused("0020000000000000", u64::MAX),
        "points 0xffffffffffffffff bytes into",
    );
    assert_says(
        &refused("0020000000000000", 0),
        "holds the address 0x2000, but points 0x0 bytes into buffer \"keys\", which is 0x1000",
    );
    // An address has eight bytes.
    for (bytes, len) in [("", 0), ("00100000", 4), ("00100000000000", 7)] {
        assert_says(
            &refused(bytes, 0),
            &format!("is declared to be an address, but the parameter has {len} bytes"),
        );
    }
    for (bytes, offset) in [("0010000000000000", 0), ("0020000000000000", 0x1000)] {
        let mut file = valid();
        let pointer = json!({ "buffer": 0, "offset": offset });
        file["trace"]["nodes"][0]["kind"]["kernel"]["params"][0] =
            json!({ "offset": 0, "bytes": bytes, "pointer": pointer });
        read(&file).expect("inside, or where an empty slice at the end begins");
    }
}

#[test]
fn elements_of_no_such_size() {
    let fill = json!({ "memset": { "to": "0x1000", "bytes": 9, "value": 0, "element": 3 } });
    assert_says(
        &refusal("/trace/nodes/1/kind", fill),
        "node n1 (\"end\") fills elements of 3 bytes; there are such of 1, 2 and 4",
    );
}

/// Addresses inside a parameter are held to the same.
#[test]
fn addresses_in_fields_that_lie_elsewhere() {
    let param = "/trace/nodes/0/kind/kernel/params/0";
    let with = |bytes: &str, at: u32, offset: u64| {
        let fields = json!([{ "at": at, "buffer": 0, "offset": offset }]);
        json!({ "name": "rows", "offset": 0, "bytes": bytes, "fields": fields })
    };
    let two = "08100000000000000010000000000000";
    assert_says(
        &refusal(param, with(two, 8, 0x1001)),
        "byte 8 of parameter 0 (\"rows\") of node n0 (\"store\") points 0x1001 bytes into buffer \"keys\"",
    );
    assert_says(
        &refusal(param, with(two, 8, 8)),
        "holds the address 0x1000, but points 0x8 bytes into buffer \"keys\", which is 0x1008",
    );
    assert_says(
        &refusal(param, with(two, 16, 0)),
        "byte 16 of parameter 0 (\"rows\") of node n0 (\"store\") is declared to be an address, but the parameter has 16 bytes",
    );
    for (at, offset) in [(0, 8), (8, 0)] {
        let mut file = valid();
        file["trace"]["nodes"][0]["kind"]["kernel"]["params"][0] = with(two, at, offset);
        read(&file).expect("each address is where it says");
    }
}
