"""Kernels in the cache and their initial RAM disks; no kernel is booted here."""

from __future__ import annotations

import gzip
import lzma
import struct
import subprocess
from pathlib import Path

import pytest

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


def bzimage(path: Path, plain: bytes = ELF, release: str = "6.99.0-mine") -> Path:
    """The least that is a bzImage: its header, its version, a packed kernel with its size behind it."""
    header = bytearray(1024)
    payload = lzma.compress(plain) + struct.pack("<I", len(plain))
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


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bytes])
def test_what_is_packed_is_unpacked(pack) -> None:
    assert initrd.unpacked(pack(ELF)) == ELF


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
