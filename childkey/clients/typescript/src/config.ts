// The settings of a client. Every time is in milliseconds.

import { onAbort } from './abort.js';
import { Budget } from './budget.js';
import { checkNames, checkNumber, ConfigError, MAX_MS } from './check.js';

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

const OPTIONS = [
  'fetch', 'guarded', 'maxAttempts', 'backoff', 'poll', 'maxPolls', 'retryAfterCap', 'timeout', 'attemptTimeout', 'budget', 'maxResponseBytes', 'random',
  'now', 'clock', 'sleep',
];
const FUNCTIONS = ['fetch', 'random', 'now', 'clock', 'sleep'] as const;

/** Returns the settings with their defaults. @throws {ConfigError} */
export function configure(options: RetryOptions): Config {
  checkNames('options', options, OPTIONS);
  const { guarded = true, maxAttempts = 10, maxPolls = 60, retryAfterCap = 60_000, timeout = 60_000, maxResponseBytes = 8 << 20, budget = new Budget() } = options;
  const { attemptTimeout = Math.min(20_000, timeout) } = options;
  checkNumber('maxAttempts', maxAttempts, { least: 1, whole: true });
  checkNumber('maxPolls', maxPolls, { least: 1, whole: true });
  checkNumber('maxResponseBytes', maxResponseBytes, { least: 1, whole: true });
  checkNumber('retryAfterCap', retryAfterCap, { above: 0, most: MAX_MS });
  checkNumber('timeout', timeout, { above: 0, most: MAX_MS });
  checkNumber('attemptTimeout', attemptTimeout, { above: 0, most: MAX_MS });
  if (typeof guarded !== 'boolean') {
    throw new ConfigError('guarded: want a boolean');
  }
  if (!(budget instanceof Budget)) {
    throw new ConfigError('budget: want a Budget');
  }
  for (const name of FUNCTIONS) {
    if (options[name] !== undefined && typeof options[name] !== 'function') {
      throw new ConfigError(`${name}: want a function`);
    }
  }
  const {
    fetch = (url, init) => globalThis.fetch(url, init), random = Math.random, now = Date.now, clock = () => performance.now(), sleep = pause,
  } = options;
  return {
    fetch, guarded, maxAttempts, maxPolls, retryAfterCap, timeout, attemptTimeout, budget, maxResponseBytes, random, now, clock, sleep,
    backoff: checkBackoff('backoff', options.backoff, 5000), poll: checkBackoff('poll', options.poll, 2000),
  };
}

function checkBackoff(name: string, backoff: Backoff = {}, longest: number): Required<Backoff> {
  checkNames(name, backoff, ['base', 'cap', 'jitter']);
  const { base = Math.min(100, backoff.cap ?? 100), jitter = 1 } = backoff;
  const { cap = Math.max(longest, base) } = backoff;
  checkNumber(`${name}.base`, base, { above: 0, most: MAX_MS });
  checkNumber(`${name}.cap`, cap, { least: base, most: MAX_MS });
  checkNumber(`${name}.jitter`, jitter, { above: 0, most: 1 });
  return { base, cap, jitter };
}

/** Returns the wait before retry n, which counts from 1. */
export function waitOf(backoff: Required<Backoff>, n: number, random: number): number {
  return lessOf(backoff, longestOf(backoff, n), random);
}

/** Returns the wait before retry n without its random part. */
export function longestOf(backoff: Required<Backoff>, n: number): number {
  return Math.min(backoff.base * 2 ** (Math.min(n, 64) - 1), backoff.cap);
}

/** Takes the random part off a wait. */
export function lessOf(backoff: Required<Backoff>, wait: number, random: number): number {
  return Math.max(wait - wait * Math.min(Math.max(backoff.jitter * random, 0), 1), 1);
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      forget();
      resolve();
    };
    const timer = setTimeout(end, ms);
    const forget = onAbort(signal, end);
    if (signal?.aborted) { // then no event comes
      end();
    }
  });
}
