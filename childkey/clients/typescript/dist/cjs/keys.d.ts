import { type Encoding } from './encoding.js';
import { type Text } from './input.js';
/**
 * Returns the key that text spells, bare (`k-1`) or as a structured-field string (`"k-1"`): both are one key.
 *
 * A key is 1 to 255 bytes of 0x21-0x7E without `"`, `,` and `\`. Nothing is trimmed or cut off.
 *
 * @throws {InputError} empty, too-long or bad-key.
 */
export declare function parse(text: string): string;
/** Returns the key as a structured-field string: the value of {@link HEADER_KEY}. @throws {InputError} */
export declare function quoted(key: string): string;
/** There is no source of secure random numbers. */
export declare class NoRandomError extends Error {
    readonly name = "NoRandomError";
}
/**
 * Returns a random key, a UUIDv4. Make one per intent, and keep it before the first call goes out.
 *
 * @throws {NoRandomError} without `crypto.getRandomValues`. No weaker source replaces it: a key that two intents share
 * loses the second one.
 */
export declare function newKey(): string;
/** Returns the first 8 bytes of the key's SHA-256 in hex. Log it instead of the key. @throws {InputError} */
export declare function digest(key: string): string;
/**
 * Returns the child key for the call to operation on service on behalf of parent: SHA-256 of the tuple in
 * childkey/SPEC.md, as hex32.
 *
 * Retries, restarts and other languages get the same key. Discriminators tell several calls of one operation apart.
 * There are at most 8, of 1 to 256 bytes each.
 *
 * @throws {InputError}
 */
export declare function derive(parent: string, service: string, operation: string, ...discriminators: Text[]): string;
/** Is {@link derive} with another encoding, for a callee that takes only UUIDs, say. @throws {InputError} */
export declare function deriveAs(encoding: Encoding, parent: string, service: string, operation: string, ...discriminators: Text[]): string;
/**
 * Returns the parent key of an intent that has a business id, such as `fromParts('checkout', 'order-42')`.
 * There are 1 to 8 parts, of 1 to 256 bytes each.
 *
 * @throws {InputError}
 */
export declare function fromParts(namespace: string, ...parts: Text[]): string;
/**
 * Returns the hop key: the parent of the calls that a service makes for a request with this key.
 *
 * `scope` is the authenticated caller: at most 1024 bytes of UTF-8 without NUL. `namespace` is that of the service,
 * mostly empty.
 *
 * @throws {InputError}
 */
export declare function hop(scope: Text, namespace: string, key: string): string;
/**
 * Returns the first 32 hex digits of SHA-256("parent:service:operation"), for stores with keys of that form.
 *
 * @throws {InputError} bad-key, too, if the parent has a colon.
 */
export declare function legacy(parent: string, service: string, operation: string): string;
/**
 * Derives child keys with a secret (HMAC-SHA-256), for callees that must not compute the siblings of a key.
 *
 * `kid` names the secret, which has at least 16 bytes. The secret is copied, and never printed.
 */
export declare class Keyed {
    #private;
    readonly kid: string;
    /** @throws {InputError} */
    constructor(kid: string, secret: Uint8Array);
    /** Is the function {@link derive} with the secret. @throws {InputError} */
    derive(parent: string, service: string, operation: string, ...discriminators: Text[]): string;
    /** Is the function {@link deriveAs} with the secret. @throws {InputError} */
    deriveAs(encoding: Encoding, parent: string, service: string, operation: string, ...discriminators: Text[]): string;
}
