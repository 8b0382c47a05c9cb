// The headers of the wire (childkey/wire/SPEC.md), and how they are read.

// Request headers.
export const HEADER_KEY = 'Idempotency-Key';
/** RFC 3339, UTC; optional. */
export const HEADER_FIRST_SENT = 'Idempotency-First-Sent';
/** On an undo: the forward key. */
export const HEADER_CANCELS = 'Idempotency-Cancels';
/** wait=N, RFC 7240 section 4.3. */
export const HEADER_PREFER = 'Prefer';

// Response headers.
/** true or false, whenever the key was honoured. */
export const HEADER_REPLAYED = 'Idempotent-Replayed';
/** The code of a refusal, whatever its body. */
export const HEADER_CODE = 'Idempotency-Code';
/** true or false, on every answer that is not 2xx. */
export const HEADER_SHOULD_RETRY = 'Idempotency-Should-Retry';
export const HEADER_X_SHOULD_RETRY = 'X-Should-Retry';
export const HEADER_RETRY_AFTER = 'Retry-After';
export const HEADER_RETRY_AFTER_MS = 'Retry-After-Ms';
/** On the answer to an undo: ran, never-ran or maybe-ran. */
export const HEADER_FORWARD = 'Idempotent-Forward';

/** Returns true or false if the header has one line that says so, else undefined. */
export function flag(headers: Headers, name: string): boolean | undefined {
  const text = headers.get(name)?.toLowerCase();
  return text === 'true' || text === '?1' ? true : text === 'false' || text === '?0' ? false : undefined;
}

/** Returns the first line of a header whose lines have no comma; '' if there is none. */
export function first(headers: Headers, name: string): string {
  return lines(headers, name)[0] ?? '';
}

// lines returns the values of a header, which Headers joins with commas. A date has a comma of its own, before its day.
function lines(headers: Headers, name: string): string[] {
  const text = headers.get(name);
  return text === null ? [] : text.split(/,(?![ \t]*[0-9]{1,2}[ -][A-Za-z]{3}[ -][0-9])/).map((line) => line.trim());
}

/**
 * Returns how many milliseconds an answer asks to wait; 0 if it asks for nothing that can be read.
 *
 * `now` is the time since 1970 in milliseconds, for a date without a Date header. Retry-After-Ms counts like
 * Retry-After, and replaces it where it is the same wait before it was rounded up. The longest of several lines counts.
 */
export function retryAfter(headers: Headers, now: number = Date.now()): number {
  const wait = longest(lines(headers, HEADER_RETRY_AFTER).map((line) => whole(line, 1000) ?? until(line, headers, now)));
  const finer = longest([HEADER_RETRY_AFTER_MS, 'X-Ms-Retry-After-Ms'].flatMap((name) => lines(headers, name).map((line) => whole(line, 1))));
  if (finer !== undefined && wait !== undefined && finer <= wait && wait - finer < 1000) {
    return finer;
  }
  return Math.max(wait ?? 0, finer ?? 0);
}

function longest(waits: (number | undefined)[]): number | undefined {
  const known = waits.filter((wait) => wait !== undefined);
  return known.length === 0 ? undefined : Math.max(...known);
}

function whole(text: string, unit: number): number | undefined {
  const found = /^([0-9]+)(?:\.([0-9]+))?$/.exec(text); // a fraction is rounded up
  return found === null ? undefined : (Number(found[1]) + (/[1-9]/.test(found[2] ?? '') ? 1 : 0)) * unit;
}

function until(line: string, headers: Headers, now: number): number | undefined {
  const at = httpDate(line);
  return at === undefined ? undefined : Math.max(at - (httpDate(headers.get('Date') ?? '') ?? now), 0);
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const MONTH = `(?<month>${MONTHS.join('|')})`;
const CLOCK = '(?<h>[0-9]{1,2}):(?<m>[0-9]{2}):(?<s>[0-9]{2}(?:[.][0-9]+)?)';
const DAY = '(?:mon|tue|wed|thu|fri|sat|sun)';
const LONG_DAY = '(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)';

// The three forms of a date (RFC 9110 section 5.6.7), and what servers write for GMT. Date.parse takes many more.
const DATES = [
  new RegExp(`^${DAY}, +(?<day>[0-9]{1,2}) +${MONTH} +(?<year>[0-9]{4}) +${CLOCK} +(?:GMT|UTC|(?<zone>[+-][0-9]{4}))$`, 'i'),
  new RegExp(`^${LONG_DAY}, +(?<day>[0-9]{2})-${MONTH}-(?<year>[0-9]{2}) +${CLOCK} +GMT$`, 'i'),
  new RegExp(`^${DAY} +${MONTH} +(?<day>[0-9]{1,2}) +${CLOCK} +(?<year>[0-9]{4})$`, 'i'),
];

// httpDate returns the milliseconds since 1970 of an HTTP date; undefined if text is not one.
function httpDate(text: string): number | undefined {
  const found = DATES.map((form) => form.exec(text)?.groups).find((groups) => groups !== undefined);
  if (found === undefined) {
    return undefined;
  }
  const [day, h, m, s] = [Number(found.day), Number(found.h), Number(found.m), Number(found.s)];
  const zone = Number(found.zone ?? 0); // as +0130
  if (h > 23 || m > 59 || s >= 60 || Math.abs(zone) >= 2500 || Math.abs(zone % 100) > 60) {
    return undefined;
  }
  const year = found.year!.length === 2 ? Number(found.year) + (Number(found.year) >= 69 ? 1900 : 2000) : Number(found.year);
  const date = new Date(0);
  date.setUTCFullYear(year, MONTHS.indexOf(found.month!.toLowerCase()), day);
  if (date.getUTCDate() !== day) { // a month without such a day
    return undefined;
  }
  return date.setUTCHours(h, m, 0, s * 1000) - (Math.trunc(zone / 100) * 60 + zone % 100) * 60_000;
}
