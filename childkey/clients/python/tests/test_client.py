"""Calls: the table of all languages, and real sockets."""

import http.client
import json
import math
import pathlib
import socket
import ssl
import struct
import threading
import time
import unittest
import urllib.error

import fanonce

TABLES = pathlib.Path(__file__).resolve().parents[4] / "retry" / "testdata"
CALLS = TABLES / "calls.json"
ANSWERS = TABLES / "answers.json"
NOW = 1772366400.0  # 2026-03-01T12:00:00Z, the clock of the table

FAILURES = {
    "no-such-host": lambda: urllib.error.URLError(socket.gaierror(socket.EAI_NONAME, "no such host")),
    "lookup": lambda: urllib.error.URLError(socket.gaierror(socket.EAI_AGAIN, "try again")),
    "refused": lambda: urllib.error.URLError(ConnectionRefusedError(111, "refused")),
    "certificate": lambda: urllib.error.URLError(ssl.SSLCertVerificationError("self-signed")),
    "reset": lambda: ConnectionResetError(104, "reset"),
    "closed": lambda: EOFError(),
    "timeout": lambda: socket.timeout("timed out"),
    "truncated": lambda: http.client.IncompleteRead(b"{"),
    "other": lambda: RuntimeError("broken"),
}


class Time:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.at, self.waits = 0.0, []

    def clock(self):
        return self.at

    def sleep(self, seconds):
        self.waits.append(seconds)
        self.at += seconds


def script(steps, requests):
    def transport(request):
        step = steps[min(len(requests), len(steps) - 1)]
        requests.append(request)
        if "failure" in step:
            raise FAILURES[step["failure"]]()
        body = step.get("body", "").encode()
        return fanonce.Response(step["status"], fanonce.Headers([tuple(h) for h in step.get("header", [])]), body[: request.max_bytes], len(body) > request.max_bytes)

    return transport


def play(call):
    """Make a call of the table, and return its end as the table has it, and the requests."""
    cfg, virtual, requests = call["config"], Time(), []
    rand = cfg.get("random", 0)
    options = {"guarded": cfg.get("guarded", False), "max_attempts": cfg.get("max_attempts"), "max_polls": cfg.get("max_polls"), "max_response_bytes": cfg.get("max_response_bytes"),
               "timeout": cfg["timeout_ms"] / 1000 if "timeout_ms" in cfg else None,
               "retry_after_cap": cfg["retry_after_cap_ms"] / 1000 if "retry_after_cap_ms" in cfg else None,
               "budget": fanonce.Budget(reserve=cfg["budget_reserve"]) if "budget_reserve" in cfg else None}
    client = fanonce.Client(
        transport=script(call["steps"], requests), rand=lambda: rand, now=lambda: NOW, clock=virtual.clock, sleep=virtual.sleep,
        **{k: v for k, v in options.items() if v is not None})
    key = "k-1" if call["keyed"] else None
    body = None if call["method"] == "GET" else b'{"amount":5}'
    try:
        r = client.send(call["method"], "http://payment.test/charges", body, key=key)
        got = {"outcome": "Completed", "attempts": r.attempts, "status": r.status, "code": "", "detail": "", "retryable": False, "cause": "", "ok": True}
    except fanonce.RetryError as e:
        cause = "" if e.cause in ("answer", "attempts") else e.cause
        got = {"outcome": e.outcome.value, "attempts": e.attempts, "status": e.status, "code": e.code, "detail": e.detail, "retryable": e.retryable, "cause": cause, "ok": False}
    return got, virtual.waits, requests


