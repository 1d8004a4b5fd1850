//! The visitor of a source file's syntax that finds its sites.

use std::collections::HashSet;
use std::mem;
use std::ops::Range;

use syn::visit::{self, Visit};
use syn::{Attribute, Block, Expr, Item, Lit, Pat, ReturnType, Signature, Stmt, Type, UnOp};

use crate::operators::{self, has_let};
use crate::sites::{Edit, Site, range};

/// Longest text that is told of a site.
const TOLD: usize = 100;
/// The sites of a file, in the order of its text.
pub(crate) fn find(file: &str, text: &str) -> Result<Vec<Site>, String> {
    let parsed = syn::parse_file(text).map_err(|error| format!("{file}: {error}"))?;
    let mut finder = Finder::new(file, text);
    finder.visit_file(&parsed);
    Ok(finder.sites)
}

/// Visits a file.
pub(crate) struct Finder<'t> {
    file: String,
    text: &'t str,
    /// The type and the functions around.
    path: Vec<String>,
    is_const: bool,
    /// The next expression is a condition: what negates it is told of already.
    pub(crate) is_condition: bool,
    /// Where last statements begin that have no value.
    unit_tails: HashSet<usize>,
    orders: usize,
    pub(crate) sites: Vec<Site>,
}

impl<'t> Finder<'t> {
    pub(crate) fn new(file: &str, text: &'t str) -> Self {
        let (path, unit_tails, sites) = (Vec::new(), HashSet::new(), Vec::new());
        Self { file: file.into(), text, path, is_const: false, is_condition: false, unit_tails, orders: 0, sites }
    }

    /// A new site, which has no edits yet.
    pub(crate) fn open(&mut self, kind: &'static str, at: usize, before: String, after: &[&str]) -> usize {
        let line_start = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        self.sites.push(Site {
            file: self.file.clone(),
            line: self.text[..at].matches('\n').count() + 1,
            column: self.text[line_start..at].chars().count() + 1,
            function: self.path.join("::"),
            kind,
            before: shorten(&before),
            after: after.iter().map(|it| shorten(it)).collect(),
            edits: Vec::new(),
            is_const: self.is_const,
        });
        self.sites.len() - 1
    }

    pub(crate) fn replace(&mut self, site: usize, removed: Range<usize>, text: &str) {
        self.orders += 1;
        let (at, removed, order) = (removed.start, removed.len(), self.orders);
        self.sites[site].edits.push(Edit { at, removed, order, text: text.into() });
    }

    pub(crate) fn insert(&mut self, site: usize, at: usize, text: &str) {
        self.replace(site, at..at, text);
    }

    pub(crate) fn text(&self, range: Range<usize>) -> String {
        self.text[range].into()
    }

    /// Visits an expression between two texts.
    fn wrap(&mut self, site: usize, expr: &Expr, start: &str, end: &str) {
        let at = range(expr);
        self.insert(site, at.start, start);
        self.inside(expr);
        self.insert(site, at.end, end);
    }

    /// Visits what an expression is made of.
    pub(crate) fn inside(&mut self, expr: &Expr) {
        match expr {
            Expr::Call(call) => {
                if !matches!(*call.func, Expr::Path(_)) {
                    self.visit_expr(&call.func);
                }
                call.args.iter().for_each(|it| self.visit_expr(it));
            }
            Expr::Repeat(repeat) => self.visit_expr(&repeat.expr),
            Expr::Const(_) | Expr::Macro(_) => {}
            Expr::Struct(it) => {
                it.fields.iter().for_each(|field| {
                    // `Self { a, b }` names fields: nothing can stand around a name.
                    if field.colon_token.is_some() {
                        self.visit_expr(&field.expr);
                    }
                });
                it.rest.iter().for_each(|rest| self.visit_expr(rest));
            }
            _ => visit::visit_expr(self, expr),
        }
    }

