import { type Encoding } from './encoding.js';
import type { Bytes } from './sha256.js';
/** Why an input was refused. */
export type InputReason = 'empty' | 'too-long' | 'too-many' | 'bad-key' | 'bad-name' | 'bad-scope' | 'bad-encoding' | 'bad-secret';
/** An input that no key can be made of. Its message holds no key, secret or discriminator. */
export declare class InputError extends Error {
    readonly name = "InputError";
    readonly reason: InputReason;
    constructor(reason: InputReason, detail: string);
}
/** A discriminator, a part or a scope. A string counts as its UTF-8. */
export type Text = string | Uint8Array;
/** Returns the bytes of text, a copy. */
export declare function bytesOf(text: unknown, what: string, reason: InputReason): Bytes;
/** Returns the bare form of a key. */
export declare function checkKey(text: unknown, what?: string): string;
/** Checks the name of a service, an operation, a namespace of parents or a secret. */
export declare function checkName(what: string, name: unknown): void;
/** Returns the bytes of the discriminators or parts of a key. */
export declare function checkList(what: string, items: readonly Text[]): Bytes[];
/** Returns the bytes of the scope of a hop key. */
export declare function checkScope(scope: Text): Bytes;
/** Checks the namespace of a hop key. It may be empty. */
export declare function checkNamespace(namespace: string): void;
/** Checks the name of an encoding. */
export declare function checkEncoding(encoding: Encoding): void;
/** Returns a copy of a secret. */
export declare function checkSecret(secret: Uint8Array): Bytes;
