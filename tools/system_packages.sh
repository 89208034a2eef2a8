#!/bin/sh
# Programs that pip cannot bring and the tests want: use what is there, take the rest from apt when that is possible,
# and say what is left out otherwise. Only a missing libpython is an error, because no cocotb bench runs without it.
set -eu
cd "$(dirname "$0")/.."

have_icarus() { command -v iverilog >/dev/null && command -v vvp >/dev/null; }
have_pciutils() { PATH="$PATH:/usr/sbin:/sbin"; command -v lspci >/dev/null && command -v setpci >/dev/null; }
have_fuse() { PATH="$PATH:/usr/sbin:/sbin"; command -v fusermount3 >/dev/null; }
have_chromium() { for name in chromium chromium-browser google-chrome chrome; do command -v $name >/dev/null && return; done; return 1; }
have_libpython() {
    .venv/bin/python -c 'import find_libpython, sys; sys.exit(find_libpython.find_libpython() is None)'
}

libpython="libpython$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
packages=""
have_icarus || packages="$packages iverilog"
have_pciutils || packages="$packages pciutils"
have_fuse || packages="$packages fuse3"
have_chromium || packages="$packages chromium"
have_libpython || packages="$packages $libpython"
[ -n "$packages" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "setup: installing with apt-get:$packages"
    log=.venv/apt.log
    export DEBIAN_FRONTEND=noninteractive
    apt-get update >"$log" 2>&1 || echo "setup: apt-get update failed, trying with the lists that are there (see $log)"
    for package in $packages; do
        apt-get install -y --no-install-recommends "$package" >>"$log" 2>&1 ||
            echo "setup: apt-get could not install $package (see $log)"
    done
fi

have_icarus || echo "setup: Icarus Verilog is not installed: its benches are skipped (sudo apt-get install iverilog)"
have_pciutils || echo "setup: lspci and setpci are not installed: their tests are skipped (sudo apt-get install pciutils)"
have_fuse || echo "setup: FUSE is not installed: the tests of vrex mount are skipped (sudo apt-get install fuse3)"
have_chromium || echo "setup: Chromium is not installed: the tests of vrex report's page are skipped (sudo apt-get install chromium)"
have_libpython || {
    echo "setup: $libpython (a shared library) was not found; cocotb runs Python inside the simulator and needs it." >&2
    echo "  with root:    apt-get install $libpython" >&2
    echo "  without root: Pythons from conda or uv have it, from pyenv with PYTHON_CONFIGURE_OPTS=--enable-shared:" >&2
    echo "                make distclean, then make test PYTHON=/path/to/python3" >&2
    exit 1
}
