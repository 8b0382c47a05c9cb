/**
 * What is known of a call's effect when the caller stops.
 *
 * - `NotSent`: no attempt can have reached the service.
 * - `Rejected`: the service proved that the call had no effect.
 * - `Unknown`: the call may have taken effect. Send the same call with the same key again.
 * - `Completed`: the effect happened. Its answer may be there or not.
 */
export type Outcome = 'NotSent' | 'Rejected' | 'Unknown' | 'Completed';
/** What follows an attempt: nothing, a retry, or a question whether the first run has ended. */
export type Action = 'stop' | 'retry' | 'wait';
/** What an attempt means. */
export interface Verdict {
    readonly outcome: Outcome;
    readonly action: Action;
    /** Whether it speaks for every attempt of the call. */
    readonly proven: boolean;
    readonly evidence: string;
    /** How many milliseconds the answer asks to wait. */
    readonly retryAfter: number;
    /** Whether the answer says that no retry can help. */
    readonly notRetryable: boolean;
    /** Whether nobody listens: a retry takes nothing from the budget. */
    readonly refused?: boolean;
}
/** Makes a row of the table. */
export declare function row(outcome: Outcome, action: Action, evidence: string, proven?: boolean): Verdict;
/** The codes of an idempotency layer. A Map, since a code from the wire may be the name of any object's member. */
export declare const CODES: ReadonlyMap<string, Verdict>;
/** The row of a 2xx whose body is longer than the client reads. */
export declare const TOO_LONG: Verdict;
/** The row of a 2xx that does not come from the service. */
export declare const UNMARKED: Verdict;
/** Returns the row of a status that came without a code, to a call without a key. */
export declare function ofStatus(status: number): Verdict;
/** What an answer that is not a success says. */
export interface Refusal {
    readonly status: number;
    readonly type: Response['type'];
    /** The code of the idempotency layer, or ''. */
    readonly code: string;
    readonly replayed: boolean | undefined;
    readonly shouldRetry: boolean | undefined;
    /** Whether the call has a key. */
    readonly keyed: boolean;
    /** Whether an earlier process may have sent the call. */
    readonly resumed: boolean;
}
/** Returns what a refusal means. Its code decides before its status does. */
export declare function ofRefusal(r: Refusal): Verdict;
