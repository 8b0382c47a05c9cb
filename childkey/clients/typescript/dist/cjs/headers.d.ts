export declare const HEADER_KEY = "Idempotency-Key";
/** RFC 3339, UTC; optional. */
export declare const HEADER_FIRST_SENT = "Idempotency-First-Sent";
/** On an undo: the forward key. */
export declare const HEADER_CANCELS = "Idempotency-Cancels";
/** wait=N, RFC 7240 section 4.3. */
export declare const HEADER_PREFER = "Prefer";
/** true or false, whenever the key was honoured. */
export declare const HEADER_REPLAYED = "Idempotent-Replayed";
/** The code of a refusal, whatever its body. */
export declare const HEADER_CODE = "Idempotency-Code";
/** true or false, on every answer that is not 2xx. */
export declare const HEADER_SHOULD_RETRY = "Idempotency-Should-Retry";
export declare const HEADER_X_SHOULD_RETRY = "X-Should-Retry";
export declare const HEADER_RETRY_AFTER = "Retry-After";
export declare const HEADER_RETRY_AFTER_MS = "Retry-After-Ms";
/** On the answer to an undo: ran, never-ran or maybe-ran. */
export declare const HEADER_FORWARD = "Idempotent-Forward";
/** Returns true or false if the header has one line that says so, else undefined. */
export declare function flag(headers: Headers, name: string): boolean | undefined;
/** Returns the first line of a header whose lines have no comma; '' if there is none. */
export declare function first(headers: Headers, name: string): string;
/**
 * Returns how many milliseconds an answer asks to wait; 0 if it asks for nothing that can be read.
 *
 * `now` is the time since 1970 in milliseconds, for a date without a Date header. Retry-After-Ms counts like
 * Retry-After, and replaces it where it is the same wait before it was rounded up. The longest of several lines counts.
 */
export declare function retryAfter(headers: Headers, now?: number): number;
