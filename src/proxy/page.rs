//! `[responses.rate_limited]`, made ready: what an operator adds to the answer of a limit.
//!
//! The global table, a tier's and a route's are laid over one another once, when the configuration is read, field by
//! field. What makes an answer true (its waits, its numbers, its framing) is not open to them: the configuration refuses
//! header names that are the gateway's own.

use super::template::{self, Template, TemplateError};
use crate::config::Problem;
use crate::config::model::{Located, RateLimited};
use http::{HeaderName, HeaderValue};

/// The page of one route and tier.
#[derive(Clone, Debug)]
pub struct ResponsePage {
    pub documentation_url: Option<Box<str>>,
    pub upgrade_url: Option<Box<str>>,
    /// Of the body that is sent when the client asked for nothing else.
    pub content_type: HeaderValue,
    /// Absent: the built-in JSON.
    pub template: Option<Template>,
    /// Added to a 429; each replaces what the gateway would have sent under that name.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Default for ResponsePage {
    fn default() -> Self {
        Self {
            documentation_url: None,
            upgrade_url: None,
            content_type: HeaderValue::from_static("application/json"),
            template: None,
            headers: Vec::new(),
        }
    }
}

impl ResponsePage {
    /// Lays `layers` over one another, the widest first: global, tier, route. A field that a narrower table has
    /// replaces the wider one's, `headers` as a whole; an empty body is the built-in JSON. The content type describes
    /// a template; the built-in body keeps it only where it is a kind of JSON.
    pub fn compile(layers: &[&RateLimited]) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let narrowest = || layers.iter().rev().copied();
        let text =
            |field: fn(&RateLimited) -> Option<&String>| narrowest().find_map(field).map(|text| text.as_str().into());
        let mut page = Self {
            documentation_url: text(|layer| layer.documentation_url.as_ref()),
            upgrade_url: text(|layer| layer.upgrade_url.as_ref()),
            ..Self::default()
        };
        let body = narrowest().find_map(|layer| layer.body.as_ref()).filter(|body| !body.value.is_empty());
        let content_type = narrowest().find_map(|layer| layer.content_type.as_deref());
        if let Some(content_type) = content_type.filter(|text| body.is_some() || template::is_json(text)) {
            match HeaderValue::from_str(content_type) {
                Ok(value) => page.content_type = value,
                Err(_) => problems.push(Problem::unplaced(format!("`{content_type}` is not a content type"))),
            }
        }
        if let Some(body) = body {
            match Template::parse(&body.value, content_type.unwrap_or("application/json")) {
                Ok(template) => page.template = Some(template),
                Err(error) => problems.push(template_problem(body, error)),
            }
        }
        for (name, value) in
            narrowest().map(|layer| &layer.headers).find(|headers| !headers.is_empty()).into_iter().flatten()
        {
            match extra_header(name, value) {
                Ok(header) => page.headers.push(header),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(page) } else { Err(problems) }
    }
}

/// The place is that of the setting: the template may stand in a file of its own, so its line and column are told in
/// the message.
fn template_problem(body: &Located<String>, error: TemplateError) -> Problem {
    let before = body.value.get(..error.offset).unwrap_or(&body.value);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let message = format!("{} (line {line}, column {column} of the body)", error.message);
    let problem = Problem::error(body.at, message);
    match error.hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

fn extra_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Problem> {
    let invalid = || Problem::unplaced(format!("`{name}` with this value is not a header"));
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
    Ok((name, HeaderValue::from_str(value).map_err(|_| invalid())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Place;

    fn table(body: Option<&str>, content_type: Option<&str>) -> RateLimited {
        let at = Place { file: 3, start: 10, end: 20 };
        RateLimited {
            body: body.map(|value| Located { value: value.to_owned(), at }),
            content_type: content_type.map(str::to_owned),
            ..RateLimited::default()
        }
    }

    fn with_headers(headers: &[(&str, &str)]) -> RateLimited {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        RateLimited { headers, ..RateLimited::default() }
    }

    #[test]
    fn a_narrower_table_replaces_field_by_field() {
        let global = RateLimited {
            documentation_url: Some("https://docs.example.com/".to_owned()),
            upgrade_url: Some("https://example.com/pricing".to_owned()),
            headers: vec![("X-Support".to_owned(), "api@example.com".to_owned())],
            ..table(Some("global"), Some("text/plain"))
        };
        let tier = RateLimited { upgrade_url: Some("https://example.com/pro".to_owned()), ..RateLimited::default() };
        let route = RateLimited {
            headers: with_headers(&[("x-a", "1"), ("x-b", "2")]).headers,
            ..table(Some("{{policy}}"), None)
        };
        let page = ResponsePage::compile(&[&global, &tier, &route]).expect("valid");
        assert_eq!(page.documentation_url.as_deref(), Some("https://docs.example.com/"));
        assert_eq!(page.upgrade_url.as_deref(), Some("https://example.com/pro"));
        assert_eq!(page.content_type, "text/plain");
        assert!(page.template.is_some());
        assert_eq!(page.headers.len(), 2);
        let page = ResponsePage::compile(&[&global]).expect("valid");
        assert_eq!(page.headers, [(HeaderName::from_static("x-support"), HeaderValue::from_static("api@example.com"))]);
    }

    #[test]
    fn without_a_template_the_content_type_is_a_kind_of_json() {
        let vectors = [
            (None, None, "application/json"),
            (None, Some("text/html"), "application/json"),
            (None, Some("application/vnd.example+json"), "application/vnd.example+json"),
            (Some(""), Some("text/html"), "application/json"),
            (Some("x"), None, "application/json"),
            (Some("x"), Some("text/html; charset=utf-8"), "text/html; charset=utf-8"),
        ];
        for (body, content_type, expected) in vectors {
            let page = ResponsePage::compile(&[&table(body, content_type)]).expect("valid");
            assert_eq!(page.content_type, expected, "{body:?} {content_type:?}");
        }
        let page =
            ResponsePage::compile(&[&table(Some("x"), Some("text/html")), &table(Some(""), None)]).expect("valid");
        assert!(page.template.is_none());
    }

    #[test]
    fn a_bad_template_is_a_problem_at_its_setting() {
        let problems = ResponsePage::compile(&[&table(Some("é\nwait {{ retry }}"), None)]).expect_err("unknown member");
        assert_eq!(problems[0].message, "a template has no member `retry` (line 2, column 6 of the body)");
        assert_eq!(problems[0].place, Some(Place { file: 3, start: 10, end: 20 }));
        assert_eq!(problems[0].hint.as_deref(), Some("did you mean `retry_after_seconds`?"));
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let bad = RateLimited {
            headers: with_headers(&[("a b", "1"), ("x-a", "1\r\nx-b: 2")]).headers,
            ..table(Some("{{"), Some("text/plain\r\nx: y"))
        };
        assert_eq!(ResponsePage::compile(&[&bad]).expect_err("four problems").len(), 4);
    }
}
