//! What is made of the source of `--help`: manual pages, and words that shells complete.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use terminal::Ending;

use crate::args::Arguments;
use crate::select::Failure;

/// Prints what a shell reads.
pub(crate) fn completions(shell: Shell) -> Result<Ending, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "vellum", &mut script);
    terminal::try_print(String::from_utf8_lossy(&script))?;
    Ok(Ending::Clean)
}

/// Writes `vellum.1`, and one for each command.
pub(crate) fn pages(folder: &Path) -> Result<Ending, Failure> {
    let failed = |error: std::io::Error| Failure(format!("{}: {error}: name a folder to write to", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command().disable_help_subcommand(true), folder).map_err(failed)?;
    for page in fs::read_dir(folder).map_err(failed)?.flatten() {
        let is_ours = page.file_name().to_string_lossy().starts_with("vellum");
        if is_ours && page.path().extension().is_some_and(|name| name == "1") {
            let text = fs::read_to_string(page.path()).map_err(failed)?;
            fs::write(page.path(), with_examples(&text)).map_err(failed)?;
        }
    }
    Ok(Ending::Clean)
}

/// The page with its examples line by line, as they are to be copied: what follows the options is filled and justified otherwise.
fn with_examples(page: &str) -> String {
    let Some((before, after)) = page.split_once(".SH EXTRA\n") else { return page.to_owned() };
    let end = after.find("\n.SH ").map_or(after.len(), |at| at + 1);
    let (examples, rest) = after.split_at(end);
    format!("{before}.SH EXAMPLES\n.nf\n{}\n.fi\n{rest}", examples.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_line_of_its_manual_page() {
        let folder = std::env::temp_dir().join(format!("vellum-manual-{}", std::process::id()));
        pages(&folder).unwrap_or_else(|Failure(why)| panic!("{why}"));
        for (name, help) in [
            ("vellum", include_str!("help/overview.txt")),
            ("vellum-dump", include_str!("help/dump.txt")),
            ("vellum-plan", include_str!("help/plan.txt")),
            ("vellum-judge", include_str!("help/judge.txt")),
            ("vellum-decode", include_str!("help/decode.txt")),
        ] {
            let page = fs::read_to_string(folder.join(name).with_extension("1")).expect("a page");
            let plain = page.replace("\\-", "-").replace("\\*(Aq", "'").replace("\\(aq", "'").replace("\\&", "");
            let (_, examples) = plain.split_once(".SH EXAMPLES\n.nf\n").unwrap_or_else(|| panic!("{name}: {plain}"));
            let (examples, _) = examples.split_once("\n.fi\n").expect("its end");
            let examples: Vec<&str> = examples.lines().map(str::trim_end).collect();
            for line in help.lines().filter(|line| line.starts_with("  ")) {
                assert!(examples.contains(&line.trim_end()), "{name}: {line}\n{examples:#?}");
            }
        }
        fs::remove_dir_all(folder).expect("removed");
    }
}
