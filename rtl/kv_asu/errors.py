"""What the tools around the core raise; the message is one line that names the thing and the way out."""


class ToolError(Exception):
    """A tool is missing or has failed."""
