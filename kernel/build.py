#!/usr/bin/env python3
"""Builds damoos's kernel from Debian's source and lays it into the cache, where guests find it by its name.

Each step leaves what it made, so a build that was cut goes on where it stopped. The finished kernel's record names the
source, the patches and the configuration by their hashes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from damoos.common import paths
from damoos.errors import ConfigError, DamoosError, MachineError, UnsupportedError, nearest
from damoos.machines.guest import debian, kernels, kselftest
from damoos.machines.guest.image import image
from damoos.machines.guest.kernel_image import KernelImage

HERE = Path(__file__).resolve().parent
NEWEST = kernels.OURS["damoos"]
# Those that the tests boot.
TESTED = (NEWEST, "6.1")
FRAGMENTS = ("base", "damon", "swap", "numa", "debug", "kunit")
"""Merged in this order; the fragment of the version's own comes last and has the last word."""
NEEDS = {
    "make": "make",
    "gcc": "gcc",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "perl": "perl",
    "patch": "patch",
    "xz": "xz-utils",
    "dpkg-deb": "dpkg",
    "apt-get": "apt",
    "/usr/include/libelf.h": "libelf-dev",
    "/usr/include/openssl/ssl.h": "libssl-dev",
}
FREE_BYTES = 6 << 30
UNUSED = (
    "Documentation", "sound", "tools/testing/[!s]*", "tools/testing/selftests/[!dk]*", "drivers/gpu", "drivers/iio",
    "drivers/infiniband", "drivers/media", "drivers/net/ethernet", "drivers/net/wireless", "drivers/scsi",
    "drivers/staging",
)  # fmt: skip
"""Folders of which a build needs only the Makefiles and the options."""
SELFTESTS = "tools/testing/selftests/damon"
LAST_LINES = 8


