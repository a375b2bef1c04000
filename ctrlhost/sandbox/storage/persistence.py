"""Objects on disk: one SQLite file, one transaction per commit."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from typing import TYPE_CHECKING

import msgspec

from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.sandbox.storage.store import Snapshot, Store

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
_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"


class Disk:
    """The journal of one store, used by the server's thread only."""

    def __init__(self, directory: Path) -> None:
        """Open or create the directory's file; ConfigError if it is in use or damaged."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = directory / FILE
        self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise ConfigError(
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
            database.execute("PRAGMA journal_mode = WAL")
            # A commit survives a crash of the process; after a crash of the machine, up to the last checkpoint.
            database.execute("PRAGMA synchronous = NORMAL")
            if fresh:
                database.executescript(_SCHEMA)
                database.execute(_META, ("format", FORMAT))
            self._check(database)
        except sqlite3.DatabaseError as error:
            database.close()
            raise self._damaged(str(error)) from error
        except BaseException:
            database.close()
            raise
        return database

    def _check(self, database: sqlite3.Connection) -> None:
        (result,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if result != "ok":
            raise self._damaged(result)
        row = database.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
        if row is None or row[0] != FORMAT:
            raise self._damaged("unknown format")

    def _damaged(self, why: str) -> ConfigError:
        return ConfigError(
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
        except (sqlite3.DatabaseError, msgspec.DecodeError, KeyError, ValueError, TypeError) as error:
            raise self._damaged(str(error)) from error

    def write(self, table: str, snapshot: Snapshot, revision: int, *, removed: bool) -> None:
        """Write one commit; sqlite3.Error if that fails, and then nothing has changed."""
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        try:
            if removed:
                database.execute(_DROP, (table, snapshot.namespace, snapshot.name))
            else:
                database.execute(_PUT, (table, snapshot.namespace, snapshot.name, revision, snapshot.raw))
            database.execute(_META, ("revision", str(revision)))
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Mark the file as clean and close it."""
        self._database.execute(_META, ("clean", "yes"))
        self._database.close()
        os.close(self._lock)
