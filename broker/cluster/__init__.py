"""Cluster metadata: what `@cluster` replicates, what nodes observe of each other, and the internal cluster manager."""
