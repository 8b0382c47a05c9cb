// Calls: the table of all languages, bad input, and what a call does with its request, its signal and its answer.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { inspect } from 'node:util';

import { Budget, ConfigError, createFetch, digest, InputError, InvalidCallError, parseProblem, retryAfter, RetryError, UnsentError } from 'fanonce';
import { checkCalls, script } from './cases.js';

const URL_A = 'http://a.test/charges';
const slept = { guarded: false, random: () => 0, sleep: async () => {} };
const over = (steps, requests = [], options = {}) => createFetch({ fetch: script(steps, requests), ...slept, ...options });

async function failure(promise) {
  try {
    await promise;
  } catch (e) {
    assert.ok(e instanceof RetryError, inspect(e));
    return e;
  }
  assert.fail('the call did not fail');
}

test('every call of the table', async () => {
  const calls = JSON.parse(readFileSync(new URL('../../../../retry/testdata/calls.json', import.meta.url), 'utf8'));
  assert.ok(calls.length > 900, `${calls.length} calls`);
  assert.deepEqual(await checkCalls(calls), []);
});

test('bad calls are not sent', async () => {
  const requests = [];
  const send = over([{ status: 200 }], requests);
  const post = (init, url = URL_A) => [url, { method: 'POST', ...init }];
  const cyclic = {};
  cyclic.self = cyclic;
  const used = new Request(URL_A, { method: 'POST', body: 'x' });
  await used.text();
  for (const [kind, [url, init]] of [
    [InputError, post({ key: 'a b' })],
    [InputError, post({ key: '' })],
    [InputError, post({ key: null })],
    [InputError, post({ key: 7 })],
    [InputError, post({ headers: { 'idempotency-key': 'k'.repeat(256) } })],
    [InputError, post({ headers: [['Idempotency-Key', 'a'], ['Idempotency-Key', 'b']] })],
    [InvalidCallError, post({ key: 'k', headers: { 'Idempotency-Key': 'k' } })],
    [InvalidCallError, post({ key: 'k', mode: 'no-cors' })],
    [InvalidCallError, [URL_A, { method: 'PO ST' }]],
    [InvalidCallError, [URL_A, { method: 'CONNECT' }]],
    [InvalidCallError, [URL_A, { method: 'GET', body: 'x' }]],
    [InvalidCallError, post({}, 'ftp://a/')],
    [InvalidCallError, post({}, 'http://')],
    [InvalidCallError, post({}, 'http://a:99999/')],
    [InvalidCallError, post({}, '/relative?secret')],
    [InvalidCallError, post({}, 'http://user:secret@a/')],
    [InvalidCallError, post({}, null)],
    [InvalidCallError, post({}, {})],
    [InvalidCallError, [used, {}]],
    [InvalidCallError, post({ headers: { X: 'a\r\nb' } })],
    [InvalidCallError, post({ headers: { 'X Y': 'a' } })],
    [InvalidCallError, post({ headers: { X: '\u20ac' } })],
    [InvalidCallError, post({ body: new ReadableStream(), duplex: 'half' })],
    [InvalidCallError, post({ body: (async function* () {})() })],
    [InvalidCallError, post({ body: { cents: 500 } })],
    [InvalidCallError, post({ body: 7 })],
    [InvalidCallError, post({ json: 1, body: 'x' })],
    [InvalidCallError, post({ json: cyclic })],
    [InvalidCallError, post({ json: 1n })],
    [InvalidCallError, post({ json: () => 1 })],
    [InvalidCallError, post({ json: NaN })],
    [InvalidCallError, post({ json: { cents: Infinity } })],
    [InvalidCallError, post({ json: [[-Infinity]] })],
    [InvalidCallError, post({ redirect: 'follow' })],
    [InvalidCallError, post({ signal: {} })],
    [ConfigError, post({ timeout: -1 })],
    [ConfigError, post({ timeout: NaN })],
    [ConfigError, post({ timeout: 2 ** 31 })],
    [ConfigError, post({ timeout: '5' })],
  ]) {
    await assert.rejects(send(url, init), (e) => e instanceof kind && !inspect(e.message).includes('secret'), `${inspect(url)} ${inspect(init)}`);
  }
  assert.equal(requests.length, 0);
});

