"""The database of a storage: how it is opened, also where nothing can be written, and what it fails with, in words."""

from __future__ import annotations

import os
import re
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from damoos.common import addresses
from damoos.common.own_file import check_place
from damoos.common.unpack import MALFORMED, in_short
from damoos.errors import ConfigError, DamoosError, StoreError
from damoos.ownership import objection_to_use
from damoos.store import postgresql, sqlite_file

if TYPE_CHECKING:
    import optuna

LOCK_WAIT_S = 5
KINDS = "sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE"
_SQLITE = "sqlite:///"
# A version of Optuna, and that of its tables. Optuna finds out the latter by reading all of its migrations, for 0.2 s.
TABLES = ("5.0.0", "v3.2.0.a")
# What databases and their drivers say, and what to do about it; the first that fits.
_REMEDIES = (
    ("unable to open database file", "its folder must be there, and yours to read and write"),
    (sqlite_file.REFUSED, "only a store of studies is read, since anything else in it may run for ever"),
    ("interrupted", "a statement takes more than one of a store of this size can: its pages are damaged"),
    ("file is not a database", "it is another file; name one that is not there yet"),
    ("readonly database", "make it writable, or choose another with --results or --storage"),
    ("database is locked", f"another process has held it for {LOCK_WAIT_S} s; try again"),
    ("disk is full", "make room, or choose another place with --results or --storage"),
    ("belongs to|is seen to listen", postgresql.PROOF),
    ("has not ended a statement|sends more than", "it is not a server that damoos can use; check host and port"),
    ("authentication method requirement", postgresql.CLEAR_TEXT),
    ("password|authentication|role|Access denied", "check the user, and the password in ~/.pgpass, PGPASSFILE or"
     " PGPASSWORD"),
    ("does not exist|Unknown database", "create the database first"),
    ("statement timeout", "another process holds its tables, or they are not damoos's alone; try again"),
    ("Connection refused|timeout|timed out|could not translate|Name or service", "check host and port, and that its"
     " server is up"),
    ("access module|No module named 'psycopg", "install its driver: pip install 'damoos[postgresql]'"),
    ("Can't load plugin|Could not parse|invalid literal for int", f"a storage is {KINDS}"),
)  # fmt: skip


def connect(url: str) -> optuna.storages.RDBStorage:
    """Open a storage; makes its tables if they are not there.

    A SQLite file that this user may only read is opened for reading.

    Raises
    ------
    ConfigError : a password stands in the URL, or it names another driver of PostgreSQL than psycopg
    StoreError : there is no such database, it cannot be opened, or it lies in a folder of another user's
    """
    check_url(url)
    if _is_in_memory(url):
        raise StoreError(f"store {url}: names no file, so nothing would be kept; a storage is {KINDS}")
    with store_errors(url):
        if not url.startswith("sqlite"):
            return _storage(url, engine_options(url))
        # SQLite opens its files by their names, follows a link in the place of the database, and deletes a file that a
        # rollback journal names: what is looked at before has to be what it opens.
        check_place(_sqlite_path(url).parent)
        if only_read := _for_reading(url):
            return _storage(only_read, engine_options(url), skip_table_creation=True)
        _make_private(url)
        storage = _storage(url, engine_options(url))
        _write_ahead(storage)
        return storage


def _storage(url: str, engine_kwargs: dict[str, Any], **options: bool) -> optuna.storages.RDBStorage:
    """A storage whose tables Optuna knows; those of the version that damoos knows are not compared with all others."""
    optuna = _optuna()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.RDBStorage(url, engine_kwargs, skip_compatibility_check=True, **options)
    if (optuna.__version__, storage.get_current_version()) != TABLES:
        storage = optuna.storages.RDBStorage(url, engine_kwargs, **options)
    return storage  # type: ignore[no-any-return]


def engine_options(url: str) -> dict[str, Any]:
    """How SQLAlchemy is to make the connections of a storage.

    Raises
    ------
    ConfigError, StoreError : see `damoos.store.postgresql.creator`
    """
    if url.startswith("sqlite"):
        return {"connect_args": sqlite_file.connect_args(LOCK_WAIT_S)}
    if url.startswith("postgresql"):
        # Whether the server has hstore, and how that is read, would be the server's to say.
        return {"creator": postgresql.creator(url), "use_native_hstore": False}
    return {}


def is_there(url: str) -> bool:
    """Whether a storage can be read; False for a SQLite file that is not there, which opening it would make."""
    return not url.startswith("sqlite") or _is_in_memory(url) or _sqlite_path(url).is_file()


