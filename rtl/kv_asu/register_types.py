"""What a register map is made of: the classes that the generated :mod:`kv_asu.register_map` fills in."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kv_asu.params import Params


class Access(Enum):
    """How software and hardware share a field."""

    CONSTANT = "constant"
    """Always reads the same in one build."""
    STATUS = "status"
    """Hardware writes it, software reads it."""
    READ_WRITE = "read-write"
    """Software writes it, hardware reads it."""
    WRITE_ONE_TO_CLEAR = "write 1 to clear"
    """Hardware sets it, software clears it."""
    WRITE_ONE_TO_DO = "write 1 to do"
    """Software writes 1 to start something; reads 0."""


class Field(NamedTuple):
    """One field of a register; ``low`` is its least significant bit."""

    name: str
    low: int
    width: int
    access: Access
    reset: int = 0
    #: The build parameter that takes the place of ``reset``.
    build: str | None = None
    #: Least and greatest legal value, each a number or the name of a build parameter.
    allowed: tuple[int | str, int | str] | None = None
    #: Of the legal values, only the least and every ``step``-th after it.
    step: int = 1
    #: The field, as "REGISTER.FIELD", that this one must not be below.
    at_least: str | None = None
    #: The field, as "REGISTER.FIELD", that this one must not be above.
    at_most: str | None = None

    @property
    def mask(self) -> int:
        """The field's bits in its register."""
        return ((1 << self.width) - 1) << self.low

    def reset_value(self, params: Params) -> int:
        """What the field holds after reset in one build."""
        return self.reset if self.build is None else getattr(params, self.build)

    def bounds(self, params: Params) -> tuple[int, int]:
        """The least and the greatest legal value in one build, other fields left aside."""
        if self.allowed is None:
            return 0, (1 << self.width) - 1
        low, high = (getattr(params, bound) if isinstance(bound, str) else bound for bound in self.allowed)
        return low, high


class Register(NamedTuple):
    """One 32-bit register; ``offset`` is in bytes from the capability's header."""

    name: str
    offset: int
    fields: tuple[Field, ...]
    #: Writable only while CTRL.ENABLE is 0.
    structural: bool = False

    def reset_value(self, params: Params) -> int:
        """The whole register after reset in one build; fields that hardware writes count as 0."""
        return sum(field.reset_value(params) << field.low for field in self.fields)
