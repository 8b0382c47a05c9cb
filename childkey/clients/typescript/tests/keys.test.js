// Keys: the vectors of all languages, the inputs that all languages refuse, and what only JavaScript has.
import assert from 'node:assert/strict';
import { createHash, createHmac, randomBytes, randomInt, webcrypto } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { runInNewContext } from 'node:vm';

import {
  derive, deriveAs, digest, ENCODINGS, fromParts, hop, InputError, Keyed, legacy, newKey, NoRandomError, parse, quoted,
} from 'fanonce';
import { hmacSha256, sha256 } from '../dist/sha256.js';
import { checkRefused, checkVectors } from './cases.js';

globalThis.crypto ??= webcrypto; // Node 18 has it behind a flag

const load = (name) => JSON.parse(readFileSync(new URL(`../../../testdata/${name}`, import.meta.url), 'utf8'));

test('vectors', () => {
  const vectors = load('vectors.json');
  assert.ok(vectors.length >= 40, `${vectors.length} vectors`);
  const { failures, compared } = checkVectors(vectors);
  assert.deepEqual(failures, []);
  assert.ok(compared >= 200, `${compared} texts`);
});

test('refused inputs', () => {
  const inputs = load('refused.json');
  assert.ok(inputs.length >= 70, `${inputs.length} inputs`);
  assert.deepEqual(checkRefused(inputs), []);
});

test('refuses what only JavaScript has', () => {
  for (const [reason, make] of [
    ['bad-key', () => parse(undefined)],
    ['bad-key', () => parse(null)],
    ['bad-key', () => parse(Buffer.from('k'))],
    ['bad-key', () => parse(new String('k'))],
    ['bad-key', () => parse('k\ud800')],
    ['bad-key', () => derive('p\udc00', 's', 'o')],
    ['bad-name', () => derive('p', 's')],
    ['bad-name', () => derive('p', null, 'o')],
    ['bad-name', () => derive('p', 's', 'o\n')],
    ['bad-name', () => derive('p', 's', 'o', '\ud800')],
    ['bad-name', () => derive('p', 's', 'o', 7)],
    ['bad-name', () => derive('p', 's', 'o', undefined)],
    ['bad-name', () => derive('p', 's', 'o', ['d'])],
    ['bad-name', () => derive('p', 's', 'o', { encoding: 'uuid8' })],
    ['bad-name', () => derive('p', 's', 'o', new Uint16Array(1))],
    ['bad-name', () => derive('p', 's', 'o', new ArrayBuffer(1))],
    ['bad-name', () => hop('s', undefined, 'k')],
    ['bad-name', () => fromParts('n', 42)],
    ['empty', () => fromParts('n')],
    ['bad-scope', () => hop('\ud800', '', 'k')],
    ['bad-scope', () => hop(Uint8Array.of(0xff), '', 'k')],
    ['bad-scope', () => hop(undefined, '', 'k')],
    ['bad-encoding', () => deriveAs('HEX32', 'p', 's', 'o')],
    ['bad-encoding', () => deriveAs('toString', 'p', 's', 'o')],
    ['bad-encoding', () => new Keyed('k1', randomBytes(16)).deriveAs(undefined, 'p', 's', 'o')],
    ['bad-secret', () => new Keyed('k1', '0123456789abcdef')],
    ['bad-secret', () => new Keyed('k1', new Uint8Array(15))],
    ['bad-secret', () => new Keyed('k1', new Uint32Array(16))],
  ]) {
    assert.throws(make, (e) => e instanceof InputError && e.reason === reason, `${make}, want ${reason}`);
  }
});

test('errors and prints hold no key', () => {
  for (const make of [() => parse('secret key'), () => derive('p', 's', 'o', 'secret'.repeat(50)), () => hop('secret\0', '', 'k'), () => legacy('secret:', 's', 'o')]) {
    assert.throws(make, (e) => e instanceof InputError && !inspect(e.message).includes('secret'));
  }
  const keyed = new Keyed('k1', Buffer.from('0123456789abcdef'));
  for (const text of [inspect(keyed, { showHidden: true, depth: 9 }), JSON.stringify(keyed), String(keyed)]) {
    assert.doesNotMatch(text, /0123|48,49|30 31/);
  }
});

test('forms', () => {
  assert.equal(parse('"k-1"'), parse('k-1'));
  assert.equal(quoted('"k-1"'), '"k-1"');
  assert.equal(quoted('k-1'), '"k-1"');
  assert.equal(parse('k'.repeat(255)), 'k'.repeat(255));
  assert.equal(derive('"p"', 's', 'o'), derive('p', 's', 'o'));
  assert.equal(derive('p', 's', 'o', '\u00e9\u{1f600}'), derive('p', 's', 'o', Buffer.from('\u00e9\u{1f600}')));
  assert.equal(hop(Buffer.from('t\u00e9'), 'n', 'k'), hop('t\u00e9', 'n', 'k'));
  assert.equal(digest('k-1'), digest('"k-1"'));
  assert.equal(digest('k-1'), createHash('sha256').update('k-1').digest('hex').slice(0, 16));
});

