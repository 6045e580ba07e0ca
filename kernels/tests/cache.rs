//! The cache of cubins: keys, whole entries, writers that meet.

use std::fs;
use std::thread;

use streamweir_kernels::compile::cache::Key;
use streamweir_kernels::compile::{Cache, Header, Program, Version, architecture};

fn program() -> Program {
    Program {
        name: "a.cu".into(),
        source: "text".into(),
        headers: vec![Header {
            name: "h.cuh".into(),
            source: "more".into(),
        }],
        toolkit_headers: false,
    }
}

const COMPILER: Version = Version {
    major: 13,
    minor: 0,
};

fn key_of(program: &Program) -> Key {
    Key::new(program, &["-arch=sm_90a".to_owned()], COMPILER)
}

#[test]
fn a_key_depends_on_all_that_the_cubin_depends_on() {
    let change = |edit: &dyn Fn(&mut Program)| {
        let mut program = program();
        edit(&mut program);
        key_of(&program)
    };
    let newer = Version {
        major: 13,
        minor: 1,
    };
    let option = |text: &str| vec![text.to_owned()];
    let keys = [
        key_of(&program()),
        change(&|p| p.name = "b.cu".into()),
        change(&|p| p.source.push(' ')),
        change(&|p| p.headers[0].name = "g.cuh".into()),
        change(&|p| p.headers[0].source.push(' ')),
        change(&|p| p.headers.clear()),
        change(&|p| p.headers.push(p.headers[0].clone())),
        change(&|p| p.toolkit_headers = true),
        // The same characters, divided otherwise.
        change(&|p| (p.name, p.source) = ("a.cut".into(), "ext".into())),
        Key::new(&program(), &option("-arch=sm_120a"), COMPILER),
        Key::new(&program(), &[], COMPILER),
        Key::new(&program(), &option("-arch=sm_90a"), newer),
    ];
    for (i, a) in keys.iter().enumerate() {
        for (j, b) in keys.iter().enumerate() {
            assert_eq!(a == b, i == j, "keys {i} and {j}");
        }
    }
    assert_eq!(keys[0], key_of(&program()));
}

#[test]
fn an_entry_is_whole_or_it_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let key = key_of(&program());
    assert_eq!(cache.get(&key).unwrap(), None);
    let cubin: Vec<u8> = (0..=255).collect();
    cache.put(&key, &cubin).unwrap();
    assert_eq!(cache.get(&key).unwrap(), Some(cubin.clone()));

    let path = cache.path(&key);
    let whole = fs::read(&path).unwrap();
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        assert_eq!(cache.get(&key).unwrap(), None, "cut to {len} bytes");
    }
    for at in 0..whole.len() {
        let mut altered = whole.clone();
        altered[at] ^= 0x40;
        fs::write(&path, altered).unwrap();
        assert_eq!(cache.get(&key).unwrap(), None, "byte {at} altered");
    }
    cache.put(&key, &cubin).unwrap();
    assert_eq!(cache.get(&key).unwrap(), Some(cubin));
}

#[test]
fn writers_that_meet_leave_one_whole_entry_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let key = key_of(&program());
    let cubin = vec![7_u8; 100_000];
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    cache.put(&key, &cubin).unwrap();
                    // Once there is an entry, no reader sees less than all of it.
                    assert_eq!(cache.get(&key).unwrap().as_ref(), Some(&cubin));
                }
            });
        }
    });
    let left: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(left, [cache.path(&key)]);
}

#[test]
fn a_failed_write_is_named_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let key = key_of(&program());
    // A folder stands where the entry should.
    fs::create_dir_all(cache.path(&key).join("in the way")).unwrap();
    let error = cache.put(&key, b"cubin").unwrap_err().to_string();
    assert!(error.starts_with("cannot replace "), "{error}");
    assert!(error.contains("STREAMWEIR_CACHE"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(cache.get(&key).is_err());
}

#[test]
fn architectures_carry_their_own_features_from_hopper_on() {
    assert_eq!(architecture((8, 0)), "sm_80");
    assert_eq!(architecture((8, 9)), "sm_89");
    assert_eq!(architecture((9, 0)), "sm_90a");
    assert_eq!(architecture((10, 3)), "sm_103a");
}
