"""What the Python package refuses. Used by many tests."""
import dmft
import pytest


def refuses(sentence, call, *words, **keys):
    """Such a call raises dmft.InputError, of whose text this is a regular expression."""
    with pytest.raises(dmft.InputError, match=sentence):
        call(*words, **keys)
