"""Points in time and intervals: the extension types 4 and 6 that the 2.10 and 2.11 lines of Tarantool added.

| module | what it does |
|---|---|
| `calendar` | days of the proleptic Gregorian calendar, over the whole range |
| `zone_table`, `zones` | names and numbers of time zones, and their offsets |
| `points` | `Datetime` and `Interval`, and their MessagePack bodies |
| `bodies` | the form of a point in time for Python programs |
| `shown` | texts, also after a format |
| `iso`, `scan` | reading texts: ISO 8601, and after a format |
| `arithmetic` | sums and differences |
"""
