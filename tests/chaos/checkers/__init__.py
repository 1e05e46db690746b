"""Each checker flags its anomaly, and passes what is right."""
