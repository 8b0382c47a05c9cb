"""Prints vectors.json. It shares no code with the Go package: python3 vectors.py > vectors.json"""

import base64
import hashlib
import hmac
import json
import uuid

P = "018f3c1e-7b7a-4d2c-9a51-0c6d5e4f3a2b"
SECRET = bytes(range(32))


def raw(x):
    return x if isinstance(x, bytes) else x.encode("utf-8")


def netstrings(head, tail):
    items = [raw(x) for x in [*head, str(len(tail)), *tail]]
    return b"".join(str(len(x)).encode() + b":" + x + b"," for x in items)


def hop(name, scope, namespace, key):
    items = [raw(x) for x in ["hopkey/v1", scope, namespace, key]]
    h = hashlib.sha256(b"".join(str(len(x)).encode() + b":" + x + b"," for x in items)).digest()
    vectors.append({
        "name": name, "scheme": "hop", "scope": scope, "namespace": namespace, "key": key,
        "hex32": h[:16].hex(), "hex64": h.hex(),
    })
    return h[:16].hex()


def shape(h, version):
    b = bytearray(h[:16])
    b[6] = b[6] & 0x0F | version << 4
    b[8] = b[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(b)))


def b64(b):
    return base64.urlsafe_b64encode(b).rstrip(b"=").decode()


def forms(h):
    return {
        "hex32": h[:16].hex(),
        "hex64": h.hex(),
        "base64url22": b64(h[:16]),
        "base64url43": b64(h),
        "uuid8": shape(h, 8),
        "uuid4": shape(h, 4),
    }


vectors = []


def child(name, parent, service, operation, *ds):
    h = hashlib.sha256(netstrings(["childkey/v1", parent, service, operation], ds)).digest()
    vectors.append({
        "name": name, "scheme": "v1", "parent": parent, "service": service, "operation": operation,
        "discriminators_hex": [raw(d).hex() for d in ds], **forms(h),
    })
    return forms(h)


def keyed(name, kid, secret, parent, service, operation, *ds):
    h = hmac.new(secret, netstrings(["childkey/v1-hmac", kid, parent, service, operation], ds), hashlib.sha256).digest()
    vectors.append({
        "name": name, "scheme": "hmac", "parent": parent, "service": service, "operation": operation,
        "discriminators_hex": [raw(d).hex() for d in ds], "kid": kid, "secret_hex": secret.hex(), **forms(h),
    })
    return forms(h)


def parent(name, namespace, *parts):
    h = hashlib.sha256(netstrings(["parentkey/v1", namespace], parts)).digest()
    vectors.append({
        "name": name, "scheme": "parent", "namespace": namespace,
        "parts_hex": [raw(p).hex() for p in parts], "hex32": h[:16].hex(), "hex64": h.hex(),
    })
    return h[:16].hex()


def legacy(name, parent, service, operation):
    h = hashlib.sha256(f"{parent}:{service}:{operation}".encode("ascii")).hexdigest()
    vectors.append({
        "name": name, "scheme": "legacy", "parent": parent, "service": service, "operation": operation,
        "hex32": h[:32],
    })


v1 = child("no discriminator", P, "payment", "charge")
child("one discriminator", P, "payment", "charge", "2")
child("grandchild over hex32", v1["hex32"], "ledger", "post")
child("raw bytes", P, "inventory", "reserve", "sku", bytes.fromhex("d0bad0bbd18ed187"))
k1 = keyed("hmac", "k1", SECRET, P, "payment", "charge")
order = parent("parent from business id", "checkout", "order-42", "rev-1")
legacy("legacy inventory", P, "inventory", "reserve")
legacy("legacy payment", P, "payment", "charge")
legacy("legacy notification", P, "notification", "receipt")

for form in ["hex64", "base64url22", "base64url43", "uuid8", "uuid4"]:
    child(f"grandchild over {form}", v1[form], "ledger", "post")
deep = v1
for level in range(3, 6):
    deep = child(f"chain, level {level}", deep["hex32"], "ledger", "post", f"level-{level}")
child("grandchild over hmac", k1["hex32"], "ledger", "post")
child("child of a parent from business id", order, "payment", "charge")

child("discriminator is a digit, as the count is", P, "payment", "charge", "0")
child("discriminators ab c", P, "payment", "charge", "ab", "c")
child("discriminators a bc", P, "payment", "charge", "a", "bc")
child("discriminator looks like a tuple", P, "payment", "charge", "1:a,1:b,")
child("discriminator of NUL, LF, comma, 0xff", P, "payment", "charge", b"\x00\n,\xff")
child("discriminator NFC", P, "inventory", "reserve", "caf\u00e9".encode("utf-8"))
child("discriminator NFD", P, "inventory", "reserve", "cafe\u0301".encode("utf-8"))
child("longest discriminator", P, "inventory", "reserve", bytes(range(256)))
child("eight discriminators", P, "inventory", "reserve", *[f"d{i}" for i in range(1, 9)])
child("eight longest discriminators", P, "inventory", "reserve", *[bytes([i]) * 256 for i in range(8)])
child("shortest of all", "k", "s", "o")
child("longest parent and names", "~" * 255, "S" + "-" * 127, "o" + "/" * 127)
child("every byte that a parent may have", "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '",\\'), "s", "o")
child("case counts", P, "Payment", "charge")
child("gRPC names", P, "shop.v1.Payments", "shop.v1.Payments/Charge")
child("service and operation swapped", P, "charge", "payment")
child("parent with colons", "a:b:c", "payment", "charge")

keyed("hmac, shortest secret", "2026-01", bytes(16), P, "payment", "charge")
keyed("hmac, secret longer than a block", "k1", bytes(range(100)), P, "payment", "charge", "2")
keyed("hmac, other kid", "k2", SECRET, P, "payment", "charge")
keyed("hmac, longest tuple", "k" * 128, SECRET, "~" * 255, "s" * 128, "o" * 128, *[bytes([i]) * 256 for i in range(8)])

parent("parent, one part", "checkout", "order-42")
parent("parent, next revision", "checkout", "order-42", "rev-2")
parent("parent, raw bytes", "import/v2", b"\x00\xff", "line,1")
parent("parent, eight longest parts", "n" * 128, *[bytes([255 - i]) * 256 for i in range(8)])
legacy("legacy, shortest", "k", "s", "o")

checkout = hop("hop, no namespace", "t1", "", "order-1")
hop("hop, another scope", "t2", "", "order-1")
hop("hop, a namespace", "t1", "checkout", "order-1")
hop("hop, steps of a saga", "t1", "saga/checkout", "order-1")
hop("hop, inbox", "inbox", "inbox/mailer", "e3b0c44298fc1c149afbf4c8996fb924")
hop("hop, inbox of a guard with a namespace", "inbox", "billing:inbox/mailer", "e3b0c44298fc1c149afbf4c8996fb924")
hop("hop of a hop", "service:checkout", "payment", checkout)
hop("hop, no scope", "", "saga/checkout", "order-1")
hop("hop, scope looks like a tuple", "t1,0:,7:order-1,", "", "order-1")
hop("hop, scope of several bytes per character", "caf\u00e9/\u20ac/\U0001f600", "", "order-1")
hop("hop, shortest", "", "", "k")
hop("hop, longest", "s" * 1024, "n" * 263, "~" * 255)
child("child of a hop key", checkout, "payment", "charge")

print(json.dumps(vectors, indent=1))
