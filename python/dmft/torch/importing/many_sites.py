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

    def _free(self, base: str) -> str:
        """A name of a matrix that no other has."""
        text, k = base, 1
        while text in self._names:
            k += 1
            text = f"{base}_{k}"
        self._names.add(text)
        return text

    def starts_alike(self, one) -> bool:
        """Whether it is a map of wide experts, many of them, that start alike in the module."""
        if one.operation != "map" or max(map(len, one.data[1:])) != 2 \
                or len(self._tied[one.data[0].key()]) > 1 or not self._alike:
            return False
        to, source = one.data[1:]
        return self._alike(one.data[0], (source if len(source) == 2 else to)[0])

    def _scale_of_sum(self, one, part) -> dict:
        """Of independent experts each unit weighs as one of its own expert alone."""
        if len(part.to[1]) < 2:
            return {}
        experts = one.arguments[0].population.find().outer.find()
        return {"s_f": self.number(tuple(size ** -0.5 for size in experts.sizes))}

    def _map_of_equal_experts(self, one, x, part):
        """A map from or to pairs whose experts start alike: a matrix that all of them share, and
        that never learns, and what each has learned beside it, from 0."""
        net, target = self.network, one.population.find()
        part.common = self._free(part.name + "_0")
        given = self._more(part, self)
        mine = net.map(x, self.population(target), {
            **self._weight(part), **self._scale_of_sum(one, part), "a0": 1.0, "zero": True})
        shared = {"name": part.common, "label": part.label and part.label + ".shared",
                  "fixed": True,
                  **{key: given[key] for key in ("a0", "decays") if key in given}}
        if not part.experts[1]:
            units = self.population(target.inner)
            return mine + net.tile(net.map(x, units, shared), self.population(target))
        pairs = one.arguments[0].population.find()
        if "a0" in given:               # of the sum over experts; here is their mean
            shared["a0"] = self.number(tuple(size ** 0.5 for size in pairs.outer.find().sizes)) \
                * given["a0"]
        return mine + net.map(net.tile_mean(x, self.population(pairs.inner)),
                              self.population(target), shared)
