"""Fitted calibrators in files: damage is said in one error, and what else is no such file."""

import gc
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import bayescal as bc
from bayescal.calibrators.seal import MARK, SIZE, is_broken

SCORES = np.linspace(0.1, 0.9, 12)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a point estimate, 20 kB."""
    path = tmp_path_factory.mktemp("saved") / "fit.nc"
    bc.PlattCalibrator(inference="point").fit(SCORES, np.arange(12) % 2).save(path)
    return path


def refused(path: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """What the one error says; nothing else may be said, not even by what is cleared away."""
    with pytest.raises(bc.FileFormatError, match=path.name) as caught:
        bc.load(path)
    gc.collect()
    assert capfd.readouterr() == ("", "")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.003, 0.03, 0.3, 0.6, 0.9, 0.99])
def test_a_file_that_is_cut_short(share: float, saved: Path, tmp_path: Path, capfd) -> None:
    path, content = tmp_path / "cut.nc", saved.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert "damaged or cut short" in refused(path, capfd)


def test_a_changed_byte_is_noticed_wherever_it_is(saved: Path, tmp_path: Path, capfd) -> None:
    path, content = tmp_path / "changed.nc", saved.read_bytes()
    for where in np.linspace(0, len(content) - SIZE - 1, 60).astype(int):
        path.write_bytes(content[:where] + bytes([content[where] ^ 1]) + content[where + 1 :])
        with pytest.raises(bc.FileFormatError, match="by its checksum"):
            bc.load(path)
    refused(path, capfd)


def test_zeros_in_the_middle_do_not_keep_the_reader_in_a_loop(saved: Path, tmp_path: Path) -> None:
    # without the checksum, HDF5 searches one of these for the text of an attribute for ever
    content = saved.read_bytes()
    starts = range(400, len(content) - 800, 400)
    for start in starts:
        zeros = content[:start] + bytes(400) + content[start + 400 :]
        if zeros != content:
            (tmp_path / f"{start}.nc").write_bytes(zeros)
    assert len(list(tmp_path.iterdir())) > 10
    script = (
        "import pathlib, bayescal as bc\n"
        "for path in pathlib.Path().iterdir():\n"
        "    try:\n"
        "        bc.load(path)\n"
        "    except bc.FileFormatError:\n"
        "        path.unlink()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_files_of_other_kinds(tmp_path: Path, capfd) -> None:
    (tmp_path / "text.nc").write_text("scores,label\n0.2,1\n")
    (tmp_path / "folder.nc").mkdir()
    xr.Dataset({"a": ("x", [1.0, 2.0])}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with h5py.File(tmp_path / "plain.nc", "w") as opened:
        opened["a"] = [1, 2]
    assert "cannot be read as netCDF" in refused(tmp_path / "text.nc", capfd)
    assert "is a folder" in refused(tmp_path / "folder.nc", capfd)
    assert "did not write it" in refused(tmp_path / "other.nc", capfd)
    assert "did not write it" in refused(tmp_path / "plain.nc", capfd)
    with pytest.raises(FileNotFoundError, match=r"nothing\.nc"):
        bc.load(tmp_path / "nothing.nc")


def test_a_sealed_file_is_netcdf_to_others_and_is_read_without_its_seal(saved: Path, tmp_path: Path) -> None:
    expected = bc.load(saved).predict_proba(SCORES)
    with xr.open_datatree(saved, engine="h5netcdf") as tree:
        tree.to_netcdf(tmp_path / "copied.nc", engine="h5netcdf")
    (tmp_path / "cut.nc").write_bytes(saved.read_bytes()[:-SIZE])
    for name in ("copied.nc", "cut.nc"):
        assert MARK not in (tmp_path / name).read_bytes()
        assert not is_broken(tmp_path / name)
        np.testing.assert_array_equal(bc.load(tmp_path / name).predict_proba(SCORES), expected)
