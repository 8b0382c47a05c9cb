"""Keys: the vectors of all languages, and the inputs that all languages refuse."""

import json
import pathlib
import re
import unittest

import fanonce

TESTDATA = pathlib.Path(__file__).resolve().parents[3] / "testdata"
ENCODINGS = ("hex32", "hex64", "base64url22", "base64url43", "uuid8", "uuid4")


def load(name):
    return json.loads((TESTDATA / name).read_text("utf-8"))


def raw(items):
    return [bytes.fromhex(x) for x in items]


def make(v, **encoding):
    """Make the key of a vector."""
    scheme = v["scheme"]
    if scheme == "parse":
        return fanonce.parse(v["parent"])
    if scheme == "v1":
        return fanonce.derive(v["parent"], v["service"], v["operation"], *raw(v["discriminators_hex"]), **encoding)
    if scheme == "hmac":
        keyed = fanonce.Keyed(v["kid"], bytes.fromhex(v["secret_hex"]))
        return keyed.derive(v["parent"], v["service"], v["operation"], *raw(v["discriminators_hex"]), **encoding)
    if scheme == "parent":
        return fanonce.from_parts(v["namespace"], *raw(v["parts_hex"]))
    if scheme == "hop":
        return fanonce.hop(v["scope"], v["namespace"], v["key"])
    assert scheme == "legacy", scheme
    return fanonce.legacy(v["parent"], v["service"], v["operation"])


class Keys(unittest.TestCase):
    def test_vectors(self):
        vectors = load("vectors.json")
        self.assertGreaterEqual(len(vectors), 40)
        for v in vectors:
            with self.subTest(v["name"]):
                if v["scheme"] in ("parent", "hop", "legacy"):  # always hex32
                    self.assertEqual(make(v), v["hex32"])
                    continue
                for encoding in ENCODINGS:
                    if encoding in v:
                        self.assertEqual(make(v, encoding=encoding), v[encoding], encoding)
                self.assertEqual(make(v), v["hex32"])

    def test_refused(self):
        inputs = load("refused.json")
        self.assertGreaterEqual(len(inputs), 70)
        for v in inputs:
            with self.subTest(v["name"]):
                with self.assertRaises(fanonce.InputError) as caught:
                    make(v)
                self.assertEqual(caught.exception.reason, v["error"])

    def test_refuses_what_only_python_has(self):
        for reason, call in (
            ("bad-key", lambda: fanonce.parse(None)),
            ("bad-key", lambda: fanonce.parse(b"k")),
            ("bad-key", lambda: fanonce.parse("k\ud800")),
            ("bad-name", lambda: fanonce.derive("p", "s", None)),
            ("bad-name", lambda: fanonce.derive("p", "s", "o", "\ud800")),
            ("bad-name", lambda: fanonce.derive("p", "s", "o", 7)),
            ("bad-scope", lambda: fanonce.hop("\ud800", "", "k")),
            ("bad-scope", lambda: fanonce.hop(b"\xff", "", "k")),
            ("bad-encoding", lambda: fanonce.derive("p", "s", "o", encoding="HEX32")),
            ("bad-secret", lambda: fanonce.Keyed("k1", "0123456789abcdef")),
        ):
            with self.assertRaises(fanonce.InputError) as caught:
                call()
            self.assertEqual(caught.exception.reason, reason)

    def test_only_a_child_has_another_encoding(self):
        for make_key in (lambda **e: fanonce.from_parts("n", "p", **e), lambda **e: fanonce.hop("", "", "k", **e), lambda **e: fanonce.legacy("p", "s", "o", **e)):
            with self.assertRaises(TypeError):
                make_key(encoding="uuid8")

    def test_errors_hold_no_key(self):
        for call in (lambda: fanonce.parse("secret key"), lambda: fanonce.derive("p", "s", "o", "secret" * 50), lambda: fanonce.hop("secret\0", "", "k")):
            with self.assertRaises(fanonce.InputError) as caught:
                call()
            self.assertNotIn("secret", str(caught.exception))
        self.assertNotIn("0123456789abcdef", repr(fanonce.Keyed("k1", b"0123456789abcdef")))

    def test_forms(self):
        self.assertEqual(fanonce.parse('"k-1"'), fanonce.parse("k-1"))
        self.assertEqual(fanonce.quoted('"k-1"'), '"k-1"')
        self.assertEqual(fanonce.parse("k" * 255), "k" * 255)
        self.assertEqual(fanonce.derive('"p"', "s", "o"), fanonce.derive("p", "s", "o"))
        self.assertEqual(fanonce.derive("p", "s", "o", "\u00e9"), fanonce.derive("p", "s", "o", "\u00e9".encode()))
        self.assertRegex(fanonce.new(), re.compile(r"\A[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z"))
        self.assertNotEqual(fanonce.new(), fanonce.new())
        self.assertEqual(fanonce.digest("k-1"), fanonce.digest('"k-1"'))
        self.assertEqual(len(fanonce.digest("k-1")), 16)


if __name__ == "__main__":
    unittest.main()
