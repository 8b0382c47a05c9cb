// Real sockets, with Node's fetch: what it throws where a connection fails in each way.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { inspect } from 'node:util';

import { createFetch, RetryError } from 'fanonce';

const OK = 'HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}';
const quick = { guarded: false, backoff: { base: 1, cap: 1 } };

/** Runs use with a server that gives connection n to handlers[n]; the last one repeats. A string is an answer. */
async function serve(handlers, use) {
  const requests = [];
  const sockets = new Set();
  let n = 0;
  const server = createServer((socket) => {
    const handler = handlers[Math.min(n++, handlers.length - 1)];
    sockets.add(socket);
    socket.on('error', () => {}); // the client may have gone
    let head = '';
    socket.on('data', (data) => {
      const whole = head.includes('\r\n\r\n') || head.startsWith('\x16');
      head += data.toString('latin1');
      if (whole || !(head.includes('\r\n\r\n') || head.startsWith('\x16'))) { // a TLS handshake has no such end
        return;
      }
      requests.push(head);
      if (typeof handler === 'string') {
        socket.end(handler);
      } else {
        handler(socket, server);
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    return await use(`http://127.0.0.1:${server.address().port}/`, requests, server);
  } finally {
    const closed = server.listening ? once(server, 'close') : undefined;
    sockets.forEach((socket) => socket.destroy());
    server.close();
    await closed;
  }
}

async function failure(promise) {
  try {
    await promise;
  } catch (e) {
    assert.ok(e instanceof RetryError, inspect(e));
    return e;
  }
  assert.fail('the call did not fail');
}

const post = { method: 'POST', key: 'k-1', body: '{}' };

test('an answer', () => serve([OK], async (url, requests) => {
  const got = await createFetch(quick)(url, { method: 'POST', key: 'k-1', json: { a: 1 }, headers: { Authorization: 'Bearer t' } });
  assert.deepEqual([got.status, got.attempts, got.replayed, got.url, await got.json()], [201, 1, false, url, {}]);
  const head = requests[0].toLowerCase();
  for (const want of ['idempotency-key: "k-1"', 'content-type: application/json', 'content-length: 7', 'authorization: bearer t']) {
    assert.ok(head.includes(`${want}\r\n`), head);
  }
}));

test('a reason in any characters', () => serve([OK.replace('Created', '\u4f5c\u6210')], async (url) => {
  const got = await createFetch(quick)(url, post);
  assert.deepEqual([got.status, got.attempts, await got.json()], [201, 1, {}]);
}));

for (const [name, text] of [
  ['body', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{'], ['chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{'],
  ['head', 'HTTP/1.1 200 OK\r\nCont'], ['whole', ''], ['refusal', 'HTTP/1.1 400 Bad Request\r\nContent-Length: 9\r\n\r\n{'],
]) {
  test(`an answer whose ${name} is cut off`, async () => {
    await serve([text, OK], async (url, requests) => {
      const got = await createFetch(quick)(url, post);
      assert.equal(got.attempts, 2);
      const keys = requests.map((head) => /idempotency-key: (.*)\r/i.exec(head)[1]);
      assert.deepEqual(keys, ['"k-1"', '"k-1"']);
    });
    await serve([text], async (url) => {
      const e = await failure(createFetch({ ...quick, maxAttempts: 2 })(url, post));
      assert.deepEqual([e.outcome, e.attempts, e.status], ['Unknown', 2, 0]);
    });
  });
}

test('a reset', () => serve([(socket) => socket.resetAndDestroy()], async (url) => {
  const e = await failure(createFetch({ ...quick, maxAttempts: 2 })(url, post));
  assert.deepEqual([e.outcome, e.attempts], ['Unknown', 2]);
}));

test('a refused connection, by address and by name', async () => {
  const url = await serve([OK], async (closed) => closed);
  for (const host of ['127.0.0.1', 'localhost']) { // localhost may have two addresses
    const e = await failure(createFetch({ ...quick, maxAttempts: 3 })(url.replace('127.0.0.1', host), post));
    assert.deepEqual([e.outcome, e.attempts, e.evidence], ['NotSent', 3, 'no connection could be made'], inspect(e.cause));
  }
});

test('a server without TLS', () => serve(['HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n'], async (url) => {
  const e = await failure(createFetch({ ...quick, maxAttempts: 2 })(url.replace('http:', 'https:'), post));
  assert.deepEqual([e.outcome, e.attempts, e.evidence], ['Unknown', 1, 'the server does not speak TLS'], inspect(e.cause));
}));

test('a redirect is not followed', () => serve(['HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n'], async (url) => {
  const e = await failure(createFetch(quick)(url, post));
  assert.deepEqual([e.status, e.attempts, e.outcome], [307, 1, 'Rejected']);
}));

// A server that sends a byte now and then keeps no attempt beyond its time.
test('an attempt ends', () => serve([(socket) => {
  const drip = setInterval(() => socket.write('H'), 20);
  socket.on('close', () => clearInterval(drip));
}], async (url) => {
  const begun = performance.now();
  const e = await failure(createFetch({ maxAttempts: 1, timeout: 300 })(url, post));
  assert.ok(performance.now() - begun < 10_000);
  assert.equal(e.outcome, 'Unknown');
}));

test('an attempt ends in the middle of its body', () => serve([(socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{'), OK], async (url) => {
  const got = await createFetch({ ...quick, attemptTimeout: 500 })(url, post);
  assert.ok(got.status === 201 && got.attempts > 1, `${got.status} after ${got.attempts}`);
}));

test('a body that is too long', () => serve(['HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345'], async (url) => {
  const e = await failure(createFetch({ guarded: false, maxResponseBytes: 4 })(url, post));
  assert.deepEqual([e.outcome, e.reason, await e.response.text()], ['Completed', 'too-large', '1234']);
}));

test('a signal ends a running attempt', () => serve([() => controller.abort(reason)], async (url) => {
  const e = await failure(createFetch(quick)(url, { ...post, signal: controller.signal }));
  assert.deepEqual([e.outcome, e.reason, e.attempts, e.cause], ['Unknown', 'cancelled', 1, reason]);
}));
const controller = new AbortController();
const reason = new Error('the user left');

test('many calls with one signal', () => serve([OK], async (url) => {
  const warnings = [];
  const note = (warning) => warnings.push(warning);
  process.on('warning', note);
  const { signal } = new AbortController();
  const send = createFetch(quick);
  const got = await Promise.all(Array.from({ length: 40 }, (_, n) => send(url, { ...post, key: `k-${n}`, signal })));
  await new Promise(setImmediate); // warnings are events of their own
  process.off('warning', note);
  assert.ok(got.every((r) => r.status === 201));
  assert.deepEqual(warnings, []);
}));

/** What a server does with a connection to answer as a row of answers.json says. */
function answerOf({ failure, status, header = [], body = '' }) {
  switch (failure) {
    case 'reset':
      return (socket) => socket.resetAndDestroy();
    case 'silent':
      return () => {};
    case 'garbage':
      return 'SSH-2.0-OpenSSH_9.2\r\n\r\n';
    case 'closed':
    case 'refused':
      return '';
    default: {
      const length = [204, 304].includes(status) ? [] : [`Content-Length: ${failure === 'cut' ? 1000 : body.length}`];
      const head = [`HTTP/1.1 ${status} Said`, 'Connection: close', ...header.map(([name, value]) => `${name}: ${value}`), ...length];
      return `${head.join('\r\n')}\r\n\r\n${failure === 'cut' ? '{' : body}`;
    }
  }
}

// Each answer over HTTP, as the first one, and after one that was lost.
test('every answer', async () => {
  const all = JSON.parse(await readFile(new URL('../../../../retry/testdata/answers.json', import.meta.url), 'utf8'));
  const rows = all.filter((r) => r.protocol === 'http' && ['Unguarded', undefined].includes(r.profile) && r.only === undefined);
  assert.ok(rows.length > 130);
  for (const row of rows) {
    for (const doubt of [false, true]) {
      const lost = doubt ? [(socket, server) => { socket.destroy(); if (row.failure === 'refused') { server.close(); } }] : [];
      const end = await serve([...lost, answerOf(row)], async (url, _, server) => {
        if (row.failure === 'refused' && !doubt) {
          server.close();
        }
        const send = createFetch({
          guarded: row.profile === undefined, maxAttempts: 3, maxPolls: 2, backoff: { base: 1, cap: 1 }, poll: { base: 1, cap: 1 },
          ...(row.max_response_bytes && { maxResponseBytes: row.max_response_bytes }), ...(row.failure === 'silent' && { attemptTimeout: 500 }),
        });
        const init = row.method === undefined ? post : { method: row.method };
        const got = await send(url, init).then((r) => ({ outcome: 'Completed', attempts: r.attempts }), (e) => e);
        return { outcome: got.outcome, attempts: got.attempts };
      });
      assert.deepEqual(end, row[doubt ? 'doubt' : 'first'], `${row.who}, ${row.answer}, doubt ${doubt}`);
    }
  }
});
