"""Whether this build executes the notebooks: ``PHASEBIT_EXECUTE=force`` (the default) or ``off``.

``force`` and never ``cache``: a cache does not notice that an imported module changed.
"""

from __future__ import annotations

import os

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ConfigError

MODES = ("force", "off")


def choose(app: Sphinx, config: Config) -> None:
    mode = os.environ.get("PHASEBIT_EXECUTE", "force")
    if mode not in MODES:
        raise ConfigError(f"PHASEBIT_EXECUTE is {mode!r}: set it to one of {', '.join(MODES)}")
    config["nb_execution_mode"] = mode


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", choose)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
