"""What damoos does where KVM boots guests: `make test-kvm` runs this in a machine that has it (tests/kvm/run.sh)."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from damoos.common import paths
from tests.conftest import short_workload

DAMOOS = Path(sys.executable).with_name("damoos")
KVM = Path("/dev/kvm")


def damoos(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    """A command, with all that it says on this machine's console."""
    done = subprocess.run([DAMOOS, *map(str, words)], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    print(f"damoos {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}", flush=True)
    return done  # type: ignore[no-any-return]


@pytest.fixture
def kvm_only(tmp_path: Path) -> Path:
    """A machine file that takes nothing but KVM."""
    file = tmp_path / "kvm.toml"
    file.write_text('description = "KVM or nothing"\n[guest]\nvcpus = 1\nmemory = "1G"\naccel = "kvm"\n')
    return file


def test_a_host_whose_module_is_not_loaded_is_told_so(kvm_only: Path) -> None:
    subprocess.run(["modprobe", "-r", "kvm_amd"], check=True)
    try:
        done = damoos("doctor", kvm_only)
    finally:
        subprocess.run(["modprobe", "kvm_amd"], check=True)
    assert done.returncode != 0
    assert "run 'sudo modprobe kvm_amd'" in done.stderr


def test_kvm_is_chosen_and_the_doctor_finds_its_guest_fit(tmp_path: Path) -> None:
    done = damoos("doctor", "guest", "--format", "json")
    remembered = json.loads((paths.cache() / "guest/kvm.json").read_text())
    assert [boots for key, boots in remembered.items() if platform.release() in key] == [True]
    assert "software emulation" not in done.stderr
    unfit = [finding["name"] for finding in json.loads(done.stdout)["findings"] if finding["state"] == "unfit"]
    assert unfit in ([], ["neighbours"])  # of times on an emulated host nothing can be asked


def test_a_short_study_ends(tmp_path: Path) -> None:
    workload = short_workload(tmp_path, "1s")
    words = ("--trials", 2, "--repeats", 2, "--candidates", 1, "--prior", "none", "--results", tmp_path / "results")
    done = damoos("tune", "--workload", workload, "--machine", "guest", *words, "--format", "json")
    assert done.returncode in (0, 4)  # whether one of two points keeps the limit is not the point
    result = json.loads(done.stdout)
    assert len(result["trials"]) == 2
    facts = result["machine"]
    assert facts["accel"] == "kvm"
    assert facts["clock"] == "host"


def test_a_user_without_permission_is_told_what_to_do(kvm_only: Path) -> None:
    """Last: it opens root's folders to somebody else, in a machine that ends with these tests."""
    KVM.chmod(0o600)
    for folder in (Path.home(), kvm_only.parent, *kvm_only.parents):
        folder.chmod(folder.stat().st_mode | 0o055)
    subprocess.run(["chown", "-R", "65534:65534", paths.cache()], check=True)
    home = kvm_only.parent / "home"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    environment = {**os.environ, "HOME": str(home), "DAMOOS_CACHE": str(paths.cache())}
    done = damoos("doctor", kvm_only, user=65534, group=65534, extra_groups=[], env=environment, cwd=home)
    assert done.returncode != 0
    assert "run 'sudo usermod -aG kvm $USER'" in done.stderr
