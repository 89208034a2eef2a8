"""Make or refresh the environment in .venv: ``python3 tools/setup_env.py demo|test|synth``.

Uses only the standard library, and only syntax that old Pythons read (hence the quoted annotations), so that it can
tell their owners what is wrong. ``demo`` installs what a run needs, ``test`` what the tests need too, ``synth``
the synthesis tools as well; all are exact, hashed versions from locks/. A finished set leaves a stamp in .venv, and is
not installed again until the locks, pyproject.toml, the Python version or the folder change.

Anything missing on the machine ends in one message that names it and the ways to get it, with and without root.
Settings of pip in the environment (PIP_*) are honoured.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
VENV_PYTHON = os.path.join(VENV, "bin", "python")
LOG = os.path.join(VENV, "setup.log")

OLDEST = (3, 11)
# Newest Python that every locked package has a build for.
NEWEST = (3, 14)

# What each set installs.
LOCKS = {
    "demo": ["locks/demo.txt"],
    "test": ["locks/test.txt", "locks/data.txt"],
    "synth": ["locks/synth.txt", "locks/data.txt"],
}
# Packages wanted for their data files, without what they depend on.
NO_DEPENDENCIES = "locks/data.txt"
# .venv of one set holds all of the sets named here.
CONTAINS = {"demo": ["demo"], "test": ["demo", "test"], "synth": ["demo", "test", "synth"]}


class MissingError(Exception):
    """Something the machine lacks; the text says what, and how to get it."""


def say(text: "str") -> "None":
    """Print one progress line at once, also into a pipe."""
    print("setup: " + text, flush=True)


def succeeds(command: "list[str]") -> "bool":
    """Tell whether a command can be run and exits with 0; what it prints is thrown away."""
    try:
        return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def version_text(version: "tuple") -> "str":
    """Give (3, 11) as "3.11"."""
    return ".".join(str(part) for part in version[:2])


def newer_python() -> "str | None":
    """Find a Python on PATH that is new enough and has venv, newest first.

    Returns
    -------
    str or None
        Its path.
    """
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        path = shutil.which(f"python3.{minor}")
        # A version manager may put names on PATH that only print an error: ask it to run.
        if path and succeeds([path, "-c", "import venv"]):
            return path
    return None


def check_python() -> "None":
    """Go on under a newer Python when this one is too old and there is one, else say how to get it."""
    if sys.version_info >= OLDEST:
        if sys.version_info[:2] > NEWEST:
            say(
                f"Python {version_text(sys.version_info)} is newer than {version_text(NEWEST)}, the newest that all "
                f"packages are built for; should one fail: make demo PYTHON=python{version_text(NEWEST)}"
            )
        return
    path = newer_python()
    if path:
        say(f"{sys.executable} is Python {version_text(sys.version_info)}; going on with {path}")
        sys.stdout.flush()
        os.execv(path, [path, *sys.argv])
    raise MissingError(
        f"Python {version_text(OLDEST)} or newer is needed; {sys.executable} is {version_text(sys.version_info)}.\n"
        "  with root:    apt-get install python3 python3-venv   (Debian 12, Ubuntu 24.04 or newer), or\n"
        "                dnf install python3.12                 (Fedora, RHEL 9)\n"
        "  without root: pyenv, conda or uv install a Python into your home; then name it:\n"
        "                make demo PYTHON=/path/to/python3.12"
    )


def check_build_tools() -> "None":
    """Make sure that make is there and a C++ program can be compiled: the simulators turn Verilog into programs."""
    if not shutil.which("make"):
        raise MissingError(
            "make was not found; the simulators build with it.\n"
            "  with root:    apt-get install make   (or: dnf install make)\n"
            "  without root: conda install -c conda-forge make, or put a make on PATH"
        )
    compiler = os.environ.get("CXX") or next((name for name in ("g++", "c++", "clang++") if shutil.which(name)), None)
    ways = (
        "  with root:    apt-get install g++   (or: dnf install gcc-c++)\n"
        "  without root: conda install -c conda-forge gxx, or name one that you have: make demo CXX=/path/to/g++"
    )
    if compiler is None:
        raise MissingError("no C++ compiler was found (g++, c++ or clang++ on PATH); the RTL needs one.\n" + ways)
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "probe.cpp")
        with open(source, "w") as stream:
            stream.write("#include <vector>\nint main() { return std::vector<int>(1).size() == 1 ? 0 : 1; }\n")
        try:
            # CXX may carry arguments, as in "ccache g++".
            result = subprocess.run(
                [*compiler.split(), "-std=c++20", source, "-o", os.path.join(folder, "probe")],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise MissingError(f"the C++ compiler CXX={compiler} cannot be run ({error.strerror}).\n{ways}") from error
    if result.returncode != 0:
        lines = result.stdout.decode(errors="replace").strip().splitlines() or ["it printed nothing"]
        raise MissingError(f"{compiler} cannot compile a C++20 program: {lines[-1].strip()}\n{ways}")


def stamp_path(name: "str") -> "str":
    """Give the file that says which state of the set is installed."""
    return os.path.join(VENV, name + ".stamp")


def wanted_stamp(name: "str") -> "str":
    """Describe everything that an installed set depends on.

    The folder counts because scripts in .venv and the editable install hold its path: a copied or moved tree
    needs its own.
    """
    digest = hashlib.sha256()
    for path in [*LOCKS[name], "pyproject.toml", "tools/setup_env.py"]:
        with open(os.path.join(ROOT, path), "rb") as stream:
            digest.update(stream.read())
    return f"{ROOT}\nPython {version_text(sys.version_info)}\n{digest.hexdigest()}\n"


def installed_stamp(name: "str") -> "str":
    """Give what the set's stamp says, or "" when there is none."""
    try:
        with open(stamp_path(name)) as stream:
            return stream.read()
    except OSError:
        return ""


