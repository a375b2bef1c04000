//! Notes what the core is built with, for `ctrlhost_build_info`.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC for build scripts");
    let answer = Command::new(rustc).arg("--version").output();
    let text = answer.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    );
    let version = text.split_whitespace().nth(1).unwrap_or("unknown");
    println!("cargo:rustc-env=CTRLHOST_RUSTC={version}");
    let profile = env::var("PROFILE").expect("cargo sets PROFILE for build scripts");
    println!("cargo:rustc-env=CTRLHOST_PROFILE={profile}");
}
