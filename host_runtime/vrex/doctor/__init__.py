"""`vrex doctor`: is the core up, is the machine around it set as it must be, and what exactly repairs it.

`tree` reads files of this machine or of a copy; `environment_image`, `kernel_command_line` and `config_space`
understand what is in them; `links` and `environment` hold the checks; `report` puts them together.
"""