    /// An expression whose value decides.
    pub(crate) fn condition(&mut self, expr: &Expr, variants: &[&str]) {
        let at = range(expr);
        let before = self.text(at.clone());
        let site = self.open("condition", at.start, before, variants);
        if has_let(expr) {
            self.visit_expr(expr);
            self.sites[site].after.truncate(1);
            self.insert(site, at.end, " && ::mutant::keep(§)");
        } else {
            self.insert(site, at.start, "::mutant::condition(§, ");
            self.is_condition = true;
            self.visit_expr(expr);
            self.insert(site, at.end, ")");
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        let was_const = mem::replace(&mut self.is_const, signature.constness.is_some());
        self.path.push(signature.ident.to_string());
        if let ReturnType::Default = signature.output {
            self.note_tail(block);
        }
        let is_one_value = matches!(&block.stmts[..], [] | [Stmt::Expr(Expr::Lit(_) | Expr::Path(_), None)]);
        if let Some((after, text)) = returned(&signature.output).filter(|_| !is_one_value) {
            let at = range(&block.brace_token.span.open()).end;
            let site = self.open("early return", at, "the body".into(), after);
            self.insert(site, at, text);
        }
        self.visit_block(block);
        self.path.pop();
        self.is_const = was_const;
    }

    /// The last statement of a block without a value may be left out like any other.
    fn note_tail(&mut self, block: &Block) {
        if let Some(Stmt::Expr(last @ (Expr::Call(_) | Expr::MethodCall(_)), None)) = block.stmts.last() {
            self.unit_tails.insert(range(last).start);
        }
    }
}

/// What a function can return at once, and how.
fn returned(output: &ReturnType) -> Option<(&'static [&'static str], &'static str)> {
    let ReturnType::Type(_, ty) = output else {
        return Some((&["return"], " if ::mutant::at(§) != 0 { return; }"));
    };
    let Type::Path(path) = &**ty else { return None };
    match path.path.segments.last()?.ident.to_string().as_str() {
        "bool" => Some((&["return false", "return true"], " if ::mutant::at(§) != 0 { return ::mutant::at(§) == 2; }")),
        "Option" => Some((&["return None"], " if ::mutant::at(§) != 0 { return None; }")),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i32" => {
            Some((&["return 0"], " if ::mutant::at(§) != 0 { return 0; }"))
        }
        _ => None,
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Fn(it) => &it.attrs,
            Item::Impl(it) => &it.attrs,
            Item::Mod(it) => &it.attrs,
            Item::Trait(it) => &it.attrs,
            _ => return,
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        // What is printed is compared by whoever prints it.
        let traits = item.trait_.as_ref().and_then(|(path, _)| path.segments.last());
        if traits.is_some_and(|it| ["Display", "Debug", "LowerHex"].iter().any(|name| it.ident == name)) {
            return;
        }
        self.path.push(type_name(&item.self_ty));
        for it in &item.items {
            if let syn::ImplItem::Fn(function) = it
                && !is_for_tests(&function.attrs)
            {
                self.function(&function.sig, &function.block);
            }
        }
        self.path.pop();
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.path.push(item.ident.to_string());
        for it in &item.items {
            if let syn::TraitItem::Fn(function) = it
                && let Some(block) = &function.default
            {
                self.function(&function.sig, block);
            }
        }
        self.path.pop();
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        let Stmt::Expr(expr, end) = stmt else { return visit::visit_stmt(self, stmt) };
        let at = range(stmt);
        let is_done = match expr {
            Expr::Call(_) | Expr::MethodCall(_) if end.is_none() => self.unit_tails.contains(&at.start),
            Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) | Expr::Try(_) | Expr::Continue(_) => end.is_some(),
            Expr::Return(_) | Expr::Break(_) => end.is_some(),
            Expr::Binary(binary) => end.is_some() && operators::assigns(&binary.op),
            _ => false,
        };
        if !is_done {
            return self.visit_expr(expr);
        }
        let before = self.text(at.clone());
        let site = self.open("statement", at.start, before, &["nothing"]);
        self.insert(site, at.start, "if ::mutant::keep(§) { ");
        self.visit_expr(expr);
        self.insert(site, at.end, " }");
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        let is_condition = mem::take(&mut self.is_condition);
        match expr {
            Expr::Paren(it) => {
                self.is_condition = is_condition;
                self.visit_expr(&it.expr);
            }
            Expr::Binary(it) => self.binary(it, is_condition),
            Expr::Unary(it) if matches!(it.op, UnOp::Not(_)) && !is_condition => {
                let (before, after) = (self.text(range(expr)), self.text(range(&it.expr)));
                let site = self.open("negation", range(expr).start, before, &[&after]);
                self.insert(site, range(expr).start, "(::mutant::not!(§, ");
                self.replace(site, range(&it.op), "");
                self.visit_expr(&it.expr);
                self.insert(site, range(expr).end, "))");
            }
            Expr::Lit(it) => match &it.lit {
                Lit::Int(number) => self.number(expr, number.base10_parse().ok()),
                Lit::Bool(value) => {
                    let other = (!value.value).to_string();
                    let site = self.open("constant", range(expr).start, value.value.to_string(), &[&other]);
                    self.wrap(site, expr, "(::mutant::not!(§, !", "))");
                }
                _ => {}
            },
            Expr::Path(it) => self.path_expr(expr, &it.path),
            Expr::Range(it) => self.range_expr(it),
            Expr::If(it) => {
                self.condition(&it.cond, &["false", "true"]);
                self.visit_block(&it.then_branch);
                it.else_branch.iter().for_each(|(_, other)| self.visit_expr(other));
            }
            Expr::While(it) => {
                self.note_tail(&it.body);
                self.condition(&it.cond, &["false"]);
                self.visit_block(&it.body);
            }
            Expr::ForLoop(it) => {
                self.note_tail(&it.body);
                self.inside(expr);
            }
            Expr::Loop(it) => {
                self.note_tail(&it.body);
                self.inside(expr);
            }
            Expr::Match(it) => {
                self.visit_expr(&it.expr);
                self.arms(&it.arms);
            }
            Expr::MethodCall(it) => self.method(it, expr),
            _ => self.inside(expr),
        }
    }

    fn visit_pat(&mut self, pat: &'a Pat) {
        if let Pat::Guard(it) = pat {
            self.condition(&it.guard, &["false", "true"]);
        }
    }

    fn visit_type(&mut self, _: &'a Type) {}
    fn visit_path(&mut self, _: &'a syn::Path) {}
    fn visit_generics(&mut self, _: &'a syn::Generics) {}
    fn visit_attribute(&mut self, _: &'a Attribute) {}
}

fn type_name(ty: &Type) -> String {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|it| it.ident.to_string()).unwrap_or_default(),
        _ => String::new(),
    }
}

/// What the engine's users do not build.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| match &it.meta {
        syn::Meta::List(list) => {
            list.path.is_ident("cfg") && ["test", "debug_assertions"].contains(&list.tokens.to_string().as_str())
        }
        meta => meta.path().is_ident("test"),
    })
}

/// One line, and not a long one.
fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TOLD) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests;
