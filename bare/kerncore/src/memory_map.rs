//! x
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {}
impl Problem {
    pub fn severity(&self) -> crate::finding::Severity {
        match *self {}
    }
}
impl core::fmt::Display for Problem {
    fn fmt(&self, _: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {}
    }
}
