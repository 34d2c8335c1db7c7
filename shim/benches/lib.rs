//! What the benchmarks share: where the built libraries are, running a measurement in a child process, medians.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// The libraries that the benchmarks run on.
#[derive(Debug)]
pub struct Built {
    /// `libgpushim.so`.
    pub shim: PathBuf,
    /// A folder with the stand-in driver as `libcuda.so.1`.
    pub driver: PathBuf,
}

impl Built {
    /// Builds the shim and the stand-in driver in release mode and finds them; or takes them from the folder that
    /// `GPUSHIM_BENCH_DIST` names, as `scripts/dist` made it, on a machine without Rust.
    ///
    /// # Errors
    /// When cargo fails, or its target folder cannot be written.
    pub fn new() -> io::Result<Self> {
        if let Some(folder) = env::var_os("GPUSHIM_BENCH_DIST") {
            return Self::in_folder(&fs::canonicalize(folder)?);
        }
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let status = Command::new(cargo)
            .args(["build", "--release", "--quiet"])
            .args(["-p", "gpushim-shim", "-p", "gpushim-standin"])
            .current_dir(&root)
            .status()?;
        if !status.success() {
            return Err(io::Error::other("cargo could not build the libraries"));
        }
        let target =
            env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        Self::in_folder(&fs::canonicalize(target.join("release"))?)
    }

    fn in_folder(release: &Path) -> io::Result<Self> {
        let driver = release.join("standin");
        fs::create_dir_all(&driver)?;
        fs::copy(release.join("libcuda.so"), driver.join("libcuda.so.1"))?;
        Ok(Self {
            shim: release.join("libgpushim.so"),
            driver,
        })
    }

    /// Runs this benchmark again as a child that measures `what`; the number it prints.
    ///
    /// # Errors
    /// When the child fails or prints no number.
    pub fn measure(&self, what: &str, preload: bool, captures: &Path) -> io::Result<f64> {
        let mut child = Command::new(env::current_exe()?);
        child
            .env("GPUSHIM_BENCH", what)
            .env("STANDIN_NULL", "1")
            .env("LD_LIBRARY_PATH", &self.driver)
            .env("GPUSHIM_DIR", captures);
        if preload {
            child.env("LD_PRELOAD", &self.shim);
        }
        let output = child.output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse().map_err(|_| {
            let errors = String::from_utf8_lossy(&output.stderr);
            io::Error::other(format!("{what} printed {text:?} {errors:?}"))
        })
    }
}

/// The middle one of the values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
