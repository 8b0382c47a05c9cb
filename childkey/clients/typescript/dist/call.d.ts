import type { Bytes } from './sha256.js';
/** What `fetch` takes, and what is ours. */
export interface RetryInit extends RequestInit {
    /**
     * The key of the call, bare or quoted: {@link HEADER_KEY} of every attempt. The header may have it instead.
     * Without a key only GET, HEAD, OPTIONS, PUT and DELETE are sent again after they may have arrived.
     */
    key?: string;
    /** A value that is sent as JSON, instead of `body`. NaN and the infinities are refused: JSON does not have them. */
    json?: unknown;
    /** The milliseconds that the whole call may take, if they are fewer than those of the client. */
    timeout?: number;
    /** Names the service for the budget. The default is the URL's host. */
    service?: string;
    /** Says that an earlier process may have sent the call. */
    resumed?: boolean;
}
/** A call, ready to be sent any number of times. */
export interface Call {
    readonly url: string;
    readonly service: string;
    /** The key, '' if the call has none. */
    readonly key: string;
    readonly method: string;
    readonly headers: Headers;
    readonly body: Bytes | undefined;
    /** The other members for fetch. */
    readonly init: RequestInit;
    readonly signal: AbortSignal | undefined;
    readonly resumed: boolean;
    /** The milliseconds for the whole call, undefined for those of the client. */
    readonly timeout: number | undefined;
    /** Whether a repeat of the call does no harm. */
    readonly safe: boolean;
}
/** Reads a call. @throws {InputError} of its key. @throws {InvalidCallError} @throws {ConfigError} of its timeout. */
export declare function freeze(input: string | URL | Request, init: RetryInit): Promise<Call>;
