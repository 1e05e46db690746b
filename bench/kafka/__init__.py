"""The comparison: the same client and the same loads on Quorate and on its peers, in one run."""