test('bad configuration', () => {
  for (const options of [
    { maxAttempts: 0 }, { maxAttempts: 1.5 }, { maxAttempts: '3' }, { maxPolls: -1 }, { timeout: 0 }, { timeout: NaN }, { timeout: Infinity },
    { timeout: 2 ** 31 }, { retryAfterCap: -1 }, { attemptTimeout: -1 }, { maxResponseBytes: 0 }, { maxAttempt: 3 },
    { backoff: { base: 0 } }, { backoff: { base: 100, cap: 10 } }, { backoff: { jitter: 1.1 } }, { poll: { jitter: 0 } }, { poll: { bases: 1 } },
    { budget: {} }, { guarded: 'no' }, { fetch: 'fetch' }, { sleep: 5 }, null, 'options',
  ]) {
    assert.throws(() => createFetch(options), ConfigError, inspect(options));
  }
  for (const options of [{ ratio: 0 }, { ratio: 1.1 }, { reserve: 0.5 }, { refill: -1 }, { refil: 1 }]) {
    assert.throws(() => new Budget(options), ConfigError, inspect(options));
  }
  for (const options of [ // no default refuses a setting
    { backoff: { base: 60_000 }, poll: {}, attemptTimeout: undefined }, { backoff: { cap: 1 }, poll: { cap: 1 } }, { timeout: 1 },
    { attemptTimeout: 60_000 }, { timeout: 1000, attemptTimeout: 1000 }, { budget: new Budget({ reserve: Infinity }) },
  ]) {
    createFetch(options);
  }
});

test('each attempt is the same request', async () => {
  const requests = [];
  const bytes = new TextEncoder().encode('body');
  const headers = new Headers({ 'X-Trace': 'a' });
  const scribble = script([{ status: 503 }, { status: 503 }, { status: 201 }], requests);
  const send = createFetch({ guarded: false,
    ...slept,
    async fetch(url, init) {
      const answer = await scribble(url, init);
      init.headers.set('Idempotency-Key', 'other');
      init.headers.set('X-Trace', 'changed');
      init.body.fill(0);
      bytes.fill(0);
      headers.set('X-Trace', 'changed');
      requests.at(-1).trace = new Headers(init.headers).get('X-Trace');
      return answer;
    },
  });
  const got = await send(new URL(URL_A), { method: 'put', key: 'k-1', body: bytes, headers, credentials: 'include', dispatcher: undefined });
  assert.deepEqual([got.status, got.attempts], [201, 3]);
  assert.deepEqual(requests.map((r) => [r.url, r.method, r.key, r.body]), Array(3).fill([URL_A, 'PUT', '"k-1"', 'body']));
  assert.ok(requests.every((r) => r.init.redirect === 'manual' && r.init.credentials === 'include'));
});

test('every kind of body', async () => {
  const form = new FormData();
  form.set('a', '\u00e9');
  for (const [init, type, body] of [
    [{ body: 'x\u00e9' }, 'text/plain;charset=UTF-8', 'x\u00e9'],
    [{ body: '' }, 'text/plain;charset=UTF-8', ''],
    [{ body: new URLSearchParams({ a: '1' }) }, 'application/x-www-form-urlencoded;charset=UTF-8', 'a=1'],
    [{ body: new Blob(['b'], { type: 'text/x' }) }, 'text/x', 'b'],
    [{ body: new TextEncoder().encode('xby').subarray(1, 2) }, null, 'b'],
    [{ body: new TextEncoder().encode('ab').buffer }, null, 'ab'],
    [{ body: form }, /^multipart\/form-data; boundary=/, /name="a"\r\n\r\n\u00e9\r\n/],
    [{ json: { cents: 500 } }, 'application/json', '{"cents":500}'],
    [{ json: null }, 'application/json', 'null'],
    [{ json: 1, headers: { 'content-type': 'application/x+json' } }, 'application/x+json', '1'],
    [{ body: null }, null, undefined],
    [{}, null, undefined],
  ]) {
    const requests = [];
    await over([{ status: 503 }, { status: 200 }], requests)(URL_A, { method: 'POST', key: 'k', ...init });
    for (const r of requests) {
      const got = [r.init.headers.get('Content-Type'), r.body];
      [type, body].forEach((want, i) => (want instanceof RegExp ? assert.match(got[i], want) : assert.equal(got[i], want, inspect(init))));
    }
    assert.equal(requests[0].body, requests[1].body);
    assert.equal(requests[0].init.headers.get('Content-Type'), requests[1].init.headers.get('Content-Type'));
  }
});

