//! Damaged device trees, a fixed number of them, and hostile ones that would take for ever if time were not linear.

mod support;

use support::fuzz::{damage, fuzz_device_tree, seeds};
use support::random::Random;

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
    let mut random = Random(1);
    for length in 0..500 {
        let mut bytes: Vec<u8> = (0..length * 4).map(|_| random.next() as u8).collect();
        fuzz_device_tree(&bytes);
        if let Some(magic) = bytes.first_chunk_mut() {
            *magic = 0xd00d_feed_u32.to_be_bytes();
        }
        fuzz_device_tree(&bytes);
    }
}
