"""The option `lunabox-export --report`: a page about a directory, from one pass of Spark over its files.

| module | holds |
|---|---|
| `sketches` | small summaries of values that can be joined: distinct values, samples, largest tuples |
| `directory_profile` | the figures about a directory: spaces, columns, log |
| `profile_pass` | the pass: pieces of files, each profiled by a worker |
| `report_page` | the page; needs plotly |
"""
