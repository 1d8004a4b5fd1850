//! Damaged device trees, a fixed number of them, and hostile ones that would take for ever if time were not linear.

mod support;

use seed::Seed;
use support::fuzz::{damage, fuzz_device_tree, seeds};
use support::{hostile, read};

#[test]
fn damaged_blobs_are_survived() {
    let seeds = seeds();
    for seed in 0..4000 {
        fuzz_device_tree(&damage(&seeds, seed));
    }
}

#[test]
fn every_truncation_is_survived() {
    for blob in seeds() {
        for length in 0..blob.len().min(6000) {
            fuzz_device_tree(&blob[..length]);
        }
    }
}

#[test]
fn noise_is_survived() {
    let mut random = Seed::new(1);
    for length in 0..500 {
        let mut bytes: Vec<u8> = (0..length * 4).map(|_| random.bits() as u8).collect();
        fuzz_device_tree(&bytes);
        if let Some(magic) = bytes.first_chunk_mut() {
            *magic = 0xd00d_feed_u32.to_be_bytes();
        }
        fuzz_device_tree(&bytes);
    }
}

/// Trees of half a megabyte in which anything but linear time would be hours.
#[test]
fn hostile_blobs_end_soon() {
    for (label, blob) in hostile::blobs(1 << 19) {
        let (_, findings) = read(&blob);
        assert!(findings.iter().count() > 0, "{label}");
        fuzz_device_tree(&blob);
    }
}
