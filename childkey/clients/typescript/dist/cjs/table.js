"use strict";
// The table: what an answer means for its call. It is the table of the Go package retry (retry/classify.go). The file
// retry/testdata/calls.json tests that both are the same.
Object.defineProperty(exports, "__esModule", { value: true });
exports.UNMARKED = exports.TOO_LONG = exports.CODES = void 0;
exports.row = row;
exports.ofStatus = ofStatus;
exports.ofRefusal = ofRefusal;
/** Makes a row of the table. */
function row(outcome, action, evidence, proven = false) {
    return { outcome, action, proven, evidence, retryAfter: 0, notRetryable: false };
}
/** The codes of an idempotency layer. A Map, since a code from the wire may be the name of any object's member. */
exports.CODES = new Map([
    ['scope-missing', row('Rejected', 'stop', 'refused before the claim: no scope')],
    ['scope-unavailable', row('Rejected', 'retry', 'refused before the claim: the scope could not be looked up')],
    ['key-missing', row('Rejected', 'stop', 'refused before the claim: no key')],
    ['key-invalid', row('Rejected', 'stop', 'refused before the claim: bad key')],
    ['first-sent-invalid', row('Rejected', 'stop', 'refused before the claim: bad first-sent time')],
    ['body-incomplete', row('Rejected', 'retry', 'refused before the claim: the body was cut off')],
    ['body-timeout', row('Rejected', 'retry', 'refused before the claim: the body did not come in time')],
    ['body-too-large', row('Rejected', 'stop', 'refused before the claim: body too large')],
    ['key-reused', row('Rejected', 'stop', 'the key belongs to another payload', true)],
    ['key-cancelled', row('Rejected', 'stop', 'the key was cancelled before it ran, or undone', true)],
    ['response-gone', row('Completed', 'stop', 'it finished; its answer is no longer kept', true)],
    ['in-progress', row('Unknown', 'wait', 'the first run is still going')],
    ['lease-lost', row('Unknown', 'wait', 'the run lost its lease to another')],
    ['key-expired', row('Unknown', 'stop', "older than the callee's retention")],
    ['outcome-unknown', row('Unknown', 'stop', 'the callee does not know either')],
    ['not-storable', row('Unknown', 'stop', 'it ran, and its answer could not be stored')],
    ['record-unreadable', row('Unknown', 'stop', 'the callee cannot read its record')],
    ['poisoned', row('Unknown', 'stop', 'the key is quarantined')],
    ['transaction-failed', row('Unknown', 'stop', "the callee's transaction failed")],
    ['key-not-found', row('Unknown', 'stop', 'the callee has no record of the key')],
    ['method-not-allowed', row('Rejected', 'stop', 'refused before the claim: the address is a look-up')],
    ['not-claimed', row('Rejected', 'retry', "refused before the claim: the callee never sent it to its store")],
    ['store-unavailable', row('Unknown', 'retry', "the callee's store is unavailable, or the fate of its commit unknown")],
]);
const STATUSES = new Map([
    [202, row('Completed', 'stop', 'accepted, not necessarily done')],
    // Post/redirect/get: many services answer so after the work was done.
    [302, row('Unknown', 'stop', 'redirected, perhaps after the work was done')],
    [303, row('Unknown', 'stop', 'redirected, perhaps after the work was done')],
    [408, row('Unknown', 'retry', '408: the callee or a proxy gave up reading')],
    [409, row('Rejected', 'stop', 'refused with 409')],
    [421, row('Rejected', 'retry', '421: the wrong connection')],
    [423, row('Unknown', 'stop', '423: locked until somebody settles it')],
    [425, row('Rejected', 'retry', '425: too early')],
    [429, row('Rejected', 'retry', '429: turned away')],
    [460, row('Unknown', 'retry', 'a load balancer saw its client leave')],
    [499, row('Unknown', 'retry', 'a proxy saw its client leave')],
    [501, row('Rejected', 'stop', '501: not implemented')],
    [505, row('Rejected', 'stop', '505: HTTP version')],
    [511, row('Unknown', 'stop', '511: the network wants a login')],
]);
const HUNDREDS = new Map([
    [1, row('Unknown', 'stop', 'an interim answer as the last one')],
    [2, row('Completed', 'stop', '2xx')],
    [3, row('Rejected', 'stop', 'redirected elsewhere')],
    [4, row('Rejected', 'stop', 'refused with 4xx')],
    [5, row('Unknown', 'retry', 'failed with 5xx')],
]);
/** The row of a 2xx whose body is longer than the client reads. */
exports.TOO_LONG = row('Completed', 'stop', '2xx, longer than the client reads');
/** The row of a 2xx that does not come from the service. */
exports.UNMARKED = row('Unknown', 'stop', 'a 2xx without the mark of a guard');
/** The row of a 409 without a code to a call with a key. */
const UNCLEAR = row('Unknown', 'retry', '409 without a code: an earlier attempt is running, or the callee refused');
/** A browser shows neither the status nor the headers of a redirect that is not followed. */
const HIDDEN_REDIRECT = row('Unknown', 'stop', 'redirected, and the browser hides how');
// These 4xx are not stored by a guarded service: an earlier attempt that is still on its way can run after them.
const RELEASED = new Set([401, 403, 407, 408, 421, 423, 425, 429]);
/** Returns the row of a status that came without a code, to a call without a key. */
function ofStatus(status) {
    return STATUSES.get(status) ?? HUNDREDS.get(Math.floor(status / 100)) ?? row('Unknown', 'retry', 'no HTTP status');
}
/** Returns what a refusal means. Its code decides before its status does. */
function ofRefusal(r) {
    const v = exports.CODES.get(r.code);
    if (v !== undefined) {
        return ofCode(r, v);
    }
    if (r.type === 'opaqueredirect') {
        return HIDDEN_REDIRECT;
    }
    const plain = r.keyed && r.status === 409 ? UNCLEAR : ofStatus(r.status);
    return r.replayed === undefined ? plain : ofHonoured(r, plain);
}
function ofCode(r, v) {
    if (r.code === 'key-reused' && r.resumed) { // the other payload may be this very call, as an earlier process spelled it
        return { ...v, proven: false };
    }
    if (r.code === 'outcome-unknown' && r.shouldRetry) {
        return row('Unknown', 'wait', 'the callee is finding out');
    }
    if (r.code === 'transaction-failed' && r.shouldRetry) {
        return row('Unknown', 'retry', 'the callee failed to record its work, and runs it again');
    }
    return v;
}
// ofHonoured returns what an answer means whose key the callee honoured.
function ofHonoured(r, v) {
    if (r.shouldRetry) { // it is not stored, so an attempt that is on its way can run after it
        return Math.floor(r.status / 100) === 4 ? ofStatus(r.status) : v;
    }
    switch (Math.floor(r.status / 100)) {
        case 3:
            return row('Completed', 'stop', 'redirected after it ran', true);
        case 4:
            return r.replayed || !RELEASED.has(r.status) ? row('Rejected', 'stop', "the callee's stored answer", true) : v;
        case 5:
            return r.replayed ? row(v.outcome, 'stop', `a stored ${r.status}`, v.proven) : v;
        default:
            return v;
    }
}