def run_pip(pip: "list[str]", arguments: "list[str]", total: "int" = 0) -> "None":
    """Run pip, showing each package as it comes, with the whole output in .venv/setup.log.

    Parameters
    ----------
    pip
        Command that starts pip.
    arguments
        Arguments after ``pip install``.
    total
        Number of packages to come, for the display; 0 shows none.

    Raises
    ------
    MissingError
        When pip fails, with its last words.
    """
    command = [*pip, "install", "--disable-pip-version-check", "--no-input", "--progress-bar=off", *arguments]
    tail = [""]
    count = 0
    with open(LOG, "a") as log:
        log.write("$ {}\n".format(" ".join(command)))
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in process.stdout or ():
            log.write(line)
            tail = [*tail, line.rstrip()][-12:]
            package = re.match(r"(?:Collecting|Requirement already satisfied:) (\S+?)==(\S+)", line)
            size = re.match(r"\s+(?:Downloading|Using cached) \S+ \((.*)\)", line)
            if package and total:
                count += 1
                say(f"[{count:2}/{total}] {package.group(1)} {package.group(2)}")
            elif size and size.group(1).endswith("MB"):
                say(f"        {size.group(1)}")
            elif total and line.startswith("Installing collected packages"):
                say("unpacking them")
    if process.wait() != 0:
        raise MissingError(
            "pip could not install the packages; its last lines were:\n"
            + "".join(f"    | {line}\n" for line in tail if line)
            + "  The package index must be reachable: check the network, or a proxy or mirror set through\n"
            "  PIP_INDEX_URL, PIP_PROXY or pip's own configuration, and the free disk space; then run it again.\n"
            f"  Whole output: {os.path.relpath(LOG)}"
        )


