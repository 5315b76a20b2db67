# Every developer command. CI runs the same recipes; `just` alone lists them.

set shell := ["bash", "-euo", "pipefail", "-c"]

# Kills per backend of the kill suite: few here, all in `just soak`.
kills := env("CKPT_KILLS", "20")

[private]
default:
    @just --list --unsorted

# Formatting, lints, documentation and dependency policy; what CI asks for.
check: fmt-check clippy features doc deny

fmt:
    cargo fmt --all

fmt-check:
    cargo fmt --all --check

# Lints with warnings denied, with all backends and with none.
clippy:
    cargo clippy --workspace --all-targets -- -D warnings
    cargo clippy -p checkpoint-fs --no-default-features --all-targets -- -D warnings

# Each backend of checkpoint-fs alone, with warnings denied; and what a build without any says of each.
features:
    for feature in s3 cos oss gs tclake az object_store; do \
        cargo clippy -p checkpoint-fs --lib --no-default-features --features "$feature" -- -D warnings; \
    done
    cargo test -p checkpoint-fs --lib --no-default-features absent::

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Licences, sources and banned crates.
deny:
    cargo deny --workspace check --hide-inclusion-graph bans licenses sources

# Everything that needs no server, and everything that does: see test-minio, crash and test-python for the parts.
test: test-unit test-minio crash test-python

# Unit, integration and documentation tests without a server.
test-unit:
    cargo test --workspace --exclude checkpoint-tests
    cargo test -p checkpoint-tests --lib --test '*' -- --skip s3_ --skip kill_

# The conformance suite and all else that needs an S3 server: $MINIO_ENDPOINT, a `minio` program, or the stand-in.
test-minio:
    cargo test -p checkpoint-tests --test '*' -- --nocapture s3_

# The kill suite: SIGKILL at random moments and around every storage effect; {{ kills }} random kills a backend.
crash:
    CKPT_KILLS={{ kills }} cargo test -p checkpoint-tests --test '*' -- --nocapture kill_

# The Python package: built, installed into an environment of its own, linted and tested there.
test-python *args:
    scripts/test-python {{ args }}

# The examples with models: texts embedded, shots of videos. Installs some gigabytes into an environment of its own.
examples *args:
    scripts/test-python --on-demand {{ args }}

# The Python package with older versions of Ray, each in an environment of its own, after `just test-python`. Arguments are
# versions.
test-rays *args:
    scripts/test-rays {{ args }}

# The long runs: 200 random kills a backend, 100,000 objects below a prefix, and 50 kills of jobs in Python and in Ray.
soak: soak-python
    CKPT_OBJECTS=100000 cargo test -p checkpoint-tests --test many_objects -- --nocapture --skip s3_
    CKPT_KILLS=200 cargo test -p checkpoint-tests --test '*' -- --nocapture kill_

# That of Python alone.
soak-python:
    CKPT_KILLS=50 scripts/test-python -k kill

# What can be published on its own packs and builds by itself; the Python package is built by its tests. In a directory of
# its own each time: cargo keeps what it unpacked of a package by the directory and the version alone, and would build the
# next one against the sources of the one before.
package:
    mkdir -p "${CARGO_TARGET_DIR:-target}"; \
    fresh=$(mktemp -d "${CARGO_TARGET_DIR:-target}/package.XXXXXX"); \
    trap 'rm -rf "$fresh"' EXIT; \
    cargo package --workspace --exclude checkpoint-cli --exclude checkpoint-testkit --exclude checkpoint-tests \
        --exclude checkpoint-bench --exclude checkpoint-python --allow-dirty --target-dir "$fresh"

# DataFusion over `cos://`, in a workspace of its own: a long build, outside of CI's path.
example-datafusion:
    cargo test --manifest-path examples/datafusion/Cargo.toml

# Ours against Ray Data, Daft, s3fs and obstore in one run, as tables: ten minutes or more on two cores. `just bench --help` says what else.
bench *args:
    scripts/bench {{ args }}

# The same up to a hundred million IDs, and then a billion from record files: hours, 24 GiB of memory, 60 GB of disk.
bench-large *args:
    scripts/bench --size large {{ args }}
    scripts/bench --only billion {{ args }}

# The main job, embedded: write, run, be killed, resume, verify.
demo:
    cargo run --release -p checkpoint-cli -- demo
