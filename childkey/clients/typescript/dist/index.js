/**
 * Idempotency keys, and calls that retry under one key and know their outcome.
 *
 * Start with {@link derive} for the key of a call, and with {@link createFetch} for the call. The keys are those of
 * childkey/SPEC.md, and a call ends as with the Go package retry. Keys are strings in their bare form.
 *
 * @packageDocumentation
 */
export { Budget } from './budget.js';
export { ConfigError, InvalidCallError } from './check.js';
export { ENCODINGS } from './encoding.js';
export { RetryError } from './error.js';
export { UnsentError } from './failure.js';
export { createFetch } from './fetch.js';
export { HEADER_CANCELS, HEADER_CODE, HEADER_FIRST_SENT, HEADER_FORWARD, HEADER_KEY, HEADER_PREFER, HEADER_REPLAYED, HEADER_RETRY_AFTER, HEADER_RETRY_AFTER_MS, HEADER_SHOULD_RETRY, HEADER_X_SHOULD_RETRY, retryAfter, } from './headers.js';
export { InputError } from './input.js';
export { derive, deriveAs, digest, fromParts, hop, Keyed, legacy, newKey, NoRandomError, parse, quoted } from './keys.js';
export { parseProblem } from './problem.js';
