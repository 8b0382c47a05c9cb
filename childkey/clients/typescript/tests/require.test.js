// The package by require: the same names and keys, and classes of its own.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

import * as esm from 'fanonce';
import { script } from './cases.js';

const cjs = createRequire(import.meta.url)('fanonce');

test('require gives what import gives', async () => {
  assert.notEqual(cjs.RetryError, esm.RetryError, 'these are two builds');
  assert.deepEqual(Object.keys(cjs).sort(), Object.keys(esm).sort());
  assert.equal(cjs.derive('order-1042', 'payment', 'charge'), esm.derive('order-1042', 'payment', 'charge'));
  const answer = await cjs.createFetch({ guarded: false, fetch: script([{ status: 201 }], []) })('http://a.test/', { method: 'POST', key: 'k' });
  assert.equal(answer.status, 201);
});

test('one build knows the UnsentError of the other', async () => {
  for (const [a, b] of [[cjs, esm], [esm, cjs]]) {
    const fetch = async () => { throw new a.UnsentError('no connection'); };
    await assert.rejects(b.createFetch({ fetch, maxAttempts: 1 })('http://a.test/', { method: 'POST', key: 'k' }), { name: 'RetryError', outcome: 'NotSent' });
  }
});
