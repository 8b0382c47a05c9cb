import { Budget } from './budget.js';
/** How waits grow: `base`, doubled before each retry, at most `cap`, less a random part. */
export interface Backoff {
    /** The first wait in milliseconds. The default is 100, or `cap` if that is less. */
    readonly base?: number;
    /** The longest wait in milliseconds. The default is 5000, of polls 2000, or `base` if that is more. */
    readonly cap?: number;
    /** The random share of a wait: more than 0, at most 1. The default is 1, full jitter. */
    readonly jitter?: number;
}
/** Sends a request once. It must not retry or follow redirects itself. `globalThis.fetch` is one. */
export type SendOnce = (url: string, init: RequestInit) => Promise<Response>;
/** The settings of {@link createFetch}. The defaults are those of the Go package retry. */
export interface RetryOptions {
    /** Sends each attempt. The default is `globalThis.fetch`. */
    readonly fetch?: SendOnce;
    /**
     * Whether a guard of fanonce is in front of the services, as is the default. A guard marks its answers with
     * Idempotent-Replayed. A 2xx to a call with a key that lacks it comes from somebody in between, as the sign-in page of
     * a proxy does, and ends the call as Unknown. In a browser, services of another origin must expose that header.
     */
    readonly guarded?: boolean;
    /** How often a call is sent at most, without its polls. The default is 10. */
    readonly maxAttempts?: number;
    /** The waits before retries. */
    readonly backoff?: Backoff;
    /** The waits before polls: repeats of a call whose first run is still in progress. */
    readonly poll?: Backoff;
    /** How often a call is polled at most. The default is 60. */
    readonly maxPolls?: number;
    /** A service that asks for a longer wait in milliseconds ends the call. The default is 60,000. */
    readonly retryAfterCap?: number;
    /** The milliseconds that a whole call may take. The default is 60,000. */
    readonly timeout?: number;
    /** The milliseconds that one attempt may take. The default is `timeout`, at most 20,000. */
    readonly attemptTimeout?: number;
    /** Bounds the retries to each service. It can be shared. The default is a new {@link Budget}. */
    readonly budget?: Budget;
    /** The longest body that is read, in bytes. The default is 8 MiB. */
    readonly maxResponseBytes?: number;
    /** Returns a number from 0 up to 1, for jitter. The default is `Math.random`. */
    readonly random?: () => number;
    /** Returns the milliseconds since 1970. The default is `Date.now`. */
    readonly now?: () => number;
    /** Returns the milliseconds of a clock that nobody sets. The default is `performance.now`. */
    readonly clock?: () => number;
    /** Waits, at most until the signal is aborted. The default is a timer. */
    readonly sleep?: (ms: number, signal: AbortSignal | undefined) => Promise<void>;
}
/** The settings with their defaults. */
export interface Config extends Required<Omit<RetryOptions, 'backoff' | 'poll'>> {
    readonly backoff: Required<Backoff>;
    readonly poll: Required<Backoff>;
}
/** Returns the settings with their defaults. @throws {ConfigError} */
export declare function configure(options: RetryOptions): Config;
/** Returns the wait before retry n, which counts from 1. */
export declare function waitOf(backoff: Required<Backoff>, n: number, random: number): number;
/** Returns the wait before retry n without its random part. */
export declare function longestOf(backoff: Required<Backoff>, n: number): number;
/** Takes the random part off a wait. */
export declare function lessOf(backoff: Required<Backoff>, wait: number, random: number): number;
