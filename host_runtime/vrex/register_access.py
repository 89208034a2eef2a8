"""Registers of a device by name: typed reads, checked writes, fields as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Generic, TypeVar, overload

from kv_asu_firmware.integers import integer
from vrex.registers import REGISTERS, Register

R = TypeVar("R", bound=Register)

READ_WRITE = "read-write"
_WRITABLE = (READ_WRITE, "write 1 to clear", "write 1 to do")


class RegisterPort(Generic[R]):
    """One register of a device.

    Parameters
    ----------
    register : subclass of Register
        Which.
    read, write : callable
        Reads a register; writes one and checks that the write was accepted.
    """

    __slots__ = ("_read", "_write", "register")  # no field is set by a name of its own, mistyped or not

    def __init__(self, register: type[R], read: Callable[[type[R]], R], write: Callable[[type[R], int], None]) -> None:
        self.register = register
        self._read = read
        self._write = write

    def read(self) -> R:
        """The register as it stands."""
        return self._read(self.register)

    def write(self, value: int) -> None:
        """Write the whole register.

        Raises
        ------
        ValueError
            It can only be read, or the value has more than 32 bits.
        ConfigRefusedError
            The core refused it.
        """
        self._write(self.register, self.check_word(value))

    def modify(self, **fields: int) -> None:
        """Write some fields and keep the others; of actions and bits to clear, only those given are written.

        Raises
        ------
        TypeError
            There is no such field, or a value is no integer.
        ValueError
            A field can only be read, or a value does not fit.
        ConfigRefusedError
            The core refused it.
        """
        fields = self.check_fields(fields)
        keeps = any(field.access == READ_WRITE for field in self.register.FIELDS.values())
        # Actions read 0, and bits to clear never share a register with what is kept.
        kept = self.read() if keeps else 0
        self.write(self.register(kept).replace(**fields))

    def check_word(self, value: int) -> int:
        """A value for the whole register, checked; raises `TypeError` and `ValueError` as `write` does."""
        if not is_writable(self.register):
            raise ValueError(f"{self.register.NAME} can only be read")
        value = integer(self.register.NAME, value)
        if not 0 <= value < 1 << 32:
            raise ValueError(f"{self.register.NAME} must be 0 to 0xffffffff, not {value!r}")
        return value

    def check_fields(self, values: Mapping[str, int]) -> dict[str, int]:
        """Values for some fields, checked; raises `TypeError` and `ValueError` as `modify` does."""
        checked = {}
        for name, value in values.items():
            field = self.register.FIELDS.get(name)
            path = f"{self.register.NAME}.{field.name if field else name}"
            if field is not None and field.access not in _WRITABLE:
                raise ValueError(f"{path} can only be read ({field.access})")
            checked[name] = integer(path, value)
        self.register.of(**checked)
        return checked


class RegisterFile(Mapping[str, RegisterPort[Any]]):
    """A device's registers: ``regs.ctrl``, ``regs["CTRL"]``, or typed, ``regs[vrex.registers.Ctrl]``."""

    _ports: dict[str, RegisterPort[Any]]

    def __init__(self, read: Callable[..., Any], write: Callable[..., None]) -> None:
        ports = {name: RegisterPort(register, read, write) for name, register in REGISTERS.items()}
        object.__setattr__(self, "_ports", ports)

    @overload
    def __getitem__(self, register: str) -> RegisterPort[Any]: ...
    @overload
    def __getitem__(self, register: type[R]) -> RegisterPort[R]: ...
    def __getitem__(self, register: str | type[R]) -> RegisterPort[Any]:
        return self._ports[register if isinstance(register, str) else register.NAME]

    def __getattr__(self, name: str) -> RegisterPort[Any]:
        try:
            return self.__dict__["_ports"][name.upper()]
        except KeyError:
            raise AttributeError(f"there is no register {name.upper()}") from None

    def __setattr__(self, name: str, value: object) -> None:
        known = name.upper() in REGISTERS
        way_out = f"write {name.upper()} with regs.{name}.write(...) or .modify(...)"
        raise AttributeError(
            way_out if known else f"there is no register {name.upper()}{_closest(name.upper(), REGISTERS)}"
        )

    def __dir__(self) -> list[str]:
        return [name.lower() for name in self._ports]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ports)

    def __len__(self) -> int:
        return len(self._ports)


def find_register(name: str) -> type[Register]:
    """A register by its name, in whatever case.

    Raises
    ------
    TypeError, ValueError
        The name is no text; there is none.
    """
    register = REGISTERS.get(_text(name).upper())
    if register is None:
        raise ValueError(f"there is no register {name.upper()}{_closest(name.upper(), REGISTERS)}")
    return register


def find_field(path: str) -> tuple[type[Register], str]:
    """Register and field, as the attribute's name, of a path like ``CTRL.DECAY``.

    Raises
    ------
    TypeError, ValueError
        The path is no text; there is no such register or field.
    """
    name, dot, field = _text(path).partition(".")
    register = find_register(name)
    if not dot or field.lower() not in register.FIELDS:
        fields = ", ".join(f"{register.NAME}.{field.name}" for field in register.FIELDS.values())
        raise ValueError(f"{path!r} is no field; {register.NAME} has {fields}")
    return register, field.lower()


def field_value(path: str, text: str) -> int:
    """The value that a text means for a field: a number, or the name of one where the field has names.

    Raises
    ------
    ValueError
        There is no such field, or it is no value.
    """
    register, name = find_field(path)
    kind = type(getattr(register(0), name))
    if issubclass(kind, IntEnum) and text.upper() in kind.__members__:
        return int(kind[text.upper()])
    try:
        return int(text, 0)
    except ValueError:
        names = f", or one of {', '.join(kind.__members__)}" if issubclass(kind, IntEnum) else ""
        raise ValueError(f"{path}: {text!r} is not a number{names}") from None


def is_writable(register: type[Register]) -> bool:
    """Whether software can write any of it."""
    return any(field.access in _WRITABLE for field in register.FIELDS.values())


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a name must be a text like CTRL.DECAY, not {name!r}")
    return name


def _closest(name: str, names: Mapping[str, object]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, names, 1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(names)}"
