//! What is known of the guest's frames.

use std::sync::atomic::{AtomicU32, Ordering};

use vellum_audit::frames::Frames;

#[test]
fn memory_is_where_somebody_stored() {
    let frames = Frames::default();
    assert!(!frames.has_memory(0x4000_0000));
    frames.store(0, 0x4000_0000);
    assert!(frames.has_memory(0x401f_ffff) && !frames.has_memory(0x4020_0000) && !frames.has_memory(0x900_0000));
    assert!(!frames.has_memory(u64::MAX));
}

/// CPUs store in threads of their own: who marks a frame does not take away what another has just made known.
#[test]
fn a_table_stays_one_whoever_stores_beside() {
    const ROUNDS: u64 = 200_000;
    let frames = Frames::default();
    let (begun, ended) = (AtomicU32::new(0), AtomicU32::new(0));
    let mut lost = 0;
    let wait_for = |count: &AtomicU32, round: u64| {
        while u64::from(count.load(Ordering::Acquire)) < round {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                wait_for(&begun, round);
                frames.store(1, round << 12);
                ended.fetch_add(1, Ordering::Release);
            }
        });
        for round in 1..=ROUNDS {
            begun.fetch_add(1, Ordering::Release);
            frames.set_table(round << 12, true);
            wait_for(&ended, round);
            lost += u32::from(!frames.store(0, round << 12));
        }
    });
    assert_eq!(lost, 0, "tables that were lost");
}
