import { type Verdict } from './table.js';
/** A `fetch` of yours throws it to say that nothing of the request was sent. Chain the reason as `cause`. */
export declare class UnsentError extends Error {
    readonly name = "UnsentError";
}
/** The body of an answer broke off. */
export declare class TruncatedError extends Error {
    readonly name = "TruncatedError";
}
/** The attempt reached its timeout. */
export declare class AttemptTimeoutError extends Error {
    readonly name = "AttemptTimeoutError";
}
/** The caller's signal ended the attempt. */
export declare class AttemptCancelledError extends Error {
    readonly name = "AttemptCancelledError";
}
/** Returns what an attempt that ended in an error means. */
export declare function ofFailure(error: unknown): Verdict;
