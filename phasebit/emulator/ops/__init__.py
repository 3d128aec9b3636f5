"""The instruction families: one module a family, one function an instruction."""

import importlib
import pkgutil

# Each enters its functions in the table of instructions: who imports one finds it filled.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
