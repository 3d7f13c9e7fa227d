//! Host, method and path to a route.
//!
//! ```text
//! hosts     exact name -> table      "*.domain" -> table      any host -> table
//! table     a tree of path segments, and the leaf of `*`
//! node      literal children (sorted) · one parameter child · the leaf of a path that ends here · the leaf of `*rest`
//! leaf      one entry a method, and one for any method
//! ```
//!
//! **Hosts.** The host chooses first, as a `server_name` does in nginx: the tables of the exact name, of the
//! wildcards (the longest first) and of any host are asked in this order, each for its paths and then for its `*`,
//! and the first that takes the request has it. A named host that takes only some requests leaves the others to the
//! wider ones.
//!
//! **Paths.** Segment by segment, from the left, a literal beats a parameter, which beats a rest; where the better
//! branch turns out to lead nowhere the next is tried. A leaf without the method leads nowhere, so this holds
//! across methods too. Each node is visited at most once, whatever the path.
//!
//! **Methods.** At a leaf the method's own entry beats that of any method; `HEAD` without its own takes that of
//! `GET`.
//!
//! The tree is our own because the usual radix routers, `matchit` among them, refuse a parameter and a rest at one
//! place. Paths are in the matching form of [`super::path`], and literals are put into it when the table is built.
//!
//! Never done here: regular expressions, priorities by order in the file, or a look at a header other than the host.

use super::host::parents;
use super::path::canonical_literal;
use crate::config::model::{PatternSegment, RoutePattern};
use smallvec::SmallVec;
use std::collections::HashMap;

/// Parameters that a match holds without allocating.
const INLINE_PARAMETERS: usize = 4;

/// One route as it is given to [`Router::build`].
#[derive(Clone, Debug)]
pub struct RouteSpec<'a> {
    /// Canonical; `*.` starts a wildcard; empty: any host.
    pub hosts: Vec<&'a str>,
    /// What it takes.
    pub patterns: Vec<&'a RoutePattern>,
}

/// A pattern that no request can reach, because another takes all of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Index of the route in the list that was built from.
    pub route: usize,
    /// Index of the pattern in that route.
    pub pattern: usize,
    /// The route that stands before it (perhaps the same one).
    pub with: usize,
    /// The pattern of that route.
    pub with_pattern: usize,
}

/// Names and values of the path parameters, in the order of the pattern. Values are of the matching form.
pub type Parameters<'r, 'p> = SmallVec<[(&'r str, &'p str); INLINE_PARAMETERS]>;

/// The route of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteMatch<'r, 'p> {
    /// Index of the route in the list that was built from.
    pub route: usize,
    /// What the path has at the pattern's parameters; the value of a rest may be empty.
    pub parameters: Parameters<'r, 'p>,
}

/// All routes, ready to be asked.
#[derive(Debug, Default)]
pub struct Router {
    exact: HashMap<Box<str>, Table>,
    /// By domain, without the `*.`.
    wildcards: HashMap<Box<str>, Table>,
    any: Table,
}

#[derive(Debug, Default)]
struct Table {
    root: Node,
    /// `*`: what no path takes.
    default: Leaf,
}

#[derive(Debug, Default)]
struct Node {
    /// Sorted.
    literals: Vec<(Box<str>, Node)>,
    parameter: Option<Box<Node>>,
    end: Leaf,
    rest: Leaf,
}

#[derive(Debug, Default)]
struct Leaf {
    methods: Vec<(Box<str>, Entry)>,
    any: Option<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    route: usize,
    pattern: usize,
    /// Of the parameters, in the order of the path. They belong to the entry: two methods may name one place
    /// differently.
    names: Box<[Box<str>]>,
}

/// Values found on the way to a leaf.
type Values<'p> = SmallVec<[&'p str; INLINE_PARAMETERS]>;

