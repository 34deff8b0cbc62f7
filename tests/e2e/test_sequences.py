# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Random sequences of verbs against a model: see sequences.py. LS_LONG: 50 000; LS_SEED: the seed of another run.

Most of a verb's time is waiting for running programs (grace periods) and for a second to pass, so several labs at once
get through many more: on 2 cores one lab makes 19 verbs and as many `status` a second, three make 60. The long run, of seeds
2026 to 2031, took 1934 s on a machine that had much else to do (50 004 verbs), and found nothing.
"""

import os
import subprocess
import time

import harness
from harness import LOADSHED, ROOT, Fail, case, main

LONG = os.environ.get("LS_LONG")
COUNT, LABS = (50000, 6) if LONG else (1500, 3)
if LONG:
    harness.CASE_SECONDS = 7200


@case("random sequences of verbs do what the model of an operator's state says")
def sequences(test):
    seed = int(os.environ.get("LS_SEED", time.time_ns() % 10**9))
    runs = []
    start = time.monotonic()
    for number in range(LABS):
        lab = test.lab()
        # An instance each: what it saves is its own.
        instance = "%s-%d" % (test.instance, number)
        test.stack.callback(subprocess.run, ["rm", "-rf", "/var/lib/loadshed/" + instance], check=False)
        test.stack.callback(lambda lab=lab, instance=instance: lab.srv(
            LOADSHED, "-I", instance, "detach", "--all", code=None))
        folder = test.path(str(number))
        os.mkdir(folder)
        run = subprocess.Popen(["ip", "netns", "exec", lab.name + "-srv", "env", "LOADSHED=" + LOADSHED,
                                "/usr/bin/python3", os.path.join(ROOT, "tests/e2e/sequences.py"), str(seed + number),
                                str(COUNT // LABS), folder, instance], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
        test.stack.callback(run.kill)
        runs.append(run)
    verbs = 0
    for run in runs:
        out = run.communicate(timeout=harness.CASE_SECONDS)[0].decode(errors="replace").strip()
        if run.returncode != 0:
            raise Fail(out[-3000:])
        verbs += int(out.rsplit(" ", 2)[1])
    print("# seeds %d to %d: %d verbs in %.0f s" % (seed, seed + LABS - 1, verbs, time.monotonic() - start))


if __name__ == "__main__":
    main()