// A secret that is changed later, or a discriminator that is a view of a longer buffer, changes no key.
test('copies its inputs', () => {
  const secret = randomBytes(32);
  const keyed = new Keyed('k1', secret);
  const before = keyed.derive('p', 's', 'o');
  secret.fill(0);
  assert.equal(keyed.derive('p', 's', 'o'), before);
  const buffer = new TextEncoder().encode('xdy');
  assert.equal(derive('p', 's', 'o', buffer.subarray(1, 2)), derive('p', 's', 'o', 'd'));
  const foreign = runInNewContext('Uint8Array.of(100)'); // as a frame or a test environment has its own
  assert.ok(!(foreign instanceof Uint8Array));
  assert.equal(derive('p', 's', 'o', foreign), derive('p', 's', 'o', 'd'));
});

test('new keys', () => {
  const keys = Array.from({ length: 1000 }, newKey);
  for (const key of keys) {
    assert.match(key, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  }
  assert.equal(new Set(keys).size, keys.length);
});

test('without a random source there is no key', () => {
  const own = Object.getOwnPropertyDescriptor(globalThis, 'crypto');
  const broken = { getRandomValues() { throw new Error('no entropy'); } };
  try {
    for (const [value, error] of [[undefined, NoRandomError], [{}, NoRandomError], [broken, /no entropy/]]) {
      Object.defineProperty(globalThis, 'crypto', { value, configurable: true });
      assert.throws(newKey, error);
    }
  } finally {
    Object.defineProperty(globalThis, 'crypto', own);
  }
});

test('SHA-256 and HMAC are those of Node', () => {
  const lengths = [...Array(300).keys(), 1 << 10, 65535, 65536, 1 << 20];
  for (const length of lengths) {
    const data = randomBytes(length);
    assert.equal(Buffer.from(sha256(data)).toString('hex'), createHash('sha256').update(data).digest('hex'), `${length} bytes`);
    const secret = randomBytes(randomInt(1, 200));
    assert.equal(
      Buffer.from(hmacSha256(secret, data)).toString('hex'), createHmac('sha256', secret).update(data).digest('hex'), `${length} bytes`);
  }
});

// An own program for the tuple: it shares no code with the client.
const netstrings = (...items) => Buffer.concat(items.map((x) => {
  const b = Buffer.from(x);
  return Buffer.concat([Buffer.from(`${b.length}:`), b, Buffer.from(',')]);
}));

test('any tuple has the key of childkey/SPEC.md', () => {
  const pick = (items) => items[randomInt(items.length)];
  const name = () => pick(['payment', 'a/b', 'x'.repeat(128), '0', 'Z.9_-']);
  const text = () => Array.from({ length: randomInt(1, 30) }, () => pick(['a', '7', ':', ',', '"', '\0', ' ', '\u00e9', '\u20ac', '\u{1f600}', '\u{10ffff}'])).join('');
  for (let n = 0; n < 2000; n++) {
    const parent = `p-${randomInt(1e9)}`;
    const [service, operation] = [name(), name()];
    const tail = Array.from({ length: randomInt(9) }, text);
    const hash = createHash('sha256').update(netstrings('childkey/v1', parent, service, operation, String(tail.length), ...tail)).digest();
    assert.equal(deriveAs('hex64', parent, service, operation, ...tail), hash.toString('hex'), JSON.stringify(tail));
    assert.equal(deriveAs('base64url43', parent, service, operation, ...tail), hash.toString('base64url'));
  }
});

test('tuples whose joined texts are one have keys of their own', () => {
  const keys = [
    derive('p', 'pay', 'ment'), derive('p', 'paym', 'ent'), derive('p', 's', 'o'), derive('p', 's', 'o', '0'), derive('p', 's', 'o', '1', '2'),
    derive('p', 's', 'o', '12'), derive('p', 's', 'o', '1:2'), derive('p', 's', 'o', '2', '1'), fromParts('p', 's', 'o'), hop('p', 's', 'o'), legacy('p', 's', 'o'),
  ];
  assert.equal(new Set(keys).size, keys.length);
});

test('the encodings cannot be changed', () => {
  assert.deepEqual(ENCODINGS, ['hex32', 'hex64', 'base64url22', 'base64url43', 'uuid8', 'uuid4']);
  assert.throws(() => ENCODINGS.push('x'), TypeError);
});
