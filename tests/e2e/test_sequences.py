# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Random sequences of verbs against a model: see sequences.py. LS_LONG: 50 000; LS_SEED: the seed of another run."""

import os
import time

import harness
from harness import LOADSHED, ROOT, Fail, case, main

COUNT = 50000 if os.environ.get("LS_LONG") else 1500
if os.environ.get("LS_LONG"):
    harness.CASE_SECONDS = 7200


@case("random sequences of verbs do what the model of an operator's state says")
def sequences(test):
    lab = test.lab()
    seed = int(os.environ.get("LS_SEED", time.time_ns() % 10**9))
    result = lab.srv("env", "LOADSHED=" + LOADSHED, "/usr/bin/python3", os.path.join(ROOT, "tests/e2e/sequences.py"),
                     seed, COUNT, test.folder, test.instance, code=None, seconds=harness.CASE_SECONDS)
    if result.code != 0:
        raise Fail((result.out or result.err)[-3000:])
    print("# " + result.out.strip())


if __name__ == "__main__":
    main()
