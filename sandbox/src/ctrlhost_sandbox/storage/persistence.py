"""Objects on disk: one SQLite file, one transaction per commit."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import sqlite3
from typing import TYPE_CHECKING

import msgspec

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost_sandbox.storage.store import Snapshot, Store

_log = logging.getLogger("ctrlhost_sandbox.persistence")
FORMAT = "1"
FILE = "objects.sqlite"
UNCLEAN_GAP = 1000
"""How far the revision jumps after an unclean shutdown, so that no version is used twice."""

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, revision INTEGER NOT NULL, json BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
);
"""
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)"
_DROP = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
#: With less room, an error of the file system means that the disk is full: SQLite does not always say so.
_LEAST_ROOM = 256 * 1024
_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"


class Disk:
    """The journal of one store, used by the server's thread only."""

    def __init__(self, directory: Path) -> None:
        """Open or create the directory's file; SandboxError if it is in use or damaged, or if the disk is full."""
        self._directory = directory
        self._path = directory / FILE
        self._full = False
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SandboxError(f"{directory} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise SandboxError(
                f"{directory} is in use by another sandbox", hint="stop it, or choose another directory"
            ) from error
        try:
            self._database = self._open()
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self) -> sqlite3.Connection:
        fresh = not self._path.exists()
        # Transactions are explicit.
        database = sqlite3.connect(self._path, isolation_level=None)
        try:
            if fresh:
                self._path.chmod(0o600)
            # A commit survives a crash of the process; after a crash of the machine, up to the last checkpoint.
            database.execute("PRAGMA synchronous = NORMAL")
            if fresh:
                database.executescript(_SCHEMA)
                database.execute(_META, ("format", FORMAT))
            self._check(database)
            # This writes to a file that has another mode: a damaged one stays as it is.
            database.execute("PRAGMA journal_mode = WAL")
        except BaseException as error:
            database.close()
            if fresh:
                # An empty file would be taken for a damaged one.
                self._path.unlink(missing_ok=True)
            if isinstance(error, sqlite3.DatabaseError):
                raise self._unusable(error) from error
            raise
        return database

    def _unusable(self, error: sqlite3.DatabaseError) -> SandboxError:
        """Return why the file cannot be used: a full disk has damaged nothing."""
        if not self._is_full(error):
            return self._damaged(str(error))
        return SandboxError(
            f"{self._path} cannot be opened: the disk is full",
            hint=f"free some space on the disk of {self._directory} and start again; the objects are intact",
        )

    def _is_full(self, error: sqlite3.Error) -> bool:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            return shutil.disk_usage(self._directory).free < _LEAST_ROOM
        return code == sqlite3.SQLITE_FULL

    def _check(self, database: sqlite3.Connection) -> None:
        (result,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if result != "ok":
            raise self._damaged(result)
        row = database.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
        if row is None or row[0] != FORMAT:
            raise self._damaged("unknown format")

    def _damaged(self, why: str) -> SandboxError:
        return SandboxError(
            f"{self._path} cannot be read: {why}", hint="restore it from a backup, or move it away to start empty"
        )

    def load(self, store: Store) -> None:
        """Load all objects into an empty store, and mark the file as open."""
        database = self._database
        meta = dict(database.execute("SELECT key, value FROM meta"))
        try:
            (newest,) = database.execute("SELECT max(revision) FROM objects").fetchone()
            store.revision = max(store.revision, int(meta.get("revision", 0)), newest or 0)
            if meta.get("clean", "yes") != "yes":
                store.revision += UNCLEAN_GAP
            for resource, raw in database.execute("SELECT resource, json FROM objects"):
                store.load(resource, msgspec.json.decode(raw))
            database.execute(_META, ("clean", "no"))
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error
        except (msgspec.DecodeError, KeyError, ValueError, TypeError) as error:
            raise self._damaged(str(error)) from error

    def write(self, table: str, snapshot: Snapshot, revision: int, *, removed: bool) -> None:
        """Write one commit; 507 if the disk is full, 500 if it fails otherwise, and then nothing has changed."""
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
            if removed:
                database.execute(_DROP, (table, snapshot.namespace, snapshot.name))
            else:
                database.execute(_PUT, (table, snapshot.namespace, snapshot.name, revision, snapshot.raw))
            database.execute(_META, ("revision", str(revision)))
            database.execute("COMMIT")
        except BaseException as error:
            if database.in_transaction:
                database.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise self._failed(error) from error
            raise
        if self._full:
            self._full = False
            _log.warning("sandbox: the disk of %s has room again", self._directory)

    def _failed(self, error: sqlite3.Error) -> Failure:
        if not self._is_full(error):
            return status.internal(f"cannot write {self._path}: {error}")
        text = f"the disk of the sandbox's data directory {self._directory} is full"
        if not self._full:
            self._full = True
            _log.error("sandbox: %s; writes get 507 until it has room", text)
        return Failure(507, "InsufficientStorage", f"{text}: nothing was stored; free some space and try again")

    def close(self) -> None:
        """Mark the file as clean and close it."""
        try:
            self._database.execute(_META, ("clean", "yes"))
        except sqlite3.Error as error:
            # Without the mark the next start takes the shutdown for a crash, which loses nothing either.
            _log.warning("sandbox: cannot mark %s as clean: %s", self._path, error)
        self._database.close()
        os.close(self._lock)
