"""``python -m clusterlab.validate FILE.csv``: the same as ``python -m clusterlab validate --summary FILE.csv``."""

import sys

if __name__ == "__main__":
    from clusterlab.__main__ import main

    sys.exit(main(["validate", "--summary", *sys.argv[1:]]))
