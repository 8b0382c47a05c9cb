// The bytes of a tuple, and the text of its hash (childkey/SPEC.md).

import { type Bytes, concat } from './sha256.js';

/** How the hash of a child key becomes its text. The default is hex32; the callee's API may take only another one. */
export type Encoding = 'hex32' | 'hex64' | 'base64url22' | 'base64url43' | 'uuid8' | 'uuid4';

/** The encodings. */
export const ENCODINGS: readonly Encoding[] = Object.freeze(['hex32', 'hex64', 'base64url22', 'base64url43', 'uuid8', 'uuid4'] as const);

const encoder = new TextEncoder();

/** Returns the UTF-8 of text. Text is well-formed: a lone surrogate has no bytes. */
export function utf8(text: string): Bytes {
  return encoder.encode(text);
}

/** Returns the items as netstrings. A length counts bytes, not UTF-16 units. */
export function netstrings(...items: (string | Uint8Array)[]): Bytes {
  return concat(items.flatMap((item) => {
    const bytes = typeof item === 'string' ? utf8(item) : item;
    return [utf8(`${bytes.length}:`), bytes, utf8(',')];
  }));
}

/** Returns the text of a hash. */
export function encode(encoding: Encoding, hash: Uint8Array): string {
  const part = encoding === 'hex64' || encoding === 'base64url43' ? hash : hash.slice(0, 16);
  switch (encoding) {
    case 'hex32':
    case 'hex64':
      return hex(part);
    case 'base64url22':
    case 'base64url43':
      return btoa(String.fromCharCode(...part)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
    default:
      return uuid(part, encoding === 'uuid8' ? 8 : 4);
  }
}

/** Returns bytes in lower-case hex. */
export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
}

/** Returns 16 bytes as a UUID of the version (RFC 9562). */
export function uuid(bytes: Uint8Array, version: number): string {
  const b = Uint8Array.from(bytes);
  b[6] = (b[6]! & 0x0f) | (version << 4);
  b[8] = (b[8]! & 0x3f) | 0x80;
  return hex(b).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
