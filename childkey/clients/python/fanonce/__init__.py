"""Idempotency keys, and calls that retry under one key and know their outcome.

Start with :func:`derive` for the key of a call, and with :class:`Client` for the call. The keys are those of
childkey/SPEC.md, and the client ends its calls as the Go package retry does. Keys are ``str`` in their bare form.
Everything here is safe for use by several threads.
"""

from __future__ import annotations

import base64
import calendar
import enum
import hashlib
import hmac as _hmac
import http.client
import io
import json
import math
import random
import re
import secrets
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Union

__all__ = [
    "Backoff", "Budget", "Client", "ConfigError", "Headers", "InputError", "InvalidCallError", "Keyed", "Outcome", "Problem",
    "Request", "Response", "RetryError", "UnsentError", "derive", "digest", "from_parts", "hop", "legacy", "new", "parse",
    "parse_problem", "quoted", "retry_after", "urllib_transport",
    "HEADER_KEY", "HEADER_FIRST_SENT", "HEADER_CANCELS", "HEADER_PREFER", "HEADER_REPLAYED", "HEADER_CODE",
    "HEADER_SHOULD_RETRY", "HEADER_X_SHOULD_RETRY", "HEADER_RETRY_AFTER", "HEADER_RETRY_AFTER_MS", "HEADER_FORWARD",
]

# Request headers.
HEADER_KEY = "Idempotency-Key"
HEADER_FIRST_SENT = "Idempotency-First-Sent"  # RFC 3339, UTC; optional
HEADER_CANCELS = "Idempotency-Cancels"  # on an undo: the forward key
HEADER_PREFER = "Prefer"  # wait=N, RFC 7240 section 4.3

# Response headers.
HEADER_REPLAYED = "Idempotent-Replayed"  # true|false, whenever the key was honoured
HEADER_CODE = "Idempotency-Code"  # the code of a refusal, whatever its body
HEADER_SHOULD_RETRY = "Idempotency-Should-Retry"  # true|false, on every non-2xx
HEADER_X_SHOULD_RETRY = "X-Should-Retry"
HEADER_RETRY_AFTER = "Retry-After"
HEADER_RETRY_AFTER_MS = "Retry-After-Ms"
HEADER_FORWARD = "Idempotent-Forward"  # on the answer to an undo: ran, never-ran or maybe-ran

# ---------------------------------------------------------------------------------------------------------------------
# Keys


class InputError(ValueError):
    """An input that no key can be made of. Its text holds no key, secret or discriminator.

    ``reason`` is one of empty, too-long, too-many, bad-key, bad-name, bad-scope, bad-encoding and bad-secret.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


Text = Union[str, bytes]

_KEY = re.compile(r'[!#-+\--\[\]-~]*\Z')  # 0x21-0x7E without " , \
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*\Z")
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]*\Z")
_ENCODINGS = ("hex32", "hex64", "base64url22", "base64url43", "uuid8", "uuid4")


def _utf8(text: Text, what: str, reason: str) -> bytes:
    if isinstance(text, (bytes, bytearray)):
        return bytes(text)
    if not isinstance(text, str):
        raise InputError(reason, f"{what} is neither str nor bytes")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate has no bytes
        raise InputError(reason, f"{what} is not UTF-8") from None


def parse(text: str) -> str:
    """Return the key that text spells, bare (``k-1``) or as a structured-field string (``"k-1"``): both are one key.

    A key is 1 to 255 bytes of 0x21-0x7E without ``"``, ``,`` and ``\\``. Nothing is trimmed or cut off. Raises
    InputError: empty, too-long or bad-key.
    """
    if not isinstance(text, str):
        raise InputError("bad-key", "the key is not a str")
    if len(text) >= 2 and text[0] == '"' and text[-1] == '"':
        text = text[1:-1]
    size = len(_utf8(text, "the key", "bad-key"))
    if size == 0:
        raise InputError("empty", "key")
    if size > 255:
        raise InputError("too-long", f"key of {size} bytes, at most 255")
    if not _KEY.match(text):
        raise InputError("bad-key", "a byte outside 0x21-0x7E, or a quotation mark, comma or backslash")
    return text


def quoted(key: str) -> str:
    """Return the key as a structured-field string: the value of HEADER_KEY."""
    return '"' + parse(key) + '"'


def new() -> str:
    """Return a random key, a UUIDv4. Make one per intent, and keep it before the first call goes out."""
    return str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))


def digest(key: str) -> str:
    """Return the first 8 bytes of the key's SHA-256 in hex. Log it instead of the key."""
    return hashlib.sha256(parse(key).encode()).hexdigest()[:16]


def _check_name(what: str, name: str) -> None:
    if not isinstance(name, str):
        raise InputError("bad-name", f"{what} is not a str")
    size = len(_utf8(name, what, "bad-name"))
    if size == 0:
        raise InputError("empty", what)
    if size > 128:
        raise InputError("too-long", f"{what} of {size} bytes, at most 128")
    if not _NAME.match(name):
        raise InputError("bad-name", what)


def _check_list(what: str, items: Iterable[Text]) -> List[bytes]:
    texts = [_utf8(x, what, "bad-name") for x in items]
    if len(texts) > 8:
        raise InputError("too-many", f"{len(texts)} {what}s, at most 8")
    for i, text in enumerate(texts, 1):
        if not text:
            raise InputError("empty", f"{what} {i}")
        if len(text) > 256:
            raise InputError("too-long", f"{what} {i} of {len(text)} bytes, at most 256")
    return texts


def _parent(parent: str) -> str:
    if parent == "":
        raise InputError("empty", "parent key")
    return parse(parent)


def _netstrings(*items: Text) -> bytes:
    texts = [x if isinstance(x, bytes) else x.encode() for x in items]
    return b"".join(b"%d:%s," % (len(x), x) for x in texts)


def _tuple(head: Tuple[str, ...], tail: List[bytes]) -> bytes:
    return _netstrings(*head, str(len(tail)), *tail)


def _encode(encoding: str, full: bytes) -> str:
    if encoding not in _ENCODINGS:
        raise InputError("bad-encoding", f"want one of {', '.join(_ENCODINGS)}")
    part = full if encoding in ("hex64", "base64url43") else full[:16]
    if encoding.startswith("hex"):
        return part.hex()
    if encoding.startswith("base64url"):
        return base64.urlsafe_b64encode(part).rstrip(b"=").decode()
    number = int.from_bytes(part, "big") & ~(0xF << 76 | 0x3 << 62) | int(encoding[4]) << 76 | 0x2 << 62
    return str(uuid.UUID(int=number))


