/** Bytes of an own buffer: Uint8Array, with a parameter where TypeScript has one. */
export type Bytes = ReturnType<Uint8Array['slice']>;
/** Returns the SHA-256 hash of data: 32 bytes. */
export declare function sha256(data: Uint8Array): Bytes;
/** Returns the HMAC-SHA-256 of data under secret: 32 bytes. */
export declare function hmacSha256(secret: Uint8Array, data: Uint8Array): Bytes;
/** Returns the parts, one after the other. */
export declare function concat(parts: Uint8Array[]): Bytes;
