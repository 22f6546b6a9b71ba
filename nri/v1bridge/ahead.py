"""Imports that only a fault needs, made when the bridge starts.

An upgrade may remove the folder that a running bridge was started from. An import from there then fails, and ends a
compiled program.
"""
# ruff: noqa: F401

import difflib
import encodings.idna
import encodings.unicode_escape
import encodings.utf_16_le
import fcntl
import hashlib
import json.decoder
import linecache
import resource
import termios
import tokenize
import traceback

import nri.config.diagnostics
import nri.types.table_explained
