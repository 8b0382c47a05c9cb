// A call before it is made: everything is read, copied and checked once, so that every attempt is the same request.

import { checkNumber, InvalidCallError, MAX_MS } from './check.js';
import { HEADER_KEY } from './headers.js';
import { checkKey } from './input.js';
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

const IDEMPOTENT: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']);
const BODIES: ReadonlySet<string> = new Set(['ArrayBuffer', 'Blob', 'File', 'FormData', 'URLSearchParams']);

/** Reads a call. @throws {InputError} of its key. @throws {InvalidCallError} @throws {ConfigError} of its timeout. */
export async function freeze(input: string | URL | Request, init: RetryInit): Promise<Call> {
  const { key, json, timeout, service, resumed = false, signal, redirect, method, headers, body, ...rest } = init;
  if (timeout !== undefined) {
    checkNumber('timeout', timeout, { above: 0, most: MAX_MS });
  }
  if (redirect !== undefined && redirect !== 'manual') {
    throw new InvalidCallError('redirect: want manual, since redirects are not followed');
  }
  const url = urlOf(input);
  const request = requestOf(typeof input === 'string' || input instanceof URL ? url.href : input, {
    ...rest, ...(method === undefined ? {} : { method }), ...(headers === undefined ? {} : { headers }), ...bodyOf(body, json),
  });
  const given = headers ?? (input instanceof Request ? input.headers : undefined);
  if (json !== undefined && !new Headers(given).has('Content-Type')) {
    request.headers.set('Content-Type', 'application/json');
  }
  const text = keyOf(request, key);
  const bytes = await bytesOf(request);
  const has = bytes.length > 0 || (body !== undefined && body !== null);
  return {
    url: url.href, service: service ?? url.host, key: text, method: request.method, headers: request.headers, body: has ? bytes : undefined,
    init: input instanceof Request ? { ...modesOf(input), ...rest } : rest, signal: signalOf(input, signal), resumed, timeout, safe: text !== '' || IDEMPOTENT.has(request.method),
  };
}

// urlOf returns the address of a call. On a page it may be relative.
function urlOf(input: string | URL | Request): URL {
  const page = (globalThis as { location?: { href?: string } }).location?.href;
  let url: URL;
  try {
    url = new URL(input instanceof Request ? input.url : String(input), page);
  } catch {
    throw new InvalidCallError('url: want an absolute http or https URL'); // without the cause, which repeats the URL
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new InvalidCallError('url: want an absolute http or https URL');
  }
  if (url.username !== '' || url.password !== '') {
    throw new InvalidCallError('url: fetch takes no URL with a user name or password');
  }
  return url;
}

function signalOf(input: string | URL | Request, signal: AbortSignal | null | undefined): AbortSignal | undefined {
  if (signal === undefined) {
    return input instanceof Request ? input.signal : undefined;
  }
  if (signal !== null && (typeof signal.aborted !== 'boolean' || typeof signal.addEventListener !== 'function')) {
    throw new InvalidCallError('signal: want an AbortSignal');
  }
  return signal ?? undefined;
}

// requestOf has the platform check what only it knows: methods, headers, modes.
function requestOf(input: string | Request, init: RequestInit): Request {
  let request: Request;
  try {
    request = new Request(input, init);
  } catch (error) {
    throw new InvalidCallError('fetch takes no such request', { cause: error });
  }
  if (request.mode === 'no-cors') {
    throw new InvalidCallError('mode: no-cors sends no key and shows no answer');
  }
  return request;
}

// bodyOf refuses what would be another body for each attempt, or "[object Object]".
function bodyOf(body: unknown, json: unknown): RequestInit {
  if (json !== undefined) {
    if (body !== undefined) {
      throw new InvalidCallError('json: there is a body, too');
    }
    return { body: stringify(json) };
  }
  if (body === undefined || body === null) {
    return {};
  }
  const kind = Object.prototype.toString.call(body).slice(8, -1);
  if (typeof body === 'string' || ArrayBuffer.isView(body) || BODIES.has(kind)) {
    return { body: body as BodyInit };
  }
  if (kind === 'ReadableStream') {
    throw new InvalidCallError('body: a stream cannot be sent twice');
  }
  throw new InvalidCallError('body: want a string, bytes, Blob, FormData or URLSearchParams');
}

function stringify(json: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(json, refuseNonFinite);
  } catch (error) {
    throw new InvalidCallError('json: it cannot be encoded', { cause: error });
  }
  if (text === undefined) {
    throw new InvalidCallError('json: it cannot be encoded');
  }
  return text;
}

// refuseNonFinite refuses a number that JSON does not have: JSON.stringify would send null in its place.
function refuseNonFinite(_: string, value: unknown): unknown {
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new RangeError(`${value} is not JSON`);
  }
  return value;
}

// keyOf puts the key into the headers of the request, and returns its bare form; '' if there is none.
function keyOf(request: Request, key: string | undefined): string {
  const given = request.headers.get(HEADER_KEY);
  if (key !== undefined && given !== null) {
    throw new InvalidCallError('headers: the key is given twice');
  }
  if (key === undefined && given === null) {
    return '';
  }
  const bare = checkKey(key ?? given);
  request.headers.set(HEADER_KEY, `"${bare}"`);
  return bare;
}

async function bytesOf(request: Request): Promise<Bytes> {
  try {
    return new Uint8Array(await request.arrayBuffer());
  } catch (error) {
    throw new InvalidCallError('body: it could not be read', { cause: error });
  }
}

function modesOf({ cache, credentials, integrity, keepalive, mode, referrer, referrerPolicy }: Request): RequestInit {
  return { cache, credentials, integrity, keepalive, mode, referrer, referrerPolicy };
}