def main() -> None:
    """Build kernels one after the other, or say in one line why not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    versions = sorted(kernels.OURS.values())
    parser.add_argument(
        "--version", default=NEWEST, metavar="|".join(versions), help=f"{NEWEST} by default; or tested: {TESTED}"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at a time (default: all cores)")
    parser.add_argument("--keep", action="store_true", help="keep the built tree (3 GB) for the next change")
    words = parser.parse_args()
    try:
        if words.version not in ("tested", *versions):
            raise ConfigError(f"no kernel of version '{words.version}' here{nearest(words.version, versions)}")
        # At the same time, so that the compilers of one have the cores while the other unpacks or links.
        with ThreadPoolExecutor() as pool:
            chosen = TESTED if words.version == "tested" else [words.version]
            built = [pool.submit(build, version, words.jobs, words.keep) for version in chosen]
        for one in built:
            one.result()
    except DamoosError as error:
        sys.exit(_said(error))
    except KeyboardInterrupt:
        print("kernel: interrupted; the same command goes on from here", file=sys.stderr)
        sys.exit(130)


def build(version: str, jobs: int, keep: bool) -> None:
    """Everything from the signed package to the named kernel; nothing if that is there and was made so."""
    with paths.locked(paths.cache() / f"kernels/build/{version}"):
        _build(version, jobs, keep)


def _build(version: str, jobs: int, keep: bool) -> None:
    (name,) = [name for name, of in kernels.OURS.items() if of == version]
    recipe = _recipe(version)
    if name in kernels.names() and kernels.kernel(name).about.get("recipe") == recipe:
        say(f"'{name}' is up to date: {kernels.kernel(name).path}")
        return
    _check_needs()
    started = time.monotonic()
    place = paths.cache() / "kernels/build"
    with debian.archive(debian.with_backports(image(say).sources)) as archive:
        source = _source(archive, version)
        say(f"fetching {source} from Debian")
        package = archive.fetch(source, place / version)
    tree = place / version / f"{package.sha256[:8]}-{recipe[:8]}"
    patches = _patches(version)
    if not (tree / ".patched").exists():
        shutil.rmtree(tree, ignore_errors=True)
        say(f"unpacking {package.path.name}, whose SHA-256 is the one that Debian signs")
        _unpack(package.path, source, tree)
        for patch in patches:
            _run(["patch", "-p1", "--batch", "--forward", "-i", str(patch)], tree)
        (tree / ".patched").touch()
    unknown = configure(tree, version)
    compiler = ["ccache", "gcc"] if shutil.which("ccache") else ["gcc"]
    say(f"compiling with {jobs} jobs{', through ccache' if len(compiler) > 1 else ''}; about 10 minutes on 2 cores")
    _make(tree, f"-j{jobs}", f"CC={shlex.join(compiler)}", "bzImage")
    bzimage = tree / "arch/x86/boot/bzImage"
    release = KernelImage.read(bzimage).release
    if not re.fullmatch(rf"{re.escape(source.removeprefix('linux-source-'))}\.\d+-damoos", release):
        raise MachineError(f"what was built calls itself '{release}', which is not of {source}")
    config = (tree / ".config").read_bytes()
    about = {
        "origin": "built",
        "recipe": recipe,
        "source": {"package": package.path.name, "version": package.version, "sha256": package.sha256},
        "patches": {patch.name: _sha256(patch.read_bytes()) for patch in patches},
        "config_sha256": _sha256(config),
        "unknown_options": unknown,
        "compiler": _run(["gcc", "--version"], tree).splitlines()[0],
        "built_in_s": round(time.monotonic() - started),
    }
    found = kernels.store(bzimage, None, about, name)
    (found.path / "config").write_bytes(config)
    _keep_selftests(tree / SELFTESTS, found.path / kselftest.FOLDER)
    if not keep:
        shutil.rmtree(tree)
        package.path.unlink()
    say(f"'{name}' is {found.path}, Linux {found.release}, in {about['built_in_s']} s")


def _keep_selftests(source: Path, target: Path) -> None:
    """Lay DAMON's selftests beside the kernel, their programs compiled, with the list of what is to be run."""
    makefile = (source / "Makefile").read_text().replace("\\\n", " ")

    def named(variable: str) -> list[str]:
        lines = re.findall(rf"^{variable}\s*\+?=(.*)$", makefile, re.M)
        return [word for line in lines for word in line.split()]

    programs = named("TEST_PROGS")
    if not programs:
        raise MachineError(f"{source}/Makefile names no TEST_PROGS, so DAMON's selftests have another form")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name in (*programs, *named("TEST_FILES")):
        shutil.copy(source / name, target)
    for name in programs:  # Debian's source has lost the mode of some
        (target / name).chmod(0o755)
    for name in named("TEST_GEN_FILES"):  # linked for any libc, which the guest's need not be that of this host
        _run(["gcc", "-O2", "-static", "-o", str(target / name), f"{name}.c"], source)
    (target / kselftest.LIST).write_text("".join(f"{kselftest.SUITE}:{name}\n" for name in programs))


def configure(tree: Path, version: str) -> list[str]:
    """Write ``.config``; returns options of the fragments that this version has never heard of.

    Raises
    ------
    MachineError : an option that the version knows was not taken, so something that it needs is missing
    """
    wanted = _wanted(version)
    before = (tree / ".config").read_bytes() if (tree / ".config").exists() else None
    _make(tree, "tinyconfig")
    with open(tree / ".config", "a") as config:
        config.writelines(_line(name, value) + "\n" for name, value in wanted.items())
    _make(tree, "olddefconfig")
    taken = options((tree / ".config").read_text())
    missed = {name: value for name, value in wanted.items() if taken.get(name, "n") != value}
    known = _known(tree)
    refused = sorted(name for name in missed if name in known)
    if refused:
        raise MachineError(f"Linux {version} did not take {', '.join(f'{n}={wanted[n]}' for n in refused)}")
    if before == (tree / ".config").read_bytes():
        say("the configuration is as before")
    return sorted(missed)


def options(text: str) -> dict[str, str]:
    """Options and their values in a configuration; ``n`` for "is not set"."""
    found = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"(CONFIG_\w+)=(.*)", line):
            found[match[1]] = match[2]
        elif match := re.fullmatch(r"# (CONFIG_\w+) is not set", line):
            found[match[1]] = "n"
    return found


def _line(name: str, value: str) -> str:
    return f"# {name} is not set" if value == "n" else f"{name}={value}"


