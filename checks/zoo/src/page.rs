//! The cases as `docs/zoo.md` tells them: made from their files, so that the two cannot differ.

use crate::case::Case;

/// Characters of a line at most.
const WIDTH: usize = 120;

/// A paragraph for each.
pub fn page(cases: &[Case]) -> String {
    cases.iter().map(|case| format!("{}\n", wrapped(&paragraph(case)))).collect()
}

fn paragraph(case: &Case) -> String {
    let Case { name, happened, story, legal, engine, .. } = case;
    let legal = legal.as_ref().map_or(String::new(), |why| format!(" Legal elsewhere: {why}"));
    let engine: Vec<String> = engine.iter().map(|it| format!("`{it}` ({})", it.summary())).collect();
    let engine = if engine.is_empty() { String::new() } else { format!(" In our engine: {}.", engine.join("; ")) };
    format!("**{name}** · {happened}. {story} *{}.*{legal}{engine}", case.summary())
}

fn wrapped(text: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let is_first = lines.is_empty();
        if !is_first {
            let fits = width + 1 + length <= WIDTH;
            lines.push(if fits { ' ' } else { '\n' });
            width = if fits { width + 1 } else { 0 };
        }
        lines += word;
        width += length;
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped() {
        let text = wrapped(&"four ".repeat(60));
        assert!(text.lines().all(|line| line.len() <= WIDTH) && text.lines().count() == 3, "{text}");
        assert_eq!(text.split_whitespace().count(), 60);
    }
}
