"""A live device as a tree like ``/sys/bus/pci``, for programs that know nothing of it: lspci, setpci, any reader.

=============== =====================================================================
`tree`          the files that describe a device, as Linux has them
`config_file`   the one that is the device: reads and writes, split as Linux does it
`turns`         one device for the programs that look and the traffic that runs
`traffic`       a trace, played into the device over and over
`filesystem`    all of it as FUSE asks for it
`serving`       mounting, until interrupted, and unmounting
=============== =====================================================================
"""
