import { type RetryInit } from './call.js';
import { type RetryOptions } from './config.js';
import type { RetryResponse } from './error.js';
/** A `fetch` that retries under one key. */
export type RetryFetch = (input: string | URL | Request, init?: RetryInit) => Promise<RetryResponse>;
/**
 * Returns a `fetch` that sends a call until its outcome is known, every time with the same key and the same bytes.
 *
 * It resolves to a 2xx answer, and rejects with a {@link RetryError} otherwise. The answer's body has been read. Before
 * anything is sent, a bad call rejects with an {@link InputError}, an {@link InvalidCallError} or a {@link ConfigError}.
 * The signal of a call ends its running attempt or wait. Redirects are not followed. Calls may run side by side.
 *
 * @throws {ConfigError} if an option is out of range.
 */
export declare function createFetch(options?: RetryOptions): RetryFetch;