def check_url(url: str) -> None:
    """Refuse a storage URL with a password in it.

    Raises
    ------
    ConfigError
    """
    if addresses.store_has_secret(url):
        raise ConfigError(
            f"store {addresses.hidden_store(url)}: leave the password out of the URL, where other users and files see"
            " it; PostgreSQL takes it from ~/.pgpass, or from the environment variables PGPASSFILE and PGPASSWORD"
        )


def check_own(results: Path, url: str, what: str) -> None:
    """Refuse to use what a store names, if a user who is neither root nor this one can have written it.

    Parameters
    ----------
    results : Path
    url : str
    what : str
        What is named, for the message.

    Raises
    ------
    StoreError : the results folder or the SQLite file is another user's, or every user may write to it
    """
    paths = [results, *([_sqlite_path(url)] if url.startswith("sqlite") else [])]
    for path in paths:
        objection = objection_to_use(path)
        if objection is None and path.is_file() and path.stat().st_mode & stat.S_IWOTH:
            objection = "is writable by every user"
        if objection:
            raise StoreError(
                f"{what} is not used: {path} {objection}; copy what you need into a results folder of your own, and"
                " name it there yourself"
            )


def _is_in_memory(url: str) -> bool:
    return re.fullmatch(r"sqlite(\+\w+)?:/{2,3}(:memory:)?(\?.*)?", url) is not None


def _sqlite_path(url: str) -> Path:
    database = re.sub(r"^sqlite(\+\w+)?:///", "", url)
    if not database.startswith("file:"):
        return Path(database.partition("?")[0])
    return Path(sqlite_file.path(database))


def _make_private(url: str) -> None:
    """Make the file of a new SQLite database, for its owner alone; others of SQLite's take its permissions."""
    path = _sqlite_path(url)
    with suppress(OSError):  # it is there; or it cannot be made, which SQLite says next
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


@contextmanager
def store_errors(url: str) -> Iterator[None]:
    """Everything that a store can fail with, in one line: which store, what it says, what to do."""
    import sqlalchemy.exc

    try:
        yield
    except DamoosError:
        raise
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise _told(url, getattr(error, "orig", None) or error) from None
    except OSError as error:
        raise _told(url, f"{error.filename}: {error.strerror}" if error.filename else error) from None
    except (RuntimeError, ImportError, ValueError) as error:  # the latter: a port that is no number
        raise _told(url, error) from None
    except (*MALFORMED, AssertionError) as error:
        if url.startswith("sqlite"):
            raise  # no server has answered it, so it is a defect of damoos's
        # SQLAlchemy and Optuna believe the server: its version, and that each answer has a row.
        raise _told(url, f"it answers as no database does ({in_short(error)})") from error
    except Exception as error:
        if type(error).__module__.startswith("optuna"):
            # What the database said, not what Optuna guesses.
            raise _told(url, getattr(error.__cause__, "orig", None) or error) from None
        raise


@contextmanager
def content_errors(url: str) -> Iterator[None]:
    """What goes wrong while the content of a store is read: the errors of `store_errors`, and values of other forms."""
    with store_errors(url):
        try:
            yield
        except MALFORMED as error:
            raise _told(url, f"its content cannot be read ({in_short(error)})") from error


def _told(url: str, said: object) -> StoreError:
    words = str(said).splitlines()[0] if str(said) else type(said).__name__
    remedy = next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, words)), "")
    return StoreError(f"store {addresses.hidden_store(url)}: {words}" + (f"; {remedy}" if remedy else ""))


def _for_reading(url: str) -> str | None:
    """The URL that opens a SQLite file only for reading, where this user cannot write it; else None.

    References
    ----------
    sqlite.org/wal.html, "Read-Only Databases"
    """
    path = _sqlite_path(url)
    if not path.is_file() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return None
    log = Path(f"{path}-wal")
    # Without a log there is no writer, and the index of it, which cannot be made here, is not needed.
    immutable = "" if log.exists() and log.stat().st_size else "&immutable=1"
    return f"{_SQLITE}file:{path.resolve()}?mode=ro{immutable}&uri=true"


def _optuna() -> ModuleType:
    """Optuna, without a word on widgets that its progress bar would like in a notebook: damoos has one of its own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="IProgress not found")
        import optuna
    return optuna


def _write_ahead(storage: optuna.storages.RDBStorage) -> None:
    """Have SQLite keep a write-ahead log.

    A finished run is then one append and no rewrite of pages: half of the time, and others can read meanwhile. A kill
    loses nothing; a power failure may lose the last runs, which are then done again.
    """
    from sqlalchemy import event

    def begin(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    event.listen(storage.engine, "connect", begin)
    storage.engine.dispose()  # the connections that the storage has made already lack it