def _known(tree: Path) -> set[str]:
    """Every option that this version's Kconfig files define."""
    found = set()
    for file in tree.rglob("Kconfig*"):
        found |= {f"CONFIG_{name}" for name in re.findall(r"^\s*(?:menu)?config (\w+)", file.read_text(), re.M)}
    return found


def _patches(version: str) -> list[Path]:
    """The patches whose range holds this version, in the order of the table."""

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(".")]

    table: list[dict[str, Any]] = tomllib.loads((HERE / "patches/patches.toml").read_text())["patch"]
    fits = [one for one in table if numbers(one["from"]) <= numbers(version) <= numbers(one["to"])]
    return [HERE / "patches" / one["file"] for one in fits]


def _wanted(version: str) -> dict[str, str]:
    """The options of all fragments, the version's own last."""
    wanted: dict[str, str] = {}
    for name in (*FRAGMENTS, version):
        wanted |= options((HERE / f"fragments/{name}.config").read_text())
    return wanted


def _recipe(version: str) -> str:
    """Hash of everything in this folder that decides what is built; comments do not."""
    patches = b"".join(patch.name.encode() + b"\0" + patch.read_bytes() for patch in _patches(version))
    return _sha256(json.dumps(_wanted(version), sort_keys=True).encode() + patches + SELFTESTS.encode())[:16]


def _check_needs() -> None:
    missing = sorted({package for need, package in NEEDS.items() if not (shutil.which(need) or Path(need).is_file())})
    if missing:
        raise UnsupportedError(f"building a kernel needs packages: apt-get install {' '.join(missing)}")
    if shutil.disk_usage(paths.cache()).free < FREE_BYTES:
        raise MachineError(f"{paths.cache()}: less than 6 GB free to build in; set DAMOOS_CACHE elsewhere")


def _source(archive: debian.Archive, version: str) -> str:
    """The package of a version's source. Of our newest, the next one where the archive has dropped it already."""
    sources = archive.names("linux-source-")
    wanted = f"linux-source-{version}"
    if wanted in sources or version != NEWEST:
        return wanted
    later = [name for name in sources if _numbers(name) > _numbers(wanted)]
    if not later:
        return wanted
    found = min(later, key=_numbers)
    say(f"Debian's archive has {wanted} no more; {found} gets the patches and options of {version}")
    return found


def _numbers(source: str) -> list[int]:
    return [int(part) for part in source.removeprefix("linux-source-").split(".") if part.isdigit()]


def _unpack(package: Path, source: str, tree: Path) -> None:
    """Debian's package holds one archive, which holds the tree."""
    tree.mkdir(parents=True)
    archive = f"./usr/src/{source}.tar.xz"
    unused = " ".join(f"--exclude='*/{one}/*.{kind}'" for one in UNUSED for kind in ("[ch]", "rst", "yaml"))
    pipe = (
        f"dpkg-deb --fsys-tarfile {shlex.quote(str(package))} | tar -xO {archive}"
        f" | tar -xJ -C {shlex.quote(str(tree))} --strip-components=1 --anchored {unused}"
    )
    _run(["bash", "-o", "pipefail", "-c", pipe], tree)


def _make(tree: Path, *targets: str) -> None:
    # Names and times of the builder's do not belong into a kernel that is named by its content.
    same = {"KBUILD_BUILD_USER": "damoos", "KBUILD_BUILD_HOST": "damoos", "KBUILD_BUILD_TIMESTAMP": "1970-01-01"}
    same["CCACHE_DEPEND"] = "1"  # a file that ccache does not know yet is not run through the preprocessor for it
    _run(["make", "-s", *targets], tree, same)


def _run(argv: list[str], place: Path, environment: dict[str, str] | None = None) -> str:
    # Variables of a make that called this script (VERSION) would become those of the kernel's own make.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        argv, cwd=place, env={**inherited, "LC_ALL": "C", **(environment or {})},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        last = " | ".join((done.stdout + done.stderr).strip().splitlines()[-LAST_LINES:])
        raise MachineError(f"{argv[0]} ended with {done.returncode} in {place}: {last}")
    return done.stdout


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def say(text: str) -> None:
    """A line of news."""
    print(f"kernel: {text}", file=sys.stderr, flush=True)


def _said(error: DamoosError) -> int:
    print(f"kernel: {error}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    main()
