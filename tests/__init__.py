"""Tests of Quorate; the subfolders mirror the folders of the repository."""
