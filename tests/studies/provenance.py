"""Which code made a result: read it before the first fit, for a long run may outlive the commit it began with."""

import subprocess
from pathlib import Path


def current_commit() -> str:
    """Commit of the repository; with "+" when the package has changes that are not committed."""

    def git(*command: str) -> str:
        folder = Path(__file__).parents[2]
        done = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else "unknown"

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "bayescal") else "")
