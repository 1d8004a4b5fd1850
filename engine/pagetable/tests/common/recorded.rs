//! What was done, beside what was done when somebody last looked.

/// Compares lines with the record of this name; with `VELLUM_RECORD` in the environment, writes the record anew.
pub(crate) fn compare(name: &str, told: &[String]) {
    let path = format!("{}/tests/recorded/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("VELLUM_RECORD").is_some() {
        std::fs::write(path, told.join("\n") + "\n").expect("the record can be written");
        return;
    }
    let record = std::fs::read_to_string(path).expect("the record");
    let recorded: Vec<&str> = record.lines().collect();
    assert_eq!(told.len(), recorded.len(), "lines");
    for (told, recorded) in told.iter().zip(recorded) {
        assert_eq!(told, recorded, "{name}");
    }
}
