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
export type StopReason = 'attempts' | 'answer' | 'not-retryable' | 'retry-after' | 'still-in-progress' | 'budget' | 'deadline' | 'cancelled' | 'too-large' | 'unmarked';
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
export declare class RetryError extends Error {
    #private;
    readonly name = "RetryError";
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
    constructor(f: RetryErrorFields);
    /** The key of the call; '' if it has none. A printed error does not show it. */
    get key(): string;
    /** The last complete answer. */
    get response(): RetryResponse | undefined;
}
/** Returns an answer whose body was read, as the caller gets it. */
export declare function rebuild(from: Response, body: Bytes, attempts: number): RetryResponse;
