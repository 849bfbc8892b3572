"""Plain fast loops, named after the public modules. They are written to be read and ported.

Kernels do not validate, allocate, raise or touch Python objects. What they
cannot place they report in a ``fault`` record: code, row, kind, item, start,
stop, got, expected.
"""
