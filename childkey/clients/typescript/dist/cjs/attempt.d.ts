import type { Call } from './call.js';
import type { SendOnce } from './config.js';
import type { Bytes } from './sha256.js';
/** A complete answer. `cut` says that the body goes on behind the bytes that were read. */
export interface Answer {
    readonly response: Response;
    readonly body: Bytes;
    readonly cut: boolean;
}
/** Sends a call once. It ends by its time and by the caller's signal, even if fetch heeds neither. */
export declare function attempt(send: SendOnce, call: Call, ms: number, maxBytes: number): Promise<Answer>;
