//! A `mysqld` program and how it is called.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::ProvisionError;

/// `root@localhost` is for the socket alone when names aren't resolved.
const ACCOUNTS: &str = "CREATE USER 'root'@'%' IDENTIFIED BY '';\n\
                        GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION;\n";

/// A MySQL server program, and the arguments that it needs from its place.
#[derive(Debug, Clone)]
pub struct Mysqld {
    /// The program to run: `mysqld`, or the loader of an unpacked root.
    program: PathBuf,
    /// What comes before every other argument.
    leading: Vec<OsString>,
    /// Where the client tools lie, in an unpacked root or beside the program.
    tools: PathBuf,
    /// How a client tool is started: the loader and its arguments, or nothing.
    tool_leading: Vec<OsString>,
    version: String,
}

impl Mysqld {
    /// The program at `program`, as an administrator would install it.
    ///
    /// # Errors
    ///
    /// [`ProvisionError::BadProgram`] when it doesn't run, or is not MySQL 8.0 or newer.
    pub fn from_program(program: &Path) -> Result<Self, ProvisionError> {
        let tools = program.parent().map(Path::to_owned).unwrap_or_default();
        let unprobed = Self {
            program: program.to_owned(),
            leading: vec!["--no-defaults".into()],
            tools: if tools.ends_with("sbin") {
                tools.with_file_name("bin")
            } else {
                tools
            },
            tool_leading: Vec::new(),
            version: String::new(),
        };
        unprobed.probed()
    }

    /// The program of packages that were unpacked below `root`.
    ///
    /// It runs with the loader and the libraries of that folder, so that the
    /// machine's own may be of any age.
    ///
    /// # Errors
    ///
    /// [`ProvisionError::BadProgram`] when the folder isn't such a root.
    pub fn from_root(root: &Path) -> Result<Self, ProvisionError> {
        let program = root.join("usr/sbin/mysqld");
        let Some(loader) = find_loader(root) else {
            let why = "its folder has no lib/*/ld-linux-*: remove the folder to fetch it anew";
            return Err(ProvisionError::BadProgram {
                program,
                why: why.to_owned(),
            });
        };
        let usr = root.join("usr");
        let mut tool_leading = vec!["--library-path".into(), library_path(root, &loader)];
        let mut leading = tool_leading.clone();
        leading.extend([program.into_os_string(), "--no-defaults".into()]);
        leading.extend([
            option("--basedir=", &usr),
            option("--lc-messages-dir=", &usr.join("share/mysql")),
            option("--character-sets-dir=", &usr.join("share/mysql/charsets")),
            option("--plugin-dir=", &usr.join("lib/mysql/plugin")),
        ]);
        tool_leading.insert(0, loader.clone().into_os_string());
        let tools = usr.join("bin");
        let unprobed = Self {
            program: loader,
            leading,
            tools,
            tool_leading,
            version: String::new(),
        };
        unprobed.probed()
    }

    /// The server's version, such as `9.7.4`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The version as a file name part.
    pub(super) fn version_slug(&self) -> String {
        self.version
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect()
    }

