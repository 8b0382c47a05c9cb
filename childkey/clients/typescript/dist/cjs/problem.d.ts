/** The body of a refusal by an idempotency layer (RFC 9457). */
export interface Problem {
    readonly type: string;
    readonly title: string;
    readonly status: number;
    readonly detail: string;
    readonly instance: string;
    readonly code: string;
    readonly retryable: boolean;
    readonly retryAfterMs: number;
}
/**
 * Returns the problem of an idempotency layer in an answer. It returns undefined if the service or a proxy wrote the
 * answer.
 */
export declare function parseProblem(contentType: string, body: string | Uint8Array): Problem | undefined;
/** Returns the code and the detail of an answer that is not the idempotency layer's; '' where it has none. */
export declare function readForeign(contentType: string, body: Uint8Array): {
    code: string;
    detail: string;
};
/** Returns text without control characters, cut to 1 KiB of UTF-8. */
export declare function clean(text: string): string;
