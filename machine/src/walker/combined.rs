//! Walks of a whole context: stage 1, with stage 2 beneath it for every descriptor and for the output. (DDI 0487, D8.2.1)

use super::{Leaf, Reader, stage1, stage2};
use crate::attributes::{Attributes, Permissions};
use crate::context::Stage1;
use crate::descriptor::stage2::combine;
use crate::syndrome::{AccessKind, Fault, FaultKind};

/// What a context's walk found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation {
    /// Stage 1's leaf; `None` where stage 1 is off.
    pub first: Option<Leaf>,
    /// Stage 2's leaf; `None` where there is no stage 2.
    pub second: Option<Leaf>,
    /// Physical address.
    pub output: u64,
    /// Both stages together.
    pub attributes: Attributes,
}

/// Translates `address` in `context` without looking at permissions of the access itself.
///
/// # Errors
/// The fault that the walk takes.
pub fn translate(context: &Stage1, address: u64, reader: &mut impl Reader) -> Result<Translation, Fault> {
    let mut locate = |descriptor, read: &mut dyn FnMut(u64) -> u64| match &context.stage2 {
        None => Ok(descriptor),
        Some(beneath) => {
            let mut read = |address| read(address);
            let fault = |fault| Fault { is_on_walk: true, ..fault };
            let leaf = stage2::walk(beneath, descriptor, &mut read).map_err(fault)?;
            if !leaf.attributes.permissions.has(Permissions::READ) {
                return Err(fault(Fault::stage2(FaultKind::Permission, leaf.level, descriptor)));
            }
            Ok(leaf.translate(descriptor))
        }
    };
    let first = if context.is_flat { None } else { Some(stage1::walk(context, address, reader, &mut locate)?) };
    let intermediate = first.map_or(address, |leaf| leaf.translate(address));
    let Some(beneath) = &context.stage2 else {
        let leaf = first.expect("a context without stage 2 has stage 1");
        return Ok(Translation { first, second: None, output: intermediate, attributes: leaf.attributes });
    };
    let second = stage2::walk(beneath, intermediate, reader)?;
    let attributes = first.map_or(second.attributes, |leaf| combine(beneath, leaf.attributes, second.attributes));
    Ok(Translation { first, second: Some(second), output: second.translate(intermediate), attributes })
}

/// The permission that an access needs.
pub const fn needed(kind: AccessKind, is_user: bool) -> u8 {
    match (kind, is_user) {
        (AccessKind::Read, false) => Permissions::READ,
        (AccessKind::Write, false) => Permissions::WRITE,
        (AccessKind::Fetch, false) => Permissions::EXECUTE,
        (AccessKind::Read, true) => Permissions::USER_READ,
        (AccessKind::Write, true) => Permissions::USER_WRITE,
        (AccessKind::Fetch, true) => Permissions::USER_EXECUTE,
    }
}
