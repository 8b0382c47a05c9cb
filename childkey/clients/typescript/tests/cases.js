// The checks of the files that all languages share. They need no more than a browser has.
import {
  Budget, createFetch, derive, deriveAs, fromParts, hop, InputError, Keyed, legacy, parse, RetryError,
} from '../dist/index.js';

const ENCODINGS = ['hex32', 'hex64', 'base64url22', 'base64url43', 'uuid8', 'uuid4'];
const NOW = Date.UTC(2026, 2, 1, 12); // the clock of the calls

const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const list = (items) => items.map(unhex);

/** Makes the key of a vector; undefined if this client makes none in that encoding. */
function make(v, encoding) {
  switch (v.scheme) {
    case 'parse':
      return parse(v.parent);
    case 'v1':
      return encoding === undefined
        ? derive(v.parent, v.service, v.operation, ...list(v.discriminators_hex))
        : deriveAs(encoding, v.parent, v.service, v.operation, ...list(v.discriminators_hex));
    case 'hmac': {
      const keyed = new Keyed(v.kid, unhex(v.secret_hex));
      return encoding === undefined
        ? keyed.derive(v.parent, v.service, v.operation, ...list(v.discriminators_hex))
        : keyed.deriveAs(encoding, v.parent, v.service, v.operation, ...list(v.discriminators_hex));
    }
    case 'parent':
      return encoding === undefined ? fromParts(v.namespace, ...list(v.parts_hex)) : undefined;
    case 'hop':
      return encoding === undefined ? hop(v.scope, v.namespace, v.key) : undefined;
    case 'legacy':
      return encoding === undefined ? legacy(v.parent, v.service, v.operation) : undefined;
    default:
      throw new Error(`no scheme ${v.scheme}`);
  }
}

/** Returns what is wrong with the keys of vectors.json: nothing, and how many texts were compared. */
export function checkVectors(vectors) {
  const failures = [];
  let compared = 0;
  for (const v of vectors) {
    for (const encoding of [undefined, ...ENCODINGS]) {
      const want = v[encoding ?? 'hex32'];
      const got = want === undefined ? undefined : make(v, encoding);
      if (got !== undefined) {
        compared++;
      }
      if (got !== undefined && got !== want) {
        failures.push(`${v.name}, ${encoding}: ${got}, want ${want}`);
      }
    }
  }
  return { failures, compared };
}

/** Returns what is wrong with the inputs of refused.json. */
export function checkRefused(inputs) {
  return inputs.map((v) => {
    try {
      return `${v.name}: made ${make(v)}, want ${v.error}`;
    } catch (error) {
      return error instanceof InputError && error.reason === v.error ? '' : `${v.name}: ${error}, want ${v.error}`;
    }
  }).filter(Boolean);
}

const coded = (code, more) => new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code, ...more }) });

/** What each failure of the table is in Node. */
export const FAILURES = {
  'no-such-host': () => coded('ENOTFOUND', { syscall: 'getaddrinfo' }),
  lookup: () => coded('EAI_AGAIN', { syscall: 'getaddrinfo' }),
  refused: () => coded('ECONNREFUSED', { syscall: 'connect' }),
  certificate: () => coded('DEPTH_ZERO_SELF_SIGNED_CERT'),
  reset: () => coded('ECONNRESET', { syscall: 'read' }),
  closed: () => coded('UND_ERR_SOCKET'),
  timeout: () => new DOMException('timed out', 'TimeoutError'),
  other: () => new Error('broken'),
};

/** Returns a Response, also with a status that its constructor refuses. */
export function respond({ status, header = [], body = '' }, stream) {
  const plain = status >= 200 && status <= 599;
  const bodyless = [204, 205, 304].includes(status);
  const made = new Response(bodyless ? null : (stream ?? new TextEncoder().encode(body)), { status: plain ? status : 599, headers: header });
  if (!plain) {
    Object.defineProperty(made, 'status', { value: status });
  }
  return made;
}

/** Returns a fetch that ends its attempts as the steps say; the last one repeats. It notes what it was asked to send. */
export function script(steps, requests) {
  return async (url, init) => {
    const step = steps[Math.min(requests.length, steps.length - 1)];
    requests.push({ url, method: init.method, key: init.headers.get('Idempotency-Key'), body: init.body && new TextDecoder().decode(init.body), init });
    if (step.failure === 'truncated') {
      const broken = new ReadableStream({
        pull(controller) {
          controller.enqueue(new TextEncoder().encode('{'));
          controller.error(coded('UND_ERR_SOCKET'));
        },
      });
      return respond({ status: 200 }, broken);
    }
    if (step.failure !== undefined) {
      throw FAILURES[step.failure]();
    }
    return respond(step);
  };
}

/** Makes a call of calls.json in virtual time. Returns its end as the file has it, and the requests. */
async function play(call) {
  const { config } = call;
  const requests = [];
  const waits = [];
  let at = 0;
  const options = {
    fetch: script(call.steps, requests), random: () => config.random ?? 0, now: () => NOW, clock: () => at,
    sleep: async (ms) => {
      waits.push(ms);
      at += ms;
    },
  };
  for (const [name, value] of Object.entries({
    guarded: config.guarded ?? false, maxAttempts: config.max_attempts, maxPolls: config.max_polls, maxResponseBytes: config.max_response_bytes, timeout: config.timeout_ms,
    retryAfterCap: config.retry_after_cap_ms, budget: config.budget_reserve && new Budget({ reserve: config.budget_reserve }),
  })) {
    if (value !== undefined) {
      options[name] = value;
    }
  }
  const init = { method: call.method, ...(call.keyed && { key: 'k-1' }), ...(call.method !== 'GET' && { body: '{"amount":5}' }) };
  try {
    const r = await createFetch(options)('http://payment.test/charges', init);
    return { waits, requests, end: { outcome: 'Completed', attempts: r.attempts, status: r.status, code: '', detail: '', retryable: false, cause: '', ok: true } };
  } catch (e) {
    if (!(e instanceof RetryError)) {
      throw e;
    }
    const cause = ['answer', 'attempts'].includes(e.reason) ? '' : e.reason;
    return { waits, requests, end: { outcome: e.outcome, attempts: e.attempts, status: e.status, code: e.code, detail: e.detail, retryable: e.retryable, cause, ok: false } };
  }
}

/** Returns what is wrong with the calls of calls.json. */
export async function checkCalls(calls) {
  const failures = [];
  for (const call of calls) {
    const { end, waits, requests } = await play(call);
    const { waits_ms: wantWaits, ...want } = call.want;
    const wrong = Object.keys(want).filter((name) => end[name] !== want[name]).map((name) => `${name} ${end[name]}, want ${want[name]}`);
    if (waits.length !== wantWaits.length || waits.some((ms, i) => Math.abs(ms - wantWaits[i]) > 1.001)) {
      wrong.push(`waits ${waits}, want ${wantWaits}`);
    }
    const key = call.keyed ? '"k-1"' : null;
    const body = call.method === 'GET' ? undefined : '{"amount":5}';
    const same = requests.every((r) => r.key === key && r.body === body && r.method === call.method && r.url === 'http://payment.test/charges');
    if (!same || requests.length !== want.attempts) {
      wrong.push(`${requests.length} requests, the same: ${same}`);
    }
    if (wrong.length > 0) {
      failures.push(`${call.name}: ${wrong.join('; ')}`);
    }
  }
  return failures;
}
