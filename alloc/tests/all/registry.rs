use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use streamweir_alloc::{Lookup, Registry, RegistryError};
use streamweir_trace::ByteRange;

fn unit() -> Arc<()> {
    Arc::new(())
}

fn bytes(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end)
}

#[test]
fn an_address_finds_its_buffer_to_the_byte() {
    let registry = Registry::new();
    let keys = registry
        .register(bytes(0x1000, 0x2000), "keys", unit())
        .unwrap();
    let _values = registry
        .register(bytes(0x2000, 0x3000), "values", unit())
        .unwrap();
    let name = |address| match registry.find(address) {
        Lookup::Live(entry) => entry.name().to_string(),
        Lookup::Gone(gone) => format!("gone {}", gone.name),
        Lookup::Unknown => "unknown".into(),
    };
    assert_eq!(name(0xfff), "unknown");
    assert_eq!(name(0x1000), "keys");
    assert_eq!(name(0x1fff), "keys");
    assert_eq!(name(0x2000), "values");
    assert_eq!(name(0x3000), "unknown");
    drop(keys);
    assert_eq!(name(0x1fff), "gone keys");
    assert_eq!(registry.entries().len(), 1);
}

#[test]
fn an_overlap_names_both_buffers() {
    let registry = Registry::new();
    let _keys = registry
        .register(bytes(0x1000, 0x2000), "keys", unit())
        .unwrap();
    for range in [
        (0x1fff, 0x2001),
        (0x800, 0x1001),
        (0x1400, 0x1500),
        (0x0, 0x9000),
    ] {
        let error = registry
            .register(bytes(range.0, range.1), "view", unit())
            .unwrap_err();
        assert!(matches!(error, RegistryError::Overlap { .. }));
        let text = error.to_string();
        assert!(
            text.contains("\"view\"") && text.contains("\"keys\" at 0x1000..0x2000"),
            "{text}"
        );
    }
    let empty = registry.register(bytes(0x5000, 0x5000), "none", unit());
    assert!(matches!(empty, Err(RegistryError::Empty { .. })));
}

#[test]
fn addresses_can_be_registered_again_and_the_living_wins() {
    let registry = Registry::new();
    drop(
        registry
            .register(bytes(0x1000, 0x2000), "old", unit())
            .unwrap(),
    );
    let new = registry
        .register(bytes(0x1800, 0x1900), "new", unit())
        .unwrap();
    assert!(matches!(registry.find(0x1800), Lookup::Live(e) if Arc::ptr_eq(&e, &new)));
    assert!(matches!(registry.find(0x1000), Lookup::Gone(gone) if &*gone.name == "old"));
    drop(new);
    assert!(matches!(registry.find(0x1800), Lookup::Gone(gone) if &*gone.name == "new"));
}

/// Looks at the registry from its drop, which deadlocks under the lock.
struct Memory(Registry, Arc<AtomicBool>);

impl Drop for Memory {
    fn drop(&mut self) {
        let free = self
            .0
            .register(bytes(0x1000, 0x2000), "next", unit())
            .is_ok();
        self.1.store(free, Ordering::Relaxed);
    }
}

#[test]
fn the_keepalive_goes_last_and_under_no_lock() {
    let registry = Registry::new();
    let free = Arc::new(AtomicBool::new(false));
    let memory = Arc::new(Memory(registry.clone(), free.clone()));
    let entry = registry
        .register(bytes(0x1000, 0x2000), "keys", memory)
        .unwrap();
    let graph = entry.clone();
    drop(entry);
    assert!(matches!(registry.find(0x1000), Lookup::Live(_)));
    assert!(!free.load(Ordering::Relaxed));
    drop(graph);
    assert!(
        free.load(Ordering::Relaxed),
        "its addresses were free by then"
    );
}

#[test]
fn tombstones_are_bounded_and_the_oldest_is_forgotten() {
    let registry = Registry::new();
    for i in 0..257 {
        drop(
            registry
                .register(bytes(i * 16, i * 16 + 16), format!("b{i}"), unit())
                .unwrap(),
        );
    }
    assert!(matches!(registry.find(0), Lookup::Unknown));
    assert!(matches!(registry.find(16), Lookup::Gone(_)));
    assert!(matches!(registry.find(256 * 16), Lookup::Gone(_)));
}
