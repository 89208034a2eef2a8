"""Platform files: everything that belongs to one board, so that another SoC is another file and not another program.

A file is TOML; the ones that come along (`NAMES`) are the examples to start from. Units are in the keys' names. What no
public document states is written ``"not stated"`` and read as None. Reading is strict: a key that is missing, unknown
or of the wrong kind is a `PlatformError` whose one line names the file, the key and what belongs there.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from vrex.errors import VrexError

#: The platforms that come along.
NAMES = ("orin-nx", "agx-orin", "ascend-310b")

#: The one that is taken when the board is not recognised.
DEFAULT = "orin-nx"

NOT_STATED = "not stated"

#: More than any kernel is built for.
MOST_CPUS = 8192

Made = TypeVar("Made")

_BDF = re.compile(r"(?:([0-9a-f]{4}):)?([0-9a-f]{2}):([01][0-9a-f])\.([0-7])", re.IGNORECASE)


class PlatformError(VrexError):
    """A platform file cannot be used."""


def pci_address(text: str) -> str:
    """Write a PCI address in full, as sysfs does: ``00:02.0`` is ``0000:00:02.0``.

    Raises
    ------
    ValueError
        It is not an address.
    """
    match = _BDF.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a PCI address like 0000:00:02.0")
    domain, bus, device, function = match.groups()
    return f"{domain or '0000'}:{bus}:{device}.{function}".lower()


def version(text: str) -> tuple[int, ...]:
    """Read ``36.3.0`` as numbers to compare; zeros at the end do not count.

    Raises
    ------
    ValueError
        It is not numbers with dots between them.
    """
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})*", text) is None:
        raise ValueError(f"{text!r} is not a version like 36.3")
    numbers = [int(part) for part in text.split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


@dataclass(frozen=True)
class Tier:
    """One of the memories a KV line can be in; None is what is not stated, or has no meaning for this memory."""

    what: str
    bytes_per_second: int | None
    capacity_bytes: int | None
    latency_ns: int | None
    block_bytes: int | None
    source: str


@dataclass(frozen=True)
class Compute:
    """The board's arithmetic; a multiply and an add count as two operations."""

    operations_per_second: int | None
    source: str


@dataclass(frozen=True)
class Pci:
    """The core as a PCI function: its address, and where its capability ought to be in config space."""

    device: str
    config_base: int


@dataclass(frozen=True)
class Boot:
    """Where the links of the boot chain are set; ``extlinux`` is None on a board that boots in another way."""

    variable: str
    parameter: str
    environment_config: str
    extlinux: str | None
    power_state: str


@dataclass(frozen=True)
class BootLoader:
    """The oldest boot loader that starts the core."""

    minimum: str


@dataclass(frozen=True)
class L4t:
    """The oldest Jetson Linux, and the file and the Debian package that tell which one is installed."""

    minimum: str
    release: str
    package: str


@dataclass(frozen=True)
class PowerMode:
    """The nvpmodel mode to be in, the file that holds the present one, and the one that defines them all."""

    mode: int
    status: str
    config: str


@dataclass(frozen=True)
class Gpu:
    """The GPU's devfreq folders (the first that is there counts) and what they must be set to."""

    devfreq: tuple[str, ...]
    governor: str
    max_freq_hz: int


@dataclass(frozen=True)
class Cpus:
    """The CPUs that the scheduler must leave alone."""

    isolated: tuple[int, ...]


@dataclass(frozen=True)
class Interrupt:
    """Patterns of the DMA interrupt's name, the most telling first, and the CPU that must take it."""

    names: tuple[str, ...]
    cpu: int


@dataclass(frozen=True)
class Camera:
    """The resolution to lock the camera to, in pixels."""

    width: int
    height: int


@dataclass(frozen=True)
class Environment:
    """What the machine around the core must look like; None where this does not apply to the board."""

    boot_loader: BootLoader | None
    l4t: L4t | None
    power_mode: PowerMode | None
    gpu: Gpu | None
    cpus: Cpus | None
    interrupt: Interrupt | None
    camera: Camera | None


