"""What a user may be told: errors that read as one line and name the way out."""

from __future__ import annotations


class VrexError(Exception):
    """An error caused by what the user gave us or by the machine, never by a bug.

    Its text is one line that names the thing and the way out; the command line prints it and ends with exit code 1.
    """
