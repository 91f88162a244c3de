"""Values and tuples: codec, field types, formats, key definitions, JSON paths, updates, collations, texts.

Nothing here knows spaces, transactions or I/O. A tuple is `bytes`: one MessagePack array.
"""
