//! Random calls against the kernel, and programs beside them that know what must hold.
//!
//! ```text
//! main ──▶ rounds ──fork──▶ attackers (attacks; arguments by table and values)   ──▶ SIGKILL ──▶ gone in time?
//!             │     └─────▶ honest programs (models) ──▶ a line and a status          memory back? canary, zeros, CPUs?
//!             └─ watch: tickers on each CPU, a canary, a sealed file, free memory
//! ```

pub mod attacker;
pub mod attacks;
pub mod model;
pub mod models;
pub mod moves;
pub mod pointers;
pub mod random;
pub mod rounds;
pub mod table;
pub mod values;
pub mod watch;

use table::{FAMILIES, Row};

/// Bytes from the count of a process's operations to that of its signs of life.
const ALIVE: u64 = 128;
/// And to the place of its scene among all, and the call that it makes.
const DOING: u64 = 256;

/// Makes a call, whatever it comes to.
fn attempt(number: libc::c_long, arguments: &[u64]) {
    // What must hold is looked at elsewhere.
    let _ = crate::call(number, arguments);
}

/// What a run is restricted to: names of scenes, of families of calls, and of calls. None: everything.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Calls by family.
    pub rows: Vec<Vec<&'static Row>>,
    names: Vec<String>,
    has_rows: bool,
}

impl Choice {
    /// What these names choose.
    pub fn new(names: &[String]) -> Self {
        let is_named = |name: &str| names.iter().any(|one| one == name);
        let of = |all: bool| {
            let rows = FAMILIES.iter().map(|(family, rows)| {
                rows.iter().filter(|row| all || is_named(family) || is_named(row.1)).collect::<Vec<_>>()
            });
            rows.filter(|rows| !rows.is_empty()).collect::<Vec<_>>()
        };
        let named = of(false);
        let has_rows = !named.is_empty();
        Self { rows: if has_rows { named } else { of(true) }, names: names.to_vec(), has_rows }
    }

    /// Whether a scene is chosen; `needs_rows` if it makes calls of the table.
    pub fn has_scene(&self, name: &str, needs_rows: bool, is_usual: bool) -> bool {
        let is_named = self.names.iter().any(|one| one == name);
        is_named || self.names.is_empty() && is_usual || self.has_rows && needs_rows && is_usual && !self.has_scenes()
    }

    /// Whether a model is chosen.
    pub fn has_models(&self) -> bool {
        models::SCENES.iter().any(|scene| self.has_scene(scene.0, false, true))
    }

    /// Whether an attack is chosen.
    pub fn has_attacks(&self) -> bool {
        attacks::SCENES.iter().any(|scene| self.has_scene(scene.0, scene.2, scene.1 > 0))
    }

    fn has_scenes(&self) -> bool {
        let mut scenes = attacks::SCENES.iter().map(|scene| scene.0).chain(models::SCENES.iter().map(|scene| scene.0));
        scenes.any(|scene| self.names.iter().any(|name| name == scene))
    }
}
