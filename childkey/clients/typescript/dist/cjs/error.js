"use strict";
// The error of a call without a usable answer, and the answer as it is returned.
Object.defineProperty(exports, "__esModule", { value: true });
exports.RetryError = void 0;
exports.rebuild = rebuild;
const headers_js_1 = require("./headers.js");
const keys_js_1 = require("./keys.js");
/**
 * The end of a call without a usable 2xx answer. It says what is known of the effect.
 *
 * `cause` is what the last attempt threw, or the reason of the caller's signal. The message shows the key as its digest.
 */
class RetryError extends Error {
    name = 'RetryError';
    /** What is known of the effect. */
    outcome;
    /** Why no attempt follows. */
    reason;
    /** What the outcome was concluded from. */
    evidence;
    /** How often the call was sent. */
    attempts;
    /** The status of the last complete answer; 0 if there was none. */
    status;
    /** The code of the refusal; '' if there is none. */
    code;
    /** What the refusal says to people; '' if it says nothing. */
    detail;
    /** Whether the same call with the same key can end better later. */
    retryable;
    /** How many milliseconds the last answer asked to wait; 0 if it did not. */
    retryAfter;
    #key;
    #response;
    constructor(f) {
        super(messageOf(f), f.cause === undefined ? undefined : { cause: f.cause });
        this.outcome = f.outcome;
        this.reason = f.reason;
        this.evidence = f.evidence;
        this.attempts = f.attempts;
        this.status = f.response?.status ?? 0;
        this.code = f.code;
        this.detail = f.detail;
        this.retryable = f.retryable;
        this.retryAfter = f.retryAfter;
        this.#key = f.key;
        this.#response = f.response;
    }
    /** The key of the call; '' if it has none. A printed error does not show it. */
    get key() {
        return this.#key;
    }
    /** The last complete answer. */
    get response() {
        return this.#response;
    }
}
exports.RetryError = RetryError;
function messageOf(f) {
    const answer = f.response === undefined ? '' : `, status ${f.response.status}${f.code && `, ${f.code}`}`;
    const key = f.key && `, key digest ${(0, keys_js_1.digest)(f.key)}`;
    return `${f.outcome} after ${f.attempts} attempt${f.attempts === 1 ? '' : 's'} (${f.evidence}), stopped by: ${f.reason}${answer}${key}`;
}
const BODYLESS = new Set([204, 205, 304]);
/** Returns an answer whose body was read, as the caller gets it. */
function rebuild(from, body, attempts) {
    // A Response takes fewer statuses and reasons than a server may send.
    const status = from.status >= 200 && from.status <= 599 ? from.status : 599;
    const made = new Response(BODYLESS.has(status) ? null : body, { status, headers: from.headers });
    const replayed = (0, headers_js_1.flag)(from.headers, headers_js_1.HEADER_REPLAYED) === true;
    const members = {
        status: from.status, statusText: from.statusText, url: from.url, attempts, replayed, clone: () => rebuild(from, body, attempts),
    };
    for (const [name, value] of Object.entries(members)) {
        Object.defineProperty(made, name, { value, configurable: true });
    }
    return made;
}
