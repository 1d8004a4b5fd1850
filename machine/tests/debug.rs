mod common;
#[path = "common/random.rs"]
mod random;
#[test]
fn debug() {
    let run = u64::from_str_radix(std::env::var("RUN").unwrap().trim_start_matches("0x"), 16).unwrap();
    let mut tally = random::Tally::default();
    random::refine_one(run, &mut tally);
}