impl Router {
    /// Builds the tables, or tells every pattern that could never be reached.
    pub fn build(routes: &[RouteSpec<'_>]) -> Result<Self, Vec<Conflict>> {
        let mut router = Self::default();
        let mut conflicts = Vec::new();
        for (route, spec) in routes.iter().enumerate() {
            for (index, pattern) in spec.patterns.iter().enumerate() {
                let taken_by = router.insert(spec, route, index, pattern);
                if let Some((with, with_pattern)) = taken_by {
                    conflicts.push(Conflict { route, pattern: index, with, with_pattern });
                }
            }
        }
        let tables = router.exact.values().chain(router.wildcards.values()).chain([&router.any]);
        for conflict in tables.flat_map(Table::hidden_defaults) {
            if !conflicts.iter().any(|known| (known.route, known.pattern) == (conflict.route, conflict.pattern)) {
                conflicts.push(conflict);
            }
        }
        conflicts.sort_unstable_by_key(|conflict| (conflict.route, conflict.pattern));
        if conflicts.is_empty() { Ok(router) } else { Err(conflicts) }
    }

    /// Adds a pattern under each of its hosts. Some: the route and pattern that already stand at one of these places.
    fn insert(
        &mut self,
        spec: &RouteSpec<'_>,
        route: usize,
        index: usize,
        pattern: &RoutePattern,
    ) -> Option<(usize, usize)> {
        let hosts: &[&str] = if spec.hosts.is_empty() { &[""] } else { &spec.hosts };
        let mut taken_by = None;
        for host in hosts {
            let table = match (host.is_empty(), host.strip_prefix("*.")) {
                (true, _) => &mut self.any,
                (false, Some(domain)) => self.wildcards.entry(domain.into()).or_default(),
                (false, None) => self.exact.entry((*host).into()).or_default(),
            };
            let other = table.insert(pattern, route, index);
            // A host that is listed twice meets only itself.
            taken_by = taken_by.or(other.filter(|other| *other != (route, index)));
        }
        taken_by
    }

    /// The route of a request, or none. `host` is canonical, `method` as sent (methods are case-sensitive, RFC 9110
    /// section 9.1), `path` the matching form; `*`, the target of `OPTIONS *`, is on no path and only a route `*`
    /// takes it.
    pub fn find<'r, 'p>(&'r self, host: &str, method: &str, path: &'p str) -> Option<RouteMatch<'r, 'p>> {
        let exact = if self.exact.is_empty() { None } else { self.exact.get(host) };
        exact.and_then(|table| table.find(method, path)).or_else(|| {
            let mut domains = if self.wildcards.is_empty() { parents("") } else { parents(host) };
            domains
                .find_map(|domain| self.wildcards.get(domain)?.find(method, path))
                .or_else(|| self.any.find(method, path))
        })
    }
}

impl Table {
    fn insert(&mut self, pattern: &RoutePattern, route: usize, index: usize) -> Option<(usize, usize)> {
        let mut names: Vec<Box<str>> = Vec::new();
        let leaf = match &pattern.path {
            None => &mut self.default,
            Some(segments) => self.root.leaf_of(segments, &mut names),
        };
        leaf.insert(pattern.method.as_deref(), Entry { route, pattern: index, names: names.into() })
    }

    fn find<'r, 'p>(&'r self, method: &str, path: &'p str) -> Option<RouteMatch<'r, 'p>> {
        let mut values = Values::new();
        let by_path = path.strip_prefix('/').and_then(|below| {
            let rest = if below.is_empty() { None } else { Some(below) };
            self.root.find(method, rest, &mut values)
        });
        let entry = by_path.or_else(|| self.default.find(method))?;
        let parameters = entry.names.iter().map(|name| &**name).zip(values).collect();
        Some(RouteMatch { route: entry.route, parameters })
    }

