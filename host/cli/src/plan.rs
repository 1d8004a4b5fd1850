//! `vellum plan`: what a linear map would be made of, before there is one.
//!
//! The maps are painted, protected and healed by `linearmap` and the engine, as a kernel's are: nothing is estimated.

pub(crate) mod build;
mod host;
pub(crate) mod memory;
mod plot;
pub(crate) mod shape;
mod shown;
mod tell;

use terminal::Ending;

use crate::args::PlanArguments;
use crate::select::Failure;
use crate::{page, say};

use build::Column;
pub(crate) use build::build;

/// Runs the command.
pub(crate) fn run(arguments: &PlanArguments) -> Result<Ending, Failure> {
    arguments.output.as_deref().map_or(Ok(()), page::claim)?;
    let memory = memory::read(&arguments.memory, &arguments.access)?;
    if arguments.heal && arguments.protect == 0 {
        return Err(Failure("--heal has nothing to heal: say how many pages with --protect N".to_owned()));
    }
    let mut columns: Vec<Column> = Vec::new();
    // What is asked for twice is one column.
    let mut asked = Vec::new();
    for &page_size in &arguments.page_size {
        for &policy in &arguments.policy {
            if asked.contains(&(page_size, policy)) {
                continue;
            }
            asked.push((page_size, policy));
            columns.push(build(&memory, page_size, policy, arguments)?);
        }
    }
    let end = memory.ranges.last().map_or(0, |range| range.end);
    if end > 1 << build::NARROW_BITS {
        let mut sizes: Vec<_> = columns.iter().map(|column| column.shape.page_size).collect();
        sizes.dedup();
        sizes.into_iter().for_each(|size| say::note(build::needs_wide(size)));
    }
    if arguments.protect > columns[0].protected.as_ref().map_or(0, |of| of.pages) {
        say::note("there is not so much memory: fewer pages are protected");
    }
    if let Some(file) = &arguments.output {
        page::write(file, &shown::page(&memory, &columns))?;
        return Ok(Ending::Clean);
    }
    let text = if arguments.json { tell::json(&memory, &columns) } else { tell::text(&memory, &columns) };
    terminal::try_print(text)?;
    Ok(Ending::Clean)
}
