"""Declaring: what users say, checked where they say it.

Imports contracts and serdes only. Names, windows, arguments and the shapes of callbacks; every
error names the user's file and line (`declaration_site`). Start with `callbacks`.
"""
