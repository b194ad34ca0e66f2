"""What an author writes: YAML text, read with marks, checked, and kept as frozen values.

Nothing here runs a machine: guards are still text, tools are still descriptions.
"""
