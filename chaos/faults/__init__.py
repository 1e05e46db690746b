"""What can be broken, one file per family. `api` says what a fault is; `nemesis` of the folder above plans with them."""
