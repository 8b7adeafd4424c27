"""The command ``python -m clusterlab.validate FILE.csv``: the same as ``clusterlab validate FILE.csv``."""

import sys

from clusterlab.evidence.training_runs import main

if __name__ == "__main__":
    sys.exit(main())
