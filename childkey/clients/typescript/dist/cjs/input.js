"use strict";
// What a key may be made of. Each limit of childkey/SPEC.md is checked here.
Object.defineProperty(exports, "__esModule", { value: true });
exports.InputError = void 0;
exports.bytesOf = bytesOf;
exports.checkKey = checkKey;
exports.checkName = checkName;
exports.checkList = checkList;
exports.checkScope = checkScope;
exports.checkNamespace = checkNamespace;
exports.checkEncoding = checkEncoding;
exports.checkSecret = checkSecret;
const encoding_js_1 = require("./encoding.js");
/** An input that no key can be made of. Its message holds no key, secret or discriminator. */
class InputError extends Error {
    name = 'InputError';
    reason;
    constructor(reason, detail) {
        super(`${reason}: ${detail}`);
        this.reason = reason;
    }
}
exports.InputError = InputError;
const KEY = /^[!#-+\--[\]-~]*$/; // 0x21-0x7E without " , \
const NAME = /^[A-Za-z0-9][A-Za-z0-9._/-]*$/;
const NAMESPACE = /^[A-Za-z0-9][A-Za-z0-9._/:-]*$/;
const LONE_SURROGATE = /\p{Surrogate}/u;
/** Returns the bytes of text, a copy. */
function bytesOf(text, what, reason) {
    if (isBytes(text)) {
        return Uint8Array.from(text);
    }
    if (typeof text !== 'string') {
        throw new InputError(reason, `${what} is neither a string nor a Uint8Array`);
    }
    if (LONE_SURROGATE.test(text)) {
        throw new InputError(reason, `${what} has a lone surrogate, which is not UTF-8`);
    }
    return (0, encoding_js_1.utf8)(text);
}
// isBytes does not ask for instanceof: a frame and a test environment have a Uint8Array of their own.
function isBytes(value) {
    return Object.prototype.toString.call(value) === '[object Uint8Array]';
}
/** Returns the bare form of a key. */
function checkKey(text, what = 'key') {
    if (typeof text !== 'string') {
        throw new InputError('bad-key', `${what} is not a string`);
    }
    const key = text.length >= 2 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text;
    const size = bytesOf(key, what, 'bad-key').length;
    if (size === 0) {
        throw new InputError('empty', what);
    }
    if (size > 255) {
        throw new InputError('too-long', `${what} of ${size} bytes, at most 255`);
    }
    if (!KEY.test(key)) {
        throw new InputError('bad-key', `${what}: a byte outside 0x21-0x7E, or a quotation mark, comma or backslash`);
    }
    return key;
}
/** Checks the name of a service, an operation, a namespace of parents or a secret. */
function checkName(what, name) {
    if (typeof name !== 'string') {
        throw new InputError('bad-name', `${what} is not a string`);
    }
    const size = bytesOf(name, what, 'bad-name').length;
    if (size === 0) {
        throw new InputError('empty', what);
    }
    if (size > 128) {
        throw new InputError('too-long', `${what} of ${size} bytes, at most 128`);
    }
    if (!NAME.test(name)) {
        throw new InputError('bad-name', what);
    }
}
/** Returns the bytes of the discriminators or parts of a key. */
function checkList(what, items) {
    if (items.length > 8) {
        throw new InputError('too-many', `${items.length} ${what}s, at most 8`);
    }
    return items.map((item, i) => {
        const bytes = bytesOf(item, `${what} ${i + 1}`, 'bad-name');
        if (bytes.length === 0) {
            throw new InputError('empty', `${what} ${i + 1}`);
        }
        if (bytes.length > 256) {
            throw new InputError('too-long', `${what} ${i + 1} of ${bytes.length} bytes, at most 256`);
        }
        return bytes;
    });
}
/** Returns the bytes of the scope of a hop key. */
function checkScope(scope) {
    const bytes = bytesOf(scope, 'scope', 'bad-scope');
    if (bytes.length > 1024) {
        throw new InputError('too-long', `scope of ${bytes.length} bytes, at most 1024`);
    }
    if (!isUTF8(bytes)) {
        throw new InputError('bad-scope', 'not UTF-8');
    }
    if (bytes.includes(0)) {
        throw new InputError('bad-scope', 'has a NUL');
    }
    return bytes;
}
/** Checks the namespace of a hop key. It may be empty. */
function checkNamespace(namespace) {
    const size = typeof namespace === 'string' ? bytesOf(namespace, 'namespace', 'bad-name').length : 0;
    if (size > 263) {
        throw new InputError('too-long', `namespace of ${size} bytes, at most 263`);
    }
    if (namespace !== '' && !(typeof namespace === 'string' && NAMESPACE.test(namespace))) {
        throw new InputError('bad-name', 'namespace');
    }
}
/** Checks the name of an encoding. */
function checkEncoding(encoding) {
    if (!encoding_js_1.ENCODINGS.includes(encoding)) {
        throw new InputError('bad-encoding', `want one of ${encoding_js_1.ENCODINGS.join(', ')}`);
    }
}
/** Returns a copy of a secret. */
function checkSecret(secret) {
    if (!isBytes(secret) || secret.length < 16) {
        throw new InputError('bad-secret', 'want a Uint8Array of at least 16 bytes');
    }
    return Uint8Array.from(secret);
}
function isUTF8(bytes) {
    try {
        new TextDecoder('utf-8', { fatal: true }).decode(bytes);
        return true;
    }
    catch {
        return false;
    }
}