def _check_child(parent: str, service: str, operation: str, discriminators: Iterable[Text]) -> Tuple[str, List[bytes]]:
    parent = _parent(parent)
    _check_name("service", service)
    _check_name("operation", operation)
    return parent, _check_list("discriminator", discriminators)


def derive(parent: str, service: str, operation: str, *discriminators: Text, encoding: str = "hex32") -> str:
    """Return the child key for the call to operation on service on behalf of parent (SHA-256, childkey/SPEC.md).

    Retries, restarts and other languages get the same key. Discriminators tell several calls of one operation apart:
    at most 8, each 1 to 256 bytes; a str counts as its UTF-8. ``encoding`` is hex32, hex64, base64url22, base64url43,
    uuid8 or uuid4, as the callee takes it. Raises InputError.
    """
    parent, tail = _check_child(parent, service, operation, discriminators)
    return _encode(encoding, hashlib.sha256(_tuple(("childkey/v1", parent, service, operation), tail)).digest())


def from_parts(namespace: str, *parts: Text) -> str:
    """Return the parent key of an intent that has a business id, such as ``from_parts("checkout", "order-42")``.

    There are 1 to 8 parts of 1 to 256 bytes each. A parent is always hex32. Raises InputError.
    """
    _check_name("namespace", namespace)
    tail = _check_list("part", parts)
    if not tail:
        raise InputError("empty", "no parts")
    return _encode("hex32", hashlib.sha256(_tuple(("parentkey/v1", namespace), tail)).digest())


def hop(scope: str, namespace: str, key: str) -> str:
    """Return the hop key: the parent of the calls that a service makes for a request with this key.

    ``scope`` is the authenticated caller: at most 1024 bytes of UTF-8 without NUL. ``namespace`` is that of the
    service, mostly empty.
    """
    key = _parent(key)
    text = _utf8(scope, "scope", "bad-scope")
    if len(text) > 1024:
        raise InputError("too-long", f"scope of {len(text)} bytes, at most 1024")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("bad-scope", "not UTF-8") from None
    if b"\0" in text:
        raise InputError("bad-scope", "has a NUL")
    size = len(_utf8(namespace, "namespace", "bad-name"))
    if size > 263:
        raise InputError("too-long", f"namespace of {size} bytes, at most 263")
    if namespace and not _NAMESPACE.match(namespace):
        raise InputError("bad-name", "namespace")
    return hashlib.sha256(_netstrings("hopkey/v1", text, namespace, key)).hexdigest()[:32]


def legacy(parent: str, service: str, operation: str) -> str:
    """Return the first 32 hex digits of SHA-256("parent:service:operation"), for stores with keys of that form."""
    parent, _ = _check_child(parent, service, operation, ())
    if ":" in parent:
        raise InputError("bad-key", "the parent key has a colon")
    return hashlib.sha256(f"{parent}:{service}:{operation}".encode()).hexdigest()[:32]


class Keyed:
    """Derives child keys with a secret (HMAC-SHA-256), for callees that must not compute the siblings of a key.

    ``kid`` names the secret, which has at least 16 bytes. The secret is never printed.
    """

    def __init__(self, kid: str, secret: bytes) -> None:
        _check_name("key id", kid)
        if not isinstance(secret, (bytes, bytearray)) or len(secret) < 16:
            raise InputError("bad-secret", "want at least 16 bytes")
        self.kid = kid
        copy = bytes(secret)
        self._mac = lambda data: _hmac.digest(copy, data, "sha256")

    def derive(self, parent: str, service: str, operation: str, *discriminators: Text, encoding: str = "hex32") -> str:
        """Is the function derive with the secret."""
        parent, tail = _check_child(parent, service, operation, discriminators)
        return _encode(encoding, self._mac(_tuple(("childkey/v1-hmac", self.kid, parent, service, operation), tail)))

    def __repr__(self) -> str:
        return f"Keyed({self.kid!r})"


# ---------------------------------------------------------------------------------------------------------------------
# Answers