    /// The entries of `*` that a `/*rest` leaves nothing to, except the target of `OPTIONS *`.
    fn hidden_defaults(&self) -> impl Iterator<Item = Conflict> {
        let of_methods = self.default.methods.iter().map(|(method, entry)| (Some(&**method), entry));
        let of_any = self.default.any.iter().map(|entry| (None, entry));
        of_methods.chain(of_any).filter_map(|(method, entry)| {
            let with = match method {
                Some(method) => self.root.rest.find(method)?,
                None => self.root.rest.any.as_ref()?,
            };
            let Entry { route, pattern, .. } = *entry;
            Some(Conflict { route, pattern, with: with.route, with_pattern: with.pattern })
        })
    }
}

impl Node {
    /// The leaf of a pattern, made where it is missing. An empty literal at the end is a trailing slash, which
    /// routes do not see.
    fn leaf_of(&mut self, segments: &[PatternSegment], names: &mut Vec<Box<str>>) -> &mut Leaf {
        match segments.split_first() {
            None => &mut self.end,
            Some((PatternSegment::Literal(literal), [])) if literal.is_empty() => &mut self.end,
            Some((PatternSegment::Literal(literal), rest)) => self.literal(literal).leaf_of(rest, names),
            Some((PatternSegment::Parameter(name), rest)) => {
                names.push(name.as_str().into());
                self.parameter.get_or_insert_default().leaf_of(rest, names)
            }
            Some((PatternSegment::Rest(name), _)) => {
                names.push(name.as_str().into());
                &mut self.rest
            }
        }
    }

    fn literal(&mut self, literal: &str) -> &mut Node {
        let literal = canonical_literal(literal);
        let place = self.literals.binary_search_by(|(known, _)| (**known).cmp(&literal));
        let index = place.unwrap_or_else(|index| {
            self.literals.insert(index, (literal.into(), Node::default()));
            index
        });
        &mut self.literals[index].1
    }

    /// Walks down along `path`, which is what follows the slash after this node; none when the path ends here.
    /// Leaves in `values` what the parameters on the way to the entry hold, and on failure what was there.
    fn find<'r, 'p>(&'r self, method: &str, path: Option<&'p str>, values: &mut Values<'p>) -> Option<&'r Entry> {
        let Some(path) = path else {
            return self.end.find(method).or_else(|| self.find_rest(method, "", values));
        };
        let (segment, below) = match path.split_once('/') {
            Some((segment, below)) => (segment, Some(below)),
            None => (path, None),
        };
        let literal = self.literals.binary_search_by(|(known, _)| (**known).cmp(segment)).ok();
        if let Some(entry) = literal.and_then(|index| self.literals[index].1.find(method, below, values)) {
            return Some(entry);
        }
        if let Some(parameter) = self.parameter.as_deref().filter(|_| !segment.is_empty()) {
            values.push(segment);
            if let Some(entry) = parameter.find(method, below, values) {
                return Some(entry);
            }
            values.pop();
        }
        self.find_rest(method, path, values)
    }

    fn find_rest<'r, 'p>(&'r self, method: &str, rest: &'p str, values: &mut Values<'p>) -> Option<&'r Entry> {
        let entry = self.rest.find(method)?;
        values.push(rest);
        Some(entry)
    }
}

impl Leaf {
    /// Some: the route and pattern that stand here for this method already.
    fn insert(&mut self, method: Option<&str>, entry: Entry) -> Option<(usize, usize)> {
        let place = match method {
            None => &mut self.any,
            Some(method) => {
                let Some((_, known)) = self.methods.iter().find(|(known, _)| **known == *method) else {
                    self.methods.push((method.into(), entry));
                    return None;
                };
                return Some((known.route, known.pattern));
            }
        };
        match place {
            Some(known) => Some((known.route, known.pattern)),
            None => {
                *place = Some(entry);
                None
            }
        }
    }

    fn find(&self, method: &str) -> Option<&Entry> {
        let own = |method: &str| self.methods.iter().find(|(known, _)| **known == *method).map(|(_, entry)| entry);
        own(method).or_else(|| if method == "HEAD" { own("GET") } else { None }).or(self.any.as_ref())
    }
}

#[cfg(test)]
mod tests;