test('a Request is sent as it is', async () => {
  const requests = [];
  const controller = new AbortController();
  const request = new Request(URL_A, {
    method: 'POST', body: 'b', headers: { 'Idempotency-Key': 'k-1', 'X-Trace': 't' }, credentials: 'omit', signal: controller.signal,
  });
  const got = await over([{ status: 503 }, { status: 200 }], requests)(request);
  assert.equal(got.attempts, 2);
  assert.deepEqual(requests.map((r) => [r.method, r.key, r.body, r.init.headers.get('X-Trace'), r.init.credentials]), Array(2).fill(['POST', '"k-1"', 'b', 't', 'omit']));
  controller.abort();
  const e = await failure(over([{ status: 503 }])(new Request(URL_A, { signal: controller.signal })));
  assert.deepEqual([e.reason, e.outcome, e.attempts], ['cancelled', 'NotSent', 0]);
});

test('a call without a key is not repeated after it may have arrived', async () => {
  for (const [method, attempts] of [['POST', 1], ['PATCH', 1], ['PUT', 3], ['DELETE', 3], ['GET', 3]]) {
    const requests = [];
    const e = await failure(over([{ failure: 'reset' }], requests, { maxAttempts: 3 })(URL_A, { method }));
    assert.deepEqual([e.outcome, e.attempts, e.retryable, e.key], ['Unknown', attempts, attempts === 3, ''], method);
  }
});

test('resumed', async () => {
  for (const [step, outcome] of [
    [{ failure: 'refused' }, 'Unknown'],
    [{ status: 400 }, 'Unknown'],
    [{ status: 422, header: [['Idempotency-Code', 'key-reused']] }, 'Unknown'],
    [{ status: 410, header: [['Idempotency-Code', 'key-cancelled']] }, 'Rejected'],
  ]) {
    const e = await failure(over([step], [], { maxAttempts: 1 })(URL_A, { method: 'POST', key: 'k', resumed: true }));
    assert.equal(e.outcome, outcome, inspect(step));
  }
});

test('Unknown is sticky, and so is its evidence', async () => {
  for (const last of [{ status: 429 }, { failure: 'refused' }, { failure: 'no-such-host' }]) {
    const e = await failure(over([{ failure: 'reset' }, last], [], { maxAttempts: 2 })(URL_A, { method: 'POST', key: 'k' }));
    assert.deepEqual([e.outcome, e.evidence, e.attempts], ['Unknown', 'the connection was reset', 2], inspect(last));
  }
  const doubted = await failure(over([{ failure: 'reset' }, { status: 400 }], [], { maxAttempts: 2, guarded: true })(URL_A, { method: 'POST', key: 'k' }));
  assert.deepEqual([doubted.outcome, doubted.attempts], ['Unknown', 2]);
  assert.match(doubted.evidence, /the connection was reset/);
  const e = await failure(over([{ status: 429 }, { failure: 'refused' }], [], { maxAttempts: 2 })(URL_A, { method: 'POST', key: 'k' }));
  assert.deepEqual([e.outcome, e.evidence], ['Rejected', '429: turned away']);
});

test('a code from the wire never finds a member of Object', async () => {
  for (const code of ['constructor', 'toString', '__proto__', 'hasOwnProperty']) {
    const e = await failure(over([{ status: 402, header: [['Idempotency-Code', code]] }])(URL_A, { method: 'POST', key: 'k' }));
    assert.deepEqual([e.outcome, e.attempts, e.code], ['Rejected', 1, ''], code);
  }
});