class Table(unittest.TestCase):
    def test_every_call(self):
        calls = json.loads(CALLS.read_text("utf-8"))
        self.assertGreater(len(calls), 900)
        for call in calls:
            with self.subTest(call["name"]):
                got, waits, requests = play(call)
                want = dict(call["want"])
                want_waits = want.pop("waits_ms")
                self.assertEqual(got, want)
                self.assertEqual(len(waits), len(want_waits))
                for i, (w, ms) in enumerate(zip(waits, want_waits)):
                    self.assertAlmostEqual(w * 1000, ms, delta=1.001, msg=f"wait {i + 1}")
                self.assertEqual(len(requests), want["attempts"])
                self.assertEqual({r.headers.get("Idempotency-Key") for r in requests}, {'"k-1"' if call["keyed"] else None})
                self.assertEqual(len({(r.method, r.url, r.body) for r in requests}), 1)

    def test_bad_input_is_not_sent(self):
        sent = []
        client = fanonce.Client(transport=script([{"status": 200}], sent))
        for error, args, kwargs in (
            (fanonce.InputError, ("POST", "http://a/"), {"key": "a b"}),
            (fanonce.InputError, ("POST", "http://a/"), {"key": ""}),
            (fanonce.InputError, ("POST", "http://a/"), {"headers": {"idempotency-key": "k" * 256}}),
            (fanonce.InvalidCallError, ("POST", "http://a/"), {"key": "k", "headers": {"Idempotency-Key": "k"}}),
            (fanonce.InvalidCallError, ("PO ST", "http://a/"), {}),
            (fanonce.InvalidCallError, ("POST", "ftp://a/"), {}),
            (fanonce.InvalidCallError, ("POST", "http://"), {}),
            (fanonce.InvalidCallError, ("POST", "http://a:99999/"), {}),
            (fanonce.InvalidCallError, ("POST", "http://a/ b"), {}),
            (fanonce.InvalidCallError, ("POST", None), {}),
            (fanonce.InvalidCallError, ("POST", "http://a/", iter(())), {}),
            (fanonce.InvalidCallError, ("POST", "http://a/"), {"headers": {"X": "a\r\nb"}}),
            (fanonce.InvalidCallError, ("POST", "http://a/"), {"headers": {"X Y": "a"}}),
            (fanonce.InvalidCallError, ("POST", "http://a/", "\ud800"), {}),
            (fanonce.ConfigError, ("POST", "http://a/"), {"timeout": -1}),
            (fanonce.ConfigError, ("POST", "http://a/"), {"timeout": 10**400}),
        ):
            with self.assertRaises(error, msg=f"{args} {kwargs}"):
                client.send(*args, **kwargs)
        self.assertEqual(sent, [])

    def test_no_json_is_not_sent(self):
        sent, deep = [], []
        client = fanonce.Client(transport=script([{"status": 200}], sent), guarded=False)
        deep.append(deep)
        for value in (float("nan"), {"cents": float("inf")}, [-math.inf], object(), b"x", {1, 2}, deep, 10**5000):
            with self.assertRaises(fanonce.InvalidCallError):
                client.json("POST", "http://a/", value, key="k")
        self.assertEqual(sent, [])
        client.json("POST", "http://a/", {"big": 2**63 + 1, "half": "\ud800", "none": None}, key="k")
        self.assertEqual(sent[0].body, b'{"big":9223372036854775809,"half":"\\ud800","none":null}')

    def test_no_answer_raises_anything_else(self):
        problem = {"type": "https://fanonce.dev/problems/in-progress", "code": "in-progress", "retry_after_ms": 7}
        odd = [["Retry-After", "9" * 5000], ["Retry-After", "\u0661\u0662"], ["Retry-After-Ms", "9" * 400], ["Retry-After", "Sat, 01 Jan 0000 00:00:00 +9999"],
               ["Idempotency-Code", "\ud800"], ["Date", "Fri, 31 Dec 9999 23:59:59 -2400"], ["Content-Type", ";"]]
        bodies = [json.dumps(problem).replace("7", n) for n in ("9" * 4000, "9" * 5000, "-1", "1e999", "NaN", "null")]
        bodies += ['{"error":{"code":NaN,"message":"\\ud800"}}', '{"code":1e999}', '{"code":%s}' % ("9" * 4000), "[" * 5000, '"\\ud800"', "", "\ufeff{}"]
        for header in [[h] for h in odd] + [odd]:
            for body in bodies:
                for kind in ("application/problem+json", "application/json", "text/plain"):
                    step = {"status": 409, "header": [*header, ["Content-Type", kind]], "body": body}
                    with self.assertRaises(fanonce.RetryError):
                        fanonce.Client(transport=script([step], []), max_attempts=2, max_polls=1, sleep=lambda _: None).send("POST", "http://a/", key="k")

    def test_lines_that_a_library_joined(self):
        for line, want in (("5, 9", 9), ("9,soon", 9), ("5, Sun, 01 Mar 2026 12:00:07 GMT", 7), ("Sunday, 01-Mar-26 12:00:07 GMT, 5", 7), (", ", 0)):
            self.assertEqual(fanonce.retry_after(fanonce.Headers({"Retry-After": line}), NOW), want, line)

    def test_bad_configuration(self):
        for options in ({"max_attempts": 0}, {"max_polls": -1}, {"timeout": 0}, {"timeout": float("nan")}, {"timeout": float("inf")}, {"retry_after_cap": -1},
                        {"attempt_timeout": -1}, {"max_response_bytes": 0}, {"guarded": "no"}):
            with self.assertRaises(fanonce.ConfigError, msg=str(options)):
                fanonce.Client(**options)
        for make in (lambda: fanonce.Backoff(base=0), lambda: fanonce.Backoff(base=0.2, cap=0.1), lambda: fanonce.Backoff(cap=-1), lambda: fanonce.Backoff(jitter=1.1), lambda: fanonce.Budget(ratio=0),
                     lambda: fanonce.Budget(reserve=0.5), lambda: fanonce.Budget(refill=-1)):
            with self.assertRaises(fanonce.ConfigError):
                make()

    def test_no_default_refuses_a_setting(self):
        for options in ({"timeout": 0.05}, {"attempt_timeout": 3600}, {"timeout": 1, "attempt_timeout": 1}, {"backoff": fanonce.Backoff(cap=0.01)},
                        {"poll": fanonce.Backoff(base=60)}, {"budget": fanonce.Budget(reserve=float("inf"))}):
            with self.subTest(options):
                fanonce.Client(**options)

    def test_an_attempt_has_all_of_the_time(self):
        sent = []
        fanonce.Client(transport=script([{"status": 200}], sent), guarded=False, clock=lambda: 0.0, timeout=0.3).send("POST", "http://a/", key="k")
        self.assertEqual(sent[0].timeout, 0.3)

    def test_every_call_outlasts_a_restart(self):
        for down in (0.3, 3.0, 10.0):
            budget, came = fanonce.Budget(), []
            budget._earn = lambda service: None  # the calls are made one after the other, but begin together
            for _ in range(200):  # each on a clock of its own
                virtual = Time()

                def transport(request, virtual=virtual):
                    if virtual.at < down:
                        raise ConnectionRefusedError(111, "refused")
                    came.append(virtual.at)
                    return fanonce.Response(200, fanonce.Headers([]), b"", False)

                client = fanonce.Client(transport=transport, guarded=False, budget=budget, clock=virtual.clock, sleep=virtual.sleep, timeout=30)
                before = len(came)
                client.send("POST", "http://a/", key="k")
                self.assertEqual(len(came), before + 1)
            came.sort()
            peak = max(sum(at <= other < at + 0.1 for other in came) for at in came)
            self.assertLessEqual(peak, 2 * 200 / 5 / 10, down)

    def test_only_a_refused_connection_is_free(self):
        for failure, left in (("refused", 100.0), ("timeout", 97.0), ("lookup", 97.0), ("reset", 97.0)):
            budget, virtual = fanonce.Budget(refill=0), Time()
            client = fanonce.Client(transport=script([{"failure": failure}], []), budget=budget, clock=virtual.clock, sleep=virtual.sleep, max_attempts=4)
            with self.assertRaises(fanonce.RetryError):
                client.send("POST", "http://a/", key="k")
            self.assertEqual(budget._left.get("a", (100.0, 0))[0], left, failure)

    def test_a_budget_drops_full_accounts(self):
        budget, at = fanonce.Budget(), 0.0
        for i in range(5000):
            budget._add(str(i), -1.0, at)
            budget._spread(str(i), 5.0, 0.5, at)
            at += 1
        self.assertLess(len(budget._left), 140)
        self.assertLess(len(budget._refused), 140)

    def test_errors_of_the_caller_prove_nothing(self):
        """An error that the caller handles is the context of every later one. It says nothing of this attempt."""
        client = fanonce.Client(transport=script([{"failure": "other"}], []), max_attempts=1)
        try:
            raise ConnectionRefusedError("of another call")
        except ConnectionRefusedError:
            with self.assertRaises(fanonce.RetryError) as caught:
                client.send("POST", "http://a/", key="k")
        self.assertIs(caught.exception.outcome, fanonce.Outcome.UNKNOWN)

    def test_resumed(self):
        for step, outcome in (({"failure": "refused"}, "Unknown"), ({"status": 400}, "Unknown"), ({"status": 422, "header": [["Idempotency-Code", "key-reused"]]}, "Unknown"),
                              ({"status": 410, "header": [["Idempotency-Code", "key-cancelled"]]}, "Rejected")):
            with self.assertRaises(fanonce.RetryError) as caught:
                fanonce.Client(transport=script([step], []), max_attempts=1).send("POST", "http://a/", key="k", resumed=True)
            self.assertEqual(caught.exception.outcome.value, outcome, step)

    def test_error_text_has_no_key(self):
        with self.assertRaises(fanonce.RetryError) as caught:
            fanonce.Client(transport=script([{"status": 402}], [])).send("POST", "http://a/", key="secret-key")
        self.assertNotIn("secret-key", str(caught.exception))
        self.assertIn(fanonce.digest("secret-key"), str(caught.exception))

    def test_cancel(self):
        cancel = threading.Event()
        steps = [{"status": 503}]
        sent = []
        inner = script(steps, sent)

        def transport(request):
            cancel.set()  # while the attempt runs
            return inner(request)

        with self.assertRaises(fanonce.RetryError) as caught:
            fanonce.Client(transport=transport).send("POST", "http://a/", key="k", cancel=cancel)
        self.assertEqual((caught.exception.cause, caught.exception.attempts), ("cancelled", 1))
        with self.assertRaises(fanonce.RetryError) as caught:
            fanonce.Client(transport=transport).send("POST", "http://a/", key="k", cancel=cancel)
        self.assertEqual((caught.exception.outcome, len(sent)), (fanonce.Outcome.NOT_SENT, 1))

    def test_cancel_during_a_wait(self):
        cancel = threading.Event()
        client = fanonce.Client(transport=script([{"status": 503, "header": [["Retry-After", "30"]]}], []))
        timer = threading.Timer(0.05, cancel.set)
        timer.start()
        begun = time.monotonic()
        with self.assertRaises(fanonce.RetryError) as caught:
            client.send("POST", "http://a/", key="k", cancel=cancel)
        timer.join()
        self.assertLess(time.monotonic() - begun, 20)
        self.assertEqual(caught.exception.cause, "cancelled")


