"""Guards: the Common Expression Language behind one module, compiled twice.

Once against message types made from the schemas (only to check: names, types inside lists, `has`), once over plain JSON
maps (to evaluate, so that absent evidence is an error and never a default). An error is never true and never false.
"""
