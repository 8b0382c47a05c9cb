// The error of a call without a usable answer, and the answer as it is returned.

import { HEADER_REPLAYED, flag } from './headers.js';
import { digest } from './keys.js';
import type { Bytes } from './sha256.js';
import type { Outcome } from './table.js';

/** A complete answer. Its body has been read, and can be read again from a clone. */
export interface RetryResponse extends Response {
  /** How often the call was sent. */
  readonly attempts: number;
  /** Whether the answer is the stored one of an earlier run. */
  readonly replayed: boolean;
  clone(): RetryResponse;
}

/** Why no attempt follows the last one. */
export type StopReason =
  | 'attempts' | 'answer' | 'not-retryable' | 'retry-after' | 'still-in-progress' | 'budget' | 'deadline' | 'cancelled' | 'too-large'
  | 'unmarked';

/** What a {@link RetryError} is made of. A test of your own can make one. */
export interface RetryErrorFields {
  outcome: Outcome;
  reason: StopReason;
  evidence: string;
  attempts: number;
  code: string;
  detail: string;
  retryable: boolean;
  retryAfter: number;
  key: string;
  response: RetryResponse | undefined;
  cause: unknown;
}

/**
 * The end of a call without a usable 2xx answer. It says what is known of the effect.
 *
 * `cause` is what the last attempt threw, or the reason of the caller's signal. The message shows the key as its digest.
 */
export class RetryError extends Error {
  override readonly name = 'RetryError';
  /** What is known of the effect. */
  readonly outcome: Outcome;
  /** Why no attempt follows. */
  readonly reason: StopReason;
  /** What the outcome was concluded from. */
  readonly evidence: string;
  /** How often the call was sent. */
  readonly attempts: number;
  /** The status of the last complete answer; 0 if there was none. */
  readonly status: number;
  /** The code of the refusal; '' if there is none. */
  readonly code: string;
  /** What the refusal says to people; '' if it says nothing. */
  readonly detail: string;
  /** Whether the same call with the same key can end better later. */
  readonly retryable: boolean;
  /** How many milliseconds the last answer asked to wait; 0 if it did not. */
  readonly retryAfter: number;
  readonly #key: string;
  readonly #response: RetryResponse | undefined;

  constructor(f: RetryErrorFields) {
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
  get key(): string {
    return this.#key;
  }

  /** The last complete answer. */
  get response(): RetryResponse | undefined {
    return this.#response;
  }
}

function messageOf(f: RetryErrorFields): string {
  const answer = f.response === undefined ? '' : `, status ${f.response.status}${f.code && `, ${f.code}`}`;
  const key = f.key && `, key digest ${digest(f.key)}`;
  return `${f.outcome} after ${f.attempts} attempt${f.attempts === 1 ? '' : 's'} (${f.evidence}), stopped by: ${f.reason}${answer}${key}`;
}

const BODYLESS: ReadonlySet<number> = new Set([204, 205, 304]);

/** Returns an answer whose body was read, as the caller gets it. */
export function rebuild(from: Response, body: Bytes, attempts: number): RetryResponse {
  // A Response takes fewer statuses and reasons than a server may send.
  const status = from.status >= 200 && from.status <= 599 ? from.status : 599;
  const made = new Response(BODYLESS.has(status) ? null : body, { status, headers: from.headers });
  const replayed = flag(from.headers, HEADER_REPLAYED) === true;
  const members = {
    status: from.status, statusText: from.statusText, url: from.url, attempts, replayed, clone: () => rebuild(from, body, attempts),
  };
  for (const [name, value] of Object.entries(members)) {
    Object.defineProperty(made, name, { value, configurable: true });
  }
  return made as RetryResponse;
}
