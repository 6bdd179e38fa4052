//! Debian packages.
//!
//! Owns: the control archive (fields, scripts, configuration files, sums), the staged tree, and what makes its bytes repeatable.
//! Never: needs root: dpkg-deb is told that root owns all of it.
//! Driven by: `package`.

use super::file::{Content, Entry, Release, entry, gzip, output};
use crate::build;
use anyhow::{Context, Result};
use md5::Md5;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

const MAINTAINER: &str = "Weir maintainers <weir@weir.example>";

/// Scripts that a package may have.
const SCRIPTS: [&str; 4] = ["preinst", "postinst", "prerm", "postrm"];

/// One package.
pub(super) struct Package {
    pub(super) name: &'static str,
    pub(super) section: &'static str,
    pub(super) relations: Vec<Relation>,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    pub(super) files: Vec<Entry>,
    /// Whether it is for one kind of machine.
    pub(super) machine: bool,
}

/// What it says of other packages; `{version}` is its own.
pub(super) enum Relation {
    Needs(String),
    Recommends(String),
    Suggests(String),
    Provides(String),
    Conflicts(String),
    Replaces(String),
}

impl Relation {
    fn field(&self) -> (&'static str, &str) {
        match self {
            Self::Needs(others) => ("Depends", others),
            Self::Recommends(others) => ("Recommends", others),
            Self::Suggests(others) => ("Suggests", others),
            Self::Provides(others) => ("Provides", others),
            Self::Conflicts(others) => ("Conflicts", others),
            Self::Replaces(others) => ("Replaces", others),
        }
    }
}

/// The shared libraries that `program` needs, as packages: what dpkg-shlibdeps says.
pub(super) fn libraries(program: &Path) -> Result<String> {
    crate::deps::have("dpkg-shlibdeps", "dpkg-dev")?;
    let work = tempfile::tempdir()?;
    // It reads nothing from it, but wants to be where a source package is.
    std::fs::create_dir(work.path().join("debian"))?;
    std::fs::write(work.path().join("debian/control"), "Source: weir\n\nPackage: weir\nArchitecture: any\n")?;
    let said =
        output(Command::new("dpkg-shlibdeps").current_dir(work.path()).arg("-O").arg("-e").arg(program))?;
    said.strip_prefix("shlibs:Depends=").map(str::to_owned).with_context(|| format!("dpkg-shlibdeps: {said}"))
}

/// Writes `NAME_VERSION_ARCHITECTURE.deb` into `to`.
pub(super) fn write(package: &Package, release: &Release, work: &Path, to: &Path) -> Result<()> {
    let tree = work.join(package.name);
    let doc = format!("usr/share/doc/{}", package.name);
    let own = [
        entry(format!("{doc}/copyright"), COPYRIGHT),
        entry(format!("{doc}/changelog.Debian.gz"), gzip(changelog(package, release)?.as_bytes())),
    ];
    let mut bytes = 0;
    let mut sums = String::new();
    let mut files: Vec<&Entry> = package.files.iter().chain(&own).collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    for file in &files {
        let placed = stage(file, &tree)?;
        if let Some(content) = placed {
            bytes += content.len().next_multiple_of(1024);
            let _ = writeln!(sums, "{}  {}", hex(&Md5::digest(&content)), file.path);
        }
    }
    let control = tree.join("DEBIAN");
    std::fs::create_dir(&control)?;
    std::fs::write(control.join("control"), fields(package, release, bytes / 1024))?;
    std::fs::write(control.join("md5sums"), sums)?;
    let settings: String = files
        .iter()
        .filter(|file| file.path.starts_with("etc/"))
        .map(|file| format!("/{}\n", file.path))
        .collect();
    if !settings.is_empty() {
        std::fs::write(control.join("conffiles"), settings)?;
    }
    for script in SCRIPTS {
        let from = build::root().join(format!("packaging/debian/{}.{script}", package.name));
        if from.exists() {
            std::fs::copy(&from, control.join(script))?;
            std::fs::set_permissions(control.join(script), PermissionsExt::from_mode(0o755))?;
        }
    }
    settle(&tree, release.epoch)?;
    let architecture = if package.machine { &release.architecture } else { "all" };
    let name = format!("{}_{}_{architecture}.deb", package.name, release.debian_version());
    let mut command = Command::new("dpkg-deb");
    command.arg("--root-owner-group").arg(format!("-Z{}", release.compression));
    // Several threads cut the content into other blocks.
    command.arg("--threads-max=1").arg("--build").arg(&tree).arg(to.join(name));
    output(command.env("SOURCE_DATE_EPOCH", release.epoch.to_string()))?;
    Ok(())
}

