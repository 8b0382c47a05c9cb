import OpenAI from 'openai';
import { wholeFetch } from './whole.mjs';

// Without the name of the header, the client drops the option idempotencyKey.
class KeyedOpenAI extends OpenAI {
  idempotencyHeader = 'Idempotency-Key';
}

export const keyless = (url) => calls(new OpenAI({ apiKey: 'none', baseURL: url }));

export const defaults = (url) => calls(new KeyedOpenAI({ apiKey: 'none', baseURL: url }));

export const recommended = (url) =>
  calls(
    new KeyedOpenAI({
      apiKey: 'none',
      baseURL: url,
      maxRetries: 10,
      timeout: 10_000, // of one attempt
      fetch: wholeFetch, // else a cut answer is final
    }),
  );

function calls(client) {
  return async (key, amount) => {
    const request = { model: 'none', messages: [{ role: 'user', content: `Charge ${amount} cents.` }] };
    const completion = await client.chat.completions.create(request, { idempotencyKey: key });
    return completion.id;
  };
}

export const statusOf = (error) => error.status;
