//! Fetches MySQL's packages with the machine's own apt and unpacks them.
//!
//! apt gets lists, cache, status and sources of its own, so that it touches
//! nothing of the system; it checks signatures with the machine's keyrings.
//! An empty status file makes it list every dependency, libc included.
//!
//! Debian has MySQL in `sid` alone (the stable suites carry MariaDB); Ubuntu
//! has it in each release.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use super::{
    ProvisionError, cache, run,
    sources::{self, Source},
};

/// Fetches the server and its client tools into `root`.
pub(super) fn fetch(root: &Path) -> Result<(), ProvisionError> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let sources = source_list(&release, &sources::read(Path::new("/etc/apt")))?;
    let work = tempfile::tempdir_in(root.parent().unwrap_or(root))
        .map_err(|error| ProvisionError::cache(root, error))?;
    let apt = Apt::prepare(work.path(), &sources)?;
    apt.get("reading the package lists", &["update"])?;
    let server = apt.server_package()?;
    let client = server.replace("server", "client");
    let debs = work.path().join("debs");
    let files = apt.download(&[&server, &client], &debs)?;
    let building = cache::unfinished(root)?;
    fs::create_dir_all(&building).map_err(|error| ProvisionError::cache(&building, error))?;
    for file in files {
        let words = [OsStr::new("-x"), file.as_os_str(), building.as_os_str()];
        run(
            &format!("unpacking {}", file.display()),
            "dpkg-deb",
            &words,
            work.path(),
        )?;
    }
    cache::finish(&building, root)
}

/// The source list that has MySQL, out of the mirrors that this machine uses.
fn source_list(os_release: &str, sources: &[Source]) -> Result<String, ProvisionError> {
    let value = |name: &str| {
        let line = os_release
            .lines()
            .find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_matches('"').to_owned())
    };
    let codename = value("VERSION_CODENAME=").unwrap_or_default();
    let kin = format!(
        "{} {}",
        value("ID=").unwrap_or_default(),
        value("ID_LIKE=").unwrap_or_default()
    );
    let mut list = String::new();
    if kin.split_whitespace().any(|id| id == "ubuntu") {
        let codename = value("UBUNTU_CODENAME=").unwrap_or(codename);
        let own = |suite: &str| suite.starts_with(&codename);
        for source in sources.iter().filter(|source| source.offers(own)) {
            for suite in source.suites.iter().filter(|suite| own(suite)) {
                list.push_str(&source.line(suite));
            }
        }
    } else if kin.split_whitespace().any(|id| id == "debian") {
        let names = [codename.as_str(), "stable", "testing", "unstable", "sid"];
        let plain = |suite: &str| !suite.is_empty() && names.contains(&suite);
        if let Some(source) = sources.iter().find(|source| source.offers(plain)) {
            list.push_str(&source.line("sid"));
        }
    }
    if list.is_empty() {
        let why = "this machine has no apt source of Debian or Ubuntu to fetch it from".to_owned();
        return Err(ProvisionError::NoSource { why });
    }
    Ok(list)
}

/// An apt that works in a folder of its own.
struct Apt {
    folder: PathBuf,
    settings: PathBuf,
}

impl Apt {
    fn prepare(folder: &Path, sources: &str) -> Result<Self, ProvisionError> {
        let settings = folder.join("apt.conf");
        let made = ["lists/partial", "cache/archives/partial", "debs"]
            .iter()
            .try_for_each(|name| fs::create_dir_all(folder.join(name)))
            .and_then(|()| fs::write(folder.join("status"), ""))
            .and_then(|()| fs::write(folder.join("sources.list"), sources))
            .and_then(|()| fs::write(&settings, settings_text(folder)));
        made.map_err(|error| ProvisionError::cache(folder, error))?;
        Ok(Self {
            folder: folder.to_owned(),
            settings,
        })
    }

    fn get(&self, step: &str, words: &[&str]) -> Result<String, ProvisionError> {
        self.run(step, "apt-get", words, &self.folder)
    }

    fn run(
        &self,
        step: &str,
        program: &str,
        words: &[&str],
        folder: &Path,
    ) -> Result<String, ProvisionError> {
        let mut arguments = vec![OsStr::new("-c"), self.settings.as_os_str()];
        arguments.extend(words.iter().map(OsStr::new));
        run(step, program, &arguments, folder)
    }

