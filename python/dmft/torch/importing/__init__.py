"""Modules of PyTorch as networks of dmft-solve (docs/import.md).

A module is run at two widths (`record`). What it computes becomes expressions over populations
(`reading`, with the operations of PyTorch in `shapes`, `pointwise`, `products`, `reductions` and
`selections`), and these a program (`writing`). `parts` say which part of which parameter is which
matrix, `guard` compares outputs and gradients, and `result` has what the user gets.
"""
from dmft.torch.importing.result import Imported, import_module

__all__ = ["import_module", "Imported"]