class Server:
    """A listener that gives each connection to a function."""

    def __init__(self, *handlers):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.url = "http://127.0.0.1:%d/" % self.address[1]
        self.handlers, self.requests = handlers, []
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        for n in range(100):
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                data = b""
                while b"\r\n\r\n" not in data and data[:1] != b"\x16":  # a TLS handshake has no such end
                    more = connection.recv(4096)
                    if not more:
                        break
                    data += more
                if not data:
                    return
                self.requests.append(data.decode("latin-1"))
                self.handlers[min(n, len(self.handlers) - 1)](connection)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            with socket.create_connection(self.address):  # accept returns
                pass
        except ConnectionRefusedError:
            pass  # a handler closed the listener
        self.thread.join()
        self.listener.close()


def nobody():
    """Return a URL where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return "http://127.0.0.1:%d/" % closed.getsockname()[1]


def answer(text):
    return lambda connection: connection.sendall(text)


OK = answer(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nIdempotent-Replayed: false\r\n\r\n{}")


def client(**options):
    return fanonce.Client(guarded=False, backoff=fanonce.Backoff(0.001, 0.001), **options)


class Sockets(unittest.TestCase):
    def test_answer(self):
        with Server(OK) as s:
            r = client().json("POST", s.url, {"a": 1}, key="k-1", headers={"Authorization": "Bearer t"})
        self.assertEqual((r.status, r.body, r.attempts, r.replayed, r.json()), (201, b"{}", 1, False, {}))
        self.assertIn('idempotency-key: "k-1"', s.requests[0].lower())
        self.assertIn("content-type: application/json", s.requests[0].lower())
        self.assertIn("Bearer t", s.requests[0])

    def test_cut_off(self):
        for name, text in (("body", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), ("chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"),
                           ("head", b"HTTP/1.1 200 OK\r\nCont"), ("nothing", b"")):
            with self.subTest(name), Server(answer(text), OK) as s:
                self.assertEqual(client().send("POST", s.url, b"", key="k").attempts, 2)
            with self.subTest(name), Server(answer(text)) as s, self.assertRaises(fanonce.RetryError) as caught:
                client(max_attempts=2).send("POST", s.url, b"", key="k")
            self.assertIs(caught.exception.outcome, fanonce.Outcome.UNKNOWN, name)

    def test_refused_connection(self):
        with self.assertRaises(fanonce.RetryError) as caught:
            client(max_attempts=3).send("POST", nobody(), b"", key="k")
        self.assertEqual((caught.exception.outcome, caught.exception.attempts), (fanonce.Outcome.NOT_SENT, 3))

    def test_no_tls(self):
        with Server(answer(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")) as s, self.assertRaises(fanonce.RetryError) as caught:
            client(max_attempts=2).send("POST", s.url.replace("http:", "https:"), b"", key="k")
        self.assertEqual((caught.exception.outcome, caught.exception.attempts), (fanonce.Outcome.NOT_SENT, 1))

    def test_redirect_is_not_followed(self):
        with Server(answer(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")) as s:
            with self.assertRaises(fanonce.RetryError) as caught:
                client().send("POST", s.url, b"", key="k")
        self.assertEqual((caught.exception.status, caught.exception.attempts), (307, 1))

    def test_an_attempt_ends(self):
        """A server that sends a byte now and then keeps no attempt beyond its time."""
        stop = threading.Event()

        def drip(connection):
            try:
                while not stop.wait(0.02):
                    connection.sendall(b"HTTP/1.1 200 OK\r\n"[:1])
            except OSError:
                pass

        with Server(drip) as s:
            begun = time.monotonic()
            with self.assertRaises(fanonce.RetryError) as caught:
                client(max_attempts=1, timeout=0.3).send("POST", s.url, b"", key="k")
            self.assertLess(time.monotonic() - begun, 10)
            stop.set()
        self.assertIs(caught.exception.outcome, fanonce.Outcome.UNKNOWN)

    def test_too_long(self):
        with Server(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345")) as s, self.assertRaises(fanonce.RetryError) as caught:
            client(max_response_bytes=4).send("POST", s.url, b"", key="k")
        e = caught.exception
        self.assertEqual((e.outcome, e.cause, e.response.body), (fanonce.Outcome.COMPLETED, "too-large", b"1234"))


def play_answer(row):
    """Return what a server does with a connection to answer as a row of answers.json says."""
    failure = row.get("failure")

    def serve(connection):
        if failure == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif failure == "garbage":
            connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        elif failure == "silent":
            connection.recv(1)  # until the client leaves
        elif failure in (None, "cut"):
            body = row.get("body", "").encode()
            lines = ["HTTP/1.1 %d Said" % row["status"], "Connection: close", *("%s: %s" % tuple(h) for h in row.get("header", []))]
            if row["status"] not in (204, 304):
                lines.append("Content-Length: %d" % (1000 if failure else len(body)))
            connection.sendall("\r\n".join(lines + ["", ""]).encode() + (b"{" if failure else body))

    return serve


class Answers(unittest.TestCase):
    def test_every_answer(self):
        """Each answer over HTTP, as the first one, and after one that was lost."""
        rows = [r for r in json.loads(ANSWERS.read_text("utf-8")) if r["protocol"] == "http" and r.get("profile", "Unguarded") == "Unguarded" and "only" not in r]
        self.assertGreater(len(rows), 130)
        for row in rows:
            for doubt in (False, True):
                with self.subTest(who=row["who"], answer=row["answer"], doubt=doubt):
                    self.assertEqual(self.end(row, doubt), row["doubt" if doubt else "first"])

    def end(self, row, doubt):
        options = {"guarded": "profile" not in row, "max_attempts": 3, "max_polls": 2, "backoff": fanonce.Backoff(0.001, 0.001), "poll": fanonce.Backoff(0.001, 0.001)}
        if "max_response_bytes" in row:
            options["max_response_bytes"] = row["max_response_bytes"]
        if row.get("failure") == "silent":
            options["attempt_timeout"] = 0.5
        refused = row.get("failure") == "refused"
        with Server(*[lambda _: refused and s.listener.close()] * doubt, play_answer(row)) as s:
            url = nobody() if refused and not doubt else s.url
            key = "k-1" if row.get("method", "POST") == "POST" else None
            try:
                r = fanonce.Client(**options).send(row.get("method", "POST"), url, b"", key=key)
                return {"outcome": "Completed", "attempts": r.attempts}
            except fanonce.RetryError as e:
                return {"outcome": e.outcome.value, "attempts": e.attempts}


if __name__ == "__main__":
    unittest.main()
