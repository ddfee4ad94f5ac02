//! Reads the machine's apt configuration: which mirrors it uses.
//!
//! Both forms of `sources.list(5)`: one line a source, and deb822 stanzas.

use std::{fs, path::Path};

/// One place that packages come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// The mirror, as apt understands it (`http:`, `mirror+file:`, …).
    pub(super) uri: String,
    /// The suites that the machine takes from it.
    pub(super) suites: Vec<String>,
    /// `main` and friends.
    pub(super) components: Vec<String>,
    /// The keyring file that vouches for it, when one is named.
    pub(super) signed_by: Option<String>,
}

impl Source {
    /// Whether this source has component `main` of a suite that `wanted` accepts.
    pub(super) fn offers(&self, wanted: impl Fn(&str) -> bool) -> bool {
        let main = self.components.iter().any(|component| component == "main");
        main && self.suites.iter().any(|suite| wanted(suite))
    }

    /// The one-line form of this source, for `suite`.
    pub(super) fn line(&self, suite: &str) -> String {
        let keyring = self.signed_by.as_ref();
        let options = keyring
            .map(|file| format!("[signed-by={file}] "))
            .unwrap_or_default();
        format!("deb {options}{} {suite} main\n", self.uri)
    }
}

/// Every enabled source in the apt configuration folder `etc`.
pub(super) fn read(etc: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    if let Ok(text) = fs::read_to_string(etc.join("sources.list")) {
        sources.extend(parse_lines(&text));
    }
    let Ok(parts) = fs::read_dir(etc.join("sources.list.d")) else {
        return sources;
    };
    let mut paths: Vec<_> = parts.flatten().map(|part| part.path()).collect();
    paths.sort();
    for path in paths {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("list") => sources.extend(parse_lines(&text)),
            Some("sources") => sources.extend(parse_stanzas(&text)),
            _ => {}
        }
    }
    sources
}

fn parse_lines(text: &str) -> Vec<Source> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Source> {
    let line = line.split('#').next()?.trim();
    let mut rest = line
        .strip_prefix("deb")?
        .strip_prefix([' ', '\t'])?
        .trim_start();
    let mut signed_by = None;
    if let Some(opened) = rest.strip_prefix('[') {
        let (options, after) = opened.split_once(']')?;
        let keyring = options
            .split_whitespace()
            .find_map(|word| word.strip_prefix("signed-by="));
        signed_by = keyring.map(str::to_owned);
        rest = after;
    }
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = (words.next()?, words.next()?);
    usable(&uri).then(|| Source {
        uri,
        suites: vec![suite],
        components: words.collect(),
        signed_by,
    })
}

fn parse_stanzas(text: &str) -> Vec<Source> {
    let text: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    text.split(|line| line.trim().is_empty())
        .flat_map(parse_stanza)
        .collect()
}

fn parse_stanza(lines: &[&str]) -> Vec<Source> {
    let words = |name: &str| field(lines, name);
    let disabled = words("Enabled").first().is_some_and(|word| word == "no");
    if disabled || !words("Types").iter().any(|kind| kind == "deb") {
        return Vec::new();
    }
    // A key that stands in the stanza itself can't be passed on in one line;
    // apt's own trusted keyrings are used then.
    let signed_by = words("Signed-By")
        .into_iter()
        .next()
        .filter(|word| word.starts_with('/'));
    let uris = words("URIs").into_iter().filter(|uri| usable(uri));
    uris.map(|uri| Source {
        uri,
        suites: words("Suites"),
        components: words("Components"),
        signed_by: signed_by.clone(),
    })
    .collect()
}

/// The words of a deb822 field, its continuation lines included.
fn field(lines: &[&str], name: &str) -> Vec<String> {
    let is_start = |line: &&str| {
        let (key, _) = line.split_once(':').unwrap_or_default();
        key.eq_ignore_ascii_case(name)
    };
    let mut rest = lines.iter().skip_while(|line| !is_start(line));
    let Some((_, first)) = rest.next().and_then(|line| line.split_once(':')) else {
        return Vec::new();
    };
    let more = rest
        .take_while(|line| line.starts_with([' ', '\t']))
        .copied();
    [first]
        .into_iter()
        .chain(more)
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect()
}

fn usable(uri: &str) -> bool {
    !uri.starts_with("cdrom:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_one_line_sources_with_and_without_options() {
        let text = "# a comment\n\
                    deb http://mirror.example/debian bookworm main contrib\n\
                    deb-src http://mirror.example/debian bookworm main\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://m.example/d sid main # why\n\
                    deb cdrom:[Debian]/ bookworm main\n";
        let sources = parse_lines(text);
        assert_eq!(sources.len(), 2);
        assert_eq!(sources[0].components, ["main", "contrib"]);
        assert_eq!(sources[1].signed_by.as_deref(), Some("/k.gpg"));
        assert_eq!(
            sources[1].line("sid"),
            "deb [signed-by=/k.gpg] http://m.example/d sid main\n"
        );
    }

    #[test]
    fn reads_stanzas_with_comments_and_several_suites() {
        let text = "Types: deb\n# note\nURIs: http://mirror.example/debian\n\
                    Suites: trixie trixie-updates\nComponents: main\n\
                    Signed-By: /usr/share/keyrings/k.pgp\n\n\
                    Types: deb\nURIs: http://mirror.example/security\n\
                    Suites: trixie-security\nComponents: main\n";
        let sources = parse_stanzas(text);
        assert_eq!(sources.len(), 2);
        assert_eq!(sources[0].suites, ["trixie", "trixie-updates"]);
        assert_eq!(
            sources[0].signed_by.as_deref(),
            Some("/usr/share/keyrings/k.pgp")
        );
        assert!(sources[0].offers(|suite| suite == "trixie"));
        assert!(!sources[1].offers(|suite| suite == "trixie"));
    }

    #[test]
    fn a_disabled_stanza_is_no_source() {
        let text = "Enabled: no\nTypes: deb\nURIs: http://m.example\nSuites: s\nComponents: main\n";
        assert!(parse_stanzas(text).is_empty());
    }

    #[test]
    fn a_key_inside_the_stanza_is_left_to_the_trusted_keyrings() {
        let text = "Types: deb\nURIs: http://m.example\nSuites: s\nComponents: main\n\
                    Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n abc\n";
        assert_eq!(parse_stanzas(text)[0].signed_by, None);
    }
}
