"""Calls a service many times, and prints one line of JSON for each call: python3 storm.py URL TENANT CALLS THREADS."""

import concurrent.futures
import json
import sys

import fanonce

# This network is bad on purpose and stays so: each success pays for a retry here, not for a tenth of one.
client = fanonce.Client(
    attempt_timeout=5.0, timeout=20.0, backoff=fanonce.Backoff(0.02, 0.5), poll=fanonce.Backoff(0.02, 0.2), budget=fanonce.Budget(ratio=1))


def call(url, tenant, n):
    key = fanonce.derive("storm-" + tenant, "ledger", "effect", str(n))
    line = {"key": key}
    try:
        r = client.json("POST", url, {"fp": key, "reject": n % 10 == 9}, key=key, headers={"Authorization": "Bearer " + tenant})
        line.update(outcome="Completed", status=r.status, attempts=r.attempts, answered=r.json()["key"])
    except fanonce.RetryError as e:
        line.update(outcome=e.outcome.value, status=e.status, attempts=e.attempts, error=str(e))
    return json.dumps(line)


def main(url, tenant, calls, threads):
    with concurrent.futures.ThreadPoolExecutor(int(threads)) as pool:
        for line in pool.map(lambda n: call(url, tenant, n), range(int(calls))):
            print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
