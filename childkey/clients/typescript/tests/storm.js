// Calls a service many times, and prints one line of JSON for each call: node storm.js URL TENANT CALLS CALLERS
import { Budget, createFetch, derive, RetryError } from '../dist/index.js';

const [url, tenant, calls, callers] = process.argv.slice(2);

// This network is bad on purpose and stays so: each success pays for a retry here, not for a tenth of one.
const send = createFetch({
  attemptTimeout: 5000, timeout: 20_000, backoff: { base: 20, cap: 500 }, poll: { base: 20, cap: 200 }, budget: new Budget({ ratio: 1 }),
});

async function call(n) {
  const key = derive(`storm-${tenant}`, 'ledger', 'effect', String(n));
  try {
    const r = await send(url, { method: 'POST', key, json: { fp: key, reject: n % 10 === 9 }, headers: { Authorization: `Bearer ${tenant}` } });
    return { key, outcome: 'Completed', status: r.status, attempts: r.attempts, answered: (await r.json()).key };
  } catch (e) {
    if (!(e instanceof RetryError)) {
      throw e;
    }
    return { key, outcome: e.outcome, status: e.status, attempts: e.attempts, error: e.message };
  }
}

let next = 0;

async function work() {
  while (next < Number(calls)) {
    console.log(JSON.stringify(await call(next++)));
  }
}

await Promise.all(Array.from({ length: Number(callers) }, work));