    /// A command that runs the server; `--no-defaults` is already said.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.leading);
        if nix::unistd::geteuid().is_root() {
            command.arg("--user=root");
        }
        command
    }

    /// A command that runs a client tool such as `mysqlbinlog`, when there is one.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<Command> {
        let path = self.tools.join(name);
        if !path.is_file() {
            return None;
        }
        let mut words = self
            .tool_leading
            .iter()
            .cloned()
            .chain([path.into_os_string()]);
        let mut command = Command::new(words.next()?);
        command.args(words);
        Some(command)
    }

    /// Makes a data folder with an account `root` that has no password.
    pub(super) fn initialize(&self, data: &Path) -> Result<(), ProvisionError> {
        let step = format!("initializing a data folder with mysqld {}", self.version);
        let failed = |error| ProvisionError::step(step.clone(), error);
        let accounts = tempfile::NamedTempFile::new().map_err(failed)?;
        fs::write(accounts.path(), ACCOUNTS).map_err(failed)?;
        let output = self
            .command()
            .arg("--initialize-insecure")
            .arg(option("--init-file=", accounts.path()))
            .arg(option("--datadir=", data))
            .args([
                "--innodb-redo-log-capacity=32M",
                "--innodb-buffer-pool-size=64M",
            ])
            .args(["--loose-innodb-doublewrite=OFF", "--log-error-verbosity=1"])
            .output();
        let output = output.map_err(failed)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let error = said
            .lines()
            .find(|line| line.contains("[ERROR]"))
            .or_else(|| said.lines().last());
        Err(ProvisionError::step(
            step,
            error.unwrap_or("it said nothing"),
        ))
    }

    /// Fills in the version by asking the program for it.
    fn probed(mut self) -> Result<Self, ProvisionError> {
        let bad = |why: String| ProvisionError::BadProgram {
            program: self.program.clone(),
            why,
        };
        let output = self.command().arg("--version").output();
        let output = output.map_err(|error| bad(error.to_string()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let version = parse_version(&said).map_err(bad)?;
        self.version = version;
        Ok(self)
    }
}

/// Takes the version out of what `mysqld --version` prints:
/// `/usr/sbin/mysqld  Ver 8.0.42-0ubuntu0.24.04.1 for Linux on x86_64 ((Ubuntu))`.
fn parse_version(said: &str) -> Result<String, String> {
    let mut words = said.split_whitespace().skip_while(|word| *word != "Ver");
    let Some(version) = words.nth(1) else {
        return Err(format!("--version printed {:?}", said.trim()));
    };
    if said.contains("MariaDB") {
        return Err(format!("it is MariaDB {version}"));
    }
    let major = version
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(8..) => Ok(version.to_owned()),
        _ => Err(format!(
            "it is version {version}, 8.0 is the oldest that will do"
        )),
    }
}

fn option(name: &str, path: &Path) -> OsString {
    let mut word = OsString::from(name);
    word.push(path);
    word
}

/// The dynamic loader of an unpacked root, as glibc's package names it.
fn find_loader(root: &Path) -> Option<PathBuf> {
    ["usr/lib", "lib"].iter().find_map(|lib| {
        let folders = fs::read_dir(root.join(lib)).ok()?.flatten();
        folders
            .map(|folder| folder.path())
            .filter(|path| path.is_dir())
            .find_map(|folder| {
                let mut files = fs::read_dir(&folder).ok()?.flatten();
                files.find(is_loader).map(|file| file.path())
            })
    })
}

fn is_loader(file: &fs::DirEntry) -> bool {
    file.file_name().to_string_lossy().starts_with("ld-linux")
}

fn library_path(root: &Path, loader: &Path) -> OsString {
    let triplet = loader
        .parent()
        .and_then(Path::file_name)
        .unwrap_or_default();
    let folders = [
        root.join("usr/lib").join(triplet),
        root.join("lib").join(triplet),
        root.join("usr/lib/mysql/private"),
    ];
    let mut joined = OsString::new();
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        if !joined.is_empty() {
            joined.push(":");
        }
        joined.push(folder);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version_that_mysqld_prints() {
        let debian = "/x/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))\n";
        assert_eq!(parse_version(debian).unwrap(), "9.7.4-2");
        let oracle = "/usr/sbin/mysqld  Ver 8.4.6 for Linux on x86_64 (MySQL Community Server)";
        assert_eq!(parse_version(oracle).unwrap(), "8.4.6");
    }

    #[test]
    fn refuses_mariadb_and_old_servers_by_name() {
        let maria = "mysqld  Ver 10.11.14-MariaDB for debian-linux-gnu on x86_64";
        assert!(parse_version(maria).unwrap_err().contains("MariaDB"));
        let old = "mysqld  Ver 5.7.44 for Linux on x86_64 (MySQL Community Server (GPL))";
        assert!(parse_version(old).unwrap_err().contains("5.7.44"));
        assert!(parse_version("Usage: true").is_err());
    }

    #[test]
    fn finds_the_loader_of_either_library_layout() {
        for lib in ["usr/lib", "lib"] {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join(lib).join("aarch64-linux-gnu");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("ld-linux-aarch64.so.1"), "").unwrap();
            let loader = find_loader(root.path()).unwrap();
            assert_eq!(loader, folder.join("ld-linux-aarch64.so.1"));
            assert_eq!(library_path(root.path(), &loader), folder.into_os_string());
        }
    }

    #[test]
    fn a_root_without_a_loader_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let error = Mysqld::from_root(root.path()).unwrap_err().to_string();
        assert!(error.contains("ld-linux"), "{error}");
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = Mysqld::from_program(Path::new("/no/such/mysqld"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("/no/such/mysqld"), "{error}");
        assert!(error.contains("OXFERRY_MYSQLD"), "{error}");
    }
}
