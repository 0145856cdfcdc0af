"""A checksum behind the end of a file, by which damage is known before anything tries to read the file.

HDF5 notices a file that is cut short, but not a number that has changed, and some damage keeps its reader in a loop for
ever. What stands behind the end that an HDF5 file states of itself is ignored by its readers, so a sealed file is an
ordinary one to them.
"""

from hashlib import sha256
from pathlib import Path

MARK = b"\nbayescal sha256 "
SIZE = len(MARK) + 64  # of the seal: the mark, and the digest in hexadecimal digits
BLOCK = 2**20


def seal(file: Path) -> None:
    """Put the checksum of a file behind its end."""
    digest = _digest(file, file.stat().st_size)
    with file.open("ab") as opened:
        opened.write(MARK + digest)


def is_broken(file: Path) -> bool:
    """Whether a sealed file is no longer what was sealed; False for a file without a seal."""
    end = file.stat().st_size - SIZE
    if end < 0:
        return False
    with file.open("rb") as opened:
        opened.seek(end)
        found = opened.read()
    return found.startswith(MARK) and found != MARK + _digest(file, end)


def _digest(file: Path, end: int) -> bytes:
    """SHA-256 of the bytes before `end`."""
    digest = sha256()
    with file.open("rb") as opened:
        for start in range(0, end, BLOCK):
            digest.update(opened.read(min(BLOCK, end - start)))
    return digest.hexdigest().encode()
