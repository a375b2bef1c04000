"""What `ctrlhost new` writes: the project of a plugin, with its tests.

`choices` checks what the author asks for; `project` puts the files together, of which `plugin_source` and
`test_source` write the Python code; the others are in `templates/`. Public: nothing; the command line uses it.
"""
