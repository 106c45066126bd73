"""Kernels in the cache and their initial RAM disks; no kernel is booted here."""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from damoos.common import paths
from damoos.errors import ConfigError, MachineError
from damoos.machines import catalog
from damoos.machines.guest import debian, initrd, kernels
from damoos.machines.guest.architecture import AMD64, ARM64
from damoos.machines.guest.image import Image

KERNEL = Path(__file__).parents[4] / "kernel"
ELF = b"\x7fELF of a kernel"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def bzimage(
    path: Path, plain: bytes = ELF, release: str = "6.99.0-mine", pack: Callable[[bytes], bytes] = lzma.compress
) -> Path:
    """The least that is a bzImage: its header, its version, a packed kernel with its size behind it."""
    header = bytearray(1024)
    payload = pack(plain) + struct.pack("<I", len(plain))
    version = f"{release} (me@here) #1 SMP".encode() + b"\0"
    header[0x1F1] = 1
    header[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", header, 0x20E, 0x300 - 0x200)
    header[0x300 : 0x300 + len(version)] = version
    struct.pack_into("<II", header, 0x248, 0, len(payload))
    path.write_bytes(bytes(header) + payload)
    return path


def test_a_kernel_of_ones_own_is_kept_by_its_content_and_found_by_its_name(tmp_path: Path) -> None:
    added = kernels.add(bzimage(tmp_path / "bzImage"), None, "mine")
    assert kernels.names() == ["debian", "debian-newest", "mine"]
    found = kernels.kernel("mine")
    assert (found.release, found.flush_tlb, found.initrd) == ("6.99.0-mine", False, None)
    assert found.bootable.read_bytes() == ELF
    assert found.identity == added.identity
    assert found.identity.startswith("6.99.0-mine-")
    (tmp_path / "bzImage").unlink()
    assert kernels.kernel("mine").bootable.exists()


def test_one_that_is_broken_in_the_cache_is_named_with_what_to_do(tmp_path: Path) -> None:
    added = kernels.add(bzimage(tmp_path / "bzImage"), None, "mine")
    (added.path / "kernel.json").write_text("{broken")
    with pytest.raises(ConfigError, match=r"kernel 'mine' is broken .*; remove it with 'damoos kernel remove mine'"):
        kernels.kernel("mine")
    kernels.remove("mine")
    assert kernels.names() == ["debian", "debian-newest"]


only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
OTHER = 61235  # a user that no system has


@only_root
@pytest.mark.parametrize("part", ["kernels", "kernels/names", "folder", "bzImage", "vmlinux", "kernel.json"])
def test_a_kernel_that_another_user_can_have_changed_is_not_booted(tmp_path: Path, cache: Path, part: str) -> None:
    added = kernels.add(bzimage(tmp_path / "bzImage"), None, "mine")
    place = cache / part if part.startswith("kernels") else added.path / (part if part != "folder" else "")
    os.chown(place, OTHER, OTHER)
    with pytest.raises(ConfigError, match=f"{place}: another user can have written to it, .* remove it") as told:
        kernels.kernel("mine")
    assert "\n" not in str(told.value)
    os.chown(place, 0, 0)
    place.chmod(0o777)
    with pytest.raises(ConfigError, match=f"{place}: another user can have written to it"):
        kernels.kernel("mine")


@only_root
def test_a_group_shares_the_kernels_of_its_cache(tmp_path: Path, cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o2775)
    added = kernels.add(bzimage(tmp_path / "bzImage"), None, "mine")
    for path in (cache / "kernels", *(cache / "kernels").rglob("*")):
        os.chown(path, OTHER, -1, follow_symlinks=False)
    assert kernels.kernel("mine").bootable == added.bootable


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_only_a_file_is_a_kernel(tmp_path: Path, kind: str) -> None:
    boots = kernels.add(bzimage(tmp_path / "bzImage"), None, "mine").bootable
    boots.unlink()
    if kind == "link":
        (tmp_path / "secret").write_text("SECRET")
        boots.symlink_to(tmp_path / "secret")
    else:
        os.mkfifo(boots)
    with pytest.raises(ConfigError, match="vmlinux: not a regular file, so no guest gets it; remove it"):
        kernels.kernel("mine")


def test_a_kernel_outside_of_the_cache_has_no_name(tmp_path: Path, cache: Path) -> None:
    added = kernels.add(bzimage(tmp_path / "bzImage"), None, "mine")
    shutil.move(added.path, tmp_path / "theirs")
    (cache / "kernels/names/mine").unlink()
    (cache / "kernels/names/mine").symlink_to(tmp_path / "theirs")
    with pytest.raises(ConfigError, match=f"kernel 'mine' leads out of the cache, to {tmp_path}/theirs; remove it"):
        kernels.kernel("mine")


def test_a_kernel_of_hard_links_is_booted(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added = kernels.add(bzimage(tmp_path / "bzImage"), None, "mine")
    shutil.copytree(cache, tmp_path / "lab", symlinks=True, copy_function=os.link)
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "lab"))
    assert kernels.kernel("mine").path == tmp_path / "lab/kernels" / added.identity


