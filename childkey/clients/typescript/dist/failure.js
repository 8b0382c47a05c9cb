// The table for attempts that ended without a complete answer. What is thrown differs between runtimes: Node names the
// reason in the chain of causes, and a browser hides it.
import { row } from './table.js';
/** A `fetch` of yours throws it to say that nothing of the request was sent. Chain the reason as `cause`. */
export class UnsentError extends Error {
    name = 'UnsentError';
}
/** The body of an answer broke off. */
export class TruncatedError extends Error {
    name = 'TruncatedError';
}
/** The attempt reached its timeout. */
export class AttemptTimeoutError extends Error {
    name = 'AttemptTimeoutError';
}
/** The caller's signal ended the attempt. */
export class AttemptCancelledError extends Error {
    name = 'AttemptCancelledError';
}
const CERTIFICATE = new Set([
    'CERT_CHAIN_TOO_LONG', 'CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID', 'CERT_REJECTED', 'CERT_REVOKED', 'CERT_SIGNATURE_FAILURE',
    'CERT_UNTRUSTED', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'ERR_TLS_CERT_ALTNAME_INVALID', 'HOSTNAME_MISMATCH', 'INVALID_CA', 'INVALID_PURPOSE',
    'PATH_LENGTH_EXCEEDED', 'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_GET_ISSUER_CERT', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
    'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);
const NOT_TLS = new Set([
    'ERR_SSL_HTTP_REQUEST', 'ERR_SSL_PACKET_LENGTH_TOO_LONG', 'ERR_SSL_UNSUPPORTED_PROTOCOL', 'ERR_SSL_WRONG_VERSION_NUMBER',
]);
const TIMEOUT = new Set(['ETIMEDOUT', 'UND_ERR_BODY_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT']);
const is = (...kinds) => (chain) => chain.some((e) => kinds.some((k) => e instanceof k));
const coded = (match) => (_, facts) => facts.some(match);
// The first row that matches decides. NotSent needs a proof: the name was not resolved, the certificate was refused, or
// connect itself failed. TLS errors prove nothing, since a connection can break in the same way later.
const FAILURES = [
    { match: is(TruncatedError), verdict: row('Unknown', 'retry', 'the answer was cut off') },
    { match: is(AttemptTimeoutError), verdict: row('Unknown', 'retry', 'the attempt timed out') },
    { match: is(AttemptCancelledError), verdict: row('Unknown', 'retry', 'the caller cancelled the attempt') },
    { match: coded((f) => f.code === 'ENOTFOUND'), verdict: row('NotSent', 'stop', 'no such host') },
    { match: coded((f) => f.syscall === 'getaddrinfo'), verdict: row('NotSent', 'retry', 'the host name could not be looked up') },
    { match: coded((f) => CERTIFICATE.has(f.code)), verdict: row('NotSent', 'stop', 'the certificate is not trusted') },
    { match: coded((f) => NOT_TLS.has(f.code)), verdict: row('Unknown', 'stop', 'the server does not speak TLS') },
    { match: (chain) => chain.some(unconnected), verdict: row('NotSent', 'retry', 'no connection could be made') },
    { match: coded((f) => TIMEOUT.has(f.code) || f.name === 'TimeoutError'), verdict: row('Unknown', 'retry', 'the attempt timed out') },
    { match: coded((f) => f.code === 'UND_ERR_SOCKET'), verdict: row('Unknown', 'retry', 'the connection was closed before an answer came') },
    { match: coded((f) => f.code === 'ECONNRESET' || f.code === 'EPIPE'), verdict: row('Unknown', 'retry', 'the connection was reset') },
];
/** Returns what an attempt that ended in an error means. */
export function ofFailure(error) {
    const chain = causes(error);
    const facts = chain.map((e) => ({ code: member(e, 'code'), syscall: member(e, 'syscall'), name: member(e, 'name') }));
    const verdict = FAILURES.find((f) => f.match(chain, facts))?.verdict ?? row('Unknown', 'retry', 'the connection failed');
    return { ...verdict, refused: verdict.outcome === 'NotSent' && chain.some(refused) };
}
// refused tells whether nobody listens where the connection was to be made. Node tries each address of a host.
function refused(error) {
    const errors = member(error, 'errors');
    return member(error, 'code') === 'ECONNREFUSED' ||
        Array.isArray(errors) && errors.some((e) => typeof e === 'object' && e !== null && causes(e).some(refused));
}
// causes returns the error and its causes. The errors of an AggregateError are not among them: one may prove what another
// refutes.
function causes(error) {
    const chain = [];
    for (let e = error; typeof e === 'object' && e !== null && !chain.includes(e) && chain.length < 32; e = member(e, 'cause')) {
        chain.push(e);
    }
    return chain;
}
// unconnected tells whether an error proves that no connection was made. Node tries each address of a host, and throws
// an AggregateError if all fail.
function unconnected(error) {
    const errors = member(error, 'errors');
    if (Array.isArray(errors)) {
        return errors.length > 0 && errors.every((e) => typeof e === 'object' && e !== null && causes(e).some(unconnected));
    }
    // By its name, because a program can load the package as a module and by require, and then has two such classes.
    return member(error, 'name') === 'UnsentError' || member(error, 'syscall') === 'connect' || member(error, 'code') === 'UND_ERR_CONNECT_TIMEOUT';
}
function member(e, name) {
    return e[name];
}
