//! x
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem<'a> {
    A(&'a str),
}
impl core::fmt::Display for Problem<'_> {
    fn fmt(&self, _: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        Ok(())
    }
}
