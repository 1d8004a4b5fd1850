//! What can stand in the place of an operator, a method or a level.

use syn::{BinOp, Expr};

/// What becomes of `one sign two`.
pub(crate) enum Other {
    Sign(&'static str),
    One,
    Two,
}

impl Other {
    pub(crate) fn tell(&self, one: &str, two: &str) -> String {
        match self {
            Self::Sign(sign) => format!("{one} {sign} {two}"),
            Self::One => one.into(),
            Self::Two => two.into(),
        }
    }
}

/// A kind of site, what the copy calls for the operator, and what it becomes.
pub(crate) struct Change {
    pub(crate) kind: &'static str,
    pub(crate) call: &'static str,
    pub(crate) others: Vec<Other>,
}

/// The change of an operator. A condition has what negates it already, so that an operator in one has not.
pub(crate) fn change(op: &BinOp, is_condition: bool) -> Option<Change> {
    use Other::{One, Sign, Two};
    let (kind, call, mut others) = match op {
        BinOp::And(_) => ("boolean", "::mutant::and(", vec![Sign("||"), One, Two]),
        BinOp::Or(_) => ("boolean", "::mutant::or(", vec![Sign("&&"), One, Two]),
        BinOp::Lt(_) => ("comparison", "::mutant::lt!(", vec![Sign("<="), Sign(">=")]),
        BinOp::Le(_) => ("comparison", "::mutant::le!(", vec![Sign("<"), Sign(">")]),
        BinOp::Gt(_) => ("comparison", "::mutant::gt!(", vec![Sign(">="), Sign("<=")]),
        BinOp::Ge(_) => ("comparison", "::mutant::ge!(", vec![Sign(">"), Sign("<")]),
        BinOp::Eq(_) => ("comparison", "::mutant::eq!(", vec![Sign("!=")]),
        BinOp::Ne(_) => ("comparison", "::mutant::ne!(", vec![Sign("==")]),
        BinOp::Add(_) => ("arithmetic", "::mutant::add!(", vec![Sign("-")]),
        BinOp::Sub(_) => ("arithmetic", "::mutant::sub!(", vec![Sign("+")]),
        BinOp::AddAssign(_) => ("arithmetic", "::mutant::add_assign!(", vec![Sign("-=")]),
        BinOp::SubAssign(_) => ("arithmetic", "::mutant::sub_assign!(", vec![Sign("+=")]),
        BinOp::Shl(_) => ("mask", "::mutant::shl!(", vec![Sign(">>")]),
        BinOp::Shr(_) => ("mask", "::mutant::shr!(", vec![Sign("<<")]),
        BinOp::ShlAssign(_) => ("mask", "::mutant::shl_assign!(", vec![Sign(">>=")]),
        BinOp::ShrAssign(_) => ("mask", "::mutant::shr_assign!(", vec![Sign("<<=")]),
        BinOp::BitAnd(_) => ("mask", "::mutant::bitand!(", vec![Sign("|"), One]),
        BinOp::BitOr(_) => ("mask", "::mutant::bitor!(", vec![Sign("&"), One]),
        BinOp::BitXor(_) => ("mask", "::mutant::bitxor!(", vec![Sign("|")]),
        _ => return None,
    };
    if is_condition && kind == "comparison" {
        others.pop();
    }
    (!others.is_empty()).then_some(Change { kind, call, others })
}

/// Whether a statement of this operator changes what stands to its left.
pub(crate) fn assigns(op: &BinOp) -> bool {
    use BinOp::{
        AddAssign, BitAndAssign, BitOrAssign, BitXorAssign, DivAssign, MulAssign, RemAssign, ShlAssign, ShrAssign,
        SubAssign,
    };
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

/// The method that says the opposite.
pub(crate) fn method_beside(name: &str) -> Option<&'static str> {
    let pairs = [("min", "max"), ("any", "all"), ("wrapping_add", "wrapping_sub")];
    pairs.iter().find_map(|(one, other)| {
        if name == *one {
            Some(*other)
        } else if name == *other {
            Some(*one)
        } else {
            None
        }
    })
}

/// The level above, and below the root's the one below.
pub(crate) fn level_beside(name: &str) -> Option<&'static str> {
    match name {
        "MINUS_1" | "L1" => Some("L0"),
        "L0" | "L2" => Some("L1"),
        "L3" => Some("L2"),
        _ => None,
    }
}

/// Whether a pattern is matched in a condition's chain.
pub(crate) fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(it) if matches!(it.op, BinOp::And(_)) => has_let(&it.left) || has_let(&it.right),
        _ => false,
    }
}
