"""Where Spark writes: next to the final name, which the output takes when it is complete.

Spark writes a folder of files. On this machine, and on any file system that a session of this
process reaches, that folder has a hidden name until it is complete. Over Spark Connect, files on
the server can't be renamed: there the final folder counts as complete once it has `_SUCCESS`.
"""

from __future__ import annotations

import os
import shutil
from typing import Any
from uuid import uuid4

from assay.batch.sources import is_uri
from assay.errors import AssayError, UsageError

FILE_ENDS = (".parquet", ".csv", ".jsonl")
"""An output whose name ends so is one file; any other is a folder."""


def spark_path(path: str) -> str:
    """A path as Spark writes to it. Without a scheme it is a file of this machine, even if Spark's
    default file system is another.

    >>> spark_path("/data/scores"), spark_path("s3a://lake/scores")
    ('file:/data/scores', 's3a://lake/scores')
    """
    return path if is_uri(path) else f"file:{os.path.abspath(path)}"


def escaped(path: str) -> str:
    r"""A path as Spark reads it, where some characters are a pattern.

    >>> print(escaped("file:/data/a[1].csv"))
    file:/data/a\[1].csv
    """
    return "".join(f"\\{character}" if character in "*?[{\\" else character for character in path)


class SparkOutput:
    """A folder that Spark is about to write, and that only a Spark Connect server reaches."""

    def __init__(self, path: str) -> None:
        self.part = path
        """Where Spark writes."""

    def keep(self) -> None:
        """Give what was written its final name. Here it has it: Spark refuses one that exists."""

    def discard(self) -> None:
        """Remove what was written. Only the server can do that here; it has no `_SUCCESS`."""


def make_output(path: str, session: Any, *, is_remote: bool) -> SparkOutput:
    """The output for a path that doesn't exist yet."""
    if not is_uri(path):
        return LocalOutput(path)
    return SparkOutput(path) if is_remote else HadoopOutput(path, session)


class LocalOutput(SparkOutput):
    """A file or a folder on this machine."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        if os.path.lexists(self._path):
            raise _exists(path)
        folder, name = os.path.split(self._path)
        os.makedirs(folder, exist_ok=True)
        self._folder = os.path.join(folder, f".{name}.{uuid4().hex}.part")
        super().__init__(spark_path(self._folder))

    def keep(self) -> None:
        """Rename the folder, or the one file in it."""
        if not os.path.isdir(self._folder):
            raise AssayError(
                "BAT-033",
                "Spark wrote it on another machine, where this path is not the same folder.",
                where=self._path,
                fix="Give -o a folder that Spark and this machine share.",
            )
        if self._path.lower().endswith(FILE_ENDS):
            names = [name for name in os.listdir(self._folder) if name.startswith("part-")]
            if len(names) != 1:
                raise AssayError("BAT-033", f"Spark wrote {len(names)} files.", where=self._path)
            os.rename(os.path.join(self._folder, names[0]), self._path)
            shutil.rmtree(self._folder)
        else:
            _tidy(self._folder)
            os.rename(self._folder, self._path)

    def discard(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _tidy(folder: str) -> None:
    """Keep only the data files, under the names that every engine gives them."""
    for name in sorted(os.listdir(folder)):
        if not name.startswith("part-"):
            os.unlink(os.path.join(folder, name))
    for place, name in enumerate(sorted(os.listdir(folder))):
        end = f"part-{place}.{'jsonl' if name.endswith('.json') else name.rpartition('.')[2]}"
        os.rename(os.path.join(folder, name), os.path.join(folder, end))


class HadoopOutput(SparkOutput):
    """A folder on a file system of the cluster."""

    def __init__(self, path: str, session: Any) -> None:
        path = path.rstrip("/")
        folder, _, name = path.rpartition("/")
        super().__init__(f"{folder}/.{name}.{uuid4().hex}.part")
        paths = session._jvm.org.apache.hadoop.fs.Path
        self._name, self._final, self._part = path, paths(path), paths(self.part)
        self._files = self._final.getFileSystem(session._jsc.hadoopConfiguration())
        if self._files.exists(self._final):
            raise _exists(path)

    def keep(self) -> None:
        """Rename the folder: one step on HDFS, a copy on an object store."""
        if not self._files.rename(self._part, self._final):
            raise AssayError("BAT-033", "can't be renamed to its final name.", where=self._name)

    def discard(self) -> None:
        """Remove the folder."""
        self._files.delete(self._part, True)


def _exists(path: str) -> UsageError:
    return UsageError("BAT-021", "already exists.", where=path, fix="Choose another name.")