// An error of several tries proves that nothing was sent only if each of them does.
test('proofs that nothing was sent', async () => {
  const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED', syscall: 'connect' });
  const reset = Object.assign(new Error('reset'), { code: 'ECONNRESET', syscall: 'read' });
  const loop = new Error('loop');
  loop.cause = loop;
  for (const [thrown, outcome] of [
    [new TypeError('fetch failed', { cause: refused }), 'NotSent'],
    [new TypeError('fetch failed', { cause: Object.assign(new AggregateError([refused, refused]), { code: 'ECONNREFUSED' }) }), 'NotSent'],
    [new UnsentError('no connection', { cause: reset }), 'NotSent'],
    [new TypeError('fetch failed', { cause: Object.assign(new Error(), { code: 'UND_ERR_CONNECT_TIMEOUT' }) }), 'NotSent'],
    [new AggregateError([refused, reset]), 'Unknown'],
    [new AggregateError([]), 'Unknown'],
    [new AggregateError([null, refused]), 'Unknown'],
    [Object.assign(new Error(), { code: 'ECONNREFUSED', syscall: 'read' }), 'Unknown'],
    [Object.assign(new Error(), { code: 'EPROTO' }), 'Unknown'],
    [new TypeError('Failed to fetch'), 'Unknown'],
    [loop, 'Unknown'],
    ['a string', 'Unknown'],
    [undefined, 'Unknown'],
  ]) {
    const send = createFetch({ ...slept, maxAttempts: 1, fetch: async () => { throw thrown; } });
    const e = await failure(send(URL_A, { method: 'POST', key: 'k' }));
    assert.equal(e.outcome, outcome, inspect(thrown));
    assert.equal(e.cause, thrown);
  }
});

test('a hidden redirect is Unknown', async () => {
  const opaque = Object.defineProperties(new Response(), { status: { value: 0 }, ok: { value: false }, type: { value: 'opaqueredirect' } });
  const send = createFetch({ ...slept, fetch: async () => opaque });
  const e = await failure(send(URL_A, { method: 'POST', key: 'k' }));
  assert.deepEqual([e.outcome, e.attempts, e.status], ['Unknown', 1, 0]);
});

test('an error shows no key', async () => {
  const e = await failure(over([{ status: 402 }])(URL_A, { method: 'POST', key: 'secret-key' }));
  for (const text of [e.message, inspect(e), JSON.stringify(e)]) {
    assert.ok(!text.includes('secret-key'), text);
  }
  assert.ok(e.message.includes(digest('secret-key')));
  assert.equal(e.key, 'secret-key');
});

test('a body that is not bytes is no answer', async () => {
  const fetch = async () => new Response(new ReadableStream({ start(c) { c.enqueue('text'); c.close(); } }));
  const e = await failure(createFetch({ ...slept, maxAttempts: 2, fetch })(URL_A, { method: 'POST', key: 'k' }));
  assert.deepEqual([e.outcome, e.attempts, e.evidence], ['Unknown', 2, 'the answer was cut off']);
});

test('the answer can be read', async () => {
  const step = { status: 200, header: [['Content-Type', 'application/json'], ['Idempotent-Replayed', 'true']], body: '{"id":"ch_1"}' };
  const got = await over([step])(URL_A, { method: 'POST', key: 'k' });
  const copy = got.clone();
  assert.ok(got instanceof Response && got.ok);
  assert.deepEqual([got.attempts, got.replayed, copy.attempts, copy.replayed], [1, true, 1, true]);
  assert.deepEqual([await got.json(), await copy.json()], [{ id: 'ch_1' }, { id: 'ch_1' }]);
  for (const status of [204, 205]) {
    assert.equal(await (await over([{ status }])(URL_A, { key: 'k' })).text(), '');
  }
  const e = await failure(over([{ status: 402, body: 'no funds' }])(URL_A, { method: 'POST', key: 'k' }));
  assert.deepEqual([e.response.status, await e.response.clone().text(), await e.response.text()], [402, 'no funds', 'no funds']);
});

test('cancelled before, during and between attempts', async () => {
  const controller = new AbortController();
  const reason = new Error('the user left');
  const early = await failure(over([{ status: 503 }])(URL_A, { method: 'POST', key: 'k', signal: AbortSignal.abort(reason) }));
  assert.deepEqual([early.reason, early.outcome, early.attempts, early.retryable, early.cause], ['cancelled', 'NotSent', 0, true, reason]);
  // A fetch that heeds no signal.
  const silent = createFetch({ guarded: false, fetch: () => { controller.abort(reason); return new Promise(() => {}); } });
  const during = await failure(silent(URL_A, { method: 'POST', key: 'k', signal: controller.signal }));
  assert.deepEqual([during.reason, during.outcome, during.attempts, during.cause], ['cancelled', 'Unknown', 1, reason]);
  // The real timer of a wait that would take 30 s.
  const second = new AbortController();
  const begun = performance.now();
  const send = createFetch({ guarded: false,
    fetch: script([{ status: 429, header: [['Retry-After', '30']] }], []),
    random: () => { setTimeout(() => second.abort(reason), 0); return 0; }, // just before the wait begins
  });
  const between = await failure(send(URL_A, { method: 'POST', key: 'k', signal: second.signal }));
  assert.ok(performance.now() - begun < 20_000);
  assert.deepEqual([between.reason, between.outcome, between.attempts, between.cause], ['cancelled', 'Rejected', 1, reason]);
});

