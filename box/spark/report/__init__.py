"""`lunabox-export --report`: one page about a directory, from one pass of Spark over its files.

| module | holds |
|---|---|
| `sketches` | distinct values, samples, largest tuples: small, and two of them can be joined |
| `directory_profile` | what is known about a directory: spaces, columns, log |
| `profile_pass` | the pass: pieces of files, each profiled by a worker |
| `report_page` | the page; needs plotly |
"""
