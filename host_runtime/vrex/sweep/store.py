"""Results on disk, a file a point, each there whole or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from vrex.files import check_file, whole_file
from vrex.sweep.measure import Result
from vrex.sweep.points import Point, point_json


class Store:
    """A folder of results.

    Parameters
    ----------
    folder : Path
        It is made when the first result comes.

    Raises
    ------
    VrexError
        It cannot be written to.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        check_file(folder / "point.json")

    def get(self, point: Point) -> Result | None:
        """A point's result, or None: there is none, or its file is damaged, so that it is to be measured again."""
        try:
            record = json.loads(self._file(point).read_text(encoding="utf-8"))
            if record["point"] != point_json(point):
                return None
            return Result(**record["result"])
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def put(self, point: Point, result: Result) -> None:
        """Keep a result.

        Raises
        ------
        VrexError
            It cannot be written.
        """
        record = {"point": point_json(point), "result": asdict(result)}
        with whole_file(self._file(point)) as scratch:
            scratch.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    def _file(self, point: Point) -> Path:
        return self._folder / f"{point.key}.json"
