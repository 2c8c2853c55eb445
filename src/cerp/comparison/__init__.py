"""Many methods side by side: jobs in processes of their own, results on disk, tables.

variants -> jobs -> worker (a process per job) -> results -> tables

`compare` does all of it; `tune` searches the settings that a comparison then uses.
"""
