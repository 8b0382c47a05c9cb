// The body of an answer that is not a success: who refused the call, and why.

import { utf8 } from './encoding.js';
import { CODES } from './table.js';

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

const TYPE_PREFIX = 'https://fanonce.dev/problems/';
const PROBLEM = 'application/problem+json';
const MAX_PROBLEM_BYTES = 16 << 10;
const MAX_TEXT_BYTES = 1 << 10;

type Members = Record<string, unknown>;

/**
 * Returns the problem of an idempotency layer in an answer. It returns undefined if the service or a proxy wrote the
 * answer.
 */
export function parseProblem(contentType: string, body: string | Uint8Array): Problem | undefined {
  const members = mediaType(contentType) === PROBLEM ? jsonObject(typeof body === 'string' ? utf8(body) : body) : undefined;
  if (members === undefined) {
    return undefined;
  }
  const text = (name: string): string => (typeof members[name] === 'string' ? members[name] : '');
  const number = (name: string): number => (Number.isInteger(members[name]) ? (members[name] as number) : 0);
  const code = text('code');
  if (!CODES.has(code) || text('type') !== TYPE_PREFIX + code) {
    return undefined;
  }
  return {
    type: text('type'), title: text('title'), status: number('status'), detail: text('detail'), instance: text('instance'), code,
    retryable: members.retryable === true, retryAfterMs: number('retry_after_ms'),
  };
}

/** Returns the code and the detail of an answer that is not the idempotency layer's; '' where it has none. */
export function readForeign(contentType: string, body: Uint8Array): { code: string; detail: string } {
  const media = mediaType(contentType);
  if (media === 'text/plain') {
    return { code: '', detail: new TextDecoder().decode(body).trim() };
  }
  const members = jsonObject(body);
  if (members === undefined) {
    return { code: '', detail: '' };
  }
  if (media === PROBLEM) {
    return { code: textOf(members, ['code']), detail: textOf(members, ['detail']) };
  }
  const inner = [members.error, Array.isArray(members.errors) ? members.errors[0] : undefined].find(isObject);
  if (inner !== undefined) {
    return { code: codeOf(inner, ['code', 'error_code', 'errorCode', 'status', 'type']), detail: detailOf(inner) };
  }
  const code = codeOf(members, ['code', 'error_code', 'errorCode']);
  const error = typeof members.error === 'string' ? members.error : '';
  const sentence = /[ \t\n]/.test(error); // for people, as the name of a status
  return { code: code || (sentence ? '' : error), detail: detailOf(members) || (sentence ? error : '') };
}

/** Returns text without control characters, cut to 1 KiB of UTF-8. */
export function clean(text: string): string {
  const bytes = utf8(text.replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ')).subarray(0, MAX_TEXT_BYTES);
  return new TextDecoder().decode(bytes, { stream: true }); // a stream leaves out a character that is cut in two
}

function mediaType(contentType: string): string {
  return contentType.split(';', 1)[0]!.trim().toLowerCase();
}

function jsonObject(body: Uint8Array): Members | undefined {
  if (body.length > MAX_PROBLEM_BYTES) {
    return undefined;
  }
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOf(members: Members, names: string[]): string {
  return names.map((name) => members[name]).find((value) => typeof value === 'string' && value !== '') as string | undefined ?? '';
}

function codeOf(members: Members, names: string[]): string {
  return textOf(members, names) || String(names.map((name) => members[name]).find((value) => typeof value === 'number') ?? '');
}

function detailOf(members: Members): string {
  return textOf(members, ['detail', 'message', 'error_description', 'errorMessage', 'title']);
}
