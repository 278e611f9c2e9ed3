"""The one write path. A transaction exists only while its locks are held.

The crash table of ARCHITECTURE.md tells what each interruption leaves behind.
"""