@pytest.mark.parametrize(("mode", "umask"), [(0o755, 0), (0o755, 0o002), (0o2775, 0o002)], ids=["0", "2", "group"])
def test_a_kernel_is_closed_to_others_whatever_the_umask(tmp_path: Path, cache: Path, mode: int, umask: int) -> None:
    cache.mkdir()
    cache.chmod(mode)
    before = os.umask(umask)
    try:
        kernels.add(bzimage(tmp_path / "bzImage"), None, "mine")
        with paths.locked(cache / "guest"):
            pass
    finally:
        os.umask(before)
    group = mode & 0o020
    made = [path for path in cache.rglob("*") if not path.is_symlink() and path.name != "lock"]
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o755 | group}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o644 | group}
    assert not (cache / "guest/lock").stat().st_mode & 0o002


def test_a_name_that_leads_nowhere_is_no_kernel(tmp_path: Path, cache: Path) -> None:
    kernels.add(bzimage(tmp_path / "bzImage"), None, "mine")
    (cache / "kernels/names/gone").symlink_to("../nothing")
    assert kernels.names() == ["debian", "debian-newest", "mine"]


def test_the_environment_names_the_kernel_of_guests_for_which_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def boots(*words: str) -> str:
        return catalog.machine(*words)._kernel  # type: ignore[attr-defined]

    kernels.add(bzimage(tmp_path / "bzImage"), None, "mine")
    (tmp_path / "own.toml").write_text('description = "own"\n[guest]\nmemory = "1G"\nkernel = "debian"\n')
    assert boots("guest") == "debian"
    monkeypatch.setenv(catalog.KERNEL, "mine")
    assert [boots("guest"), boots("i3"), boots(str(tmp_path / "own.toml")), boots("guest", "debian")] == [
        "mine", "mine", "debian", "debian",
    ]  # fmt: skip
    monkeypatch.setenv(catalog.KERNEL, "mien")
    with pytest.raises(ConfigError, match="unknown kernel 'mien'; did you mean 'mine'"):
        boots("guest")


def test_the_same_name_again_is_the_new_kernel_and_a_name_can_be_forgotten(tmp_path: Path) -> None:
    first = kernels.add(bzimage(tmp_path / "one"), None, "mine")
    second = kernels.add(bzimage(tmp_path / "two", b"\x7fELF damon.flush_tlb\0"), None, "mine")
    assert kernels.kernel("mine").identity == second.identity != first.identity
    assert second.flush_tlb
    kernels.add(tmp_path / "two", None, "other")
    kernels.remove("mine")
    assert kernels.kernel("other").bootable.exists()
    kernels.remove("other")
    assert not second.path.exists()
    with pytest.raises(ConfigError, match="unknown kernel 'other'"):
        kernels.remove("other")