def make_venv() -> "list[str]":
    """Make an empty .venv with whatever this Python offers for it.

    Returns
    -------
    list of str
        Command that starts pip for it.
    """
    shutil.rmtree(VENV, ignore_errors=True)
    # 22.3 is the first pip that can work on another environment (--python).
    has_pip = succeeds(
        [sys.executable, "-c", "import pip, sys; sys.exit(tuple(map(int, pip.__version__.split('.')[:2])) < (22, 3))"]
    )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401

        has_ensurepip = True
    except ImportError:
        has_ensurepip = False
    say("making .venv with {} (Python {})".format(sys.executable, ".".join(map(str, sys.version_info[:3]))))
    result = None
    if has_ensurepip:
        result = subprocess.run([sys.executable, "-m", "venv", VENV], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if result.returncode == 0:
            return [VENV_PYTHON, "-I", "-m", "pip"]
    if has_pip:
        # Debian keeps ensurepip in python3-venv; the pip that is there can fill a .venv that has none.
        shutil.rmtree(VENV, ignore_errors=True)
        result = subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", VENV], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if result.returncode == 0:
            return [sys.executable, "-m", "pip", "--python", VENV_PYTHON]
    shutil.rmtree(VENV, ignore_errors=True)
    seen = ""
    if result is not None and result.stdout.strip():
        seen = " ({})".format(result.stdout.decode(errors="replace").strip().splitlines()[-1])
    raise MissingError(
        f"{sys.executable} cannot make a virtual environment: its venv or ensurepip module is missing{seen}.\n"
        f"  with root:    apt-get install python{version_text(sys.version_info)}-venv\n"
        "  without root: a Python from pyenv, conda or uv has it; name it: make demo PYTHON=/path/to/python3.12"
    )


def lock_size(lock: "str") -> "int":
    """Count the packages of a lock file that this platform takes."""
    with open(os.path.join(ROOT, lock)) as stream:
        return len([line for line in stream if re.match(r"[a-z0-9]", line) and "win32" not in line])


def install(name: "str") -> "None":
    """Bring .venv to hold the set, from whatever state it is in."""
    start = time.monotonic()
    state = [installed_stamp(each) for each in CONTAINS]
    usable = any(text.splitlines()[:2] == wanted_stamp(name).splitlines()[:2] for text in state)
    if usable and succeeds([VENV_PYTHON, "-I", "-c", "import pip"]):
        pip = [VENV_PYTHON, "-I", "-m", "pip"]
        say("bringing .venv up to date")
    else:
        pip = make_venv()
    for each in CONTAINS:
        if os.path.exists(stamp_path(each)):
            os.remove(stamp_path(each))
    for lock in LOCKS[name]:
        count = lock_size(lock)
        say(f"installing the {count} packages of {lock}")
        # Wheels only: nothing is built here, so a missing wheel is a clear message and not a page of compiler output.
        # --no-compile: Python compiles what is imported, when it is imported; a minute less on two cores.
        options = ["--only-binary=:all:", "--require-hashes", "--no-compile"]
        if lock == NO_DEPENDENCIES:
            options.append("--no-deps")
        run_pip(pip, [*options, "-r", lock], count)
    say("installing this project (editable)")
    run_pip(pip, ["--no-deps", "--no-build-isolation", "--editable", "."])
    for each in CONTAINS[name]:
        with open(stamp_path(each), "w") as stream:
            stream.write(wanted_stamp(each))
    say(f".venv holds the {name} set ({time.monotonic() - start:.0f} s)")


def main() -> "int":
    """Bring the set named on the command line up to date.

    Returns
    -------
    int
        Exit code: 0 done, 1 the machine lacks something (said on standard error), 2 usage, 130 interrupted.
    """
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name not in LOCKS:
        print("usage: setup_env.py demo|test|synth", file=sys.stderr)
        return 2
    try:
        check_python()
        check_build_tools()
        if installed_stamp(name) != wanted_stamp(name):
            install(name)
    except MissingError as error:
        print("setup: " + str(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("setup: interrupted; run the command again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
