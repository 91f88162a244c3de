"""Campaigns: what fails once in a while, looked for with random seeds. `python -m test.soak --help` lists them."""
