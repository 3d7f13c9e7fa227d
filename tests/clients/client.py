# tests/clients/client.py
"""Calls a rate-limited API as it asks to be called: python3 client.py URL, the key in the environment as API_KEY."""

import http.client
import os
import random
import sys
import time
import urllib.error
import urllib.request

MAX_ATTEMPTS = 8  # of one call
MAX_WAIT = 120.0  # seconds; told to wait longer than this, the caller should do something else meanwhile
FIRST_BACKOFF = 0.5  # seconds, doubled at each attempt, where the server names no wait
MAX_BACKOFF = 30.0
MAX_CALLS = 1000  # of the demonstration below
TIMEOUT = 30.0


class GaveUp(Exception):
    """The server refused too often, or for longer than the caller is ready to wait."""


def advised_wait(headers):
    """The seconds that the server asks to wait, or None where it names none."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if value.isascii() and value.isdigit():
            return int(value) * unit
    return None


def backoff(attempt):
    """Exponential, with full jitter, so that clients that failed together do not come back together."""
    return random.uniform(0, min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** (attempt - 1)))


def send(request):
    """Status, headers and body; status 0 when there was no answer at all."""
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()
    except (OSError, http.client.HTTPException) as error:
        print(f"no answer: {error}")
        return 0, {}, b""


def call(url, key=None):
    """Sends a GET until it is answered with something other than a refusal; tells each attempt's status as well."""
    headers = {"Accept": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    statuses = []
    for attempt in range(1, MAX_ATTEMPTS + 1):
        status, answer, body = send(urllib.request.Request(url, headers=headers))
        statuses.append(status)
        if status not in (0, 429, 503):
            print(f"attempt {attempt}: {status}")
            return statuses, body
        wait = advised_wait(answer)
        if wait is None:
            # Also a cost that no waiting makes fit: there the server names no wait on purpose.
            if b'"cost_exceeds_limit"' in body:
                raise GaveUp("the request costs more than its limit can ever allow")
            wait = backoff(attempt)
        else:
            # Never earlier than asked, and a little later, each client by another time.
            wait += random.uniform(0, min(1.0, 0.1 * wait))
        if wait > MAX_WAIT:
            raise GaveUp(f"told to wait {wait:.0f} s")
        print(f"attempt {attempt}: {status}, waiting {wait:.2f} s", flush=True)
        time.sleep(wait)
    raise GaveUp(f"refused {MAX_ATTEMPTS} times")


def main():
    """Calls until one call was refused and then let in."""
    if len(sys.argv) != 2:
        sys.exit("usage: client.py URL")
    try:
        for _ in range(MAX_CALLS):
            statuses, _ = call(sys.argv[1], os.environ.get("API_KEY"))
            if statuses[-1] != 200:
                sys.exit(f"answered {statuses[-1]}")
            if 429 in statuses:
                return
    except GaveUp as reason:
        sys.exit(f"gave up: {reason}")
    sys.exit("never refused")


if __name__ == "__main__":
    main()
