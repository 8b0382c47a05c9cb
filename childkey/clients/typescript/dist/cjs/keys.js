"use strict";
// Keys: made new, read, and derived from others.
Object.defineProperty(exports, "__esModule", { value: true });
exports.Keyed = exports.NoRandomError = void 0;
exports.parse = parse;
exports.quoted = quoted;
exports.newKey = newKey;
exports.digest = digest;
exports.derive = derive;
exports.deriveAs = deriveAs;
exports.fromParts = fromParts;
exports.hop = hop;
exports.legacy = legacy;
const encoding_js_1 = require("./encoding.js");
const input_js_1 = require("./input.js");
const sha256_js_1 = require("./sha256.js");
/**
 * Returns the key that text spells, bare (`k-1`) or as a structured-field string (`"k-1"`): both are one key.
 *
 * A key is 1 to 255 bytes of 0x21-0x7E without `"`, `,` and `\`. Nothing is trimmed or cut off.
 *
 * @throws {InputError} empty, too-long or bad-key.
 */
function parse(text) {
    return (0, input_js_1.checkKey)(text);
}
/** Returns the key as a structured-field string: the value of {@link HEADER_KEY}. @throws {InputError} */
function quoted(key) {
    return `"${(0, input_js_1.checkKey)(key)}"`;
}
/** There is no source of secure random numbers. */
class NoRandomError extends Error {
    name = 'NoRandomError';
}
exports.NoRandomError = NoRandomError;
/**
 * Returns a random key, a UUIDv4. Make one per intent, and keep it before the first call goes out.
 *
 * @throws {NoRandomError} without `crypto.getRandomValues`. No weaker source replaces it: a key that two intents share
 * loses the second one.
 */
function newKey() {
    const random = globalThis.crypto;
    if (typeof random?.getRandomValues !== 'function') {
        throw new NoRandomError('no crypto.getRandomValues here');
    }
    return (0, encoding_js_1.uuid)(random.getRandomValues(new Uint8Array(16)), 4);
}
/** Returns the first 8 bytes of the key's SHA-256 in hex. Log it instead of the key. @throws {InputError} */
function digest(key) {
    return (0, encoding_js_1.hex)((0, sha256_js_1.sha256)((0, encoding_js_1.utf8)((0, input_js_1.checkKey)(key)))).slice(0, 16);
}
/**
 * Returns the child key for the call to operation on service on behalf of parent: SHA-256 of the tuple in
 * childkey/SPEC.md, as hex32.
 *
 * Retries, restarts and other languages get the same key. Discriminators tell several calls of one operation apart.
 * There are at most 8, of 1 to 256 bytes each.
 *
 * @throws {InputError}
 */
function derive(parent, service, operation, ...discriminators) {
    return deriveAs('hex32', parent, service, operation, ...discriminators);
}
/** Is {@link derive} with another encoding, for a callee that takes only UUIDs, say. @throws {InputError} */
function deriveAs(encoding, parent, service, operation, ...discriminators) {
    (0, input_js_1.checkEncoding)(encoding);
    return (0, encoding_js_1.encode)(encoding, (0, sha256_js_1.sha256)(childTuple(['childkey/v1'], parent, service, operation, discriminators)));
}
/**
 * Returns the parent key of an intent that has a business id, such as `fromParts('checkout', 'order-42')`.
 * There are 1 to 8 parts, of 1 to 256 bytes each.
 *
 * @throws {InputError}
 */
function fromParts(namespace, ...parts) {
    (0, input_js_1.checkName)('namespace', namespace);
    const tail = (0, input_js_1.checkList)('part', parts.length === 0 ? [''] : parts); // without a part, the first one is missing
    return (0, encoding_js_1.encode)('hex32', (0, sha256_js_1.sha256)((0, encoding_js_1.netstrings)('parentkey/v1', namespace, String(tail.length), ...tail)));
}
/**
 * Returns the hop key: the parent of the calls that a service makes for a request with this key.
 *
 * `scope` is the authenticated caller: at most 1024 bytes of UTF-8 without NUL. `namespace` is that of the service,
 * mostly empty.
 *
 * @throws {InputError}
 */
function hop(scope, namespace, key) {
    const parent = (0, input_js_1.checkKey)(key);
    const bytes = (0, input_js_1.checkScope)(scope);
    (0, input_js_1.checkNamespace)(namespace);
    return (0, encoding_js_1.encode)('hex32', (0, sha256_js_1.sha256)((0, encoding_js_1.netstrings)('hopkey/v1', bytes, namespace, parent)));
}
/**
 * Returns the first 32 hex digits of SHA-256("parent:service:operation"), for stores with keys of that form.
 *
 * @throws {InputError} bad-key, too, if the parent has a colon.
 */
function legacy(parent, service, operation) {
    const key = (0, input_js_1.checkKey)(parent, 'parent key');
    (0, input_js_1.checkName)('service', service);
    (0, input_js_1.checkName)('operation', operation);
    if (key.includes(':')) {
        throw new input_js_1.InputError('bad-key', 'the parent key has a colon');
    }
    return (0, encoding_js_1.encode)('hex32', (0, sha256_js_1.sha256)((0, encoding_js_1.utf8)(`${key}:${service}:${operation}`)));
}
/**
 * Derives child keys with a secret (HMAC-SHA-256), for callees that must not compute the siblings of a key.
 *
 * `kid` names the secret, which has at least 16 bytes. The secret is copied, and never printed.
 */
class Keyed {
    kid;
    #secret;
    /** @throws {InputError} */
    constructor(kid, secret) {
        (0, input_js_1.checkName)('key id', kid);
        this.kid = kid;
        this.#secret = (0, input_js_1.checkSecret)(secret);
    }
    /** Is the function {@link derive} with the secret. @throws {InputError} */
    derive(parent, service, operation, ...discriminators) {
        return this.deriveAs('hex32', parent, service, operation, ...discriminators);
    }
    /** Is the function {@link deriveAs} with the secret. @throws {InputError} */
    deriveAs(encoding, parent, service, operation, ...discriminators) {
        (0, input_js_1.checkEncoding)(encoding);
        const tuple = childTuple(['childkey/v1-hmac', this.kid], parent, service, operation, discriminators);
        return (0, encoding_js_1.encode)(encoding, (0, sha256_js_1.hmacSha256)(this.#secret, tuple));
    }
}
exports.Keyed = Keyed;
function childTuple(head, parent, service, operation, discriminators) {
    const key = (0, input_js_1.checkKey)(parent, 'parent key');
    (0, input_js_1.checkName)('service', service);
    (0, input_js_1.checkName)('operation', operation);
    const tail = (0, input_js_1.checkList)('discriminator', discriminators);
    return (0, encoding_js_1.netstrings)(...head, key, service, operation, String(tail.length), ...tail);
}
