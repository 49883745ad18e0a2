"""`python -m shiftlog.daemon`, which is how clients start the daemon."""

import sys

from shiftlog.daemon import main

sys.exit(main())
