"use strict";
// A call before it is made: everything is read, copied and checked once, so that every attempt is the same request.
Object.defineProperty(exports, "__esModule", { value: true });
exports.freeze = freeze;
const check_js_1 = require("./check.js");
const headers_js_1 = require("./headers.js");
const input_js_1 = require("./input.js");
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']);
const BODIES = new Set(['ArrayBuffer', 'Blob', 'File', 'FormData', 'URLSearchParams']);
/** Reads a call. @throws {InputError} of its key. @throws {InvalidCallError} @throws {ConfigError} of its timeout. */
async function freeze(input, init) {
    const { key, json, timeout, service, resumed = false, signal, redirect, method, headers, body, ...rest } = init;
    if (timeout !== undefined) {
        (0, check_js_1.checkNumber)('timeout', timeout, { above: 0, most: check_js_1.MAX_MS });
    }
    if (redirect !== undefined && redirect !== 'manual') {
        throw new check_js_1.InvalidCallError('redirect: want manual, since redirects are not followed');
    }
    const url = urlOf(input);
    const request = requestOf(typeof input === 'string' || input instanceof URL ? url.href : input, {
        ...rest, ...(method === undefined ? {} : { method }), ...(headers === undefined ? {} : { headers }), ...bodyOf(body, json),
    });
    const given = headers ?? (input instanceof Request ? input.headers : undefined);
    if (json !== undefined && !new Headers(given).has('Content-Type')) {
        request.headers.set('Content-Type', 'application/json');
    }
    const text = keyOf(request, key);
    const bytes = await bytesOf(request);
    const has = bytes.length > 0 || (body !== undefined && body !== null);
    return {
        url: url.href, service: service ?? url.host, key: text, method: request.method, headers: request.headers, body: has ? bytes : undefined,
        init: input instanceof Request ? { ...modesOf(input), ...rest } : rest, signal: signalOf(input, signal), resumed, timeout, safe: text !== '' || IDEMPOTENT.has(request.method),
    };
}
// urlOf returns the address of a call. On a page it may be relative.
function urlOf(input) {
    const page = globalThis.location?.href;
    let url;
    try {
        url = new URL(input instanceof Request ? input.url : String(input), page);
    }
    catch {
        throw new check_js_1.InvalidCallError('url: want an absolute http or https URL'); // without the cause, which repeats the URL
    }
    if (url.protocol !== 'http:' && url.protocol !== 'https:') {
        throw new check_js_1.InvalidCallError('url: want an absolute http or https URL');
    }
    if (url.username !== '' || url.password !== '') {
        throw new check_js_1.InvalidCallError('url: fetch takes no URL with a user name or password');
    }
    return url;
}
function signalOf(input, signal) {
    if (signal === undefined) {
        return input instanceof Request ? input.signal : undefined;
    }
    if (signal !== null && (typeof signal.aborted !== 'boolean' || typeof signal.addEventListener !== 'function')) {
        throw new check_js_1.InvalidCallError('signal: want an AbortSignal');
    }
    return signal ?? undefined;
}
// requestOf has the platform check what only it knows: methods, headers, modes.
function requestOf(input, init) {
    let request;
    try {
        request = new Request(input, init);
    }
    catch (error) {
        throw new check_js_1.InvalidCallError('fetch takes no such request', { cause: error });
    }
    if (request.mode === 'no-cors') {
        throw new check_js_1.InvalidCallError('mode: no-cors sends no key and shows no answer');
    }
    return request;
}
// bodyOf refuses what would be another body for each attempt, or "[object Object]".
function bodyOf(body, json) {
    if (json !== undefined) {
        if (body !== undefined) {
            throw new check_js_1.InvalidCallError('json: there is a body, too');
        }
        return { body: stringify(json) };
    }
    if (body === undefined || body === null) {
        return {};
    }
    const kind = Object.prototype.toString.call(body).slice(8, -1);
    if (typeof body === 'string' || ArrayBuffer.isView(body) || BODIES.has(kind)) {
        return { body: body };
    }
    if (kind === 'ReadableStream') {
        throw new check_js_1.InvalidCallError('body: a stream cannot be sent twice');
    }
    throw new check_js_1.InvalidCallError('body: want a string, bytes, Blob, FormData or URLSearchParams');
}
function stringify(json) {
    let text;
    try {
        text = JSON.stringify(json, refuseNonFinite);
    }
    catch (error) {
        throw new check_js_1.InvalidCallError('json: it cannot be encoded', { cause: error });
    }
    if (text === undefined) {
        throw new check_js_1.InvalidCallError('json: it cannot be encoded');
    }
    return text;
}
// refuseNonFinite refuses a number that JSON does not have: JSON.stringify would send null in its place.
function refuseNonFinite(_, value) {
    if (typeof value === 'number' && !Number.isFinite(value)) {
        throw new RangeError(`${value} is not JSON`);
    }
    return value;
}
// keyOf puts the key into the headers of the request, and returns its bare form; '' if there is none.
function keyOf(request, key) {
    const given = request.headers.get(headers_js_1.HEADER_KEY);
    if (key !== undefined && given !== null) {
        throw new check_js_1.InvalidCallError('headers: the key is given twice');
    }
    if (key === undefined && given === null) {
        return '';
    }
    const bare = (0, input_js_1.checkKey)(key ?? given);
    request.headers.set(headers_js_1.HEADER_KEY, `"${bare}"`);
    return bare;
}
async function bytesOf(request) {
    try {
        return new Uint8Array(await request.arrayBuffer());
    }
    catch (error) {
        throw new check_js_1.InvalidCallError('body: it could not be read', { cause: error });
    }
}
function modesOf({ cache, credentials, integrity, keepalive, mode, referrer, referrerPolicy }) {
    return { cache, credentials, integrity, keepalive, mode, referrer, referrerPolicy };
}
