//! tries
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let t = std::time::Instant::now();
    let s = match checks::mutants::Survey::new() { Ok(s) => s, Err(e) => { println!("{e}"); return; } };
    println!("{} calls, {} mutants, survey {:?}", s.count_calls(), s.mutants().len(), t.elapsed());
    let v = s.hunt_all(&|v| if v.killer.is_none() { println!("{v} {:?}", t.elapsed()) });
    println!("{:?}", t.elapsed());
    for v in &v { println!("{v}"); }
    println!("{} of {} killed", v.iter().filter(|v| v.killer.is_some()).count(), v.len());
}
