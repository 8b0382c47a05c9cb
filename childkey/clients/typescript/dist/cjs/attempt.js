"use strict";
// One attempt: the request is sent, and its answer read to the end, within a time.
Object.defineProperty(exports, "__esModule", { value: true });
exports.attempt = attempt;
const abort_js_1 = require("./abort.js");
const check_js_1 = require("./check.js");
const failure_js_1 = require("./failure.js");
const sha256_js_1 = require("./sha256.js");
/** Sends a call once. It ends by its time and by the caller's signal, even if fetch heeds neither. */
async function attempt(send, call, ms, maxBytes) {
    const controller = new AbortController();
    let timer;
    let forget;
    const ended = new Promise((_, reject) => {
        const end = (error) => {
            reject(error); // before abort, whose own error says less
            controller.abort(error);
        };
        timer = setTimeout(() => end(new failure_js_1.AttemptTimeoutError(`no answer in ${Math.round(ms)} ms`)), Math.min(ms, check_js_1.MAX_MS));
        forget = (0, abort_js_1.onAbort)(call.signal, () => end(new failure_js_1.AttemptCancelledError('cancelled', { cause: call.signal?.reason })));
    });
    const answer = exchange(send, call, controller.signal, maxBytes);
    answer.catch(() => undefined); // it may fail after the race
    try {
        return await Promise.race([ended, answer]);
    }
    finally {
        clearTimeout(timer);
        forget?.();
    }
}
async function exchange(send, call, signal, maxBytes) {
    // Each attempt gets copies: fetch may keep or change what it is given.
    const { body } = call;
    const response = await send(call.url, {
        ...call.init, method: call.method, headers: new Headers(call.headers), redirect: 'manual', signal, ...(body && { body: body.slice() }),
    });
    try {
        return { response, ...(await read(response, maxBytes)) };
    }
    catch (error) {
        throw new failure_js_1.TruncatedError('the answer was cut off', { cause: error });
    }
}
async function read(response, maxBytes) {
    const reader = response.body?.getReader();
    const chunks = [];
    let size = 0;
    while (reader !== undefined) {
        const { done, value } = await reader.read();
        if (done) {
            break;
        }
        if (!ArrayBuffer.isView(value)) { // a Response of your own fetch may have any stream
            throw new TypeError('the body is not bytes');
        }
        chunks.push(value);
        size += value.length;
        if (size > maxBytes) {
            reader.cancel().catch(() => undefined); // the rest is not wanted
            return { body: (0, sha256_js_1.concat)(chunks).slice(0, maxBytes), cut: true };
        }
    }
    return { body: (0, sha256_js_1.concat)(chunks), cut: false };
}