test('an aborted attempt that was answered counts as answered', async () => {
  const controller = new AbortController();
  const inner = script([{ status: 201 }], []);
  const send = createFetch({ guarded: false, fetch: async (url, init) => { const answer = await inner(url, init); controller.abort(); return answer; } });
  const e = await failure(send(URL_A, { method: 'POST', key: 'k', signal: controller.signal }));
  assert.deepEqual([e.reason, e.outcome], ['cancelled', 'Unknown'], 'its body was not read');
  const after = await createFetch({ guarded: false, fetch: inner })(URL_A, { method: 'POST', key: 'k', signal: new AbortController().signal });
  assert.equal(after.status, 201);
});

test('an attempt ends by its timeout, even of a fetch that heeds no signal', async () => {
  let signal;
  const send = createFetch({ maxAttempts: 1, timeout: 30, fetch: (_, init) => { signal = init.signal; return new Promise(() => {}); } });
  const e = await failure(send(URL_A, { method: 'POST', key: 'k' }));
  assert.deepEqual([e.outcome, e.attempts, e.evidence, signal.aborted], ['Unknown', 1, 'the attempt timed out', true]);
});

test('the shorter timeout of call and client counts', async () => {
  for (const [client, call] of [[30, 60_000], [60_000, 30]]) {
    const begun = performance.now();
    const e = await failure(createFetch({ timeout: client, fetch: () => new Promise(() => {}) })(URL_A, { method: 'POST', key: 'k', timeout: call }));
    assert.ok(performance.now() - begun < 20_000);
    assert.equal(e.reason, 'deadline');
  }
});

test('full jitter, and a Retry-After that is capped', async () => {
  const waits = [];
  let at = 0;
  const options = { clock: () => at, sleep: async (ms) => { waits.push(ms); at += ms; }, timeout: 1_000_000 };
  await failure(createFetch({ ...options, fetch: script([{ failure: 'reset' }], []), maxAttempts: 200, budget: new Budget({ reserve: 1000 }) })(URL_A, { key: 'k' }));
  assert.ok(waits.every((ms) => ms >= 1 && ms <= 5000), `${waits}`);
  assert.ok(waits.some((ms) => ms < 1500) && waits.some((ms) => ms > 3500), `${waits}`);
  for (const [header, cap, reason] of [['61', 60_000, 'retry-after'], ['61', 61_000, 'attempts'], ['3600', 60_000, 'retry-after']]) {
    const fetch = script([{ status: 503, header: [['Retry-After', header]] }], []);
    const e = await failure(createFetch({ ...options, fetch, retryAfterCap: cap, maxAttempts: 2 })(URL_A, { key: 'k' }));
    assert.deepEqual([e.reason, e.retryAfter, e.retryable], [reason, Number(header) * 1000, true]);
  }
});

test('a budget is per service, shared, and refilled', async () => {
  let at = 0;
  const budget = new Budget({ reserve: 1, refill: 0.001, ratio: 0.5 });
  const options = { clock: () => at, budget, maxAttempts: 3 };
  const down = () => over([{ status: 503 }], [], options);
  const ends = async (url, init) => (await failure(down()(url, { key: 'k', ...init }))).reason;
  assert.equal(await ends('http://a.test/'), 'budget');
  assert.equal((await failure(down()('http://a.test/', { key: 'k' }))).attempts, 1, 'it is shared');
  assert.equal((await failure(down()('http://b.test/', { key: 'k' }))).attempts, 2, 'another service has its own');
  assert.equal((await failure(down()('http://a.test/', { key: 'k', service: 'b.test' }))).attempts, 1, 'a call names its service');
  const up = over([{ status: 200 }], [], options);
  await up('http://a.test/', { key: 'k' });
  await up('http://a.test/', { key: 'k' });
  assert.equal((await failure(down()('http://a.test/', { key: 'k' }))).attempts, 2, 'two successes pay for a retry');
  at += 1_000_000;
  assert.equal((await failure(down()('http://a.test/', { key: 'k', timeout: 50_000 }))).attempts, 2, 'time pays, too');
});