@dataclass(frozen=True)
class Platform:
    """One board.

    Parameters
    ----------
    name : str
        The file's name without its suffix.
    source : str
        Where the file is.
    title : str
    compatible : tuple of str
        Entries of the device tree's ``compatible`` by which the board is recognised.
    cache, near, far : Tier
        On-chip memory, the pool attention reads at speed, and where the whole KV cache lives.
    compute : Compute
    pci : Pci
    boot : Boot
    environment : Environment
    """

    name: str
    source: str
    title: str
    compatible: tuple[str, ...]
    cache: Tier
    near: Tier
    far: Tier
    compute: Compute
    pci: Pci
    boot: Boot
    environment: Environment


class _Table:
    """A TOML table that is read key by key, each with what it must be."""

    def __init__(self, file: str, path: str, values: dict[str, Any]) -> None:
        self._file = file
        self._path = path
        self._values = values
        self._read: set[str] = set()

    def _key(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def _wrong(self, key: str, expected: str) -> PlatformError:
        found = f"not {self._values[key]!r}" if key in self._values else "but it is missing"
        return PlatformError(f"{self._file}: {self._key(key)} must be {expected}, {found}")

    def _get(self, key: str) -> Any:
        self._read.add(key)
        return self._values.get(key)

    def read(self, make: Callable[[_Table], Made]) -> Made:
        """What `make` reads from this table; a key that it has not asked for is unknown."""
        made = make(self)
        for key in self._values:
            if key not in self._read:
                known = ", ".join(sorted(self._read))
                raise PlatformError(f"{self._file}: {self._key(key)} is unknown; here belong {known}")
        return made

    def table(self, key: str, make: Callable[[_Table], Made]) -> Made:
        value = self._get(key)
        if not isinstance(value, dict):
            raise self._wrong(key, "a table")
        return _Table(self._file, self._key(key), value).read(make)

    def optional_table(self, key: str, make: Callable[[_Table], Made]) -> Made | None:
        self._get(key)
        return self.table(key, make) if key in self._values else None

    def text(self, key: str) -> str:
        value = self._get(key)
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self._wrong(key, "a line of text")
        return value

    def word(self, key: str) -> str:
        value = self._get(key)
        if not isinstance(value, str) or re.fullmatch(r"[\w.+-]+", value) is None:
            raise self._wrong(key, "a name without spaces")
        return value

    def path(self, key: str) -> str:
        value = self._get(key)
        if not _is_path(value):
            raise self._wrong(key, "an absolute path")
        return str(value)

    def optional_path(self, key: str) -> str | None:
        return self.path(key) if key in self._values else None

    def version(self, key: str) -> str:
        value = self._get(key)
        try:
            version(value)
        except (TypeError, ValueError):
            raise self._wrong(key, 'a version like "36.3"') from None
        return str(value)

    def pci_address(self, key: str) -> str:
        value = self._get(key)
        try:
            return pci_address(value)
        except (TypeError, ValueError):
            raise self._wrong(key, 'a PCI address like "0000:00:02.0"') from None

    def number(self, key: str, least: int, most: int, step: int = 1) -> int:
        value = self._get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most or value % step:
            raise self._wrong(key, f"a number from {least} to {most}" + (f" in steps of {step}" if step > 1 else ""))
        return value

    def stated(self, key: str) -> int | None:
        """A positive number, or None for what is not stated."""
        value = self._get(key)
        if value == NOT_STATED:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self._wrong(key, f'a positive number, or "{NOT_STATED}"')
        return value

    def optional_stated(self, key: str) -> int | None:
        return self.stated(key) if key in self._values else None

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._get(key)
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self._wrong(key, "a list of texts")
        return tuple(value)

    def patterns(self, key: str) -> tuple[str, ...]:
        value = self.texts(key)
        if not value:
            raise self._wrong(key, "a list of one pattern or more")
        return value

    def paths(self, key: str) -> tuple[str, ...]:
        value = self._get(key)
        if not isinstance(value, list) or not value or not all(map(_is_path, value)):
            raise self._wrong(key, "a list of absolute paths")
        return tuple(value)

    def cpus(self, key: str) -> tuple[int, ...]:
        value = self._get(key)
        fits = isinstance(value, list) and all(type(cpu) is int and 0 <= cpu < MOST_CPUS for cpu in value)
        if not fits or not value or sorted(set(value)) != value:
            raise self._wrong(key, "a list of CPU numbers in ascending order")
        return tuple(value)


def _is_path(value: object) -> bool:
    return (
        isinstance(value, str)
        and value.isprintable()
        and value.startswith("/")
        and not value.startswith("//")
        and posixpath.normpath(value) == value
    )


def read_platform(text: str, name: str, source: str) -> Platform:
    """Read the text of a platform file.

    Parameters
    ----------
    text : str
    name : str
        What to call the platform.
    source : str
        The file, for messages.

    Raises
    ------
    PlatformError
        The text is not a platform file; the message names the key and what belongs there.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlatformError(f"{source}: not a TOML file: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise PlatformError(f"{source}: not a platform file: nested too deeply") from None
    return _Table(source, "", values).read(lambda table: _platform(table, name, source))


def _platform(top: _Table, name: str, source: str) -> Platform:
    cache, near, far = top.table(
        "memory", lambda t: (t.table("cache", _tier), t.table("near", _tier), t.table("far", _tier))
    )
    return Platform(
        name=name,
        source=source,
        title=top.text("title"),
        compatible=top.texts("compatible"),
        cache=cache,
        near=near,
        far=far,
        compute=top.table("compute", lambda t: Compute(t.stated("operations_per_second"), t.text("source"))),
        pci=top.table("pci", lambda t: Pci(t.pci_address("device"), t.number("config_base", 0x100, 0xF80, step=4))),
        boot=top.table("boot", _boot),
        environment=top.table("environment", _environment),
    )


def _tier(table: _Table) -> Tier:
    return Tier(
        what=table.text("what"),
        bytes_per_second=table.stated("bytes_per_second"),
        capacity_bytes=table.stated("capacity_bytes"),
        latency_ns=table.optional_stated("latency_ns"),
        block_bytes=table.optional_stated("block_bytes"),
        source=table.text("source"),
    )


def _boot(table: _Table) -> Boot:
    return Boot(
        variable=table.word("variable"),
        parameter=table.word("parameter"),
        environment_config=table.path("environment_config"),
        extlinux=table.optional_path("extlinux"),
        power_state=table.path("power_state"),
    )


def _environment(table: _Table) -> Environment:
    return Environment(
        boot_loader=table.optional_table("boot_loader", lambda t: BootLoader(t.version("minimum"))),
        l4t=table.optional_table("l4t", lambda t: L4t(t.version("minimum"), t.path("release"), t.word("package"))),
        power_mode=table.optional_table(
            "power_mode", lambda t: PowerMode(t.number("mode", 0, 99), t.path("status"), t.path("config"))
        ),
        gpu=table.optional_table(
            "gpu", lambda t: Gpu(t.paths("devfreq"), t.word("governor"), t.number("max_freq_hz", 1, 10**12))
        ),
        cpus=table.optional_table("cpus", lambda t: Cpus(t.cpus("isolated"))),
        interrupt=table.optional_table(
            "interrupt", lambda t: Interrupt(t.patterns("names"), t.number("cpu", 0, MOST_CPUS - 1))
        ),
        camera=table.optional_table(
            "camera", lambda t: Camera(t.number("width", 1, 0xFFFF), t.number("height", 1, 0xFFFF))
        ),
    )


def load_platform(name: str) -> Platform:
    """Load a platform that comes along by its name, or a user's own file by its path.

    Parameters
    ----------
    name : str
        One of `NAMES`, or a path: anything with a slash in it or with ``.toml`` at its end.

    Raises
    ------
    PlatformError
        There is no such platform, or its file cannot be used.
    """
    if name in NAMES:
        file = resources.files(__name__) / f"{name}.toml"
        return read_platform(file.read_text(encoding="utf-8"), name, f"{name}.toml")
    if "/" not in name and not name.endswith(".toml"):
        raise PlatformError(f"{name!r} is not a platform; choose {', '.join(NAMES)}, or give the path of a .toml file")
    path = Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PlatformError(f"{name}: cannot be read ({error.strerror or error})") from None
    except ValueError:  # not UTF-8, or a path that no file can have
        raise PlatformError(f"{name}: not a TOML file: it is not UTF-8 text") from None
    return read_platform(text, path.stem, name)


def recognised(compatible: Iterable[str]) -> str:
    """The name of the platform that a device tree's ``compatible`` names; `DEFAULT` when it names none."""
    entries = set(compatible)
    return next((name for name in NAMES if entries.intersection(load_platform(name).compatible)), DEFAULT)
