"""Score tables in, result tables out, for the command line.

`files` turns bytes into cells, `read` judges the cells that a calibration needs, `write` puts results on disk
whole or not at all. Nothing here imports a sampler.
"""

from bayescal.tables.files import TableError, check_input
from bayescal.tables.read import Table, read_table
from bayescal.tables.write import (
    add_columns,
    atomic_path,
    check_not_read,
    check_output,
    staged_outputs,
    write_table,
)

__all__ = [
    "Table",
    "TableError",
    "add_columns",
    "atomic_path",
    "check_input",
    "check_not_read",
    "check_output",
    "read_table",
    "staged_outputs",
    "write_table",
]