    /// The package with the server: Ubuntu's older releases put the version into its name.
    fn server_package(&self) -> Result<String, ProvisionError> {
        let step = "looking for MySQL's server package";
        let pattern = "^mysql-server-core(-[0-9.]+)?$";
        let words = ["search", "--names-only", pattern];
        let listed = self.run(step, "apt-cache", &words, &self.folder)?;
        let names = listed
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        names
            .max()
            .map(str::to_owned)
            .ok_or_else(|| ProvisionError::NoSource {
                why: "the machine's package mirror has no mysql-server-core".to_owned(),
            })
    }

    /// Downloads `packages` and all that they depend on.
    fn download(&self, packages: &[&str], debs: &Path) -> Result<Vec<PathBuf>, ProvisionError> {
        let mut words = vec![
            "install",
            "--no-install-recommends",
            "--print-uris",
            "-y",
            "-qq",
        ];
        words.extend(packages);
        let listed = self.get("listing MySQL's packages", &words)?;
        // `'http://…/libaio1t64_0.3.113-10_amd64.deb' libaio1t64_0.3.113-10_amd64.deb 12345 SHA256:…`
        let files = listed.lines().filter(|line| line.starts_with('\''));
        let files = files.filter_map(|line| line.split_whitespace().nth(1));
        let names: Vec<&str> = files.filter_map(|file| file.split('_').next()).collect();
        let mut words = vec!["download"];
        words.extend(&names);
        self.run("downloading MySQL's packages", "apt-get", &words, debs)?;
        let unreadable = |error| ProvisionError::cache(debs, error);
        let entries = fs::read_dir(debs).map_err(unreadable)?;
        entries
            .map(|entry| entry.map(|entry| entry.path()).map_err(unreadable))
            .collect()
    }
}

/// apt.conf(5): the last word on every folder, and no hooks of the system.
fn settings_text(folder: &Path) -> String {
    let mut text = String::from(
        "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n#clear APT::Architectures;\n",
    );
    let place = |name: &str| folder.join(name).display().to_string();
    let settings = [
        ("Dir::State::Lists", place("lists")),
        ("Dir::Cache", place("cache")),
        ("Dir::Cache::Archives", place("cache/archives")),
        ("Dir::State::status", place("status")),
        ("Dir::Etc::SourceList", place("sources.list")),
        ("Dir::Etc::SourceParts", "/dev/null".to_owned()),
        ("Dir::Etc::Preferences", "/dev/null".to_owned()),
        ("Dir::Etc::PreferencesParts", "/dev/null".to_owned()),
        ("Acquire::Languages", "none".to_owned()),
        ("Acquire::Retries", "3".to_owned()),
        (
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled",
            "false".to_owned(),
        ),
        ("APT::Sandbox::User", "root".to_owned()),
    ];
    for (name, value) in settings {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{name} \"{value}\";");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(uri: &str, suites: &[&str]) -> Source {
        Source {
            uri: uri.to_owned(),
            suites: suites.iter().map(|&suite| suite.to_owned()).collect(),
            components: vec!["main".to_owned()],
            signed_by: None,
        }
    }

    #[test]
    fn debian_takes_sid_from_the_mirror_of_the_release_alone() {
        let sources = [
            source("http://m.example/security", &["bookworm-security"]),
            source("http://m.example/debian", &["bookworm", "bookworm-updates"]),
        ];
        let release = "ID=debian\nVERSION_CODENAME=bookworm\n";
        let list = source_list(release, &sources).unwrap();
        assert_eq!(list, "deb http://m.example/debian sid main\n");
    }

    #[test]
    fn ubuntu_takes_its_own_release_and_no_foreign_source() {
        let sources = [
            source("http://m.example/ubuntu", &["noble", "noble-updates"]),
            source("http://other.example/repo", &["stable"]),
        ];
        let release = "ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n";
        let list = source_list(release, &sources).unwrap();
        let expected = "deb http://m.example/ubuntu noble main\ndeb http://m.example/ubuntu noble-updates main\n";
        assert_eq!(list, expected);
    }

    #[test]
    fn another_system_is_told_what_to_install() {
        let error = source_list("ID=fedora\n", &[]).unwrap_err().to_string();
        assert!(error.contains("OXFERRY_MYSQLD"), "{error}");
    }

    #[test]
    fn the_system_folders_are_all_replaced() {
        let text = settings_text(Path::new("/own"));
        for name in ["Lists", "Cache", "status", "SourceList", "SourceParts"] {
            let line = text.lines().find(|line| line.contains(name)).unwrap();
            assert!(
                line.contains("/own") || line.contains("/dev/null"),
                "{line}"
            );
        }
    }
}
