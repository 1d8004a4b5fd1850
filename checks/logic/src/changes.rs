//! What each kind of expression can be instead.

use std::ops::Range;

use syn::visit::Visit;
use syn::{Arm, BinOp, Expr, ReturnType};

use crate::finder::Finder;
use crate::operators::{self, has_let};
use crate::sites::range;

/// Longest arm that is copied to another's place.
const ARM: usize = 240;
/// Methods whose closure is a condition.
const ASKS: [&str; 11] = [
    "filter",
    "is_some_and",
    "is_none_or",
    "take_while",
    "skip_while",
    "any",
    "all",
    "position",
    "find",
    "retain",
    "partition",
];

impl Finder<'_> {
    pub(crate) fn binary(&mut self, expr: &syn::ExprBinary, is_condition: bool) {
        let (left, right, op) = (range(&expr.left), range(&expr.right), range(&expr.op));
        let [one, sign, two] = [&left, &op, &right].map(|it| self.text(it.clone()));
        let is_logic = matches!(expr.op, BinOp::And(_) | BinOp::Or(_));
        let in_chain = is_logic && (has_let(&expr.left) || has_let(&expr.right));
        let Some(change) = operators::change(&expr.op, is_condition).filter(|_| !in_chain) else {
            for side in [&expr.left, &expr.right] {
                if in_chain && !has_let(side) {
                    self.condition(side, &["false", "true"]);
                } else {
                    self.visit_expr(side);
                }
            }
            return;
        };
        let after: Vec<String> = change.others.iter().map(|it| it.tell(&one, &two)).collect();
        let after: Vec<&str> = after.iter().map(String::as_str).collect();
        let site = self.open(change.kind, op.start, format!("{one} {sign} {two}"), &after);
        let (start, between, end) = match is_logic {
            true => ("(match ", ") { Some(known) => known, None =>", " })"),
            false => ("(", ",", "))"),
        };
        self.insert(site, left.start, &format!("{start}{}§, ", change.call));
        self.is_condition = is_logic;
        self.visit_expr(&expr.left);
        self.replace(site, op, between);
        self.is_condition = is_logic;
        self.visit_expr(&expr.right);
        self.insert(site, right.end, end);
    }

    pub(crate) fn number(&mut self, expr: &Expr, digits: Option<u64>) {
        let at = range(expr);
        let text = self.text(at.clone());
        let (more, less) = (format!("{text} + 1"), format!("{text} - 1"));
        let after: &[&str] = if digits == Some(0) { &[&more] } else { &[&more, &less] };
        let site = self.open("constant", at.start, text.clone(), after);
        // Less than nothing does not compile.
        let call = if digits == Some(0) {
            format!("(::mutant::either!(§, {text}, {text} + 1))")
        } else {
            format!("(::mutant::near!(§, {text}))")
        };
        self.replace(site, at, &call);
    }

    pub(crate) fn path_expr(&mut self, expr: &Expr, path: &syn::Path) {
        let names: Vec<String> = path.segments.iter().rev().map(|segment| segment.ident.to_string()).collect();
        let Some(last) = names.first() else { return };
        let level = names.get(1).filter(|it| *it == "Level").and_then(|_| operators::level_beside(last));
        if let Some(other) = level {
            let at = range(expr);
            let before = self.text(at.clone());
            let after = before.replace(last.as_str(), other);
            let site = self.open("level", at.start, before.clone(), &[&after]);
            self.replace(site, at, &format!("(::mutant::either!(§, {before}, {after}))"));
        } else if !last.chars().any(char::is_lowercase) && last.len() > usize::from(names.len() == 1) {
            self.number(expr, None);
        }
    }

    pub(crate) fn range_expr(&mut self, expr: &syn::ExprRange) {
        let is_closed = matches!(expr.limits, syn::RangeLimits::Closed(_));
        if let Some(start) = &expr.start {
            self.boundary(start, "either", "+ 1");
        }
        if let Some(end) = &expr.end {
            self.boundary(end, if is_closed { "less" } else { "either" }, if is_closed { "- 1" } else { "+ 1" });
        }
    }

    fn boundary(&mut self, expr: &Expr, call: &str, change: &str) {
        // A number has its own site.
        if matches!(expr, Expr::Lit(_)) {
            return self.visit_expr(expr);
        }
        let at = range(expr);
        let text = self.text(at.clone());
        let site = self.open("range", at.start, text.clone(), &[&format!("{text} {change}")]);
        if call == "less" {
            self.insert(site, at.start, "(::mutant::less!(§, ");
            self.visit_expr(expr);
            self.insert(site, at.end, "))");
        } else {
            self.insert(site, at.start, "(match ");
            self.visit_expr(expr);
            self.insert(site, at.end, " { end => ::mutant::either!(§, end, end + 1) })");
        }
    }

    pub(crate) fn method(&mut self, call: &syn::ExprMethodCall, whole: &Expr) {
        let name = call.method.to_string();
        let other = operators::method_beside(&name).filter(|_| call.args.len() == 1 && call.turbofish.is_none());
        let Some((other, argument)) = other.zip(call.args.first()) else { return self.inside_method(call) };
        let (at, receiver) = (range(whole), range(&call.receiver));
        let before = self.text(at.clone());
        let after = format!("{}.{other}({})", self.text(receiver.clone()), self.text(range(argument)));
        let site = self.open("method", range(&call.method).start, before, &[&after]);
        self.insert(site, at.start, &format!("(::mutant::{name}!(§, "));
        self.visit_expr(&call.receiver);
        self.replace(site, receiver.end..range(argument).start, ", ");
        self.argument(&name, argument);
        self.replace(site, range(argument).end..at.end, "))");
    }

    fn inside_method(&mut self, call: &syn::ExprMethodCall) {
        self.visit_expr(&call.receiver);
        let name = call.method.to_string();
        call.args.iter().for_each(|it| self.argument(&name, it));
    }

    fn argument(&mut self, method: &str, argument: &Expr) {
        match argument {
            Expr::Closure(closure) if ASKS.contains(&method) && matches!(closure.output, ReturnType::Default) => {
                self.condition(&closure.body, &["false", "true"]);
            }
            _ => self.visit_expr(argument),
        }
    }

    pub(crate) fn arms(&mut self, arms: &[Arm]) {
        let bodies: Vec<Range<usize>> = arms.iter().map(|arm| range(&arm.body)).collect();
        let pairs: Vec<Option<usize>> = (1..arms.len()).map(|second| self.pair(arms, &bodies, second)).collect();
        for (number, arm) in arms.iter().enumerate() {
            self.visit_pat(&arm.pat);
            let before = number.checked_sub(1).and_then(|it| pairs[it].map(|site| (site, it)));
            let after = pairs.get(number).copied().flatten().map(|site| (site, number + 1));
            let around: Vec<(usize, usize)> = before.into_iter().chain(after).collect();
            for (site, other) in &around {
                let text = format!("{{ if ::mutant::at(§) != 0 {{ {} }} else {{ ", self.text(bodies[*other].clone()));
                self.insert(*site, bodies[number].start, &text);
            }
            self.visit_expr(&arm.body);
            for (site, _) in around.iter().rev() {
                self.insert(*site, bodies[number].end, " } }");
            }
        }
    }

    /// The site at which an arm and the one before change places.
    fn pair(&mut self, arms: &[Arm], bodies: &[Range<usize>], second: usize) -> Option<usize> {
        let [one, two] = [second - 1, second].map(|it| self.text(bodies[it].clone()));
        if one == two || one.len().max(two.len()) > ARM {
            return None;
        }
        let text = [second - 1, second].map(|it| range(&arms[it].pat).start..bodies[it].end);
        let [first, other] = text.map(|it| self.text(it));
        Some(self.open("arms", range(&arms[second].pat).start, format!("{first}, {other}"), &["swapped"]))
    }
}
