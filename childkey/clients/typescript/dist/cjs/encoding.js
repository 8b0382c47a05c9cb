"use strict";
// The bytes of a tuple, and the text of its hash (childkey/SPEC.md).
Object.defineProperty(exports, "__esModule", { value: true });
exports.ENCODINGS = void 0;
exports.utf8 = utf8;
exports.netstrings = netstrings;
exports.encode = encode;
exports.hex = hex;
exports.uuid = uuid;
const sha256_js_1 = require("./sha256.js");
/** The encodings. */
exports.ENCODINGS = Object.freeze(['hex32', 'hex64', 'base64url22', 'base64url43', 'uuid8', 'uuid4']);
const encoder = new TextEncoder();
/** Returns the UTF-8 of text. Text is well-formed: a lone surrogate has no bytes. */
function utf8(text) {
    return encoder.encode(text);
}
/** Returns the items as netstrings. A length counts bytes, not UTF-16 units. */
function netstrings(...items) {
    return (0, sha256_js_1.concat)(items.flatMap((item) => {
        const bytes = typeof item === 'string' ? utf8(item) : item;
        return [utf8(`${bytes.length}:`), bytes, utf8(',')];
    }));
}
/** Returns the text of a hash. */
function encode(encoding, hash) {
    const part = encoding === 'hex64' || encoding === 'base64url43' ? hash : hash.slice(0, 16);
    switch (encoding) {
        case 'hex32':
        case 'hex64':
            return hex(part);
        case 'base64url22':
        case 'base64url43':
            return btoa(String.fromCharCode(...part)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
        default:
            return uuid(part, encoding === 'uuid8' ? 8 : 4);
    }
}
/** Returns bytes in lower-case hex. */
function hex(bytes) {
    return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
}
/** Returns 16 bytes as a UUID of the version (RFC 9562). */
function uuid(bytes, version) {
    const b = Uint8Array.from(bytes);
    b[6] = (b[6] & 0x0f) | (version << 4);
    b[8] = (b[8] & 0x3f) | 0x80;
    return hex(b).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
