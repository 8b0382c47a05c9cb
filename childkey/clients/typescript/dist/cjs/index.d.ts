/**
 * Idempotency keys, and calls that retry under one key and know their outcome.
 *
 * Start with {@link derive} for the key of a call, and with {@link createFetch} for the call. The keys are those of
 * childkey/SPEC.md, and a call ends as with the Go package retry. Keys are strings in their bare form.
 *
 * @packageDocumentation
 */
export { Budget, type BudgetOptions } from './budget.js';
export type { RetryInit } from './call.js';
export { ConfigError, InvalidCallError } from './check.js';
export type { Backoff, RetryOptions, SendOnce } from './config.js';
export { type Encoding, ENCODINGS } from './encoding.js';
export { RetryError, type RetryErrorFields, type RetryResponse, type StopReason } from './error.js';
export { UnsentError } from './failure.js';
export { createFetch, type RetryFetch } from './fetch.js';
export { HEADER_CANCELS, HEADER_CODE, HEADER_FIRST_SENT, HEADER_FORWARD, HEADER_KEY, HEADER_PREFER, HEADER_REPLAYED, HEADER_RETRY_AFTER, HEADER_RETRY_AFTER_MS, HEADER_SHOULD_RETRY, HEADER_X_SHOULD_RETRY, retryAfter, } from './headers.js';
export { InputError, type InputReason, type Text } from './input.js';
export { derive, deriveAs, digest, fromParts, hop, Keyed, legacy, newKey, NoRandomError, parse, quoted } from './keys.js';
export { parseProblem, type Problem } from './problem.js';
export type { Outcome } from './table.js';