fn fields(package: &Package, release: &Release, kilobytes: usize) -> String {
    let mut text = String::new();
    let mut add = |name: &str, value: &str| {
        let _ = writeln!(text, "{name}: {value}");
    };
    add("Package", package.name);
    add("Version", &release.debian_version());
    add("Architecture", if package.machine { &release.architecture } else { "all" });
    add("Maintainer", MAINTAINER);
    add("Installed-Size", &kilobytes.to_string());
    for relation in &package.relations {
        let (name, others) = relation.field();
        add(name, &others.replace("{version}", &release.debian_version()));
    }
    add("Section", package.section);
    add("Priority", "optional");
    add("Description", package.summary);
    let mut line = String::new();
    for word in package.description.split_whitespace() {
        if line.len() + word.len() > 78 {
            let _ = writeln!(text, "{line}");
            line.clear();
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
    text
}

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: weir

Files: *
Copyright: The Weir authors
License: Apache-2.0

License: Apache-2.0
 The full text is in /usr/share/common-licenses/Apache-2.0.
Comment:
 The program contains libraries of others under licences of their own. The package weir lists
 them in /usr/share/doc/weir/weir.cdx.json, each with its licence.
";

fn changelog(package: &Package, release: &Release) -> Result<String> {
    let time = jiff::Timestamp::from_second(release.epoch.try_into()?)?.to_zoned(jiff::tz::TimeZone::UTC);
    let time = time.strftime("%a, %d %b %Y %H:%M:%S +0000");
    let version = release.debian_version();
    Ok(format!(
        "{} ({version}) stable; urgency=medium\n\n  * Weir {}.\n\n -- {MAINTAINER}  {time}\n",
        package.name, release.number
    ))
}

/// Puts a file into the tree; gives its content unless it is a link.
fn stage(file: &Entry, tree: &Path) -> Result<Option<Vec<u8>>> {
    let path = tree.join(&file.path);
    std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    let content = match &file.content {
        Content::Bytes(bytes) => bytes.clone(),
        Content::File(from) => {
            std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?
        }
        Content::Link(to) => {
            symlink(to, &path)?;
            return Ok(None);
        }
    };
    std::fs::write(&path, &content)?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(file.mode))?;
    Ok(Some(content))
}

/// Gives all of a tree one time, and folders and control files modes that no umask decides.
fn settle(folder: &Path, epoch: u64) -> Result<()> {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(epoch);
    for found in std::fs::read_dir(folder)? {
        let found = found?;
        let kind = found.file_type()?;
        if kind.is_dir() {
            settle(&found.path(), epoch)?;
        } else if kind.is_file() {
            let control =
                folder.ends_with("DEBIAN") && !SCRIPTS.iter().any(|name| found.file_name() == *name);
            if control {
                std::fs::set_permissions(found.path(), PermissionsExt::from_mode(0o644))?;
            }
            std::fs::File::open(found.path())?.set_modified(time)?;
        }
        // dpkg-deb gives links, which are newer, the time of SOURCE_DATE_EPOCH.
    }
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755))?;
    std::fs::File::open(folder)?.set_modified(time)?;
    Ok(())
}

/// The sums of all packages, and of the list of parts, as `sha256sum --check` reads them.
pub(super) fn sums(folder: &Path) -> Result<String> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|found| Ok(found?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.is_file());
    files.sort();
    let mut text = String::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let _ = writeln!(text, "{}  {name}", hex(&Sha256::digest(std::fs::read(&file)?)));
    }
    Ok(text)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
