//! Puts the incident library into the binary.

use std::fmt::Write as _;
use std::path::Path;

fn main() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../incidents");
    println!("cargo:rerun-if-changed={}", library.display());
    let mut files: Vec<_> = std::fs::read_dir(&library)
        .expect("the library stands beside the crates")
        .map(|entry| entry.expect("a folder that can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    let mut code = String::from("&[\n");
    for file in files {
        let name = file
            .file_stem()
            .expect("it has an extension")
            .to_string_lossy()
            .into_owned();
        writeln!(code, "({name:?}, include_str!({:?})),", file.display().to_string()).expect("a string takes all");
    }
    code.push_str("]\n");
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("incidents.rs"), code).expect("the folder of the build can be written");
}