// A service that refuses connections until it is back. It notes when requests came.
function restarting(down, at, came) {
  return async () => {
    if (at() < down) {
      throw new TypeError('fetch failed', { cause: Object.assign(new Error('refused'), { code: 'ECONNREFUSED', syscall: 'connect' }) });
    }
    came.push(at());
    return new Response('', { headers: { 'Idempotent-Replayed': 'false' } });
  };
}

test('every call outlasts a restart, and they do not come back all at once', async () => {
  for (const down of [300, 3000, 10_000]) {
    const budget = new Budget();
    budget.earn = () => {}; // the calls are made one after the other, but begin together
    const came = [];
    for (let i = 0; i < 200; i++) {
      let now = 0; // each has a clock of its own
      const options = { clock: () => now, sleep: async (ms) => { now += ms; }, budget, timeout: 30_000 };
      await createFetch({ ...options, fetch: restarting(down, () => now, came) })('http://a.test/', { method: 'POST', key: 'k' });
    }
    assert.equal(came.length, 200);
    const peak = Math.max(...came.map((at) => came.filter((other) => other >= at && other < at + 100).length));
    assert.ok(peak <= (2 * 200 / 5000) * 100, `${down} ms: ${peak}`);
  }
});

test('only a refused connection is free of the budget', async () => {
  for (const [failure, free] of [['refused', true], ['timeout', false], ['lookup', false], ['reset', false]]) {
    const budget = new Budget({ reserve: 1, refill: 0 });
    const error = await over([{ failure }], [], { budget, maxAttempts: 4 })('http://a.test/', { method: 'POST', key: 'k' }).catch((e) => e);
    assert.deepEqual([error.reason, error.attempts], free ? ['attempts', 4] : ['budget', 2], failure);
  }
});

test('Retry-After in several lines', () => {
  const now = Date.UTC(2026, 2, 1, 12);
  for (const [lines, want] of [
    [['1', '3', '2'], 3000],
    [['x', '2'], 2000],
    [['Sun, 01 Mar 2026 12:00:07 GMT', '5'], 7000],
    [['5', 'Sunday, 01-Mar-26 12:00:07 GMT'], 7000],
    [['Sun Mar  1 12:00:07 2026', '9'], 9000],
    [['Sun, 31 Feb 2026 12:00:00 GMT'], 0],
    [['Sun, 01 Mar 2026 25:00:00 GMT'], 0],
    [[], 0],
  ]) {
    assert.equal(retryAfter(new Headers(lines.map((line) => ['Retry-After', line])), now), want, inspect(lines));
  }
});

test('problems', () => {
  const ours = { type: 'https://fanonce.dev/problems/in-progress', code: 'in-progress', title: 't', status: 409, detail: 'd', retryable: true, retry_after_ms: 700 };
  const json = JSON.stringify(ours);
  assert.deepEqual(parseProblem('Application/Problem+JSON; charset=utf-8', json), {
    type: ours.type, code: 'in-progress', title: 't', status: 409, detail: 'd', instance: '', retryable: true, retryAfterMs: 700,
  });
  assert.deepEqual(parseProblem('application/problem+json', new TextEncoder().encode(json)), parseProblem('application/problem+json', json));
  for (const [contentType, body] of [
    ['application/json', json],
    ['', json],
    ['application/problem+json', `\ufeff${json}`],
    ['application/problem+json', JSON.stringify([ours])],
    ['application/problem+json', 'null'],
    ['application/problem+json', json.slice(1)],
    ['application/problem+json', JSON.stringify({ ...ours, pad: 'x'.repeat(16 << 10) })],
    ['application/problem+json', JSON.stringify({ ...ours, type: 'https://example.com/problems/in-progress' })],
    ['application/problem+json', JSON.stringify({ type: 'https://fanonce.dev/problems/toString', code: 'toString' })],
    ['application/problem+json', Uint8Array.of(0xff)],
  ]) {
    assert.equal(parseProblem(contentType, body), undefined, inspect(body));
  }
  const odd = JSON.stringify({ ...ours, status: '409', title: 7, retryable: 'true', retry_after_ms: 1.5 });
  assert.deepEqual(Object.values(parseProblem('application/problem+json', odd)), [ours.type, '', 0, 'd', '', 'in-progress', false, 0]);
});
