"""The examples in docstrings of dmft.torch, of the modules too that need a current PyTorch."""
import doctest
import importlib
import pkgutil

import dmft.torch


def test_examples_of_docstrings():
    names = [one.name for one in pkgutil.walk_packages(dmft.torch.__path__, "dmft.torch.")
             if not one.name.endswith("__main__")]
    assert "dmft.torch.planning" in names and "dmft.torch.importing.record" in names
    for name in names:
        assert not doctest.testmod(importlib.import_module(name)).failed, name
