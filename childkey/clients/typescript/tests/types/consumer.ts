// What a user writes. It is compiled against the packed package, for browsers and for Node, and never run.
import {
  Budget, createFetch, derive, deriveAs, type Encoding, fromParts, HEADER_KEY, hop, InputError, type InputReason, InvalidCallError, Keyed, newKey,
  type Outcome, parse, parseProblem, type Problem, RetryError, type RetryFetch, type RetryOptions, type RetryResponse, retryAfter, type StopReason,
  UnsentError,
} from 'fanonce';

const options: RetryOptions = { maxAttempts: 3, backoff: { base: 50 }, budget: new Budget({ reserve: 10 }), fetch: (url, init) => fetch(url, init) };
const send: RetryFetch = createFetch(options);

// It can replace fetch, and it can call fetch.
const shaped: typeof fetch = send;
createFetch({ fetch: globalThis.fetch });
createFetch({ fetch: shaped });

const key: string = derive('order-1042', 'payment', 'charge', 'line 2', new Uint8Array(3));
const encoding: Encoding = 'uuid8';
const other: string = deriveAs(encoding, key, 'ledger', 'post') + hop(new Uint8Array(1), '', key) + fromParts('n', 'p') + newKey() + parse(key);
const keyed: string = new Keyed('k1', new Uint8Array(16)).derive(key, 's', 'o');

export async function charge(signal: AbortSignal): Promise<string | undefined> {
  try {
    const answer: RetryResponse = await send('https://payment.example.com/charges', {
      method: 'POST', key, json: { cents: 500 }, headers: { Authorization: 'Bearer t', [HEADER_KEY + '-Of']: other }, signal, timeout: 5000, resumed: true,
      service: 'payment',
    });
    const clone: RetryResponse = answer.clone();
    return `${clone.attempts} ${answer.replayed} ${(await answer.json() as { id: string }).id}`;
  } catch (error) {
    if (error instanceof RetryError) {
      const { outcome, reason, status, retryAfter: wait }: { outcome: Outcome; reason: StopReason; status: number; retryAfter: number } = error;
      const body: string | undefined = await error.response?.text();
      return outcome === 'Rejected' ? body : `${reason} ${status} ${wait} ${error.key} ${keyed}`;
    }
    if (error instanceof InputError || error instanceof InvalidCallError) {
      const why: InputReason | string = error instanceof InputError ? error.reason : error.message;
      return why;
    }
    throw error;
  }
}

export async function more(request: Request, url: URL): Promise<Problem | undefined> {
  await send(request);
  const answer = await send(url, { method: 'PUT', body: new URLSearchParams({ a: '1' }) });
  const wait: number = retryAfter(answer.headers);
  return wait > 0 ? undefined : parseProblem(answer.headers.get('Content-Type') ?? '', await answer.text());
}

createFetch({ fetch: async () => { throw new UnsentError('no connection', { cause: new Error('refused') }); } });

// @ts-expect-error a misspelled setting
createFetch({ maxAttempt: 3 });
// @ts-expect-error a misspelled member of a call
void send('https://a.test/', { method: 'POST', idempotencyKey: key });
// @ts-expect-error no such encoding
deriveAs('HEX32', key, 's', 'o');
// @ts-expect-error the operation is missing
derive(key, 's');
// @ts-expect-error a number is no discriminator
derive(key, 's', 'o', 7);
// @ts-expect-error a secret is bytes
new Keyed('k1', '0123456789abcdef');

export function outcomes(outcome: Outcome): string {
  switch (outcome) { // complete: else the function might return nothing
    case 'NotSent': return 'again';
    case 'Rejected': return 'correct it';
    case 'Unknown': return 'again, with the same key';
    case 'Completed': return 'go on';
  }
}
