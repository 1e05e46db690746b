"""Tests of chaos: does it break what it says, and does it notice what is broken?"""