def test_a_kernel_that_was_built_keeps_its_record_when_it_is_added_too(tmp_path: Path) -> None:
    kernels.store(bzimage(tmp_path / "bzImage"), None, {"origin": "built", "recipe": "abc"}, "damoos")
    kernels.add(tmp_path / "bzImage", None, "mine")
    assert kernels.kernel("damoos").about == kernels.kernel("mine").about == {"origin": "built", "recipe": "abc"}
    kernels.store(tmp_path / "bzImage", None, {"origin": "built", "recipe": "def"}, "damoos")
    assert kernels.kernel("damoos").about["recipe"] == "def"


def test_a_broken_payload_is_left_to_the_kernel_itself(tmp_path: Path) -> None:
    path = bzimage(tmp_path / "bzImage")
    content = bytearray(path.read_bytes())
    content[1024 + 20 : 1024 + 30] = b"\xff" * 10
    path.write_bytes(bytes(content))
    assert kernels.add(path, None, "mine").bootable.name == "bzImage"


def test_a_path_is_a_name_too(tmp_path: Path) -> None:
    path = bzimage(tmp_path / "bzImage")
    assert kernels.kernel(str(path)).release == "6.99.0-mine"
    assert kernels.names() == ["debian", "debian-newest"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("debain", "unknown kernel 'debain'; did you mean 'debian'"),
        ("damoos", "kernel 'damoos' is not built yet; build it with 'make kernel', which takes about 10 minutes"),
        ("damoos-6.1", "not built yet; build it with 'make kernel VERSION=6.1'"),
        ("./nothing", "nothing: No such file or directory"),
    ],
)
def test_a_kernel_that_is_not_there_is_told_before_a_guest_is_made(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        catalog.machine("guest", name)


def test_only_guests_can_be_given_a_kernel() -> None:
    with pytest.raises(ConfigError, match="machine 'local' runs its own kernel"):
        catalog.machine("local", "debian")


@pytest.mark.parametrize("name", ["debian", "debian-newest", "debian-7.2", "damoos", "damoos-6.1", "a,b", "../a", ""])
def test_names_that_are_not_free(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid kernel name"):
        kernels.add(bzimage(tmp_path / "bzImage"), None, name)


def test_what_is_no_kernel(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a kernel")
    with pytest.raises(ConfigError, match="text: neither an x86 bzImage"):
        kernels.add(tmp_path / "text", None, "mine")
    with pytest.raises(ConfigError, match=r"holds no modules of 6\.99\.0-mine"):
        kernels.add(bzimage(tmp_path / "bzImage"), tmp_path, "mine")
    assert kernels.names() == ["debian", "debian-newest"]


def test_a_kernel_that_only_unpacks_itself_is_booted_as_it_is(tmp_path: Path) -> None:
    found = kernels.add(bzimage(tmp_path / "bzImage", b"LZ4 or so"), None, "mine")
    assert found.bootable.name == "bzImage"


def test_a_tree_of_unpacked_packages_is_taken_as_it_is(tmp_path: Path) -> None:
    """As Debian has packed kernels since 7.2: the image beside its modules, and nothing that depmod would write."""
    modules = tmp_path / "usr/lib/modules/6.99.0-mine"
    modules.mkdir(parents=True)
    bzimage(modules / "vmlinuz")
    (modules / "config").write_text("CONFIG_DAMON=y\n")
    added = kernels.add_packages([tmp_path], "mine")
    assert (added.release, added.initrd) == ("6.99.0-mine", None)
    assert (added.path / "config").read_text() == "CONFIG_DAMON=y\n"
    (tmp_path / "boot").mkdir()
    bzimage(tmp_path / "boot/vmlinuz-6.98.0", release="6.98.0")
    with pytest.raises(ConfigError, match=r"one kernel is wanted .*, found: 6\.98\.0, 6\.99\.0-mine"):
        kernels.add_packages([tmp_path], "mine")


def test_a_package_file_is_unpacked_for_it(tmp_path: Path) -> None:
    (tmp_path / "package/DEBIAN").mkdir(parents=True)
    (tmp_path / "package/DEBIAN/control").write_text(
        "Package: mine\nVersion: 1\nArchitecture: all\nMaintainer: me <me@here>\nDescription: mine\n"
    )
    (tmp_path / "package/boot").mkdir()
    bzimage(tmp_path / "package/boot/vmlinuz-6.99.0-mine")
    packed = ["dpkg-deb", "--root-owner-group", "-b", tmp_path / "package", tmp_path / "mine.deb"]
    subprocess.run(packed, check=True, capture_output=True)
    assert kernels.add_packages([tmp_path / "mine.deb"], "mine").release == "6.99.0-mine"
    (tmp_path / "text.deb").write_text("no package")
    with pytest.raises(ConfigError, match=r"text\.deb: dpkg-deb: error: .*; unpack packages of another kind"):
        kernels.add_packages([tmp_path / "text.deb"], "mine")
    with pytest.raises(ConfigError, match=r"none\.deb: no such package file"):
        kernels.add_packages([tmp_path / "none.deb"], "mine")


def test_a_kernel_that_makes_way_is_kept_under_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    releases = iter(["7.2.12+deb13-cloud-amd64", "7.3.4+deb13-cloud-amd64"])

    def fetch(name: str, say: object) -> None:
        release = next(releases)
        kernels.store(bzimage(tmp_path / "bzImage", ELF + release.encode(), release), None, {"origin": "debian"}, name)

    monkeypatch.setattr(kernels, "_fetch", fetch)
    kernels.fetch("debian-newest")
    assert kernels.fetch("debian-newest").release == "7.3.4+deb13-cloud-amd64"
    assert kernels.kernel("debian-7.2.12").release == "7.2.12+deb13-cloud-amd64"
    with pytest.raises(ConfigError, match="'mine' is no kernel of Debian's"):
        kernels.fetch("mine")


def test_debians_newest_is_fetched_anew_where_its_initial_ram_disk_is_old_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    problem: list[MachineError] = []
    now = initrd.identity()

    def fetch(name: str, say: object, made_by: str = now) -> None:
        if problem:
            raise problem[0]
        fetched.append(name)
        release = "6.12.117+deb12-cloud-amd64"
        about = {"origin": "debian", "initrd": made_by}
        kernels.store(bzimage(tmp_path / "bzImage", ELF + made_by.encode(), release), None, about, name)

    monkeypatch.setattr(kernels, "_fetch", fetch)
    for name in ("debian", "debian-6.12.117"):
        fetch(name, None, "old")
    fetched.clear()
    problem.append(MachineError("no network"))
    news: list[str] = []
    assert kernels.kernel("debian", news.append).about["initrd"] == "old"
    assert "has an old initial RAM disk" in news[0]
    assert "no network" in news[0]
    problem.clear()
    assert kernels.kernel("debian").about["initrd"] == now
    assert kernels.kernel("debian").about["initrd"] == now
    assert kernels.kernel("debian-6.12.117").about["initrd"] == "old"
    assert fetched == ["debian"]


def test_an_image_of_arm64_is_known_by_its_magic_and_tells_its_release(tmp_path: Path) -> None:
    image = bytearray(4096)
    image[56:60] = b"ARM\x64"
    image[1024:1080] = b"Linux version 6.99.0-mine (me@here) #1 SMP".ljust(56, b"\0")
    (tmp_path / "Image").write_bytes(image)
    added = kernels.add(tmp_path / "Image", None, "mine")
    assert (added.release, added.architecture, added.bootable.name) == ("6.99.0-mine", "arm64", "bzImage")


def test_a_kernel_of_another_architecture_is_named_behind_a_colon() -> None:
    assert kernels.series_of("debian:arm64") == "6.12"
    assert kernels.series_of("debian-7.2:arm64") == "7.2"
    with pytest.raises(ConfigError, match="kernel 'debian:arm46': unknown architecture 'arm46'; did you mean 'arm64'"):
        kernels.check("debian:arm46")


def test_the_newest_kernel_of_a_series_is_chosen_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorded answer of apt's, with one version more."""
    answers = {
        "pkgnames": "linux-image-6.12.9+deb12-cloud-amd64\nlinux-image-6.12.117+deb12-cloud-amd64\n"
        "linux-image-7.3.4+deb13-cloud-amd64\nlinux-image-7.3.4+deb13-amd64\nlinux-image-cloud-amd64\n",
        "depends": " |Depends: <dracut>\n  Depends: linux-base-7.3.4+deb13-cloud-amd64\n"
        "  Depends: linux-binary-7.3.4+deb13-cloud-amd64\n  PreDepends: linux-base\n",
    }
    monkeypatch.setattr(debian.Archive, "apt", lambda _, __, word, *___: answers[word])
    archive = debian.Archive(Path(), AMD64)
    assert archive.kernel_packages("6.12")[0] == "linux-image-6.12.117+deb12-cloud-amd64"
    assert archive.kernel_packages("") == [
        f"linux-{part}-7.3.4+deb13-cloud-amd64" for part in ("image", "base", "binary")
    ]
    with pytest.raises(ConfigError, match=r"no cloud kernel of version 6\.1"):
        archive.kernel_packages("6.1")
    with pytest.raises(ConfigError, match=r"no cloud kernel of version 6\.12 for arm64"):
        debian.Archive(Path(), ARM64).kernel_packages("6.12")


def test_modules_are_laid_out_in_load_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = tmp_path / "lib/modules/6.99.0-mine"
    (modules / "kernel").mkdir(parents=True)
    for name in ("virtio_blk.ko.xz", "virtio.ko", "virtio_ring.ko", "zram.ko"):
        content = name.encode()
        (modules / "kernel" / name).write_bytes(lzma.compress(content) if name.endswith("xz") else content)
    (modules / "modules.dep").write_text(
        "kernel/virtio_blk.ko.xz: kernel/virtio_ring.ko kernel/virtio.ko\nkernel/virtio_ring.ko: kernel/virtio.ko\n"
        "kernel/virtio.ko:\nkernel/zram.ko:\n"
    )
    (tmp_path / "busybox").write_bytes(b"busybox")
    monkeypatch.setattr(kernels, "image", lambda architecture: Image(tmp_path))
    found = kernels.add(bzimage(tmp_path / "bzImage"), tmp_path, "mine")
    assert found.initrd is not None
    first = found.initrd.read_bytes()
    kernels.remove("mine")
    assert kernels.add(tmp_path / "bzImage", tmp_path, "mine").initrd.read_bytes() == first
    with open(found.initrd, "rb") as archive:
        subprocess.run(["cpio", "-i", "-d", "--quiet"], stdin=archive, cwd=tmp_path, check=True)
    order = (tmp_path / "modules/order").read_text().splitlines()
    assert [line.strip() for line in order] == ["virtio.ko", "virtio_ring.ko", "virtio_blk.ko", "zram.ko num_devices=0"]
    assert (tmp_path / "modules/virtio_blk.ko").read_bytes() == b"virtio_blk.ko.xz"


VERSIONS = ["{}/planted", "../../victim/planted", "..", "", "-6.1", "6.1\n", "\x1b[2J", "6." + "1" * 63, "6.1\u00e9"]


@pytest.mark.parametrize("release", VERSIONS)
def test_a_version_that_is_a_path_or_no_text_names_no_folder(tmp_path: Path, cache: Path, release: str) -> None:
    """The kernel, and what is in it, was laid to wherever its version says."""
    (cache / "victim").mkdir(parents=True)
    path = bzimage(tmp_path / "bzImage", release=release.format(cache / "victim"))
    for take in (kernels.check, kernels.kernel, lambda name: kernels.add(Path(name), None, "mine")):
        with pytest.raises(ConfigError, match=r"bzImage: its version is '.*', which is none of a Linux kernel") as told:
            take(str(path))
        assert str(told.value).isprintable()
    (tmp_path / "tree/boot").mkdir(parents=True)
    shutil.copy(path, tmp_path / "tree/boot/vmlinuz-6")
    with pytest.raises(ConfigError, match="its version is"):
        kernels.add_packages([tmp_path / "tree"], "mine")
    assert {found.name for found in cache.rglob("*")} <= {"victim", "kernels"}


@pytest.mark.parametrize("nr_bytes", [0x206, 0x20F, 0x249, 0x24F])
def test_an_image_that_is_cut_off_is_none(tmp_path: Path, nr_bytes: int) -> None:
    path = bzimage(tmp_path / "bzImage")
    path.write_bytes(path.read_bytes()[:nr_bytes])
    with pytest.raises(ConfigError, match="bzImage: neither an x86 bzImage"):
        kernels.add(path, None, "mine")


def test_an_image_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "bzImage")
    with pytest.raises(ConfigError, match="bzImage: not a regular file"):
        kernels.check(str(tmp_path / "bzImage"))


def zstd(plain: bytes) -> bytes:
    return subprocess.run(["zstd", "-1qc"], input=plain, capture_output=True, check=True).stdout


BOMB = bytes(65 << 20)


@pytest.mark.parametrize("pack", [gzip.compress, lambda plain: lzma.compress(plain, preset=0), zstd])
@pytest.mark.slow
def test_an_image_that_stands_for_more_than_a_kernel_is_refused(
    tmp_path: Path, cache: Path, pack: Callable[[bytes], bytes]
) -> None:
    with pytest.raises(ConfigError, match=r"bzImage: unpacked, it is larger than 64 MiB"):
        kernels.add(bzimage(tmp_path / "bzImage", BOMB, pack=pack), None, "mine")
    assert not list((cache / "kernels").glob("[!n]*"))


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of somebody else's modules, in one that `kernels.add` gets."""
    monkeypatch.setattr(kernels, "image", lambda architecture: Image(tmp_path))
    (tmp_path / "busybox").write_bytes(b"busybox")
    (tmp_path / "secret").write_bytes(b"SECRET")
    folder = tmp_path / "theirs/lib/modules/6.99.0-mine"
    folder.mkdir(parents=True)
    (folder / "ext4.ko").write_bytes(b"ext4")
    (folder / "modules.dep").write_text("ext4.ko:\n")
    return folder


def with_modules(tmp_path: Path) -> kernels.Kernel:
    return kernels.add(bzimage(tmp_path / "bzImage"), tmp_path / "theirs", "mine")


@pytest.mark.parametrize("needed", ["{}/secret", "../../../../secret", "link.ko", "elsewhere/secret"])
def test_a_file_outside_of_the_modules_is_not_brought_into_the_guest(
    tmp_path: Path, modules: Path, needed: str
) -> None:
    """Whoever makes the modules makes the kernel, too, and reads there what is in the initial RAM disk."""
    (modules / "link.ko").symlink_to(tmp_path / "secret")
    (modules / "elsewhere").symlink_to(tmp_path)
    (modules / "modules.dep").write_text(f"ext4.ko: {needed.format(tmp_path)}\nlink.ko:\n")
    with pytest.raises(ConfigError, match=r"(secret|link\.ko): leads out of .*theirs"):
        with_modules(tmp_path)


def test_a_link_among_the_modules_is_followed(tmp_path: Path, modules: Path) -> None:
    (modules / "ext4.ko").rename(modules / "real")
    (modules / "ext4.ko").symlink_to("real")
    assert with_modules(tmp_path).initrd is not None


def test_what_modules_need_is_read_as_far_as_it_is_any(tmp_path: Path, modules: Path) -> None:
    (modules / "modules.dep").write_bytes(b"no colon\n\xff\next4.ko:\n")
    assert with_modules(tmp_path).initrd is not None


def test_folders_that_lead_to_themselves_are_no_maze(tmp_path: Path) -> None:
    """depmod would find one module by each way through them."""
    folder = tmp_path / "6.12"
    (folder / "kernel").mkdir(parents=True)
    (folder / "kernel/a.ko").touch()
    for name in ("x", "y"):
        (folder / "kernel" / name).symlink_to(".")
    own = tmp_path / "own"
    own.mkdir()
    initrd._link_modules(folder, own)
    found = [path for path in own.rglob("*") if not path.is_dir()]
    assert found == [own / "kernel/a.ko"]
    assert not [path for path in own.rglob("*") if path.is_dir() and path.is_symlink()]


def test_more_modules_than_a_kernel_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initrd, "_MOST_MODULES", 2)
    for name in "abc":
        (tmp_path / f"{name}.ko").touch()
    with pytest.raises(ConfigError, match="more than 2 modules; name the folder of one kernel"):
        initrd._link_modules(tmp_path, tmp_path / "own")


def test_modules_that_stand_for_too_much_together_are_refused(
    tmp_path: Path, modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initrd, "_MODULES_BYTES", 1 << 20, raising=False)
    for name in ("ext4.ko.gz", "more.ko.gz"):
        (modules / name).write_bytes(gzip.compress(bytes(600 << 10)))
    (modules / "modules.dep").write_text("ext4.ko:\next4.ko.gz: more.ko.gz\nmore.ko.gz:\n")
    with pytest.raises(ConfigError, match=r"ext4\.ko\.gz: unpacked, it is larger than 1 MiB"):
        with_modules(tmp_path)
    (modules / "more.ko.gz").write_bytes(gzip.compress(b"more")[:-1])
    with pytest.raises(ConfigError, match=r"more\.ko\.gz: it cannot be unpacked: it is cut off"):
        with_modules(tmp_path)


@pytest.mark.parametrize("link", ["vmlinuz", "config"])
def test_a_tree_s_link_is_not_followed_out_of_it(tmp_path: Path, link: str) -> None:
    modules = tmp_path / "tree/usr/lib/modules/6.99.0-mine"
    modules.mkdir(parents=True)
    bzimage(tmp_path / "vmlinuz").rename(modules / "vmlinuz")
    (modules / link).unlink(missing_ok=True)
    (tmp_path / "secret").write_bytes(b"SECRET")
    (modules / link).symlink_to(bzimage(tmp_path / "other") if link == "vmlinuz" else tmp_path / "secret")
    with pytest.raises(ConfigError, match=f"{link}: leads out of .*tree"):
        kernels.add_packages([tmp_path / "tree"], "mine")


RECORDS = [
    b"[" * 100_000, b"[]", b"5", b"\xff", b'{"release": 5, "flush_tlb": true}', b'{"release": "6", "flush_tlb": 1}',
    b'{"release": "6", "flush_tlb": true, "architecture": "z80"}', b'{"release": "6", "flush_tlb": true, "about": []}',
]  # fmt: skip


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record[:60].decode(errors="replace"))
def test_a_record_that_is_none_is_told_in_one_line(tmp_path: Path, record: bytes) -> None:
    added = kernels.add(bzimage(tmp_path / "bzImage"), None, "mine")
    (added.path / "kernel.json").write_bytes(record)
    with pytest.raises(ConfigError, match=r"kernel 'mine' is broken .*; remove it with 'damoos kernel remove mine'"):
        kernels.kernel("mine")


@pytest.mark.parametrize("name", ["../../theirs", "{}/theirs"])
def test_only_names_of_kernels_are_removed(tmp_path: Path, cache: Path, name: str) -> None:
    kernels.add(bzimage(tmp_path / "bzImage"), None, "mine")
    (tmp_path / "kept").mkdir()
    for place in (tmp_path, cache):
        (place / "theirs").symlink_to(tmp_path / "kept")
    with pytest.raises(ConfigError, match="unknown kernel"):
        kernels.remove(name.format(tmp_path))
    assert (tmp_path / "kept").is_dir()
