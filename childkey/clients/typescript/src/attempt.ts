// One attempt: the request is sent, and its answer read to the end, within a time.

import { onAbort } from './abort.js';
import type { Call } from './call.js';
import { MAX_MS } from './check.js';
import type { SendOnce } from './config.js';
import { AttemptCancelledError, AttemptTimeoutError, TruncatedError } from './failure.js';
import type { Bytes } from './sha256.js';
import { concat } from './sha256.js';

/** A complete answer. `cut` says that the body goes on behind the bytes that were read. */
export interface Answer {
  readonly response: Response;
  readonly body: Bytes;
  readonly cut: boolean;
}

/** Sends a call once. It ends by its time and by the caller's signal, even if fetch heeds neither. */
export async function attempt(send: SendOnce, call: Call, ms: number, maxBytes: number): Promise<Answer> {
  const controller = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let forget: (() => void) | undefined;
  const ended = new Promise<never>((_, reject) => {
    const end = (error: Error): void => {
      reject(error); // before abort, whose own error says less
      controller.abort(error);
    };
    timer = setTimeout(() => end(new AttemptTimeoutError(`no answer in ${Math.round(ms)} ms`)), Math.min(ms, MAX_MS));
    forget = onAbort(call.signal, () => end(new AttemptCancelledError('cancelled', { cause: call.signal?.reason })));
  });
  const answer = exchange(send, call, controller.signal, maxBytes);
  answer.catch(() => undefined); // it may fail after the race
  try {
    return await Promise.race([ended, answer]);
  } finally {
    clearTimeout(timer);
    forget?.();
  }
}

async function exchange(send: SendOnce, call: Call, signal: AbortSignal, maxBytes: number): Promise<Answer> {
  // Each attempt gets copies: fetch may keep or change what it is given.
  const { body } = call;
  const response = await send(call.url, {
    ...call.init, method: call.method, headers: new Headers(call.headers), redirect: 'manual', signal, ...(body && { body: body.slice() }),
  });
  try {
    return { response, ...(await read(response, maxBytes)) };
  } catch (error) {
    throw new TruncatedError('the answer was cut off', { cause: error });
  }
}

async function read(response: Response, maxBytes: number): Promise<{ body: Bytes; cut: boolean }> {
  const reader = response.body?.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  while (reader !== undefined) {
    const { done, value } = await reader.read();
    if (done) {
      break;
    }
    if (!ArrayBuffer.isView(value)) { // a Response of your own fetch may have any stream
      throw new TypeError('the body is not bytes');
    }
    chunks.push(value);
    size += value.length;
    if (size > maxBytes) {
      reader.cancel().catch(() => undefined); // the rest is not wanted
      return { body: concat(chunks).slice(0, maxBytes), cut: true };
    }
  }
  return { body: concat(chunks), cut: false };
}
