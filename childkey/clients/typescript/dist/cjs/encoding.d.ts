import { type Bytes } from './sha256.js';
/** How the hash of a child key becomes its text. The default is hex32; the callee's API may take only another one. */
export type Encoding = 'hex32' | 'hex64' | 'base64url22' | 'base64url43' | 'uuid8' | 'uuid4';
/** The encodings. */
export declare const ENCODINGS: readonly Encoding[];
/** Returns the UTF-8 of text. Text is well-formed: a lone surrogate has no bytes. */
export declare function utf8(text: string): Bytes;
/** Returns the items as netstrings. A length counts bytes, not UTF-16 units. */
export declare function netstrings(...items: (string | Uint8Array)[]): Bytes;
/** Returns the text of a hash. */
export declare function encode(encoding: Encoding, hash: Uint8Array): string;
/** Returns bytes in lower-case hex. */
export declare function hex(bytes: Uint8Array): string;
/** Returns 16 bytes as a UUID of the version (RFC 9562). */
export declare function uuid(bytes: Uint8Array, version: number): string;