class Headers:
    """The header of an answer. Names are compared without case."""

    def __init__(self, lines: Union[Mapping[str, str], Iterable[Tuple[str, str]]] = ()) -> None:
        self.lines = [(str(n), str(v)) for n, v in (lines.items() if isinstance(lines, Mapping) else lines)]

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of name."""
        return next(iter(self.all(name)), default)

    def all(self, name: str) -> List[str]:
        """Return the values of name."""
        return [v for n, v in self.lines if n.lower() == name.lower()]

    def flag(self, name: str) -> Optional[bool]:
        """Return True or False if the header has one line that says so, else None."""
        text = "\n".join(v.strip(" \t") for v in self.all(name)).lower()
        return {"true": True, "?1": True, "false": False, "?0": False}.get(text)


@dataclass(frozen=True)
class Problem:
    """The body of a refusal by an idempotency layer (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    retryable: bool
    retry_after_ms: int


_TYPE_PREFIX = "https://fanonce.dev/problems/"
_MAX_PROBLEM = 16 << 10


def _media_type(content_type: str) -> str:
    return content_type.split(";")[0].strip().lower()


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _json_object(body: bytes) -> Optional[Dict[str, Any]]:
    if len(body) > _MAX_PROBLEM:
        return None
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _typed(members: Dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = members.get(name)
    return value if isinstance(value, kind) and not (kind is int and isinstance(value, bool)) else default


def parse_problem(content_type: str, body: bytes) -> Optional[Problem]:
    """Return the problem of an idempotency layer in an answer, or None: then the service or a proxy answered."""
    members = _json_object(body) if _media_type(content_type) == "application/problem+json" else None
    if members is None:
        return None
    p = Problem(
        _typed(members, "type", str, ""), _typed(members, "title", str, ""), _typed(members, "status", int, 0), _typed(members, "detail", str, ""),
        _typed(members, "instance", str, ""), _typed(members, "code", str, ""), _typed(members, "retryable", bool, False),
        _typed(members, "retry_after_ms", int, 0))
    return p if p.code in _BY_CODE and p.type == _TYPE_PREFIX + p.code else None


def _text(members: Dict[str, Any], *names: str) -> str:
    return next((members[n] for n in names if isinstance(members.get(n), str) and members[n]), "")


def _code_of(members: Dict[str, Any], *names: str) -> str:
    number = next((members[n] for n in names if isinstance(members.get(n), (int, float)) and not isinstance(members.get(n), bool)), "")
    return _text(members, *names) or str(number)


def _detail_of(members: Dict[str, Any]) -> str:
    return _text(members, "detail", "message", "error_description", "errorMessage", "title")


def _read_foreign(content_type: str, body: bytes) -> Tuple[str, str]:
    """Return the code and the detail of an answer that is not the idempotency layer's."""
    media_type = _media_type(content_type)
    if media_type == "text/plain":
        return "", body.decode("utf-8", "replace").strip()
    members = _json_object(body)
    if members is None:
        return "", ""
    if media_type == "application/problem+json":
        return _text(members, "code"), _text(members, "detail")
    error, errors = members.get("error"), members.get("errors")
    inner = error if isinstance(error, dict) else errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else None
    if inner is not None:
        return _code_of(inner, "code", "error_code", "errorCode", "status", "type"), _detail_of(inner)
    code, detail = _code_of(members, "code", "error_code", "errorCode"), _detail_of(members)
    if isinstance(error, str) and error:
        if re.search(r"[ \t\n]", error):  # for people, as the name of a status
            detail = detail or error
        else:
            code = code or error
    return code, detail


def _clean(text: str) -> str:
    """Return the text without control characters, cut to 1 KiB."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text)
    return text.encode("utf-8", "replace")[: 1 << 10].decode("utf-8", "ignore")


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = "(" + "|".join(_MONTHS) + ")"
_CLOCK = r"([0-9]{1,2}):([0-9]{2}):([0-9]{2}(?:[.][0-9]+)?)"
_DAY = "(?:mon|tue|wed|thu|fri|sat|sun)"
_LONG_DAY = "(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
_IMF = re.compile(rf"{_DAY}, +([0-9]{{1,2}}) +{_MONTH} +([0-9]{{4}}) +{_CLOCK} +(?:GMT|UTC|([+-])([0-9]{{2}})([0-9]{{2}}))\Z", re.I)
_RFC850 = re.compile(rf"{_LONG_DAY}, +([0-9]{{2}})-{_MONTH}-([0-9]{{2}}) +{_CLOCK} +GMT\Z", re.I)
_ASCTIME = re.compile(rf"{_DAY} +{_MONTH} +([0-9]{{1,2}}) +{_CLOCK} +([0-9]{{4}})\Z", re.I)


def _http_date(text: str) -> Optional[float]:
    """Return the seconds since 1970 of an HTTP date (RFC 9110 section 5.6.7); None if text is not one.

    The zone may be UTC or a number, as some servers write it. A day that its month does not have makes no date.
    """
    found, zone = _IMF.match(text), 0
    if found:
        day, month, year, h, m, s, sign, hours, minutes = found.groups()
        if sign:
            if int(hours) > 24 or int(minutes) > 60:
                return None
            zone = int(sign + "1") * (int(hours) * 3600 + int(minutes) * 60)
    else:
        found = _RFC850.match(text)
        if found:
            day, month, year, h, m, s = found.groups()
            year = ("19" if int(year) >= 69 else "20") + year
        else:
            found = _ASCTIME.match(text)
            if not found:
                return None
            month, day, h, m, s, year = found.groups()
    second = float(s)
    # The calendar repeats itself every 400 years, and Python's has no year 0.
    cycle, year_of_cycle = divmod(int(year), 400)
    like, number = 2000 + year_of_cycle, _MONTHS.index(month.lower()) + 1
    if not (int(h) < 24 and int(m) < 60 and second < 60 and 1 <= int(day) <= calendar.monthrange(like, number)[1]):
        return None
    return calendar.timegm((like, number, int(day), int(h), int(m), 0)) + second + (cycle - 5) * 146097 * 86400 - zone


# Some libraries join the lines of a header with commas. A date has a comma of its own, before its day.
_JOINT = re.compile(r",(?![ \t]*[0-9]{1,2}[ -][A-Za-z]{3}[ -][0-9])")


def _lines(headers: Headers, name: str) -> List[str]:
    return [text.strip(" \t") for line in headers.all(name) for text in _JOINT.split(line)]


def _whole(text: str) -> Optional[float]:
    """Return a number of seconds or milliseconds, with a fraction rounded up; None if text is not one."""
    found = re.match(r"([0-9]+)(?:\.([0-9]+))?\Z", text)
    return float(found[1]) + bool((found[2] or "").strip("0")) if found else None


def retry_after(headers: Headers, now: float) -> float:
    """Return how many seconds an answer asks to wait; 0 if it asks for nothing that can be read.

    ``now`` is the time since 1970 in seconds, for a date without a Date header. Retry-After-Ms counts like
    Retry-After, and replaces it where it is the same wait before it was rounded up. The longest of several lines counts.
    """
    wait = None
    for text in _lines(headers, HEADER_RETRY_AFTER):
        seconds = _whole(text)
        if seconds is None:
            at = _http_date(text)
            sent = _http_date(headers.get("Date"))
            seconds = None if at is None else max(at - (now if sent is None else sent), 0.0)
        if seconds is not None:
            wait = max(wait or 0.0, seconds)
    finer = None
    for name in (HEADER_RETRY_AFTER_MS, "X-Ms-Retry-After-Ms"):
        for text in _lines(headers, name):
            ms = _whole(text)
            if ms is not None:
                finer = max(finer or 0.0, ms / 1000)
    if finer is None:
        return wait or 0.0
    if wait is not None and finer <= wait and wait - finer < 1:
        return finer
    return max(wait or 0.0, finer)


# ---------------------------------------------------------------------------------------------------------------------
# The table: what is seen, and what it means


class Outcome(enum.Enum):
    """What is known of a call's effect when the caller stops."""

    UNKNOWN = "Unknown"  # it may have taken effect: send the same call with the same key again
    NOT_SENT = "NotSent"  # no attempt can have reached the callee
    REJECTED = "Rejected"  # the callee proved that the call had no effect
    COMPLETED = "Completed"  # the effect happened; its answer may be there or not


_STOP, _RETRY, _WAIT = "stop", "retry", "wait"
_UNKNOWN, _NOT_SENT, _REJECTED, _COMPLETED = Outcome.UNKNOWN, Outcome.NOT_SENT, Outcome.REJECTED, Outcome.COMPLETED


@dataclass(frozen=True)
class _Verdict:
    outcome: Outcome
    action: str
    proven: bool
    evidence: str
    retry_after: float = 0.0
    not_retryable: bool = False
    refused: bool = False  # nobody listens: a retry takes nothing from the budget


def _row(outcome: Outcome, action: str, evidence: str, proven: bool = False) -> _Verdict:
    return _Verdict(outcome, action, proven, evidence)


_BY_CODE = {
    "scope-missing": _row(_REJECTED, _STOP, "refused before the claim: no scope"),
    "scope-unavailable": _row(_REJECTED, _RETRY, "refused before the claim: the scope could not be looked up"),
    "key-missing": _row(_REJECTED, _STOP, "refused before the claim: no key"),
    "key-invalid": _row(_REJECTED, _STOP, "refused before the claim: bad key"),
    "first-sent-invalid": _row(_REJECTED, _STOP, "refused before the claim: bad first-sent time"),
    "body-incomplete": _row(_REJECTED, _RETRY, "refused before the claim: the body was cut off"),
    "body-timeout": _row(_REJECTED, _RETRY, "refused before the claim: the body did not come in time"),
    "body-too-large": _row(_REJECTED, _STOP, "refused before the claim: body too large"),
    "key-reused": _row(_REJECTED, _STOP, "the key belongs to another payload", True),
    "key-cancelled": _row(_REJECTED, _STOP, "the key was cancelled before it ran, or undone", True),
    "response-gone": _row(_COMPLETED, _STOP, "it finished; its answer is no longer kept", True),
    "in-progress": _row(_UNKNOWN, _WAIT, "the first run is still going"),
    "lease-lost": _row(_UNKNOWN, _WAIT, "the run lost its lease to another"),
    "key-expired": _row(_UNKNOWN, _STOP, "older than the callee's retention"),
    "outcome-unknown": _row(_UNKNOWN, _STOP, "the callee does not know either"),
    "not-storable": _row(_UNKNOWN, _STOP, "it ran, and its answer could not be stored"),
    "record-unreadable": _row(_UNKNOWN, _STOP, "the callee cannot read its record"),
    "poisoned": _row(_UNKNOWN, _STOP, "the key is quarantined"),
    "transaction-failed": _row(_UNKNOWN, _STOP, "the callee's transaction failed"),
    "key-not-found": _row(_UNKNOWN, _STOP, "the callee has no record of the key"),
    "method-not-allowed": _row(_REJECTED, _STOP, "refused before the claim: the address is a look-up"),
    "not-claimed": _row(_REJECTED, _RETRY, "refused before the claim: the callee never sent it to its store"),
    "store-unavailable": _row(_UNKNOWN, _RETRY, "the callee's store is unavailable, or the fate of its commit unknown"),
}

_BY_STATUS = {
    202: _row(_COMPLETED, _STOP, "accepted, not necessarily done"),
    302: _row(_UNKNOWN, _STOP, "redirected, perhaps after the work was done"),
    303: _row(_UNKNOWN, _STOP, "redirected, perhaps after the work was done"),
    408: _row(_UNKNOWN, _RETRY, "408: the callee or a proxy gave up reading"),
    409: _row(_REJECTED, _STOP, "refused with 409"),
    421: _row(_REJECTED, _RETRY, "421: the wrong connection"),
    423: _row(_UNKNOWN, _STOP, "423: locked until somebody settles it"),
    425: _row(_REJECTED, _RETRY, "425: too early"),
    429: _row(_REJECTED, _RETRY, "429: turned away"),
    460: _row(_UNKNOWN, _RETRY, "a load balancer saw its client leave"),
    499: _row(_UNKNOWN, _RETRY, "a proxy saw its client leave"),
    501: _row(_REJECTED, _STOP, "501: not implemented"),
    505: _row(_REJECTED, _STOP, "505: HTTP version"),
    511: _row(_UNKNOWN, _STOP, "511: the network wants a login"),
}

_BY_HUNDRED = {
    1: _row(_UNKNOWN, _STOP, "an interim answer as the last one"),
    2: _row(_COMPLETED, _STOP, "2xx"),
    3: _row(_REJECTED, _STOP, "redirected elsewhere"),
    4: _row(_REJECTED, _STOP, "refused with 4xx"),
    5: _row(_UNKNOWN, _RETRY, "failed with 5xx"),
}

_UNCLEAR = _row(_UNKNOWN, _RETRY, "409 without a code: an earlier attempt is running, or the callee refused")
_UNMARKED = _row(_UNKNOWN, _STOP, "a 2xx without the mark of a guard")
_RELEASED = frozenset((401, 403, 407, 408, 421, 423, 425, 429))  # 4xx that a guarded service does not store


def _by_status(status: int) -> _Verdict:
    return _BY_STATUS.get(status) or _BY_HUNDRED.get(status // 100) or _row(_UNKNOWN, _RETRY, "no HTTP status")


class UnsentError(Exception):
    """Raised by a transport to say that nothing of the request was sent. Chain the reason: ``raise … from err``."""


class _TruncatedError(Exception):
    pass


def _chain(error: BaseException) -> List[BaseException]:
    """Return the error and the errors that it names as its cause.

    Not its context: that may be an error of the caller, which has nothing to do with this attempt.
    """
    found: List[BaseException] = []
    queue: List[Any] = [error]
    while queue and len(found) < 32:
        one = queue.pop(0)
        if not isinstance(one, BaseException) or any(one is f for f in found):
            continue
        found.append(one)
        queue += [one.__cause__, getattr(one, "reason", None), *one.args[:1]]
    return found


def _of_failure(error: BaseException) -> _Verdict:
    """Return what an attempt that ended in an error means."""
    chain = _chain(error)

    def has(*kinds: type) -> bool:
        return any(isinstance(e, kinds) for e in chain)

    unsent = has(UnsentError)
    if has(_TruncatedError, http.client.IncompleteRead):
        return _row(_UNKNOWN, _RETRY, "the answer was cut off")
    for e in chain:
        if isinstance(e, socket.gaierror):
            gone = e.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
            return _row(_NOT_SENT, _STOP, "no such host") if gone else _row(_NOT_SENT, _RETRY, "the host name could not be looked up")
    if has(ssl.SSLCertVerificationError):
        return _row(_NOT_SENT, _STOP, "the certificate is not trusted")
    if unsent and any(isinstance(e, ssl.SSLError) and e.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNSUPPORTED_PROTOCOL") for e in chain):
        return _row(_NOT_SENT, _STOP, "the server does not speak TLS")
    if unsent or has(ConnectionRefusedError):
        return replace(_row(_NOT_SENT, _RETRY, "no connection could be made"), refused=has(ConnectionRefusedError))
    if has(TimeoutError, socket.timeout):
        return _row(_UNKNOWN, _RETRY, "the attempt timed out")
    if has(http.client.RemoteDisconnected, EOFError):
        return _row(_UNKNOWN, _RETRY, "the connection was closed before an answer came")
    if has(ConnectionError):
        return _row(_UNKNOWN, _RETRY, "the connection was reset")
    return _row(_UNKNOWN, _RETRY, "the connection failed")


# ---------------------------------------------------------------------------------------------------------------------
# The client


class ConfigError(ValueError):
    """A setting of a Client, a Backoff or a Budget is out of range."""


class InvalidCallError(ValueError):
    """A call cannot be sent as it is. It was not sent."""


@dataclass(frozen=True)
class Request:
    """One attempt, as a transport gets it. ``timeout`` is in seconds, and ``max_bytes`` bounds the answer's body."""

    method: str
    url: str
    headers: Dict[str, str] = field(repr=False)
    body: Optional[bytes] = field(repr=False)
    timeout: float = 20.0
    max_bytes: int = 8 << 20


@dataclass(frozen=True)
class Response:
    """A complete answer. ``cut`` says that the body goes on behind max_bytes."""

    status: int
    headers: Headers
    body: bytes
    cut: bool = False
    attempts: int = 1

    @property
    def replayed(self) -> bool:
        """Whether the answer is the stored one of an earlier run."""
        return self.headers.flag(HEADER_REPLAYED) is True

    def json(self) -> Any:
        """Return the body, decoded."""
        return json.loads(self.body)


Transport = Callable[[Request], Response]


class RetryError(Exception):
    """The end of a call without a usable 2xx answer. It says what is known of the effect.

    ``cause`` says why no attempt follows: attempts, answer, not-retryable, retry-after, still-in-progress, budget,
    deadline, cancelled, or too-large. ``retryable`` says that the same call with the same key can end better later.
    ``code`` is that of the refusal, and ``response`` the last complete answer. The text shows the key as its digest.
    """

    def __init__(
        self, outcome: Outcome, evidence: str, *, key: str, attempts: int, response: Optional[Response], code: str, detail: str,
        retryable: bool, wait: float, cause: str,
    ) -> None:
        self.outcome, self.evidence, self.key, self.attempts, self.response = outcome, evidence, key, attempts, response
        self.code, self.detail, self.retryable, self.retry_after, self.cause = code, detail, retryable, wait, cause
        self.status = response.status if response else 0
        text = f"{outcome.value} after {attempts} attempt{'' if attempts == 1 else 's'} ({evidence}), stopped by: {cause}"
        if self.status:
            text += f", status {self.status}" + (f", {code}" if code else "")
        super().__init__(text + (f", key digest {digest(key)}" if key else ""))


def _number(name: str, value: float, low: float, *, above: bool = False) -> None:
    try:
        ok = isinstance(value, (int, float)) and math.isfinite(value) and (value > low if above else value >= low)
    except OverflowError:  # an int beyond every float
        ok = False
    if not ok:
        raise ConfigError(f"{name}: {value!r}, want {'more than' if above else 'at least'} {low}")


class Backoff:
    """How waits grow: ``base`` doubled before each retry, at most ``cap``, less a random part of it, in seconds.

    The defaults are 0.1 and 5 seconds. A base beyond the default cap is the cap too, and so it is the other way round.
    """

    def __init__(self, base: Optional[float] = None, cap: Optional[float] = None, jitter: float = 1.0) -> None:
        if base is None:
            base = 0.1 if cap is None else min(0.1, cap)
        _number("base", base, 0, above=True)
        cap = max(5.0, base) if cap is None else cap
        _number("cap", cap, base)
        _number("jitter", jitter, 0, above=True)
        if jitter > 1:
            raise ConfigError(f"jitter: {jitter!r}, want at most 1")
        self.base, self.cap, self.jitter = base, cap, jitter

    def wait(self, n: int, rand: float) -> float:
        """Return the wait before retry n, which counts from 1."""
        return self.less(self.longest(n), rand)

    def longest(self, n: int) -> float:
        """Return the wait before retry n without its random part."""
        return min(self.base * 2 ** (min(n, 64) - 1), self.cap)

    def less(self, wait: float, rand: float) -> float:
        """Return the wait without its random part."""
        return max(wait - wait * min(max(self.jitter * rand, 0.0), 1.0), 0.001)


class Budget:
    """Bounds the retries to each service over all calls. A retry takes one, a success puts back ``ratio``, and a
    second ``refill``. ``reserve`` is how many there are at first, and the most that can be saved; ``math.inf`` switches
    the budget off.

    A retry after a refused connection takes nothing, so that all calls outlast a restart. The more calls were refused
    since the last success, the longer they wait, up to the cap of the Backoff."""

    def __init__(self, ratio: float = 0.12, reserve: float = 100.0, refill: float = 0.2) -> None:
        _number("ratio", ratio, 0, above=True)
        if reserve != math.inf:
            _number("reserve", reserve, 1)
        _number("refill", refill, 0)
        if ratio > 1:
            raise ConfigError(f"ratio: {ratio!r}, want at most 1")
        self.ratio, self.reserve, self.refill = ratio, reserve, refill
        self._lock = threading.Lock()
        self._left: Dict[str, Tuple[float, float]] = {}  # by service: tokens, and when; none: all of them
        self._room = 64  # for services, before those that are full are dropped
        self._refused: Dict[str, Tuple[int, float, float, float]] = {}  # how many calls, when the first, the last; its part

    def _add(self, service: str, change: float, now: Optional[float]) -> bool:
        with self._lock:
            left, at = self._left.get(service, (self.reserve, now if now is not None else 0.0))
            if now is not None:
                left, at = min(left + max(now - at, 0.0) * self.refill, self.reserve), max(at, now)
            if left + change < 0:
                return False
            left = min(left + change, self.reserve)
            if left >= self.reserve:
                self._left.pop(service, None)
            elif service in self._left or now is not None:
                self._left[service] = (left, at)
            if len(self._left) > self._room and now is not None:
                self._left = {s: (n, at) for s, (n, at) in self._left.items() if n + (now - at) * self.refill < self.reserve}
                self._room = max(2 * len(self._left), 64)
            return True

    def _earn(self, service: str) -> None:
        self._add(service, self.ratio, None)
        with self._lock:
            self._refused.pop(service, None)

    def _spread(self, service: str, most: float, rand: float, now: float) -> Tuple[float, float]:
        """Count a call that was refused a connection. Return the span of its first wait, and what part is taken off.

        The waits of successive calls end a golden section of the span apart, which spreads any number of them evenly.
        """
        with self._lock:
            if len(self._refused) > 64:
                self._refused = {s: r for s, r in self._refused.items() if now - r[2] <= 60}
            count, first, last, part = self._refused.get(service, (0, now, now, rand))
            if now - last > 60:
                count, first, part = 0, now, rand
            self._refused[service] = (count + 1, first, now, part)
            span = most / 5 * min(count, 5)
            return span, (part + count * (math.sqrt(5) - 1) / 2 + (now - first) / span) % 1 if span else part


@dataclass
class _Tally:
    """What the attempts of one call say together."""

    maybe: bool = False
    rejected: bool = False
    completed: bool = False
    why: str = ""

    def add(self, v: _Verdict) -> None:
        settled = v.outcome is _COMPLETED or v.outcome is _REJECTED and v.proven
        if self.completed:
            return
        if settled:
            self.maybe, self.why = False, v.evidence
            self.rejected, self.completed = v.outcome is _REJECTED, v.outcome is _COMPLETED
        elif v.outcome is _UNKNOWN:
            self.maybe, self.why = True, v.evidence
        elif v.outcome is _REJECTED and not self.maybe:
            self.rejected, self.why = True, v.evidence
        elif not self.maybe and not self.rejected:
            self.why = v.evidence

    def outcome(self) -> Outcome:
        if self.completed:
            return _COMPLETED
        if self.maybe:
            return _UNKNOWN
        return _REJECTED if self.rejected else _NOT_SENT


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_SAFE = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
_IDEMPOTENT = _SAFE | {"PUT", "DELETE"}


class Client:
    """Makes calls with retries under one key. The defaults are those of the Go package retry. Times are in seconds.

    A Client without arguments sends with urllib. ``transport`` is any callable that sends a Request once and returns a
    Response, or raises; it must not retry or follow redirects itself. ``budget`` can be shared between clients.
    ``guarded`` says that a guard of fanonce is in front of the services. A guard marks its answers with
    Idempotent-Replayed. A 2xx to a call with a key that lacks it comes from somebody in between, as the sign-in page of a
    proxy does, and ends the call as UNKNOWN.
    Raises ConfigError.
    """

    def __init__(
        self, *, transport: Optional[Transport] = None, guarded: bool = True, max_attempts: int = 10, backoff: Optional[Backoff] = None, poll: Optional[Backoff] = None,
        max_polls: int = 60, retry_after_cap: float = 60.0, timeout: float = 60.0, attempt_timeout: Optional[float] = None,
        budget: Optional[Budget] = None, max_response_bytes: int = 8 << 20, rand: Callable[[], float] = random.random,
        now: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not isinstance(guarded, bool):
            raise ConfigError("guarded: want a bool")
        _number("max_attempts", max_attempts, 1)
        _number("max_polls", max_polls, 1)
        _number("retry_after_cap", retry_after_cap, 0, above=True)
        _number("timeout", timeout, 0, above=True)
        _number("max_response_bytes", max_response_bytes, 1)
        if attempt_timeout is None:
            attempt_timeout = min(20.0, timeout)
        _number("attempt_timeout", attempt_timeout, 0, above=True)
        self._transport, self._guarded = transport or urllib_transport, guarded
        self._max_attempts, self._max_polls = int(max_attempts), int(max_polls)
        self._backoff, self._poll = backoff or Backoff(), poll or Backoff(cap=2.0)
        self._retry_after_cap, self._timeout, self._attempt_timeout = retry_after_cap, timeout, attempt_timeout
        self._budget, self._max_response_bytes = budget or Budget(), int(max_response_bytes)
        self._rand, self._now, self._clock, self._sleep = rand, now, clock, sleep

    def send(
        self, method: str, url: str, body: Union[bytes, str, None] = None, *, headers: Optional[Mapping[str, str]] = None,
        key: Optional[str] = None, timeout: Optional[float] = None, cancel: Optional[threading.Event] = None,
        service: Optional[str] = None, resumed: bool = False,
    ) -> Response:
        """Make the call. Return its 2xx answer, or raise RetryError.

        ``key`` goes into HEADER_KEY of every attempt, as a structured-field string; it may be in ``headers`` instead.
        Without a key only GET, HEAD, OPTIONS, TRACE, PUT and DELETE are sent again after they may have arrived.
        ``timeout`` bounds the whole call, if it is shorter than the client's. ``cancel`` ends the call at its next
        wait. ``service`` names the callee for the budget; None means the host. ``resumed`` says that an earlier
        process may have sent the call. Raises InputError or InvalidCallError before anything is sent.
        """
        return _Run(self, method, url, body, headers, key, timeout, cancel, service, resumed).loop()

    def json(self, method: str, url: str, value: Any, *, headers: Optional[Mapping[str, str]] = None, **call: Any) -> Response:
        """Is send with a value as its JSON body. The bytes are made once: every attempt has the same.

        Raises InvalidCallError for a value that JSON does not have, such as NaN, before anything is sent.
        """
        try:
            body = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidCallError(f"value: not JSON: {error}") from error
        return self.send(method, url, body, headers={"Content-Type": "application/json", **(headers or {})}, **call)


class _Run:
    """One call while it is made."""

    def __init__(
        self, client: Client, method: str, url: str, body: Union[bytes, str, None], headers: Optional[Mapping[str, str]],
        key: Optional[str], timeout: Optional[float], cancel: Optional[threading.Event], service: Optional[str], resumed: bool,
    ) -> None:
        if timeout is not None:
            _number("timeout", timeout, 0, above=True)
        self.client, self.cancel, self.resumed = client, cancel, resumed
        self.key, self.request = _freeze(method, url, body, headers, key, client._max_response_bytes)
        self.service = service or urllib.parse.urlsplit(url).netloc
        self.deadline = client._clock() + min(timeout or client._timeout, client._timeout)
        self.safe = bool(self.key) or method in _IDEMPOTENT
        self.tally = _Tally(maybe=resumed, why="an earlier run may have sent it" if resumed else "")
        self.attempts = self.retries = self.polls = 0
        self.polling = self.retryable = self.paid = False
        self.span: Optional[float] = None  # that the waits after refused connections are spread over
        self.last: Optional[Response] = None
        self.code = self.detail = ""
        self.asked = 0.0

    def loop(self) -> Response:
        if self.cancelled():
            self.retryable = True
            raise self.fail("cancelled")
        while True:
            answer, verdict, error = self.attempt()
            wait, stop = self.end(verdict)
            if answer is not None and 200 <= answer.status < 300 and not answer.cut and verdict is not _UNMARKED:
                self.client._budget._earn(self.service)
                return Response(answer.status, answer.headers, answer.body, False, self.attempts)
            if verdict is _UNMARKED:
                raise self.fail("unmarked")
            if stop:
                raise self.fail("too-large" if answer is not None and answer.cut and answer.status // 100 == 2 else stop) from error
            if not self.rest(wait):
                self.take_back()
                raise self.fail("cancelled") from error

    def attempt(self) -> Tuple[Optional[Response], _Verdict, Optional[Exception]]:
        self.attempts += 1
        left = self.deadline - self.client._clock()
        self.asked = 0.0
        request = Request(self.request.method, self.request.url, dict(self.request.headers), self.request.body,
                          max(min(self.client._attempt_timeout, left), 0.001), self.request.max_bytes)
        try:
            answer = self.client._transport(request)
        except Exception as error:  # whatever a transport raises is a row of the table
            return None, _of_failure(error), error
        self.last = answer
        return answer, self.judge(answer), None

    def judge(self, answer: Response) -> _Verdict:
        self.code = self.detail = ""
        if answer.status // 100 == 2:
            if self.unmarked(answer):
                return _UNMARKED
            return _row(_COMPLETED, _STOP, "2xx, longer than the client reads") if answer.cut else _by_status(answer.status)
        layer, problem = self.read_problem(answer)
        v = self.classify(answer, layer)
        if not layer and self.unmarked(answer) and self.tally.maybe and v.action == _STOP:  # a proxy's word, as a 502 is
            v = _row(v.outcome, _RETRY, v.evidence + ", and not by the service's guard", v.proven)
        asked = min(problem.retry_after_ms, 1 << 63) / 1000 if problem and problem.retry_after_ms > 0 else retry_after(answer.headers, self.client._now())
        forbids = answer.headers.flag(HEADER_SHOULD_RETRY) is False and answer.status != 401
        return _Verdict(v.outcome, v.action, v.proven, v.evidence, asked, forbids)

    def unmarked(self, answer: Response) -> bool:
        """Return whether the answer lacks the mark that every answer of a guarded handler has."""
        guarded = self.client._guarded and self.key and self.request.method not in _SAFE
        return bool(guarded) and answer.headers.flag(HEADER_REPLAYED) is None

    def read_problem(self, answer: Response) -> Tuple[str, Optional[Problem]]:
        """Find out who refused the call, and why. Return the code of the idempotency layer, or ""."""
        body = answer.body[: 64 << 10]
        layer = answer.headers.get(HEADER_CODE)
        layer = layer if layer in _BY_CODE else ""
        content_type = answer.headers.get("Content-Type")
        problem = parse_problem(content_type, body)
        if problem and layer in ("", problem.code):
            self.code, self.detail = problem.code, _clean(problem.detail)
            return problem.code, problem
        code, detail = _read_foreign(content_type, body)
        self.code, self.detail = layer or ("" if code in _BY_CODE else _clean(code)), _clean(detail)
        return layer, None

    def classify(self, answer: Response, layer: str) -> _Verdict:
        allows = answer.headers.flag(HEADER_SHOULD_RETRY) is True
        if layer:
            v = _BY_CODE[layer]
            if layer == "key-reused" and self.resumed:  # the other payload may be this very call, as an earlier process spelled it
                return _row(v.outcome, v.action, v.evidence)
            if layer == "outcome-unknown" and allows:
                return _row(_UNKNOWN, _WAIT, "the callee is finding out")
            if layer == "transaction-failed" and allows:
                return _row(_UNKNOWN, _RETRY, "the callee failed to record its work, and runs it again")
            return v
        v = _UNCLEAR if self.key and answer.status == 409 else _by_status(answer.status)
        replayed = answer.headers.flag(HEADER_REPLAYED)
        if replayed is None:
            return v
        if allows:  # it is not stored, so an attempt that is on its way can run after it
            return _by_status(answer.status) if answer.status // 100 == 4 else v
        if answer.status // 100 == 3:
            return _row(_COMPLETED, _STOP, "redirected after it ran", True)
        if answer.status // 100 == 4 and (replayed or answer.status not in _RELEASED):
            return _row(_REJECTED, _STOP, "the callee's stored answer", True)
        if answer.status // 100 == 5 and replayed:
            return _row(v.outcome, _STOP, f"a stored {answer.status}", v.proven)
        return v

    def end(self, v: _Verdict) -> Tuple[float, str]:
        """Add the end of an attempt. Return the wait before the next one, or why there is none."""
        self.tally.add(v)
        self.asked = v.retry_after
        self.retryable = v is _UNMARKED or v.action != _STOP and not v.not_retryable
        if v.not_retryable:
            return 0.0, "not-retryable"
        if v.action == _STOP:
            return 0.0, "answer"
        if self.cancelled():
            return 0.0, "cancelled"
        if self.client._clock() >= self.deadline:
            return 0.0, "deadline"
        if not self.safe and v.outcome not in (_NOT_SENT, _REJECTED):
            self.retryable = False
            return 0.0, "answer"
        return self.next(v)

    def next(self, v: _Verdict) -> Tuple[float, str]:
        c = self.client
        self.polling = v.action == _WAIT
        rand = c._rand()
        if self.polling:
            if self.polls == c._max_polls:
                return 0.0, "still-in-progress"
            wait = c._poll.wait(self.polls + 1, rand)
        else:
            if self.retries + 1 >= c._max_attempts:
                return 0.0, "attempts"
            wait = self.back_off(v, rand)
        if v.retry_after > c._retry_after_cap:
            return 0.0, "retry-after"
        last = self.deadline - c._clock() - 0.05  # the wait is chance: it leaves time for an attempt, of 50 ms
        if wait > last >= 0.001:
            wait = last
        wait = max(wait, v.retry_after * (1 + 0.2 * min(max(c._rand(), 0.0), 1.0)))  # everybody was told the same
        if wait >= self.deadline - c._clock():
            return 0.0, "deadline"
        if self.polling:
            self.polls += 1
        elif not v.refused and not c._budget._add(self.service, -1.0, c._clock()):
            return 0.0, "budget"
        else:
            self.retries += 1
            self.paid = not v.refused
        return wait, ""

    def back_off(self, v: _Verdict, rand: float) -> float:
        """Return the wait before a retry.

        Calls that were refused a connection are spread by their first wait. Later ones are not shorter than its span, and
        at least half as long as they can be.
        """
        c, n = self.client, self.retries + 1
        if not v.refused:
            return c._backoff.wait(n, rand)
        first = self.span is None
        if self.span is None:
            self.span, rand = c._budget._spread(self.service, c._backoff.cap, rand, c._clock())
        longest, left = max(c._backoff.longest(n), self.span), max(self.deadline - c._clock() - 0.05, 0.001)
        if first or longest > left:
            return c._backoff.less(min(longest, left), rand)
        return max(c._backoff.wait(n, rand / 2), self.span)

    def take_back(self) -> None:
        """Undo what next booked for an attempt that will not be made."""
        if not self.polling and self.paid:
            self.client._budget._add(self.service, 1.0, None)

    def cancelled(self) -> bool:
        return self.cancel is not None and self.cancel.is_set()

    def rest(self, wait: float) -> bool:
        """Wait. Return False if the call was cancelled meanwhile."""
        if self.cancel is None:
            self.client._sleep(wait)
            return True
        return not self.cancel.wait(wait)

    def fail(self, cause: str) -> RetryError:
        evidence = self.tally.why or "no attempt was begun"
        return RetryError(
            self.tally.outcome(), evidence, key=self.key, attempts=self.attempts, response=self.last, code=self.code, detail=self.detail,
            retryable=self.retryable, wait=self.asked, cause=cause)


def _freeze(
    method: str, url: str, body: Union[bytes, str, None], headers: Optional[Mapping[str, str]], key: Optional[str], max_bytes: int,
) -> Tuple[str, Request]:
    """Return the key of a call, "" if it has none, and the request that every attempt sends."""
    if not isinstance(method, str) or not _TOKEN.match(method) or method == "CONNECT":
        raise InvalidCallError("method: not an HTTP method")
    try:
        parts = urllib.parse.urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0 and not re.search(r"[\x00-\x20\x7f]", url) and url.isascii()
    except (ValueError, TypeError, AttributeError):
        valid = False
    if not valid:
        raise InvalidCallError("url: want an absolute http or https URL, in ASCII")
    if isinstance(body, str):
        try:
            body = body.encode("utf-8")
        except UnicodeEncodeError:  # without the cause, which repeats the body
            raise InvalidCallError("body: a lone surrogate, which has no bytes in UTF-8") from None
    elif body is not None and not isinstance(body, (bytes, bytearray)):
        raise InvalidCallError("body: want bytes, str or None: a stream cannot be sent twice")
    lines: Dict[str, str] = {}
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not _TOKEN.match(name) or not isinstance(value, str) or re.search(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]", value):
            raise InvalidCallError("headers: a malformed name or value")
        if name.lower() == HEADER_KEY.lower():
            if key is not None:
                raise InvalidCallError("headers: the key is given twice")
            key = value
            continue
        lines[name] = value
    text = "" if key is None else parse(key)
    if text:
        lines[HEADER_KEY] = f'"{text}"'
    return text, Request(method, url, lines, None if body is None else bytes(body), 0.0, max_bytes)


# ---------------------------------------------------------------------------------------------------------------------
# The transport over urllib


class _Lines(io.BufferedReader):
    """An answer whose lines are whole. http.client takes a head that breaks off for a complete one."""

    _begun = False

    def readline(self, size: Any = -1) -> bytes:
        line = super().readline(size)
        if not line.endswith(b"\n") and (line or self._begun):
            raise http.client.IncompleteRead(line)
        self._begun = True
        return line


class _Timed:
    """A socket whose every read and write ends by the attempt's deadline. urllib's timeout is for one read."""

    def __init__(self, sock: Any, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline

    def _tick(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        self._sock.settimeout(left)

    def sendall(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        while view:
            self._tick()
            view = view[self._sock.send(view[: 64 << 10]):]

    def makefile(self, mode: str, *_: Any, **__: Any) -> Any:
        timed, raw = self, self._sock.makefile(mode, buffering=0)

        class Reader(io.RawIOBase):
            def readable(self) -> bool:
                return True

            def readinto(self, buffer: Any) -> Any:
                timed._tick()
                return raw.readinto(buffer)

            def close(self) -> None:
                raw.close()
                super().close()

        return _Lines(Reader())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def _opener(deadline: float) -> urllib.request.OpenerDirector:
    """Return an opener for one attempt: it says whether a connection was made, and returns every answer as it is."""

    def connecting(kind: Any) -> Any:
        class Connection(kind):  # type: ignore[misc]
            def connect(self) -> None:
                try:
                    super().connect()
                except OSError as error:
                    raise _unsent(error) from error
                self.sock = _Timed(self.sock, deadline)

        return Connection

    class HTTP(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> Any:
            return self.do_open(connecting(http.client.HTTPConnection), req)

    class HTTPS(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> Any:
            return self.do_open(connecting(http.client.HTTPSConnection), req, context=_tls())

    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler(), HTTP(), HTTPS()):  # none for redirects and errors
        opener.add_handler(handler)
    return opener


class _UnsentOSError(UnsentError, OSError):
    """Is an OSError, so that urllib passes it on."""


def _unsent(error: OSError) -> _UnsentOSError:
    return _UnsentOSError(str(error))


_tls_lock = threading.Lock()
_tls_context: List[ssl.SSLContext] = []


def _tls() -> ssl.SSLContext:
    with _tls_lock:  # it takes milliseconds to make one
        if not _tls_context:
            _tls_context.append(ssl.create_default_context())
        return _tls_context[0]


def urllib_transport(request: Request) -> Response:
    """Send a request once with urllib, over a connection of its own. Redirects are not followed.

    The environment's proxies are used. An attempt ends at its timeout; only the look-up of the host, and the attempts
    to reach each of its addresses, can take longer.
    """
    deadline = time.monotonic() + request.timeout
    req = urllib.request.Request(request.url, data=request.body, headers=request.headers, method=request.method)
    if request.body is not None and not req.has_header("Content-type"):
        req.add_unredirected_header("Content-Type", "application/octet-stream")
    with _opener(deadline).open(req, timeout=request.timeout) as got:
        try:
            body = got.read(request.max_bytes + 1)
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, (TimeoutError, socket.timeout)):
                raise
            raise _TruncatedError("the answer was cut off") from error
        if got.length:  # announced and not sent; read(n) does not say so
            if len(body) <= request.max_bytes:
                raise _TruncatedError("the answer was cut off")
        return Response(got.status, Headers(got.headers.items()), body[: request.max_bytes], len(body) > request.max_bytes)
