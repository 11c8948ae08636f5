"""How rows over heads and over pairs of experts and units are written, a part of the Writer."""
from __future__ import annotations


class ManySites:
    """Operations between a growing number of experts, or heads, and their units."""

    def _attended(self, one, *k):
        """Logits of attention, times k, which lie on the heads where these grow in number."""
        q_and_k = self._arguments(one)
        if one.is_rows:
            return self.network.attend(*q_and_k, *(k or (1.0,)),
                                       self._heads[id(one.population.find())])
        return self.network.attend(*q_and_k, *k)

    def _copied(self, one):
        """Writes an operation between experts, or units, and pairs of both, which has our name."""
        return getattr(self.network, one.operation)(*self._arguments(one),
                                                    self.population(one.population))

    _write_tile = _write_expand = _write_tile_mean = _write_group_mean = _copied
